"""Read the claims and IPAddresses of a pool for a pass: from caches, or by LIST if they lag.

Claims of both kinds make one reading: one Holdings, and a view for each kind. If the caches of one
kind have not read far enough, all kinds are read by LIST, claims before IPAddresses: an IPAddress
that was created for a promise which is over by the first LIST is in the second one, or was
deleted. The rules are those of `reconcilers/integrations/clusterapi/reading.py`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from controller.client import Client
from controller.clock import Clock
from controller.meta import Key
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.core.rules import View
from reconcilers.integrations.metal3.caches import (
    Metal3Caches,
    SideCaches,
    check_readable,
    facts_of,
)
from reconcilers.integrations.metal3.entries import EntrySpace, parse_single
from reconcilers.integrations.metal3.sides import Address, Claim, ClaimSide
from reconcilers.promises.holdings import (
    CHECK_SECONDS,
    Facts,
    Holdings,
    KeptHoldings,
    Source,
)
from reconcilers.promises.identities import Holder, find_by_key
from reconcilers.promises.journal import Identity, Journal, Promise
from reconcilers.promises.reading import CacheWait
from reconcilers.promises.settling import CreatedEffects, settle

Views = Mapping[str, View[Claim]]
"""What was read of each kind of claims, by the full name of the kind."""


@dataclass(frozen=True, slots=True)
class Metal3Reading:
    """What a pass read of a pool.

    Args:
        space: what the pool may hand out.
        holdings: what claims of all kinds hold, and which wait.
        views: the claims of each kind; all have these holdings.
    """

    space: EntrySpace
    holdings: Holdings
    views: Views

    def settle(self, journal: Journal) -> Journal:
        """Return a journal without the promises that are over; promises to other kinds stay."""
        for kind, view in self.views.items():
            journal = settle(journal, kind, view, view.effects)
        return journal


def has_memory(side: ClaimSide, journal: Journal) -> bool:
    """Return whether a journal has revisions of a kind of claims, and of their IPAddresses."""
    return side.claim_kind in journal.revisions and side.address_kind in journal.revisions


def has_read(side: ClaimSide, view: View[Claim], journal: Journal) -> bool:
    """Return whether a view has read as far as a journal with memory says."""
    effects_read = view.effects.position if view.effects is not None else 0
    has_read_claims = view.position >= journal.revisions[side.claim_kind]
    return has_read_claims and effects_read >= journal.revisions[side.address_kind]


class Metal3Reader:
    """Reads what the claims of a pool hold.

    Args:
        client: for lists.
        caches: the caches.
        clock: the time.
        patience: seconds to wait for a cache before the server is read.
        check_interval: seconds between two checks of what is kept of a pool.
    """

    def __init__(
        self,
        client: Client,
        caches: Metal3Caches,
        clock: Clock,
        patience: float,
        check_interval: float = CHECK_SECONDS,
    ) -> None:
        self._client = client
        self._caches = caches
        self._wait = CacheWait(clock, patience)
        sources = [
            source for side in caches.sides.values() for source in _sources_of(caches, side)
        ]
        self._kept = KeptHoldings[Key, EntrySpace](
            sources,
            caches.find_facts,
            lambda space: space.layouts,
            clock=clock,
            check_interval=check_interval,
        )
        self._created: dict[Key, dict[Identity, int]] = {}
        """By pool: the resourceVersions of the IPAddresses of promises of its journal."""

    def read_cached(self, pool: Key, space: EntrySpace) -> Metal3Reading:
        """Return the reading that the caches give, however old it is."""
        holdings = self._kept.holdings(pool, space)
        return Metal3Reading(space, holdings, self._cached_views(pool, holdings))

    async def at_least(self, pool: Key, space: EntrySpace, journal: Journal) -> Metal3Reading:
        """Return a reading that has read as far as a journal says, or all that there is now.

        Raises:
            Behind: a cache may still get there.
            UnreadableHolders: objects that may hold addresses of the pool cannot be decoded.
            ControllerError: a LIST failed.
        """
        self.check_cached(pool)
        if self._suffices(pool, journal):
            return self.read_cached(pool, space)
        return await self._read_live(pool, space, journal)

    def check_cached(self, pool: Key) -> None:
        """Raise if the caches show objects that cannot be decoded and may be the pool's.

        Raises:
            UnreadableHolders: there are some.
        """
        for side in self._caches.sides.values():
            check_readable(side.side, pool, side.claims.unreadable, side.addresses.unreadable)

    def note_kept(self, pool: Key, promises: Iterable[Promise]) -> None:
        """Note the IPAddresses that were created for promises, before they may be deleted."""
        created = self._created.setdefault(pool, {})
        for promise in promises:
            side = self._caches.sides[promise.kind]
            revision = _find_revision(side.addresses_of, side.side, promise)
            if revision is not None:
                created[promise.identity] = revision

    async def list_claims(self, side: SideCaches, pool: Key) -> tuple[int, list[Claim]]:
        """Return the claims of a kind that name a pool, by a LIST that begins now.

        Returns:
            Its revision, and the claims.

        Raises:
            UnreadableHolders: claims that may name the pool cannot be decoded.
            ControllerError: the LIST failed.
        """
        page = await self._client.list(side.side.claims, namespace=pool.namespace)
        check_readable(side.side, pool, page.unreadable, {})
        claims = [claim for claim in page.items if side.side.pool_of_claim(claim) == pool]
        return page.revision, claims

    async def list_addresses(self, side: SideCaches, pool: Key) -> list[Address]:
        """Return the IPAddresses of a kind that name a pool, by a LIST that begins now.

        Raises:
            UnreadableHolders: IPAddresses that may name the pool cannot be decoded.
            ControllerError: the LIST failed.
        """
        page = await self._client.list(side.side.addresses, namespace=pool.namespace)
        check_readable(side.side, pool, {}, page.unreadable)
        return [address for address in page.items if side.side.pool_of_address(address) == pool]

    def count(self, pool: Key) -> int:
        """Return how many IPAddresses name a pool, as the caches show it."""
        return sum(
            len(side.addresses.by_index(SPACE_INDEX, str(pool)))
            for side in self._caches.sides.values()
        )

    def forget(self, pool: Key) -> None:
        """Forget a pool that is gone."""
        self._kept.forget(pool)
        self._created.pop(pool, None)
        for side in self._caches.sides.values():
            for kind in (side.side.claim_kind, side.side.address_kind):
                self._wait.forget((kind, pool))

    def _cached_views(self, pool: Key, holdings: Holdings) -> Views:
        known = self._created.get(pool, {})
        views: dict[str, View[Claim]] = {}
        for kind, side in self._caches.sides.items():
            find = partial(_find_revision, side.addresses_of, side.side)
            effects = CreatedEffects(side.side.address_kind, side.addresses.position, find, known)
            views[kind] = View(
                side.claims.position,
                holdings,
                find_by_key(kind, side.claims.get),
                side.addresses_of,
                side.claims.unreadable.keys(),
                effects,
            )
        return views

    def _suffices(self, pool: Key, journal: Journal) -> bool:
        """Return whether the caches have read as far as a journal says; False to LIST.

        Raises:
            Behind: a cache may still get there.
        """
        self._note_shown(pool, journal)
        for side in self._caches.sides.values():
            kinds = {side.side.claim_kind: side.claims, side.side.address_kind: side.addresses}
            for kind, cache in kinds.items():
                revision = journal.revisions.get(kind, 0)
                if not self._wait.has_read(cache, revision, (kind, pool)):
                    return False
        views = self._cached_views(pool, Holdings())
        for kind, view in views.items():
            still_open = settle(journal, kind, view).promises
            if still_open != settle(journal, kind, view, view.effects).promises:
                return False
        return True

    def _note_shown(self, pool: Key, journal: Journal) -> None:
        """Note which IPAddresses of a journal's promises the caches show; forget dropped ones."""
        known, created = self._created.get(pool, {}), dict[Identity, int]()
        for promise in journal.promises:
            side = self._caches.sides.get(promise.kind)
            if side is None:
                continue
            cached_revision = _find_revision(side.addresses_of, side.side, promise)
            revision = known.get(promise.identity) if cached_revision is None else cached_revision
            if revision is not None:
                created[promise.identity] = revision
        self._created[pool] = created

    async def _read_live(self, pool: Key, space: EntrySpace, journal: Journal) -> Metal3Reading:
        """Return the reading of LISTs that begin now."""
        lists = [
            await _list_side(self._client, side, pool) for side in self._caches.sides.values()
        ]
        created = self._created.setdefault(pool, {})
        facts = [
            (holder, holder_facts)
            for listed in lists
            for holder, holder_facts in listed.facts(pool, space)
        ]
        holdings = Holdings(space.layouts, facts)
        views: dict[str, View[Claim]] = {}
        for listed in lists:
            side = listed.side.side
            of_pool = [
                claim for claim in listed.claims.values() if side.pool_of_claim(claim) == pool
            ]
            concerned = [
                address
                for address in listed.addresses
                if pool in self._caches.pools_of_address(listed.side, address)
            ]
            self._wait.note_list((side.claim_kind, pool), of_pool)
            self._wait.note_list((side.address_kind, pool), concerned)
            view = listed.view(holdings, created)
            still_open = {
                promise.identity for promise in settle(journal, side.claim_kind, view).promises
            }
            for promise in journal.promises:
                if promise.kind == side.claim_kind and promise.identity not in still_open:
                    revision = _find_revision(listed.addresses_of, side, promise)
                    created[promise.identity] = revision or 0
            views[side.claim_kind] = view
        return Metal3Reading(space, holdings, views)


@dataclass(frozen=True, slots=True)
class _ListedSide:
    """Claims of one kind and their IPAddresses, as LISTs showed them.

    Args:
        side: the kind.
        position: the revision of the LIST of claims.
        addresses_position: the revision of the LIST of IPAddresses.
        claims: by key.
        by_claim: the IPAddresses by the claim that they name.
        unclaimed: the IPAddresses that name no claim.
        unreadable: the claims that cannot be decoded.
    """

    side: SideCaches
    position: int
    addresses_position: int
    claims: Mapping[Key, Claim]
    by_claim: Mapping[Key, list[Address]]
    unclaimed: list[Address]
    unreadable: Mapping[Key, str]

    @property
    def addresses(self) -> Iterator[Address]:
        """All IPAddresses."""
        for addresses in self.by_claim.values():
            yield from addresses
        yield from self.unclaimed

    def addresses_of(self, claim: Key) -> list[Address]:
        """Return the IPAddresses that name a claim."""
        return self.by_claim.get(claim, [])

    def facts(self, pool: Key, space: EntrySpace) -> Iterator[tuple[Holder, Facts]]:
        """Yield the facts of the holders of a pool."""
        side = self.side.side
        for key in dict.fromkeys([*self.claims, *self.by_claim]):
            claim, addresses = self.claims.get(key), self.addresses_of(key)
            facts = facts_of(side, pool, space, claim, addresses)
            if facts is not None:
                yield Holder(side.claim_kind, key), facts
        for address in self.unclaimed:
            facts = facts_of(side, pool, space, None, [address])
            if facts is not None:
                yield self.side.holder_of_address(address), facts

    def view(self, holdings: Holdings, known: Mapping[Identity, int]) -> View[Claim]:
        """Return the view of the claims."""
        side = self.side.side
        find = partial(_find_revision, self.addresses_of, side)
        return View(
            self.position,
            holdings,
            find_by_key(side.claim_kind, self.claims.get),
            self.addresses_of,
            self.unreadable.keys(),
            CreatedEffects(side.address_kind, self.addresses_position, find, known),
        )


async def _list_side(client: Client, side: SideCaches, pool: Key) -> _ListedSide:
    """Return the claims of a kind in the namespace of a pool, and their IPAddresses, by LISTs.

    Raises:
        UnreadableHolders: objects that may hold addresses of the pool cannot be decoded.
        ControllerError: a LIST failed.
    """
    kind = side.side
    claims = await client.list(kind.claims, namespace=pool.namespace)
    addresses = await client.list(kind.addresses, namespace=pool.namespace)
    check_readable(kind, pool, claims.unreadable, addresses.unreadable)
    by_claim: dict[Key, list[Address]] = {}
    unclaimed: list[Address] = []
    for address in addresses.items:
        claim = kind.claim_of_address(address)
        (unclaimed if claim is None else by_claim.setdefault(claim, [])).append(address)
    return _ListedSide(
        side,
        claims.revision,
        addresses.revision,
        {claim.metadata.key: claim for claim in claims.items},
        by_claim,
        unclaimed,
        claims.unreadable,
    )


def _sources_of(caches: Metal3Caches, side: SideCaches) -> Iterator[Source[Key, EntrySpace]]:
    """Yield the claims and the IPAddresses of a kind as sources of holdings."""

    def claims_of(pool: Key, _: EntrySpace) -> Iterable[Any]:
        return side.claims.by_index(SPACE_INDEX, str(pool))

    def pools_of_claim(claim: Claim) -> Iterable[Key]:
        pool = side.side.pool_of_claim(claim)
        return () if pool is None else (pool,)

    yield Source(
        side.claims, claims_of, pools_of_claim, lambda claim, _: side.holder_of_claim(claim)
    )
    yield Source(
        side.addresses,
        partial(caches.addresses_of_pool, side),
        partial(caches.pools_of_address, side),
        lambda address, _: side.holder_of_address(address),
    )


def _find_revision(
    addresses_of: Callable[[Key], Iterable[Address]],
    side: ClaimSide,
    promise: Promise,
) -> int | None:
    """Return the resourceVersion of the IPAddress of a promise, created or adopted; or None.

    It has the promised address, and the promised claim as its owner.
    """
    [part] = promise.ranges
    for address in addresses_of(promise.key):
        owner = side.owning_claim(address)
        is_of_claim = owner is not None and owner.uid == promise.uid
        if is_of_claim and parse_single(address.spec.address) == part.range:
            revision: int = address.metadata.revision
            return revision
    return None
