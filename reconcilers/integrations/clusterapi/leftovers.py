"""IPAddresses that were made for a claim and that no promise and no addressRef names.

A create has no precondition: a replica that froze before it made an IPAddress may make it when the
address is another claim's by then. No addressRef ever leads to it, as the claim has moved on; but
it has the name that the claim's own IPAddress needs. So it is taken away, after a minute in which
it stayed so, and after live reads of the pool, whose promises are looked at first, and of the
claim: a promise may become an addressRef between the two, and not the other way round.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from controller.client import Client
from controller.clock import Clock
from controller.errors import NotFound
from controller.meta import Key
from controller.resource import Resource
from reconcilers.addressing import addresstexts
from reconcilers.integrations.clusterapi.answers import (
    RELEASED_AT,
    Answers,
    controlling_claim,
    is_left_over,
    is_made_for_claim,
)
from reconcilers.integrations.clusterapi.api import IPAddress, IPAddressClaim
from reconcilers.integrations.clusterapi.caches import (
    ClaimCaches,
    holder_of,
    journals_of,
    kind_of,
    pool_key,
    promised_address,
)
from reconcilers.integrations.core.claimproblems import ALLOCATION_FAILED
from reconcilers.integrations.core.rules import View
from reconcilers.promises.choosing import Refusal
from reconcilers.promises.journal import Promise
from reconcilers.promises.refusedwrites import RefusedWrites

PATIENCE_SECONDS = 60.0


class Leftovers:
    """Takes away IPAddresses that stand in the way of the claim that they were made for.

    Args:
        client: for live reads and deletions.
        clock: the time.
    """

    def __init__(self, client: Client, caches: ClaimCaches, clock: Clock) -> None:
        self._client = client
        self._caches = caches
        self._answers = Answers(client, caches)
        self._clock = clock
        self._refused = RefusedWrites(clock, PATIENCE_SECONDS)
        self._since: dict[Key, tuple[str, float]] = {}
        """By key: the uid of an IPAddress, and since when (monotonic) nothing names it."""

    async def collect(
        self,
        kind: Resource[Any],
        view: View[IPAddressClaim],
        refusals: Iterable[Refusal[IPAddressClaim]],
        promises: Iterable[Promise],
    ) -> float | None:
        """Delete what has blocked an address for longer than the grace period.

        Args:
            kind: of the pool.
            view: what one pass over it has read.
            refusals: of claims, by that pass.
            promises: the open promises of the pool before it.

        Returns:
            In how many seconds to look again; None if nothing is in the way.
        """
        waits = []
        for claim in _list_blocked(view, refusals, promises):
            key = claim.metadata.key
            address = self._caches.addresses.get(key)
            if not _may_go(address, claim):
                self._since.pop(key, None)
                continue
            assert address is not None, "only what is there may go"
            rest = max(self._rest(address), self._refused.wait_of(address.metadata) or 0.0)
            if rest <= 0 and await self._is_unused(address, claim, kind):
                remove = partial(self._answers.remove, address, "no promise and no claim names it")
                await self._refused.attempt(address.metadata, remove)
                rest = self._refused.wait_of(address.metadata) or 0.0
            waits.append(max(rest, 1.0))
        return min(waits, default=None)

    def _rest(self, address: IPAddress) -> float:
        """Return for how many seconds an IPAddress is still left alone."""
        now, uid = self._clock.monotonic(), address.metadata.uid
        known, since = self._since.get(address.metadata.key, ("", now))
        if known != uid:
            since = now
        self._since[address.metadata.key] = uid, since
        return since + PATIENCE_SECONDS - now

    async def _is_unused(
        self, address: IPAddress, claim: IPAddressClaim, kind: Resource[Any]
    ) -> bool:
        """Return whether neither a promise of the pool nor the claim needs the IPAddress.

        A promise of another address cannot be kept while this IPAddress has the claim's name. An
        IPAddress of another pool was made for an earlier claim of the same name.
        """
        key = claim.metadata.key
        is_of_pool, holder = address.spec.poolRef == claim.spec.poolRef, holder_of(claim)
        try:
            pool = await self._client.get(kind, pool_key(kind, claim))
            promises = journals_of(kind).read(pool).promises if is_of_pool else ()
            if any(promise.holder == holder and _is_of(promise, address) for promise in promises):
                return False
            live_claim = await self._client.get(self._caches.claim_kind, key)
        except NotFound:
            return False  # the pass over a claim that is gone releases it
        owner = controlling_claim(address)
        # An IPAddress without its claim among the owners was made for a claim of its own pool.
        is_of_earlier_claim = owner is None or owner.uid != live_claim.metadata.uid
        if live_claim.address_name:
            return False
        return is_of_pool or is_of_earlier_claim


def _list_blocked(
    view: View[IPAddressClaim],
    refusals: Iterable[Refusal[IPAddressClaim]],
    promises: Iterable[Promise],
) -> Iterator[IPAddressClaim]:
    """Yield the claims that an IPAddress may be in the way of, refused or promised another one.

    Such a promise stays open if the claim refuses the write that voids it.
    """
    for refusal in refusals:
        if refusal.reason == ALLOCATION_FAILED:
            yield refusal.asker
    for promise in promises:
        claim = view.at_version(promise)
        if claim is not None:
            yield claim


def _is_of(promise: Promise, address: IPAddress) -> bool:
    """Return whether a promise is of what an IPAddress says, in whatever spelling."""
    said = addresstexts.parse_ends(address.spec.address, address.spec.address)
    promised = promised_address(promise)
    return said is not None and (said.family, said.first) == (promised.family, promised.first)


def _may_go(address: IPAddress | None, claim: IPAddressClaim) -> bool:
    """Return whether an IPAddress in the way was made for a claim, and this one has none."""
    return (
        address is not None
        and not claim.address_name
        and (is_made_for_claim(address) or is_left_over(address))
        and kind_of(address.spec.poolRef) is not None
        and RELEASED_AT not in address.metadata.annotations
    )
