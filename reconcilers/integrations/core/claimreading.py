"""Read claims and their IPAddresses for a pass over a pool: from caches, or by LIST if they lag.

A pool may have claims of several kinds, each with IPAddresses of its own kind. They make one
reading: one Holdings, and a view for each kind. If the caches of one kind have not read far
enough, all kinds are read by LIST, claims before IPAddresses: an IPAddress that was created for a
promise which is over by the first LIST is in the second one, or was deleted.

The position is what the watch of claims delivered; own answers never move it, or a replica could
believe to have read what it only wrote. The journal has a position of IPAddresses as well: what a
promise brought about is on record in the claim, but an IPAddress outlives a claim whose finalizer
a person removed, and a claim whose status was wiped has no record. An IPAddress that was created
by a person was never promised. But what a LIST showed, of claims or IPAddresses, is not forgotten:
a cache counts again once it shows that.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Generic, Protocol, TypeVar, cast

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.meta import Key, Object
from controller.resource import Resource
from controller.unreadables import find_near
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.core.rules import SpaceView
from reconcilers.promises.fence import Fence
from reconcilers.promises.holdings import (
    CHECK_SECONDS,
    CachedSource,
    Facts,
    HolderSource,
    Holdings,
    KeptHoldings,
    Layouts,
)
from reconcilers.promises.identities import Holder, find_by_key
from reconcilers.promises.journal import Identity, Journal, Promise
from reconcilers.promises.reading import CacheWait, highest_revision
from reconcilers.promises.requestkinds import Fenced
from reconcilers.promises.settling import CreatedEffects, settle
from reconcilers.promises.unreadable import check_holders


class PoolLayouts(Protocol):
    """What a pool may hand out to claims."""

    @property
    def layouts(self) -> Layouts:
        """What each space of the pool hands out, by name."""
        ...


PoolT = TypeVar("PoolT", bound=Hashable)
SpaceT = TypeVar("SpaceT", bound=PoolLayouts)
ClaimT = TypeVar("ClaimT", bound=Object)
AddressT = TypeVar("AddressT", bound=Object)
SpaceT_contra = TypeVar("SpaceT_contra", bound=PoolLayouts, contravariant=True)
OtherSpaceT = TypeVar("OtherSpaceT", bound=PoolLayouts)
Claim_co = TypeVar("Claim_co", bound=Object, covariant=True)
Address_co = TypeVar("Address_co", bound=Object, covariant=True)


class ClaimFields(ABC, Generic[PoolT, ClaimT, AddressT]):
    """What claims of one kind, and IPAddresses of theirs, say by themselves.

    A pool is whatever names it in the index SPACE_INDEX of both caches, as text.

    Args:
        claims: the kind of claims.
        addresses: the kind of IPAddresses.
    """

    def __init__(self, claims: Resource[ClaimT], addresses: Resource[AddressT]) -> None:
        self.claims = claims
        self.addresses = addresses
        self.claim_kind = claims.full_name
        """The kind of claims in promises, and as holders."""
        self.address_kind = addresses.full_name
        """The kind of IPAddresses in the revisions of journals."""

    @abstractmethod
    def namespace_of(self, pool: PoolT) -> str:
        """Return the namespace of the claims of a pool; empty for all namespaces."""

    @abstractmethod
    def pool_of_claim(self, claim: ClaimT) -> PoolT | None:
        """Return the pool that a claim names; None for a pool that is not served here."""

    @abstractmethod
    def pool_of_address(self, address: AddressT) -> PoolT | None:
        """Return the pool that an IPAddress names; None for a pool that is not served here."""

    @abstractmethod
    def pool_of_outline(self, outline: Object) -> PoolT | None:
        """Return the pool that the outline of a claim or an IPAddress names; None as above.

        Args:
            outline: of the type that the kind of the object has for outlines.
        """

    @abstractmethod
    def claim_of_address(self, address: AddressT) -> Key | None:
        """Return the claim that an IPAddress is for; None if it is for none."""

    @abstractmethod
    def waits(self, claim: ClaimT) -> bool:
        """Return whether a claim waits for an address."""

    @abstractmethod
    def holds(self, claim: ClaimT) -> bool:
        """Return whether a claim holds an address by its own status."""


class ClaimSource(ABC, Generic[PoolT, SpaceT_contra, ClaimT, AddressT]):
    """The claims of one kind and their IPAddresses in caches, and which pools they concern."""

    claims: Cache[ClaimT]
    """The claims."""
    addresses: Cache[AddressT]
    """The IPAddresses."""

    @property
    @abstractmethod
    def fields(self) -> ClaimFields[PoolT, ClaimT, AddressT]:
        """What the objects say by themselves."""

    @property
    def claim_kind(self) -> str:
        """The full name of the kind of claims."""
        return self.fields.claim_kind

    @property
    def address_kind(self) -> str:
        """The full name of the kind of IPAddresses."""
        return self.fields.address_kind

    @abstractmethod
    def pools_of_address(self, address: AddressT) -> Iterable[PoolT]:
        """Return the pools that cannot hand out something because of an IPAddress.

        These are the pool that it names, and those where its name is in the way. The other
        direction is `addresses_of_pool`: a pass over a pool reads what concerns the pool, and a
        change of an IPAddress has the same pools read again.
        """

    @abstractmethod
    def addresses_of_pool(self, pool: PoolT, space: SpaceT_contra) -> Iterable[AddressT]:
        """Return the IPAddresses in the cache that concern a pool, each once.

        Args:
            space: what the pool may hand out.
        """

    @abstractmethod
    def addresses_of(self, claim: Key) -> Sequence[AddressT]:
        """Return the IPAddresses in the cache that are for a claim."""

    @abstractmethod
    def find_address(self, addresses: Iterable[AddressT], promise: Promise) -> AddressT | None:
        """Return the IPAddress that was created, or adopted, for a promise; None for none.

        Args:
            addresses: those that are for the claim.
        """

    @abstractmethod
    def facts_of(
        self,
        pool: PoolT,
        space: SpaceT_contra,
        claim: ClaimT | None,
        addresses: Sequence[AddressT],
    ) -> Facts | None:
        """Return the facts about a claim and its IPAddresses: what they hold of a pool.

        Args:
            space: what the pool may hand out.
            claim: the claim; None if there is none.
            addresses: the IPAddresses that are for the claim, of any pool.

        Returns:
            None if they hold nothing of the pool and the claim does not name it.
        """


def check_readable(
    fields: ClaimFields[PoolT, ClaimT, AddressT],
    pool: PoolT,
    claims: Mapping[Key, str],
    addresses: Mapping[Key, str],
) -> None:
    """Raise if claims or IPAddresses that cannot be decoded may hold addresses of a pool.

    An object whose pool cannot be decoded may be of any pool that its namespace can name. Those of
    a cache are found by its index, so thousands that name other pools cost nothing.

    Args:
        fields: what objects of the kinds say.
        claims: the claims that cannot be decoded, with the reason.
        addresses: the IPAddresses that cannot be decoded, with the reason.

    Raises:
        UnreadableHolders: some of them may.
    """
    if not claims and not addresses:
        return

    namespace = fields.namespace_of(pool)

    def may_concern(key: Key, outline: Object | None) -> bool:
        if outline is not None:
            return fields.pool_of_outline(outline) == pool
        return not namespace or key.namespace in {"", namespace}

    # The index selects candidates; may_concern decides by the parts that can be decoded.
    near = {
        fields.claims.kind: find_near(claims, SPACE_INDEX, str(pool)),
        fields.addresses.kind: find_near(addresses, SPACE_INDEX, str(pool)),
    }
    check_holders(near, may_concern)


def check_source(source: ClaimSource[PoolT, SpaceT, ClaimT, AddressT], pool: PoolT) -> None:
    """Raise if objects of the caches that cannot be decoded may hold addresses of a pool.

    Raises:
        UnreadableHolders: some of them may.
    """
    unreadable = source.claims.unreadable, source.addresses.unreadable
    check_readable(source.fields, pool, *unreadable)


def holder_of_claim(source: ClaimSource[PoolT, SpaceT, ClaimT, AddressT], claim: ClaimT) -> Holder:
    """Return the holder that a claim is."""
    return Holder(source.claim_kind, claim.metadata.key)


def holder_of_address(
    source: ClaimSource[PoolT, SpaceT, ClaimT, AddressT], address: AddressT
) -> Holder:
    """Return the holder that an IPAddress speaks of: its claim, or itself without a claim."""
    claim = source.fields.claim_of_address(address)
    if claim is None:
        return Holder(source.address_kind, address.metadata.key)
    return Holder(source.claim_kind, claim)


def has_memory(source: ClaimSource[PoolT, SpaceT, ClaimT, AddressT], journal: Journal) -> bool:
    """Return whether a journal has a revision of claims, and one of their IPAddresses.

    Without the second one it is not known which addresses IPAddresses without a claim hold.
    """
    return source.claim_kind in journal.revisions and source.address_kind in journal.revisions


def lacks_memory(
    source: ClaimSource[PoolT, SpaceT, ClaimT, AddressT], view: SpaceView[ClaimT], journal: Journal
) -> bool:
    """Return whether a journal does not record all promises to claims, in the history of now.

    If a LIST has not got to one of its revisions, that is of another cluster, or of a lost
    history.
    """
    if not has_memory(source, journal):
        return True
    effects_read = view.effects.position if view.effects is not None else 0
    has_read_claims = view.position >= journal.revisions[source.claim_kind]
    return not has_read_claims or effects_read < journal.revisions[source.address_kind]


@dataclass(frozen=True, slots=True)
class ClaimSpaceView(SpaceView[Claim_co], Generic[Claim_co, Address_co]):
    """What was read of a space with claims of one kind, and of their IPAddresses.

    Args:
        addresses_of: returns the IPAddresses that are for the claim of a key, as they were read
            with the holdings.
    """

    addresses_of: Callable[[Key], Sequence[Address_co]] = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class ClaimsReading(Generic[SpaceT]):
    """What a pass read of a pool.

    Args:
        space: what the pool may hand out.
        holdings: what claims of all kinds hold, and which wait.
        views: the claims of each kind, by its full name; all have these holdings. `view_of` has
            the type of one kind.
    """

    space: SpaceT
    holdings: Holdings
    views: Mapping[str, ClaimSpaceView[Object, Object]]

    def view_of(
        self, fields: ClaimFields[PoolT, ClaimT, AddressT]
    ) -> ClaimSpaceView[ClaimT, AddressT]:
        """Return the claims of one kind.

        Args:
            fields: of the kind.
        """
        # The key tells the type: a view is stored under the name of the kind that it was read for.
        return cast("ClaimSpaceView[ClaimT, AddressT]", self.views[fields.claim_kind])

    def settle(self, journal: Journal) -> Journal:
        """Return a journal without the promises that are over; promises to other kinds stay."""
        for kind, view in self.views.items():
            journal = settle(journal, kind, view, view.effects)
        return journal


class ClaimHistory(Protocol[PoolT]):
    """What a reader does for a kind of claims, whatever spaces it reads; see `ClaimReader`."""

    def check_cached(self, pool: PoolT) -> None:
        """Raise if the caches show objects that cannot be decoded and may be the pool's."""
        ...

    def count(self, pool: PoolT) -> int:
        """Return how many IPAddresses name a pool, as the caches show it."""
        ...

    def note_kept(self, pool: PoolT, promises: Iterable[Promise]) -> None:
        """Note the IPAddresses that were created for promises, before they may be deleted."""
        ...

    async def void_earlier(
        self,
        source: ClaimSource[PoolT, OtherSpaceT, ClaimT, AddressT],
        pool: PoolT,
        fence: Fence[ClaimT],
    ) -> Fenced:
        """Void every promise to claims of a kind that was made before the pool was read."""
        ...

    async def count_blockers(
        self,
        source: ClaimSource[PoolT, OtherSpaceT, ClaimT, AddressT],
        pool: PoolT,
        journal: Journal,
        fence: Fence[ClaimT],
    ) -> int:
        """Return how many holders of a kind the deletion of a pool has to wait for, by LISTs."""
        ...


class ClaimReader(Generic[PoolT, SpaceT]):
    """Reads what the claims of pools hold.

    Args:
        client: for lists.
        sources: the kinds of claims.
        clock: the time.
        patience: seconds to wait for a cache before the server is read.
        check_interval: seconds between two checks of what is kept of a pool.
    """

    def __init__(
        self,
        client: Client,
        sources: Sequence["ReadSource[PoolT, SpaceT, Object, Object]"],
        clock: Clock,
        patience: float,
        check_interval: float = CHECK_SECONDS,
    ) -> None:
        self._client = client
        self._sources = {source.claim_kind: source for source in sources}
        self._wait = CacheWait(clock, patience)
        self._kept = KeptHoldings[PoolT, SpaceT](
            [kept for source in sources for kept in source.list_holder_sources()],
            self.find_facts,
            lambda space: space.layouts,
            clock=clock,
            check_interval=check_interval,
        )
        self._created: dict[PoolT, dict[Identity, int]] = {}
        """By pool: the resourceVersions of the IPAddresses of promises of its journal."""

    def find_facts(self, pool: PoolT, holder: Holder, space: SpaceT) -> Facts | None:
        """Return the facts of a holder for a pool, as the caches show it; None for none."""
        for source in self._sources.values():
            if source.is_of(holder):
                return source.find_facts(pool, holder, space)
        return None

    def read_cached(self, pool: PoolT, space: SpaceT) -> ClaimsReading[SpaceT]:
        """Return the reading that the caches give, however old it is."""
        holdings = self._kept.holdings(pool, space)
        return ClaimsReading(space, holdings, self._make_cached_views(pool, holdings))

    def _make_cached_views(
        self, pool: PoolT, holdings: Holdings
    ) -> Mapping[str, ClaimSpaceView[Object, Object]]:
        known = self._created.get(pool, {})
        return {kind: source.make_view(holdings, known) for kind, source in self._sources.items()}

    def make_cached_view(
        self,
        source: ClaimSource[PoolT, SpaceT, ClaimT, AddressT],
        pool: PoolT,
        holdings: Holdings,
    ) -> ClaimSpaceView[ClaimT, AddressT]:
        """Return the claims of one kind as the caches show them now.

        A NetworkPool reads its holdings by itself, of IPAllocations and claims together.

        Args:
            source: the kind.
            holdings: of the pool, of all kinds, as the caches show them.
        """
        return ReadSource(source).make_view(holdings, self._created.get(pool, {}))

    async def at_least(
        self, pool: PoolT, space: SpaceT, journal: Journal
    ) -> ClaimsReading[SpaceT]:
        """Return a reading that has read as far as a journal says, or all that there is now.

        It lists, too, if the caches do not show which IPAddresses were created for promises that
        are over.

        Raises:
            Behind: a cache may still get there.
            UnreadableHolders: objects that may hold addresses of the pool cannot be decoded.
            ControllerError: a LIST failed.
        """
        self.check_cached(pool)
        if self.can_read_cached(pool, journal):
            return self.read_cached(pool, space)
        return await self.read_lists(pool, space, journal)

    def check_cached(self, pool: PoolT) -> None:
        """Raise if the caches show objects that cannot be decoded and may be the pool's.

        Raises:
            UnreadableHolders: there are some.
        """
        for source in self._sources.values():
            source.check(pool)

    def can_read_cached(self, pool: PoolT, journal: Journal) -> bool:
        """Return whether a pass may rely on the caches (`read_cached`), or has to LIST.

        It may if the caches have read as far as the journal says, and show for each promise that
        is over which IPAddress was created for it.

        Raises:
            Behind: a cache may still get there.
        """
        self._note_shown(pool, journal)
        for source in self._sources.values():
            if not source.has_read(self._wait, pool, journal):
                return False
        for kind, view in self._make_cached_views(pool, Holdings()).items():
            still_open = settle(journal, kind, view).promises
            if still_open != settle(journal, kind, view, view.effects).promises:
                return False
        return True

    def note_kept(self, pool: PoolT, promises: Iterable[Promise]) -> None:
        """Note the IPAddresses that were created for promises, before they may be deleted."""
        created = self._created.setdefault(pool, {})
        for promise in promises:
            source = self._sources[promise.kind]
            revision = source.find_revision(promise)
            if revision is not None:
                created[promise.identity] = revision

    def _note_shown(self, pool: PoolT, journal: Journal) -> None:
        """Note which IPAddresses of a journal's promises the caches show; forget dropped ones."""
        known, created = self._created.get(pool, {}), dict[Identity, int]()
        for promise in journal.promises:
            source = self._sources.get(promise.kind)
            if source is None:
                continue
            cached_revision = source.find_revision(promise)
            revision = known.get(promise.identity) if cached_revision is None else cached_revision
            if revision is not None:
                created[promise.identity] = revision
        self._created[pool] = created

    async def read_lists(
        self, pool: PoolT, space: SpaceT, journal: Journal
    ) -> ClaimsReading[SpaceT]:
        """Return the reading of a pool by LISTs that begin now.

        It is noted how far the LISTs got, and which IPAddresses they show of promises that are
        over: the caches are used again once they show as much.

        Raises:
            UnreadableHolders: objects that may hold addresses of the pool cannot be decoded.
            ControllerError: a LIST failed.
        """
        lists = {
            kind: await source.list(self._client, pool) for kind, source in self._sources.items()
        }
        created = self._created.setdefault(pool, {})
        facts = (entry for listed in lists.values() for entry in listed.facts(pool, space))
        holdings = Holdings(space.layouts, facts)
        views: dict[str, ClaimSpaceView[Object, Object]] = {}
        for kind, listed in lists.items():
            view = listed.view(holdings, created)
            self._wait.note_list((kind, pool), listed.list_claims(pool))
            self._wait.note_list((listed.address_kind, pool), listed.list_addresses(pool))
            still_open = {promise.identity for promise in settle(journal, kind, view).promises}
            for promise in journal.promises:
                if promise.kind == kind and promise.identity not in still_open:
                    created[promise.identity] = highest_revision(listed.addresses_of(promise.key))
            views[kind] = view
        return ClaimsReading(space, holdings, views)

    async def list_claims(
        self, source: ClaimSource[PoolT, OtherSpaceT, ClaimT, AddressT], pool: PoolT
    ) -> tuple[int, list[ClaimT]]:
        """Return the claims of a kind that name a pool, by a LIST that begins now.

        Returns:
            Its revision, and the claims.

        Raises:
            UnreadableHolders: claims that may name the pool cannot be decoded.
            ControllerError: the LIST failed.
        """
        kind, namespace = source.claims.resource, source.fields.namespace_of(pool)
        page = await self._client.list(kind, namespace=namespace)
        check_readable(source.fields, pool, page.unreadable, {})
        return page.revision, [
            claim for claim in page.items if source.fields.pool_of_claim(claim) == pool
        ]

    async def list_addresses(
        self, source: ClaimSource[PoolT, OtherSpaceT, ClaimT, AddressT], pool: PoolT
    ) -> list[AddressT]:
        """Return the IPAddresses of a kind that name a pool, by a LIST that begins now.

        Raises:
            UnreadableHolders: IPAddresses that may name the pool cannot be decoded.
            ControllerError: the LIST failed.
        """
        kind, namespace = source.addresses.resource, source.fields.namespace_of(pool)
        page = await self._client.list(kind, namespace=namespace)
        check_readable(source.fields, pool, {}, page.unreadable)
        return [
            address for address in page.items if source.fields.pool_of_address(address) == pool
        ]

    async def void_earlier(
        self,
        source: ClaimSource[PoolT, OtherSpaceT, ClaimT, AddressT],
        pool: PoolT,
        fence: Fence[ClaimT],
    ) -> Fenced:
        """Void every promise to claims of a kind that was made before the pool was read.

        What kept promises left of claims that are gone by now, the LIST of IPAddresses shows.

        Args:
            source: the kind.
            fence: voids them.
        """
        _, listed = await self.list_claims(source, pool)
        claims = await fence.void_earlier(listed)
        # After the claims, because an IPAddress is created before its claim is written.
        addresses = await self.list_addresses(source, pool)
        return Fenced(
            {
                source.claim_kind: highest_revision(claims),
                source.address_kind: highest_revision(addresses),
            }
        )

    async def count_blockers(
        self,
        source: ClaimSource[PoolT, OtherSpaceT, ClaimT, AddressT],
        pool: PoolT,
        journal: Journal,
        fence: Fence[ClaimT],
    ) -> int:
        """Return how many holders of a kind the deletion of a pool has to wait for, by LISTs.

        If none, what the pool may have promised to claims of this kind is void when this returns.

        Args:
            source: the kind.
            journal: of the pool.
            fence: voids promises.

        Raises:
            UnreadableHolders: objects that may hold its addresses cannot be decoded.
            ControllerError: a request failed.
        """
        revision, claims = await self.list_claims(source, pool)
        open_to = {promise.uid for promise in journal.promises}
        # A LIST that has not got there is of another history.
        is_known = has_memory(source, journal) and revision >= journal.revisions[source.claim_kind]
        risky = [
            claim
            for claim in claims
            if source.fields.waits(claim) and (not is_known or claim.metadata.uid in open_to)
        ]
        await fence.void_earlier(risky)
        # After the claims: what was promised to them is kept by now, or void.
        addresses = await self.list_addresses(source, pool)
        holders = {holder_of_address(source, address) for address in addresses}
        holders |= {
            holder_of_claim(source, claim) for claim in claims if source.fields.holds(claim)
        }
        return len(holders)

    def count(self, pool: PoolT) -> int:
        """Return how many IPAddresses name a pool, as the caches show it."""
        return sum(source.count(pool) for source in self._sources.values())

    def forget(self, pool: PoolT) -> None:
        """Forget a pool that is gone."""
        self._kept.forget(pool)
        self._created.pop(pool, None)
        for source in self._sources.values():
            self._wait.forget((source.claim_kind, pool))
            self._wait.forget((source.address_kind, pool))


@dataclass(frozen=True, slots=True)
class _ListedSource(Generic[PoolT, SpaceT, Claim_co, Address_co]):
    """Claims of one kind and their IPAddresses, as LISTs showed them.

    Args:
        source: the kind.
        position: the revision of the LIST of claims.
        addresses_position: the revision of the LIST of IPAddresses.
        claims: by key.
        by_claim: the IPAddresses by the claim that they belong to.
        unclaimed: the IPAddresses that belong to no claim.
        unreadable: the claims that cannot be decoded.
    """

    source: ClaimSource[PoolT, SpaceT, Claim_co, Address_co]
    position: int
    addresses_position: int
    claims: Mapping[Key, Claim_co]
    by_claim: Mapping[Key, list[Address_co]]
    unclaimed: list[Address_co]
    unreadable: Mapping[Key, str]

    @property
    def address_kind(self) -> str:
        """The full name of the kind of IPAddresses."""
        return self.source.address_kind

    def list_claims(self, pool: PoolT) -> list[Claim_co]:
        """Return the claims that name a pool."""
        pool_of = self.source.fields.pool_of_claim
        return [claim for claim in self.claims.values() if pool_of(claim) == pool]

    def list_addresses(self, pool: PoolT) -> list[Address_co]:
        """Return the IPAddresses that concern a pool."""
        addresses = chain(*self.by_claim.values(), self.unclaimed)
        pools_of = self.source.pools_of_address
        return [address for address in addresses if pool in pools_of(address)]

    def addresses_of(self, claim: Key) -> list[Address_co]:
        """Return the IPAddresses that belong to a claim."""
        return self.by_claim.get(claim, [])

    def facts(self, pool: PoolT, space: SpaceT) -> Iterator[tuple[Holder, Facts]]:
        """Yield the facts of the holders of a pool."""
        source = self.source
        for key in dict.fromkeys([*self.claims, *self.by_claim]):
            addresses = self.addresses_of(key)
            facts = source.facts_of(pool, space, claim=self.claims.get(key), addresses=addresses)
            if facts is not None:
                yield Holder(source.claim_kind, key), facts
        for address in self.unclaimed:
            facts = source.facts_of(pool, space, claim=None, addresses=[address])
            if facts is not None:
                yield holder_of_address(source, address), facts

    def view(
        self, holdings: Holdings, known: Mapping[Identity, int]
    ) -> ClaimSpaceView[Claim_co, Address_co]:
        """Return the view of the claims."""
        source = self.source
        find = partial(_find_revision, source, self.addresses_of)
        return ClaimSpaceView(
            self.position,
            holdings,
            find=find_by_key(source.claim_kind, self.claims.get),
            addresses_of=self.addresses_of,
            unreadable=self.unreadable.keys(),
            effects=CreatedEffects(
                source.address_kind, self.addresses_position, find=find, known=known
            ),
        )


async def _list_source(
    client: Client, source: ClaimSource[PoolT, SpaceT, ClaimT, AddressT], pool: PoolT
) -> _ListedSource[PoolT, SpaceT, ClaimT, AddressT]:
    """Return the claims of a kind that may be a pool's, and their IPAddresses, by LISTs.

    Raises:
        UnreadableHolders: objects that may hold addresses of the pool cannot be decoded.
        ControllerError: a LIST failed.
    """
    namespace = source.fields.namespace_of(pool)
    claims = await client.list(source.claims.resource, namespace=namespace)
    addresses = await client.list(source.addresses.resource, namespace=namespace)
    check_readable(source.fields, pool, claims.unreadable, addresses.unreadable)
    by_claim: dict[Key, list[AddressT]] = {}
    unclaimed: list[AddressT] = []
    for address in addresses.items:
        claim = source.fields.claim_of_address(address)
        (unclaimed if claim is None else by_claim.setdefault(claim, [])).append(address)
    return _ListedSource(
        source,
        claims.revision,
        addresses_position=addresses.revision,
        claims={claim.metadata.key: claim for claim in claims.items},
        by_claim=by_claim,
        unclaimed=unclaimed,
        unreadable=claims.unreadable,
    )


class ReadSource(Generic[PoolT, SpaceT, Claim_co, Address_co]):
    """Claims of one kind and their IPAddresses as a reader sees them, whatever their types.

    Args:
        source: of the kind, which alone sees the objects.
    """

    def __init__(self, source: ClaimSource[PoolT, SpaceT, Claim_co, Address_co]) -> None:
        self._source = source
        self.claim_kind = source.claim_kind
        """The full name of the kind of claims."""
        self.address_kind = source.address_kind
        """The full name of the kind of IPAddresses."""

    def is_of(self, holder: Holder) -> bool:
        """Return whether a holder is a claim of the kind, or an IPAddress without a claim."""
        return holder.kind in {self.claim_kind, self.address_kind}

    def find_facts(self, pool: PoolT, holder: Holder, space: SpaceT) -> Facts | None:
        """Return the facts of a holder for a pool, as the caches show it; None for none.

        Args:
            holder: a claim, or an IPAddress without a claim.
            space: what the pool may hand out.
        """
        source = self._source
        if holder.kind == self.claim_kind:
            claim, addresses = source.claims.get(holder.key), source.addresses_of(holder.key)
            return source.facts_of(pool, space, claim=claim, addresses=addresses)
        address = source.addresses.get(holder.key)
        if address is None or source.fields.claim_of_address(address) is not None:
            return source.facts_of(pool, space, claim=None, addresses=[])
        return source.facts_of(pool, space, claim=None, addresses=[address])

    def check(self, pool: PoolT) -> None:
        """Raise if objects of the caches that cannot be decoded may hold addresses of a pool.

        Raises:
            UnreadableHolders: some of them may.
        """
        check_source(self._source, pool)

    def has_read(self, wait: CacheWait, pool: PoolT, journal: Journal) -> bool:
        """Return whether both caches have read up to a journal's revisions; see `CacheWait`.

        Raises:
            Behind: a cache may still get there.
        """
        claims, addresses = ((kind, pool) for kind in (self.claim_kind, self.address_kind))
        revisions, source = journal.revisions, self._source
        return wait.has_read(
            source.claims, revisions.get(self.claim_kind, 0), claims
        ) and wait.has_read(source.addresses, revisions.get(self.address_kind, 0), addresses)

    def make_view(
        self, holdings: Holdings, known: Mapping[Identity, int]
    ) -> ClaimSpaceView[Claim_co, Address_co]:
        """Return the claims as the caches show them now.

        Args:
            holdings: of the pool, of all kinds.
            known: the resourceVersions of the IPAddresses of promises that were read earlier.
        """
        source = self._source
        return ClaimSpaceView(
            source.claims.position,
            holdings,
            find=find_by_key(self.claim_kind, source.claims.get),
            addresses_of=source.addresses_of,
            unreadable=source.claims.unreadable.keys(),
            effects=CreatedEffects(
                self.address_kind, source.addresses.position, find=self.find_revision, known=known
            ),
        )

    def find_revision(self, promise: Promise) -> int | None:
        """Return the resourceVersion of the IPAddress of a promise in the cache; or None."""
        return _find_revision(self._source, self._source.addresses_of, promise)

    def count(self, pool: PoolT) -> int:
        """Return how many IPAddresses name a pool, as the cache shows it."""
        return len(self._source.addresses.by_index(SPACE_INDEX, str(pool)))

    async def list(
        self, client: Client, pool: PoolT
    ) -> _ListedSource[PoolT, SpaceT, Claim_co, Address_co]:
        """Return the claims that may be a pool's, and their IPAddresses, by LISTs.

        Raises:
            UnreadableHolders: objects that may hold addresses of the pool cannot be decoded.
            ControllerError: a LIST failed.
        """
        return await _list_source(client, self._source, pool)

    def list_holders(self, pool: PoolT, space: SpaceT) -> Iterator[Holder]:
        """Yield the holders that objects of the caches speak of to a pool."""
        for source in self.list_holder_sources():
            yield from source.list_holders(pool, space)

    def list_holder_sources(self) -> Sequence[HolderSource[PoolT, SpaceT]]:
        """Return the claims and the IPAddresses as sources of holdings."""
        return _sources_of_holdings(self._source)


def _sources_of_holdings(
    source: ClaimSource[PoolT, SpaceT, ClaimT, AddressT],
) -> tuple[HolderSource[PoolT, SpaceT], HolderSource[PoolT, SpaceT]]:
    """Return the claims and the IPAddresses of a kind as sources of holdings."""

    def claims_of(pool: PoolT, _: SpaceT) -> Iterable[ClaimT]:
        return source.claims.by_index(SPACE_INDEX, str(pool))

    def pools_of_claim(claim: ClaimT) -> Iterable[PoolT]:
        pool = source.fields.pool_of_claim(claim)
        return () if pool is None else (pool,)

    return (
        CachedSource(
            source.claims,
            claims_of,
            pools=pools_of_claim,
            holder=lambda claim, _: holder_of_claim(source, claim),
        ),
        CachedSource(
            source.addresses,
            source.addresses_of_pool,
            pools=source.pools_of_address,
            holder=lambda address, _: holder_of_address(source, address),
        ),
    )


def _find_revision(
    source: ClaimSource[PoolT, SpaceT, ClaimT, AddressT],
    addresses_of: Callable[[Key], Iterable[AddressT]],
    promise: Promise,
) -> int | None:
    """Return the resourceVersion of the IPAddress of a promise; None without one."""
    address = source.find_address(addresses_of(promise.key), promise)
    return None if address is None else address.metadata.revision
