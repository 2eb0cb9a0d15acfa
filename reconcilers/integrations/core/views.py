"""What an integration shows of its pools to people: how full, who holds what, what is wrong.

The command line prints these, and knows nothing else of an integration's kinds.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, TypeVar

from allocator import AddressRange
from controller.meta import Key, Object
from reconcilers.addressing import statusranges
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.core.scopedlists import NotRead
from reconcilers.promises.unreadable import UnreadableObject
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.offers import Offer, PoolName

Severity = Literal["error", "warning"]
ContentsT = TypeVar("ContentsT")
"""A pool of some kind with what is held of it."""


HOST_BITS = "HostBits"
"""Kind of the trouble that a CIDR of a pool has host bits set."""
POOLS_OVERLAP = "PoolsOverlap"
"""Kind of the trouble that other pools hand out the same addresses."""


UNREADABLE = "Unreadable"
"""Kind of the trouble that an object cannot be decoded."""


Wanted = Callable[[PoolName], bool]
"""Returns whether a pool is wanted."""


def every_pool(_: PoolName) -> bool:
    """Return True for every pool."""
    return True


@dataclass(frozen=True, slots=True)
class Stretch:
    """Addresses of a pool that are in one state.

    Args:
        range: the addresses.
        state: held, promised, resting, outside, shared, free or unknown.
        holders: who holds them, as `Kind namespace/name`.
    """

    range: AddressRange
    state: str
    holders: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return it for programs."""
        start, end = self.range.start_text, self.range.end_text
        return {"start": start, "end": end, "state": self.state, "holders": [*self.holders]}


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """A pool in numbers.

    Args:
        labels: its names, in the order of the metrics' labels.
        total: how many addresses, or prefixes, it may hand out.
        used: how many of them are in use.
        free: how many it can hand out now.
        outside: how many are in use that it may not hand out.
        waiting: how many wait for some.
        oldest: for how many seconds the oldest of these has waited.
        is_known: False if objects that cannot be decoded may hold more: more may be in use, and
            less free.
    """

    labels: tuple[str, ...]
    total: int
    used: int
    free: int
    outside: int
    waiting: int
    oldest: float
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool, in what it hands out: addresses, or prefixes of one length.

    Args:
        group: of the pool's kind.
        kind: of the pool.
        key: its namespace and name.
        offers: what its spec lists.
        total: how many it may hand out.
        used: how many objects hold something of it, or, where one holds several, how many of
            those that it may hand out are held.
        free: how many may be handed out now.
        outside: how many are held that it may not hand out.
        waiting: how many requests have nothing yet.
        ready: True, False or Unknown: its Ready condition.
        reason: why.
        stretches: what is held and what is free, ascending.
        part: of a pool whose parts hand out by themselves, which; a datacenter of an IPAMPool.
        unreadable: the objects that may hold some of it and cannot be decoded: what is used and
            what is free of it is unknown then.
    """

    group: str
    kind: str
    key: Key
    offers: str
    total: int = 0
    used: int = 0
    free: int = 0
    outside: int = 0
    waiting: int = 0
    ready: str = "Unknown"
    reason: str = "not reconciled"
    stretches: Sequence[Stretch] = ()
    part: str = ""
    unreadable: Sequence[UnreadableObject] = ()

    @property
    def full_kind(self) -> str:
        """The kind and its group, in small letters, as `kubectl get -o name` prints them."""
        return f"{self.kind.lower()}.{self.group}"

    @property
    def pool(self) -> PoolName:
        """Which pool it is, or is a part of."""
        return PoolName(self.kind, self.key)

    @property
    def name(self) -> str:
        """What people call it: a pool of the whole cluster has no namespace."""
        whole = f"{self.key}" if self.key.namespace else self.key.name
        return f"{self.kind} {whole} in {self.part}" if self.part else f"{self.kind} {whole}"

    def at(self, addresses: AddressRange) -> list[Stretch]:
        """Return the stretches that have some of these addresses."""
        return [one for one in self.stretches if one.range.overlaps(addresses)]

    def document(self, *, ranges: bool = False) -> dict[str, Any]:
        """Return it for programs, with its ranges if wanted."""
        body: dict[str, Any] = {
            "kind": self.kind,
            "namespace": self.key.namespace,
            "name": self.key.name,
            "offers": self.offers,
            "total": self.total,
            "used": self.used,
            "free": self.free,
            "outOfRange": self.outside,
            "waiting": self.waiting,
            "ready": self.ready,
            "reason": self.reason,
        }
        if self.unreadable:
            body |= dict.fromkeys(("used", "free", "outOfRange", "waiting"))
            body["notRead"] = [str(one) for one in self.unreadable]
        if self.part:
            body["part"] = self.part
        if ranges:
            body["ranges"] = [one.document() for one in self.stretches]
        return body


def hide_unknown(view: PoolView, unreadable: Sequence[UnreadableObject]) -> PoolView:
    """Return what is shown of a pool of which objects that cannot be decoded may hold some.

    Nothing of it is called free.

    Args:
        view: the pool, by the objects that can be decoded.
        unreadable: the others that may hold some of it.
    """
    if not unreadable:
        return view
    stretches = [
        replace(stretch, state="unknown") if stretch.state == "free" else stretch
        for stretch in view.stretches
    ]
    return replace(view, stretches=stretches, unreadable=unreadable)


@dataclass(frozen=True, slots=True)
class Drawing:
    """A pool of another platform's kind as pictures take it: in the form of a NetworkPool.

    Args:
        view: the pool.
        pool: what it may hand out; its cidr is the smallest that has all of that.
        allocations: who holds some of it and who waits, in the form of IPAllocations.
        fault: why nothing of it can be drawn; empty if it can.
    """

    view: PoolView
    pool: NetworkPool
    allocations: Sequence[IPAllocation] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that is wrong.

    Args:
        kind: a CamelCase word that does not change between versions.
        severity: error or warning.
        subject: the kind of the object.
        key: its namespace and name.
        sentence: what is wrong, and what becomes of it.
        seen: the object as it was read; None if it could not be.
        removable: whether a person may want the object deleted for it.
        since: since when it is so; None if that is not known.
    """

    kind: str
    severity: Severity
    subject: str
    key: Key
    sentence: str
    seen: Object | None = None
    removable: bool = False
    since: datetime | None = None


def unreadable_troubles(unreadable: Mapping[tuple[str, Key], str]) -> Iterator[Trouble]:
    """Yield one trouble per object that could not be decoded.

    Args:
        unreadable: the reasons, by kind and key.
    """
    for (kind, key), reason in unreadable.items():
        yield Trouble(UNREADABLE, "error", kind, key, f"cannot be read: {reason}")


def overlap_troubles(spaces: SpaceIndex) -> Iterator[Trouble]:
    """Yield the pools, NetworkPools excepted, whose addresses other pools hand out, too.

    Args:
        spaces: what pools of all kinds hand out.
    """
    for pool in sorted(spaces.names()):
        for offer in spaces.offers(pool) if pool.kind != NETWORK_POOL.kind else ():
            if sentence := overlap_sentence(spaces, [offer]):
                where = f"datacenter {offer.part}: " if offer.part else ""
                yield Trouble(POOLS_OVERLAP, "warning", *pool, f"{where}{sentence}")


def overlap_sentence(spaces: SpaceIndex, offers: Sequence[Offer]) -> str:
    """Return which other pools hand out addresses of a pool, and whether that is right; or ''."""
    sentence = spaces.sharing(offers).sentence
    return f"{sentence}: well for separate sites, a slip otherwise" if sentence else ""


@dataclass(frozen=True, slots=True)
class Planned:
    """What became of a request among manifests.

    Args:
        group: of the request's kind.
        kind: of the request.
        key: its namespace and name.
        pool: that it names, as `Kind namespace/name`.
        gets: what it gets; empty for nothing.
        reason: why it gets nothing.
    """

    group: str
    kind: str
    key: Key
    pool: str
    gets: str
    reason: str

    @property
    def full_kind(self) -> str:
        """The kind and its group, in small letters, as `kubectl get -o name` prints them."""
        return f"{self.kind.lower()}.{self.group}"


@dataclass(frozen=True, slots=True)
class Views:
    """What integrations show.

    Args:
        pools: by kind, namespace and name, NetworkPools excepted.
        troubles: what is wrong.
        requests: what requests of other kinds hold of NetworkPools, and which wait, by pool, in
            the form of IPAllocations; their names begin with the kind, in small letters, and a
            slash.
        planned: what requests among manifests would get, if that was worked out.
        bodies: the manifests, with what they would get.
        drawings: the pools as pictures take them, NetworkPools excepted.
        not_read: what the user may not read: kinds, or kinds of other namespaces.
        spaces: what pools of all kinds hand out, NetworkPools included.
        unreadable: the objects of other kinds that may hold addresses of NetworkPools and cannot
            be decoded, by pool.
    """

    pools: Sequence[PoolView] = ()
    troubles: Sequence[Trouble] = ()
    requests: Mapping[Key, Sequence[IPAllocation]] = field(default_factory=dict)
    planned: Sequence[Planned] = ()
    bodies: Sequence[Mapping[str, Any]] = ()
    drawings: Sequence[Drawing] = ()
    not_read: Sequence[NotRead] = ()
    spaces: SpaceIndex = field(default_factory=SpaceIndex)
    unreadable: Mapping[Key, Sequence[UnreadableObject]] = field(default_factory=dict)

    def within(self, namespaces: Collection[str]) -> "Views":
        """Return what is shown of the pools and objects of some namespaces.

        Args:
            namespaces: which; an empty one is that of objects of the whole cluster.
        """
        return replace(
            self,
            pools=[pool for pool in self.pools if pool.key.namespace in namespaces],
            troubles=[trouble for trouble in self.troubles if trouble.key.namespace in namespaces],
            requests={
                key: requests
                for key, requests in self.requests.items()
                if key.namespace in namespaces
            },
            drawings=[
                drawing for drawing in self.drawings if drawing.view.key.namespace in namespaces
            ],
        )

    @property
    def held(self) -> Mapping[Key, Sequence[AddressRange]]:
        """What requests of other kinds hold of NetworkPools, by pool."""
        return {
            key: [held for request in requests for held in statusranges.list_held_ranges(request)]
            for key, requests in self.requests.items()
        }

    def at(self, addresses: AddressRange) -> list[tuple[PoolView, Stretch]]:
        """Return what pools, NetworkPools excepted, say of these addresses."""
        return [(pool, stretch) for pool in self.pools for stretch in pool.at(addresses)]


def views_of(
    contents: Iterable[ContentsT],
    now: datetime,
    view_of: Callable[[ContentsT, datetime], PoolView],
    drawing_of: Callable[[ContentsT, PoolView], Drawing],
) -> Views:
    """Return the views and drawings of pools of one kind; all other fields stay empty.

    Args:
        contents: the pools with their contents.
        now: the time.
        view_of: returns the PoolView of a pool at a time.
        drawing_of: returns its Drawing for the address map.
    """
    every = [(one, view_of(one, now)) for one in contents]
    return Views(
        [view for _, view in every], drawings=[drawing_of(one, view) for one, view in every]
    )


def merge_views(parts: Iterable[Views]) -> Views:
    """Merge what several platforms show, in their order; only one of them has holders of a pool.

    Args:
        parts: what each shows.
    """
    every = list(parts)
    return Views(
        [one for each in every for one in each.pools],
        [one for each in every for one in each.troubles],
        {key: requests for part in every for key, requests in part.requests.items()},
        [one for each in every for one in each.planned],
        [one for each in every for one in each.bodies],
        [one for each in every for one in each.drawings],
        [limit for part in every for limit in part.not_read],
        unreadable={key: held for part in every for key, held in part.unreadable.items()},
    )


POOL_COLUMNS: Sequence[tuple[str, Callable[[PoolView], str | int | None]]] = (
    ("KIND", lambda one: one.kind),
    ("NAMESPACE", lambda one: one.key.namespace or None),
    ("NAME", lambda one: f"{one.key.name} ({one.part})" if one.part else one.key.name),
    ("OFFERS", lambda one: one.offers),
    ("TOTAL", lambda one: one.total),
    ("USED", lambda one: "unknown" if one.unreadable else one.used),
    ("FREE", lambda one: "unknown" if one.unreadable else one.free),
    ("OUTSIDE", lambda one: "unknown" if one.unreadable else one.outside),
    ("WAITING", lambda one: "unknown" if one.unreadable else one.waiting),
    ("READY", lambda one: one.ready),
)
"""How pools are shown in a table: the headings, and what stands below them."""
PLAN_COLUMNS: Sequence[tuple[str, Callable[[Planned], str | int | None]]] = (
    ("REQUEST", lambda one: f"{one.kind} {one.key}"),
    ("POOL", lambda one: one.pool),
    ("GETS", lambda one: one.gets or None),
    ("WHY NOT", lambda one: one.reason or None),
)
"""How a plan is shown."""
