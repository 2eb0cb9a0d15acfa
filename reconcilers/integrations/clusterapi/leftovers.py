"""Leftovers: IPAddresses that no claim uses, but that have the name of a waiting claim.

The IPAddress of a claim must have the claim's name. So the claim gets no address until the
leftover of that name is deleted. `core/leftoveraddresses.py` says how leftovers come about, and
when one is deleted.
"""

from collections.abc import Iterable, Iterator
from functools import partial

from controller.client import Client
from controller.clock import Clock
from controller.errors import NotFound
from controller.resource import Resource
from reconcilers.addressing import addresstexts
from reconcilers.integrations.clusterapi.answers import (
    RELEASED_AT,
    Answers,
    find_controlling_claim,
    is_left_over,
    is_made_for_claim,
)
from reconcilers.integrations.clusterapi.api import IPAddress, IPAddressClaim
from reconcilers.integrations.clusterapi.caches import (
    ClaimCaches,
    ServedPool,
    find_pool_kind,
    get_pool_key,
    get_promised_address,
    make_holder,
    read_journal,
)
from reconcilers.integrations.core.claimproblems import ALLOCATION_FAILED
from reconcilers.integrations.core.leftoveraddresses import LeftoverAddresses
from reconcilers.integrations.core.rules import SpaceView
from reconcilers.promises.choosing import AskerRefusal
from reconcilers.promises.journal import Promise


class Leftovers:
    """Deletes leftover IPAddresses that block waiting claims.

    Args:
        client: for live reads and deletions.
    """

    def __init__(self, client: Client, caches: ClaimCaches, clock: Clock) -> None:
        self._client = client
        self._caches = caches
        self._answers = Answers(client, caches)
        self._leftovers = LeftoverAddresses(caches.addresses, clock)

    async def delete_leftovers(
        self,
        kind: Resource[ServedPool],
        view: SpaceView[IPAddressClaim],
        refusals: Iterable[AskerRefusal[IPAddressClaim]],
        promises: Iterable[Promise],
    ) -> float | None:
        """Delete leftovers that have the name of a pool's claim, once unused for a minute.

        Args:
            view: the claims that the pass over the pool has read.
            refusals: the refusals of claims by that pass.
            promises: the open promises of the pool before that pass.

        Returns:
            Seconds until the next check; None if there is no leftover.
        """
        waits = []
        for claim in _list_blocked_claims(view, refusals, promises):
            address = self._caches.addresses.get(claim.metadata.key)
            if address is None:
                continue
            if not _may_be_leftover(address, claim):
                # The minute counts from the last time that the IPAddress was needed.
                self._leftovers.note_named(address)
                continue
            is_unused = partial(self._is_unused, address, claim, kind)
            remove = partial(self._answers.remove, address, "no promise and no claim names it")
            waits.append(await self._leftovers.remove_when_due(address, is_unused, remove))
        return min(waits, default=None)

    async def _is_unused(
        self, address: IPAddress, claim: IPAddressClaim, kind: Resource[ServedPool]
    ) -> bool:
        """Return whether neither a promise of the pool nor the claim needs the IPAddress.

        A promise of another address cannot be kept while this IPAddress has the claim's name. An
        IPAddress of another pool was made for an earlier claim of the same name.
        """
        key = claim.metadata.key
        is_of_pool, holder = address.spec.poolRef == claim.spec.poolRef, make_holder(claim)
        try:
            pool = await self._client.get(kind, get_pool_key(kind, claim))
            promises = read_journal(pool).promises if is_of_pool else ()
            if any(
                promise.holder == holder and _is_promise_of(promise, address)
                for promise in promises
            ):
                return False
            live_claim = await self._client.get(self._caches.claim_kind, key)
        except NotFound:
            # The pool or the claim is gone: the IPAddressClaim controller releases the address.
            return False
        # The status names an IPAddress, so the claim is served by now, perhaps from this one.
        if live_claim.address_name:
            return False
        # An IPAddress of another pool is of an earlier claim, unless this claim owns it.
        owner = find_controlling_claim(address)
        is_of_earlier_claim = owner is None or owner.uid != live_claim.metadata.uid
        return is_of_pool or is_of_earlier_claim


def _list_blocked_claims(
    view: SpaceView[IPAddressClaim],
    refusals: Iterable[AskerRefusal[IPAddressClaim]],
    promises: Iterable[Promise],
) -> Iterator[IPAddressClaim]:
    """Yield the claims that may get no address because of a leftover with their name.

    These are claims that were refused an address, and claims with an open promise: a promise
    stays open while the API server rejects the write that voids it.
    """
    for refusal in refusals:
        if refusal.reason == ALLOCATION_FAILED:
            yield refusal.asker
    for promise in promises:
        claim = view.find_promised_request(promise)
        if claim is not None:
            yield claim


def _is_promise_of(promise: Promise, address: IPAddress) -> bool:
    """Return whether a promise reserves the address of an IPAddress, in any spelling."""
    stated = addresstexts.parse_ends(address.spec.address, address.spec.address)
    promised = get_promised_address(promise)
    return stated is not None and (stated.family, stated.first) == (
        promised.family,
        promised.first,
    )


def _may_be_leftover(address: IPAddress, claim: IPAddressClaim) -> bool:
    """Return whether an IPAddress with the name of a claim may be a leftover, by the caches.

    It may be if a provider made it for a claim, no grace period holds it back, and the claim of
    its name is not served yet.
    """
    return (
        not claim.address_name
        and (is_made_for_claim(address) or is_left_over(address))
        and find_pool_kind(address.spec.poolRef) is not None
        and RELEASED_AT not in address.metadata.annotations
    )
