"""Read claims and their IPAddresses for a pass over a pool: from caches, or by LIST if they lag.

A pool may have claims of several kinds, each with IPAddresses of its own kind. Together they make
one *reading*: one Holdings for all kinds, and a *view* of the claims of each kind. If the caches
of one kind lag, all kinds are read by LIST.

The LIST of claims comes before the LIST of IPAddresses. An IPAddress is created before its promise
is over. So if a promise is over in the first LIST, its IPAddress is in the second, or was deleted.

The *position* of a cache is the resourceVersion up to which its watch delivered everything. The
answers to own writes do not move it, because earlier writes of others may still be missing.

The *journal* of a pool lists its promises, the addresses that it reserves for claims. It also has
*revisions*: the resourceVersions up to which a reader must have read claims and IPAddresses. The
revision of IPAddresses is necessary because a claim does not always record its address. A person
can remove the claim's finalizer, so that only the IPAddress is left, or wipe the claim's status.

After a LIST, a cache is used again only once it shows everything that the LIST showed. This covers
IPAddresses that a person created: no promise, and so no revision, refers to them.
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


PoolNameT = TypeVar("PoolNameT", bound=Hashable)
SpaceT = TypeVar("SpaceT", bound=PoolLayouts)
ClaimT = TypeVar("ClaimT", bound=Object)
AddressT = TypeVar("AddressT", bound=Object)
SpaceT_contra = TypeVar("SpaceT_contra", bound=PoolLayouts, contravariant=True)
OtherSpaceT = TypeVar("OtherSpaceT", bound=PoolLayouts)
Claim_co = TypeVar("Claim_co", bound=Object, covariant=True)
Address_co = TypeVar("Address_co", bound=Object, covariant=True)


class ClaimFields(ABC, Generic[PoolNameT, ClaimT, AddressT]):
    """Reads the fields of claims of one kind and of their IPAddresses, without any cache.

    PoolNameT is the type that identifies a pool. Its text is the key of the pool in the index
    SPACE_INDEX of both caches.

    Args:
        claims: the kind of claims.
        addresses: the kind of IPAddresses.
    """

    def __init__(self, claims: Resource[ClaimT], addresses: Resource[AddressT]) -> None:
        self.claims = claims
        self.addresses = addresses
        self.claim_kind = claims.full_name
        """The full name of the kind of claims, as promises and holders name it."""
        self.address_kind = addresses.full_name
        """The full name of the kind of IPAddresses, as the revisions of journals name it."""

    @abstractmethod
    def get_namespace(self, pool: PoolNameT) -> str:
        """Return the namespace of the claims of a pool; empty for all namespaces."""

    @abstractmethod
    def find_pool_of_claim(self, claim: ClaimT) -> PoolNameT | None:
        """Return the pool that a claim names; None for a pool that is not served here."""

    @abstractmethod
    def find_pool_of_address(self, address: AddressT) -> PoolNameT | None:
        """Return the pool that an IPAddress names; None for a pool that is not served here."""

    @abstractmethod
    def find_pool_of_outline(self, outline: Object) -> PoolNameT | None:
        """Return the pool that the outline of a claim or an IPAddress names.

        Args:
            outline: the decodable part of an object that cannot be decoded completely.

        Returns:
            None for a pool that is not served here.
        """

    @abstractmethod
    def find_claim_of_address(self, address: AddressT) -> Key | None:
        """Return the claim that an IPAddress is for; None if it belongs to no claim."""

    @abstractmethod
    def is_waiting(self, claim: ClaimT) -> bool:
        """Return whether a claim waits for an address."""

    @abstractmethod
    def has_address(self, claim: ClaimT) -> bool:
        """Return whether a claim holds an address by its own status."""


class ClaimSource(ABC, Generic[PoolNameT, SpaceT_contra, ClaimT, AddressT]):
    """The claims of one kind and their IPAddresses in caches, and which pools they concern."""

    claims: Cache[ClaimT]
    """The claims."""
    addresses: Cache[AddressT]
    """The IPAddresses."""

    @property
    @abstractmethod
    def fields(self) -> ClaimFields[PoolNameT, ClaimT, AddressT]:
        """The functions that read the fields of these objects."""

    @property
    def claim_kind(self) -> str:
        """The full name of the kind of claims."""
        return self.fields.claim_kind

    @property
    def address_kind(self) -> str:
        """The full name of the kind of IPAddresses."""
        return self.fields.address_kind

    def list_pools_of_claim(self, claim: ClaimT) -> Sequence[PoolNameT]:
        """Return the pool that a claim names; empty for a pool that is not served here."""
        pool = self.fields.find_pool_of_claim(claim)
        return () if pool is None else (pool,)

    @abstractmethod
    def list_pools_of_address(self, address: AddressT) -> Iterable[PoolNameT]:
        """Return the pools that an IPAddress concerns.

        These are the pool that the IPAddress names, and pools that would create an IPAddress of
        the same name. `list_addresses_of_pool` is the inverse: what a pass over a pool reads. Both
        must agree, so that a change of an IPAddress updates the holdings of each pool that reads
        it.
        """

    @abstractmethod
    def list_addresses_of_pool(self, pool: PoolNameT, space: SpaceT_contra) -> Iterable[AddressT]:
        """Return the IPAddresses in the cache that concern a pool, each once.

        Args:
            space: what the pool may hand out.
        """

    @abstractmethod
    def list_addresses_of_claim(self, claim: Key) -> Sequence[AddressT]:
        """Return the IPAddresses in the cache that are for a claim."""

    @abstractmethod
    def list_pause_sources(self) -> Sequence[HolderSource[PoolNameT, object]]:
        """Return the sources of objects that can pause claims, such as Clusters."""

    @abstractmethod
    def find_address(self, addresses: Iterable[AddressT], promise: Promise) -> AddressT | None:
        """Return the IPAddress that was created, or adopted, for a promise; None if none was.

        Args:
            addresses: the IPAddresses that are for the claim of the promise.
        """

    @abstractmethod
    def compute_facts(
        self,
        pool: PoolNameT,
        space: SpaceT_contra,
        claim: ClaimT | None,
        addresses: Sequence[AddressT],
    ) -> Facts | None:
        """Return the facts about a claim and its IPAddresses for a pool.

        The facts are what they hold of the pool, and the claim's place in the queue.

        Args:
            space: what the pool may hand out.
            claim: the claim; None if the IPAddresses have none.
            addresses: the IPAddresses that are for the claim, of any pool.

        Returns:
            None if they hold nothing of the pool and the claim does not name it.
        """


def check_readable(
    fields: ClaimFields[PoolNameT, ClaimT, AddressT],
    pool: PoolNameT,
    claims: Mapping[Key, str],
    addresses: Mapping[Key, str],
) -> None:
    """Raise if claims or IPAddresses that cannot be decoded may hold addresses of a pool.

    If even the pool's name of such an object cannot be decoded, it may be any pool that the
    object's namespace allows. In a cache the index finds the objects of the pool, so thousands of
    undecodable objects that name other pools cost no time.

    Args:
        fields: reads the outlines of objects of the two kinds.
        claims: the claims that cannot be decoded, with the reason.
        addresses: the IPAddresses that cannot be decoded, with the reason.

    Raises:
        UnreadableHolders: an undecodable object may hold an address of the pool.
    """
    if not claims and not addresses:
        return

    namespace = fields.get_namespace(pool)

    def may_concern(key: Key, outline: Object | None) -> bool:
        """Return whether an object names the pool, or may name it because it has no outline."""
        if outline is not None:
            return fields.find_pool_of_outline(outline) == pool
        # An empty namespace stands for all: of the pool, or of an object whose own is unknown.
        return not namespace or key.namespace in {"", namespace}

    # The index selects candidates; may_concern decides by the parts that can be decoded.
    near = {
        fields.claims.kind: find_near(claims, SPACE_INDEX, str(pool)),
        fields.addresses.kind: find_near(addresses, SPACE_INDEX, str(pool)),
    }
    check_holders(near, may_concern)


async def list_addresses(
    client: Client,
    fields: ClaimFields[PoolNameT, ClaimT, AddressT],
    kind: Resource[AddressT],
    pool: PoolNameT,
) -> list[AddressT]:
    """Return the IPAddresses of a kind that name a pool, by a LIST that begins now.

    Raises:
        UnreadableHolders: IPAddresses that may name the pool cannot be decoded.
        ControllerError: the LIST failed.
    """
    page = await client.list(kind, namespace=fields.get_namespace(pool))
    check_readable(fields, pool, {}, page.unreadable)  # no claims were read
    return [address for address in page.items if fields.find_pool_of_address(address) == pool]


def check_caches_readable(
    source: ClaimSource[PoolNameT, SpaceT, ClaimT, AddressT], pool: PoolNameT
) -> None:
    """Raise if undecodable objects in the caches of a source may hold addresses of a pool.

    Raises:
        UnreadableHolders: an undecodable object may hold an address of the pool.
    """
    unreadable = source.claims.unreadable, source.addresses.unreadable
    check_readable(source.fields, pool, *unreadable)


def make_claim_holder(
    source: ClaimSource[PoolNameT, SpaceT, ClaimT, AddressT], claim: ClaimT
) -> Holder:
    """Return the identity of a claim as a holder of addresses."""
    return Holder(source.claim_kind, claim.metadata.key)


def make_address_holder(
    source: ClaimSource[PoolNameT, SpaceT, ClaimT, AddressT], address: AddressT
) -> Holder:
    """Return the holder of an IPAddress's address: its claim, or the IPAddress without a claim."""
    claim = source.fields.find_claim_of_address(address)
    if claim is None:
        return Holder(source.address_kind, address.metadata.key)
    return Holder(source.claim_kind, claim)


def has_revisions(
    source: ClaimSource[PoolNameT, SpaceT, ClaimT, AddressT], journal: Journal
) -> bool:
    """Return whether a journal has a revision of claims and a revision of their IPAddresses.

    Without the revision of IPAddresses it is unknown how far to read them, so an IPAddress without
    a claim could be missed.
    """
    return source.claim_kind in journal.revisions and source.address_kind in journal.revisions


def may_lack_promises(
    source: ClaimSource[PoolNameT, SpaceT, ClaimT, AddressT],
    view: SpaceView[ClaimT],
    journal: Journal,
) -> bool:
    """Return whether a journal may lack promises to claims, so that the pool needs a fence.

    It may if it has no revisions, or if even a LIST does not reach one of its revisions. Such a
    revision comes from another cluster, or from a history of etcd that a restore replaced.
    """
    if not has_revisions(source, journal):
        return True
    addresses_position = view.effects.position if view.effects is not None else 0
    has_read_claims = view.position >= journal.revisions[source.claim_kind]
    return not has_read_claims or addresses_position < journal.revisions[source.address_kind]


@dataclass(frozen=True, slots=True)
class ClaimSpaceView(SpaceView[Claim_co], Generic[Claim_co, Address_co]):
    """The claims of one kind and their IPAddresses, as a pass has read them for one pool.

    Args:
        list_addresses_of_claim: returns the IPAddresses that are for the claim with a key, in the
            state in which the holdings were read.
    """

    list_addresses_of_claim: Callable[[Key], Sequence[Address_co]] = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class ClaimsReading(Generic[SpaceT]):
    """What a pass read of a pool.

    Args:
        space: what the pool may hand out.
        holdings: the ranges that claims of all kinds hold, and the claims that wait.
        views: the claims of each kind, by its full name; all views share these holdings.
            `view_of` returns a view with the type of its kind.
    """

    space: SpaceT
    holdings: Holdings
    views: Mapping[str, ClaimSpaceView[Object, Object]]

    def view_of(
        self, fields: ClaimFields[PoolNameT, ClaimT, AddressT]
    ) -> ClaimSpaceView[ClaimT, AddressT]:
        """Return the view of the claims of one kind.

        Args:
            fields: identifies the kind, and gives the view its type.
        """
        # The key tells the type: a view is stored under the name of the kind that it was read for.
        return cast("ClaimSpaceView[ClaimT, AddressT]", self.views[fields.claim_kind])

    def settle(self, journal: Journal) -> Journal:
        """Return a journal without the promises that are over; promises to other kinds stay."""
        for kind, view in self.views.items():
            journal = settle(journal, kind, view, view.effects)
        return journal


class SpaceAgnosticReader(Protocol[PoolNameT]):
    """The methods of `ClaimReader` that do not depend on the type of the pool's space."""

    def check_cached(self, pool: PoolNameT) -> None:
        """Raise if undecodable objects in the caches may hold addresses of a pool."""
        ...

    def count_addresses(self, pool: PoolNameT) -> int:
        """Return how many IPAddresses name a pool, as the caches show it."""
        ...

    def note_kept(self, pool: PoolNameT, promises: Iterable[Promise]) -> None:
        """Note the IPAddresses that were created for promises, before they may be deleted."""
        ...

    async def void_earlier(
        self,
        source: ClaimSource[PoolNameT, OtherSpaceT, ClaimT, AddressT],
        pool: PoolNameT,
        fence: Fence[ClaimT],
    ) -> Fenced:
        """Void every promise to claims of a kind that was made before the pool was read."""
        ...

    async def count_blockers(
        self,
        source: ClaimSource[PoolNameT, OtherSpaceT, ClaimT, AddressT],
        pool: PoolNameT,
        journal: Journal,
        fence: Fence[ClaimT],
    ) -> int:
        """Return how many holders of a kind the deletion of a pool has to wait for, by LISTs."""
        ...


class ClaimReader(Generic[PoolNameT, SpaceT]):
    """Reads what the claims of pools hold.

    The holdings of each pool are stored between passes, and changes of objects update them.

    Args:
        client: for LISTs.
        sources: the caches of each kind of claims.
        patience: seconds to wait for a cache that lags before a LIST is sent.
        check_interval: seconds between two checks that stored holdings agree with the caches.
    """

    def __init__(
        self,
        client: Client,
        sources: Sequence["ReadSource[PoolNameT, SpaceT, Object, Object]"],
        clock: Clock,
        patience: float,
        check_interval: float = CHECK_SECONDS,
    ) -> None:
        self._client = client
        self._sources = {source.claim_kind: source for source in sources}
        self._wait = CacheWait(clock, patience)
        self._kept = KeptHoldings[PoolNameT, SpaceT](
            [
                holder_source
                for source in sources
                for holder_source in source.list_holder_sources()
            ],
            self.find_facts,
            lambda space: space.layouts,
            clock=clock,
            check_interval=check_interval,
        )
        self._address_revisions: dict[PoolNameT, dict[Identity, int]] = {}
        """By pool and promise of its journal: the resourceVersion of the promise's IPAddress.

        0 means that a LIST showed no IPAddress of the promise.
        """

    def find_facts(self, pool: PoolNameT, holder: Holder, space: SpaceT) -> Facts | None:
        """Return the facts of a holder for a pool, from the caches.

        Returns:
            None if the holder neither holds an address of the pool nor waits for one, or if it is
            no claim.
        """
        return find_facts(self._sources.values(), pool, holder=holder, space=space)

    def read_cached(self, pool: PoolNameT, space: SpaceT) -> ClaimsReading[SpaceT]:
        """Return a reading from the caches, without a check that they are current enough."""
        holdings = self._kept.get_holdings(pool, space)
        return ClaimsReading(space, holdings, self._make_cached_views(pool, holdings))

    def _make_cached_views(
        self, pool: PoolNameT, holdings: Holdings
    ) -> Mapping[str, ClaimSpaceView[Object, Object]]:
        """Return the view of each kind of claims, by its full name, from the caches."""
        address_revisions = self._address_revisions.get(pool, {})
        return {
            kind: source.make_view(holdings, address_revisions)
            for kind, source in self._sources.items()
        }

    def make_cached_view(
        self,
        source: ClaimSource[PoolNameT, SpaceT, ClaimT, AddressT],
        pool: PoolNameT,
        holdings: Holdings,
    ) -> ClaimSpaceView[ClaimT, AddressT]:
        """Return the cached view of one kind, with the IPAddresses that were noted for promises.

        It is for NetworkPools: their passes read IPAllocations and claims into one Holdings.

        Args:
            source: the caches of the kind.
            holdings: those of the pool, with requests of all kinds.
        """
        return ReadSource(source).make_view(holdings, self._address_revisions.get(pool, {}))

    async def read_up_to_journal(
        self, pool: PoolNameT, space: SpaceT, journal: Journal
    ) -> ClaimsReading[SpaceT]:
        """Return a reading that includes everything up to a journal's revisions.

        The reading comes from the caches if `can_read_cached` allows that, else from LISTs.

        Raises:
            Behind: a cache lags, and the pass waits for it before it sends LISTs.
            UnreadableHolders: objects that may hold addresses of the pool cannot be decoded.
            ControllerError: a LIST failed.
        """
        self.check_cached(pool)
        if self.can_read_cached(pool, journal):
            return self.read_cached(pool, space)
        return await self.read_lists(pool, space, journal)

    def check_cached(self, pool: PoolNameT) -> None:
        """Raise if undecodable objects in the caches may hold addresses of a pool.

        Raises:
            UnreadableHolders: an undecodable object may hold an address of the pool.
        """
        for source in self._sources.values():
            source.check_readable(pool)

    def can_read_cached(self, pool: PoolNameT, journal: Journal) -> bool:
        """Return whether a pass may read the caches (`read_cached`); if not, it must send LISTs.

        It may if two conditions hold. The caches have read up to the journal's revisions. And for
        each promise that is over by its claim, the IPAddress that was created for it is known, or
        it is known that there is none. The IPAddresses that the caches show now are noted.

        Raises:
            Behind: a cache lags, and the pass waits for it before it sends LISTs.
        """
        self._note_shown(pool, journal)
        for source in self._sources.values():
            if not source.has_read(self._wait, pool, journal):
                return False
        # Settle by the claims alone, then by claims and IPAddresses. The results differ if a
        # promise is over by its claim, but its IPAddress is unknown. Settling needs no holdings.
        for kind, view in self._make_cached_views(pool, Holdings()).items():
            still_open = settle(journal, kind, view).promises
            if still_open != settle(journal, kind, view, view.effects).promises:
                return False
        return True

    def note_kept(self, pool: PoolNameT, promises: Iterable[Promise]) -> None:
        """Note the IPAddresses that were created for promises, before they may be deleted."""
        # The pass that settles these promises later needs the resourceVersions for the journal.
        address_revisions = self._address_revisions.setdefault(pool, {})
        for promise in promises:
            source = self._sources[promise.kind]
            revision = source.find_address_revision(promise)
            if revision is not None:  # the cache shows the IPAddress already
                address_revisions[promise.identity] = revision

    def _note_shown(self, pool: PoolNameT, journal: Journal) -> None:
        """Note the IPAddresses of a journal's promises; forget promises that the journal dropped.

        An IPAddress that the caches do not show stays as it was noted before.
        """
        noted_before, noted_now = self._address_revisions.get(pool, {}), dict[Identity, int]()
        for promise in journal.promises:
            source = self._sources.get(promise.kind)
            # A promise to a request of another kind, such as an IPAllocation, has no IPAddress.
            if source is None:
                continue
            cached_revision = source.find_address_revision(promise)
            revision = (
                noted_before.get(promise.identity) if cached_revision is None else cached_revision
            )
            if revision is not None:
                noted_now[promise.identity] = revision
        self._address_revisions[pool] = noted_now

    async def read_lists(
        self, pool: PoolNameT, space: SpaceT, journal: Journal
    ) -> ClaimsReading[SpaceT]:
        """Return the reading of a pool by LISTs that begin now.

        It also notes what the LISTs show, including the IPAddresses of promises that are over.
        Later passes use the caches again once they show as much.

        Raises:
            UnreadableHolders: objects that may hold addresses of the pool cannot be decoded.
            ControllerError: a LIST failed.
        """
        lists = {
            kind: await source.list_objects(self._client, pool)
            for kind, source in self._sources.items()
        }
        address_revisions = self._address_revisions.setdefault(pool, {})
        facts = (entry for listed in lists.values() for entry in listed.get_facts(pool, space))
        holdings = Holdings(space.layouts, facts)
        views: dict[str, ClaimSpaceView[Object, Object]] = {}
        for kind, listed in lists.items():
            # The view shares `address_revisions`, so it also shows the entries added below.
            view = listed.view(holdings, address_revisions)
            self._wait.note_list((kind, pool), listed.list_claims(pool))
            self._wait.note_list((listed.address_kind, pool), listed.list_addresses(pool))
            # If the LIST of claims shows that a promise is over, the later LIST of IPAddresses
            # shows the IPAddress of the promise. Its revision is noted; 0 if there is none.
            still_open = {promise.identity for promise in settle(journal, kind, view).promises}
            for promise in journal.promises:
                if promise.kind == kind and promise.identity not in still_open:
                    address_revisions[promise.identity] = highest_revision(
                        listed.list_addresses_of_claim(promise.key)
                    )
            views[kind] = view
        return ClaimsReading(space, holdings, views)

    async def list_claims(
        self, source: ClaimSource[PoolNameT, OtherSpaceT, ClaimT, AddressT], pool: PoolNameT
    ) -> tuple[int, list[ClaimT]]:
        """Return the claims of a kind that name a pool, by a LIST that begins now.

        Returns:
            The revision of the LIST, and the claims.

        Raises:
            UnreadableHolders: claims that may name the pool cannot be decoded.
            ControllerError: the LIST failed.
        """
        kind, namespace = source.claims.resource, source.fields.get_namespace(pool)
        page = await self._client.list(kind, namespace=namespace)
        check_readable(source.fields, pool, page.unreadable, {})  # no IPAddresses were read
        return page.revision, [
            claim for claim in page.items if source.fields.find_pool_of_claim(claim) == pool
        ]

    async def void_earlier(
        self,
        source: ClaimSource[PoolNameT, OtherSpaceT, ClaimT, AddressT],
        pool: PoolNameT,
        fence: Fence[ClaimT],
    ) -> Fenced:
        """Void every promise to claims of a kind that was made before the pool was read.

        Claims that no longer exist need no write: if a promise to one of them was kept, the LIST
        of IPAddresses shows its IPAddress.

        Args:
            source: the caches of the kind.
            fence: writes each claim once, so that earlier promises to it are void.

        Returns:
            The revisions of claims and IPAddresses for the pool's new journal.

        Raises:
            UnreadableHolders: objects that may hold addresses of the pool cannot be decoded.
            ControllerError: a request failed.
        """
        _, listed = await self.list_claims(source, pool)
        claims = await fence.void_earlier(listed)
        # An IPAddress is created before its claim is written. So the IPAddress of every promise
        # that was kept before the fence's writes exists now.
        addresses = await list_addresses(
            self._client, source.fields, kind=source.addresses.resource, pool=pool
        )
        return Fenced(
            {
                source.claim_kind: highest_revision(claims),
                source.address_kind: highest_revision(addresses),
            }
        )

    async def count_blockers(
        self,
        source: ClaimSource[PoolNameT, OtherSpaceT, ClaimT, AddressT],
        pool: PoolNameT,
        journal: Journal,
        fence: Fence[ClaimT],
    ) -> int:
        """Void open promises of a pool; return how many holders its deletion has to wait for.

        If the count is 0, no promise of the pool to a claim of this kind can take effect any more.

        Args:
            source: the caches of the kind.
            fence: writes each claim once, so that earlier promises to it are void.

        Raises:
            UnreadableHolders: objects that may hold its addresses cannot be decoded.
            ControllerError: a request failed.
        """
        revision, claims = await self.list_claims(source, pool)
        promised_uids = {promise.uid for promise in journal.promises}
        # If the LIST ends before the journal's revision, the journal is of another history of
        # etcd and may lack promises. Then every waiting claim may have one.
        has_all_promises = (
            has_revisions(source, journal) and revision >= journal.revisions[source.claim_kind]
        )
        claims_to_void = [
            claim
            for claim in claims
            if source.fields.is_waiting(claim)
            and (not has_all_promises or claim.metadata.uid in promised_uids)
        ]
        await fence.void_earlier(claims_to_void)
        # After the fence each promise is void, or was kept and its IPAddress exists.
        addresses = await list_addresses(
            self._client, source.fields, kind=source.addresses.resource, pool=pool
        )
        holders = {make_address_holder(source, address) for address in addresses}
        holders |= {
            make_claim_holder(source, claim)
            for claim in claims
            if source.fields.has_address(claim)
        }
        return len(holders)

    def count_addresses(self, pool: PoolNameT) -> int:
        """Return how many IPAddresses name a pool, as the caches show it."""
        return sum(source.count_addresses(pool) for source in self._sources.values())

    def forget(self, pool: PoolNameT) -> None:
        """Forget a pool that is gone."""
        self._kept.forget(pool)
        self._address_revisions.pop(pool, None)
        for source in self._sources.values():
            self._wait.forget((source.claim_kind, pool))
            self._wait.forget((source.address_kind, pool))


@dataclass(frozen=True, slots=True)
class _ListedSource(Generic[PoolNameT, SpaceT, Claim_co, Address_co]):
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

    source: ClaimSource[PoolNameT, SpaceT, Claim_co, Address_co]
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

    def list_claims(self, pool: PoolNameT) -> list[Claim_co]:
        """Return the claims that name a pool."""
        find_pool = self.source.fields.find_pool_of_claim
        return [claim for claim in self.claims.values() if find_pool(claim) == pool]

    def list_addresses(self, pool: PoolNameT) -> list[Address_co]:
        """Return the IPAddresses that concern a pool."""
        addresses = chain(*self.by_claim.values(), self.unclaimed)
        pools_of = self.source.list_pools_of_address
        return [address for address in addresses if pool in pools_of(address)]

    def list_addresses_of_claim(self, claim: Key) -> list[Address_co]:
        """Return the IPAddresses that belong to a claim."""
        return self.by_claim.get(claim, [])

    def get_facts(self, pool: PoolNameT, space: SpaceT) -> Iterator[tuple[Holder, Facts]]:
        """Yield the holders of a pool, each with its facts."""
        source = self.source
        # IPAddresses may name a claim that is gone: it is a holder as well.
        for key in dict.fromkeys([*self.claims, *self.by_claim]):
            addresses = self.list_addresses_of_claim(key)
            facts = source.compute_facts(
                pool, space, claim=self.claims.get(key), addresses=addresses
            )
            if facts is not None:
                yield Holder(source.claim_kind, key), facts
        # An IPAddress without a claim is a holder of its own.
        for address in self.unclaimed:
            facts = source.compute_facts(pool, space, claim=None, addresses=[address])
            if facts is not None:
                yield make_address_holder(source, address), facts

    def view(
        self, holdings: Holdings, noted_revisions: Mapping[Identity, int]
    ) -> ClaimSpaceView[Claim_co, Address_co]:
        """Return the view of the claims, for a reading.

        Args:
            holdings: those of the pool, with claims of all kinds.
            noted_revisions: the resourceVersions of IPAddresses that earlier passes noted, by
                promise.
        """
        source = self.source
        find_address_revision = partial(
            _find_address_revision, source, self.list_addresses_of_claim
        )
        return ClaimSpaceView(
            self.position,
            holdings,
            find=find_by_key(source.claim_kind, self.claims.get),
            list_addresses_of_claim=self.list_addresses_of_claim,
            unreadable=self.unreadable.keys(),
            effects=CreatedEffects(
                source.address_kind,
                self.addresses_position,
                find=find_address_revision,
                known=noted_revisions,
            ),
        )


async def _list_source(
    client: Client, source: ClaimSource[PoolNameT, SpaceT, ClaimT, AddressT], pool: PoolNameT
) -> _ListedSource[PoolNameT, SpaceT, ClaimT, AddressT]:
    """Return the claims of a kind that may be a pool's, and their IPAddresses, by LISTs.

    Raises:
        UnreadableHolders: objects that may hold addresses of the pool cannot be decoded.
        ControllerError: a LIST failed.
    """
    namespace = source.fields.get_namespace(pool)
    # Claims first: the IPAddress of a promise that is over in the first LIST is in the second.
    claims = await client.list(source.claims.resource, namespace=namespace)
    addresses = await client.list(source.addresses.resource, namespace=namespace)
    check_readable(source.fields, pool, claims.unreadable, addresses.unreadable)
    by_claim: dict[Key, list[AddressT]] = {}
    unclaimed: list[AddressT] = []
    for address in addresses.items:
        claim = source.fields.find_claim_of_address(address)
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


class ReadSource(Generic[PoolNameT, SpaceT, Claim_co, Address_co]):
    """The caches of one kind of claims, in a form that hides the types of the objects.

    So a reader can have sources of several kinds in one collection.

    Args:
        source: the caches of the kind; only it depends on the types of the objects.
    """

    def __init__(self, source: ClaimSource[PoolNameT, SpaceT, Claim_co, Address_co]) -> None:
        self._source = source
        self.claim_kind = source.claim_kind
        """The full name of the kind of claims."""
        self.address_kind = source.address_kind
        """The full name of the kind of IPAddresses."""

    def has_kind_of(self, holder: Holder) -> bool:
        """Return whether a holder is of this source's kind of claims, or kind of IPAddresses."""
        return holder.kind in (self.claim_kind, self.address_kind)

    def find_facts(self, pool: PoolNameT, holder: Holder, space: SpaceT) -> Facts | None:
        """Return the facts of a holder for a pool, from the caches.

        Args:
            holder: a claim, or an IPAddress without a claim.
            space: what the pool may hand out.

        Returns:
            None if the holder neither holds an address of the pool nor waits for one.
        """
        source = self._source
        if holder.kind == self.claim_kind:
            claim, addresses = (
                source.claims.get(holder.key),
                source.list_addresses_of_claim(holder.key),
            )
            return source.compute_facts(pool, space, claim=claim, addresses=addresses)
        address = source.addresses.get(holder.key)
        # If the IPAddress belongs to a claim by now, the claim is the holder instead of it.
        if address is None or source.fields.find_claim_of_address(address) is not None:
            return source.compute_facts(pool, space, claim=None, addresses=[])
        return source.compute_facts(pool, space, claim=None, addresses=[address])

    def check_readable(self, pool: PoolNameT) -> None:
        """Raise if undecodable objects in the caches may hold addresses of a pool.

        Raises:
            UnreadableHolders: an undecodable object may hold an address of the pool.
        """
        check_caches_readable(self._source, pool)

    def has_read(self, wait: CacheWait, pool: PoolNameT, journal: Journal) -> bool:
        """Return whether both caches have read up to a journal's revisions.

        Args:
            wait: how long passes wait for caches that lag.

        Raises:
            Behind: a cache lags, and the pass waits for it before it sends LISTs.
        """
        # Each cache is waited for by itself, so a wait is named by kind and pool.
        claims_wait, addresses_wait = (
            (kind, pool) for kind in (self.claim_kind, self.address_kind)
        )
        revisions, source = journal.revisions, self._source
        return wait.has_read(
            source.claims, revisions.get(self.claim_kind, 0), claims_wait
        ) and wait.has_read(source.addresses, revisions.get(self.address_kind, 0), addresses_wait)

    def make_view(
        self, holdings: Holdings, noted_revisions: Mapping[Identity, int]
    ) -> ClaimSpaceView[Claim_co, Address_co]:
        """Return the claims as the caches show them now.

        Args:
            holdings: of the pool, of all kinds.
            noted_revisions: the resourceVersions of IPAddresses that earlier passes noted, by
                promise.
        """
        source = self._source
        return ClaimSpaceView(
            source.claims.position,
            holdings,
            find=find_by_key(self.claim_kind, source.claims.get),
            list_addresses_of_claim=source.list_addresses_of_claim,
            unreadable=source.claims.unreadable.keys(),
            effects=CreatedEffects(
                self.address_kind,
                source.addresses.position,
                find=self.find_address_revision,
                known=noted_revisions,
            ),
        )

    def find_address_revision(self, promise: Promise) -> int | None:
        """Return the resourceVersion of a promise's IPAddress; None if the cache has none."""
        return _find_address_revision(self._source, self._source.list_addresses_of_claim, promise)

    def count_addresses(self, pool: PoolNameT) -> int:
        """Return how many IPAddresses name a pool, as the cache shows it."""
        return len(self._source.addresses.list_by_index(SPACE_INDEX, str(pool)))

    async def list_objects(
        self, client: Client, pool: PoolNameT
    ) -> _ListedSource[PoolNameT, SpaceT, Claim_co, Address_co]:
        """Return the claims that may be a pool's, and their IPAddresses, by LISTs.

        Raises:
            UnreadableHolders: objects that may hold addresses of the pool cannot be decoded.
            ControllerError: a LIST failed.
        """
        return await _list_source(client, self._source, pool)

    def list_holders(self, pool: PoolNameT, space: SpaceT) -> Iterator[Holder]:
        """Yield the holders of a pool that the caches show; a holder may come twice."""
        for source in self.list_holder_sources():
            yield from source.list_holders(pool, space)

    def list_holder_sources(self) -> Sequence[HolderSource[PoolNameT, SpaceT]]:
        """Return claims, IPAddresses and the objects that pause claims, as sources of holdings."""
        return _make_holder_sources(self._source)


def _make_holder_sources(
    source: ClaimSource[PoolNameT, SpaceT, ClaimT, AddressT],
) -> Sequence[HolderSource[PoolNameT, SpaceT]]:
    """Return the sources of holdings: claims, IPAddresses, and the objects that pause claims."""

    def list_claims(pool: PoolNameT, _: SpaceT) -> Iterable[ClaimT]:
        """Return the cached claims that name a pool."""
        return source.claims.list_by_index(SPACE_INDEX, str(pool))

    return (
        CachedSource(
            source.claims,
            list_claims,
            pools=source.list_pools_of_claim,
            holder=lambda claim, _: make_claim_holder(source, claim),
        ),
        CachedSource(
            source.addresses,
            source.list_addresses_of_pool,
            pools=source.list_pools_of_address,
            holder=lambda address, _: make_address_holder(source, address),
        ),
        *source.list_pause_sources(),
    )


def _find_address_revision(
    source: ClaimSource[PoolNameT, SpaceT, ClaimT, AddressT],
    list_addresses_of_claim: Callable[[Key], Iterable[AddressT]],
    promise: Promise,
) -> int | None:
    """Return the resourceVersion of the IPAddress of a promise; None if it has no IPAddress.

    Args:
        list_addresses_of_claim: returns the IPAddresses that are for a claim.
    """
    address = source.find_address(list_addresses_of_claim(promise.key), promise)
    return None if address is None else address.metadata.revision


def find_facts(
    sources: Iterable[ReadSource[PoolNameT, SpaceT, Object, Object]],
    pool: PoolNameT,
    holder: Holder,
    space: SpaceT,
) -> Facts | None:
    """Return the facts of a holder for a pool, from the caches of the holder's kind.

    Returns:
        None if the holder neither holds an address of the pool nor waits for one, or if no source
        has its kind.
    """
    for source in sources:
        if source.has_kind_of(holder):
            return source.find_facts(pool, holder, space)
    return None
