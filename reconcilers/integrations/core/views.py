"""What integrations show to people: pictures of their pools, what is wrong, what is planned."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from allocator import AddressRange
from controller.meta import Key, Object
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.core.scopedlists import NotRead
from reconcilers.pictures.poolpicture import PoolHolders, PoolPicture
from reconcilers.promises.unreadable import UnreadableObject
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.offers import PoolName, PoolOffer

Severity = Literal["error", "warning"]


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
        yield Trouble(
            UNREADABLE, "error", subject=kind, key=key, sentence=f"cannot be read: {reason}"
        )


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


def overlap_sentence(spaces: SpaceIndex, offers: Sequence[PoolOffer]) -> str:
    """Return a sentence about other pools that hand out addresses of a pool; empty without any."""
    sentence = spaces.sharing(offers).sentence
    if not sentence:
        return ""
    limit = "" if spaces.is_complete else "; pools that were not read were not compared"
    return f"{sentence}: well for separate sites, a slip otherwise{limit}"


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
        pictures: the pools by kind, namespace and name, NetworkPools excepted.
        troubles: what is wrong.
        holders: what requests of other kinds hold of NetworkPools, and which wait, by pool.
        not_read: what the user may not read: kinds, or kinds of other namespaces.
        spaces: what pools of all kinds hand out, NetworkPools included.
        unreadable: the objects of other kinds that may hold addresses of NetworkPools and cannot
            be decoded, by pool.
    """

    pictures: Sequence[PoolPicture] = ()
    troubles: Sequence[Trouble] = ()
    holders: Mapping[Key, PoolHolders] = field(default_factory=dict)
    not_read: Sequence[NotRead] = ()
    spaces: SpaceIndex = field(default_factory=SpaceIndex)
    unreadable: Mapping[Key, Sequence[UnreadableObject]] = field(default_factory=dict)

    def within(self, namespaces: Collection[str]) -> "Views":
        """Return the views of the pools and objects of some namespaces.

        Args:
            namespaces: which; an empty one is that of objects of the whole cluster.
        """
        return replace(
            self,
            pictures=[pool for pool in self.pictures if pool.name.key.namespace in namespaces],
            troubles=[trouble for trouble in self.troubles if trouble.key.namespace in namespaces],
            holders={
                key: holders
                for key, holders in self.holders.items()
                if key.namespace in namespaces
            },
        )

    @property
    def held(self) -> Mapping[Key, Sequence[AddressRange]]:
        """What requests of other kinds hold of NetworkPools, by pool."""
        return {
            key: [entry.range for entry in holders.held_addresses]
            for key, holders in self.holders.items()
        }


def merge_views(parts: Iterable[Views]) -> Views:
    """Merge what several platforms show, in their order; only one of them has holders of a pool.

    Args:
        parts: what each shows.
    """
    views = list(parts)
    return Views(
        [pool for part in views for pool in part.pictures],
        [trouble for part in views for trouble in part.troubles],
        holders={key: holders for part in views for key, holders in part.holders.items()},
        not_read=[limit for part in views for limit in part.not_read],
        unreadable={key: objects for part in views for key, objects in part.unreadable.items()},
    )


PLAN_COLUMNS: Sequence[tuple[str, Callable[[Planned], str | int | None]]] = (
    ("REQUEST", lambda planned: f"{planned.kind} {planned.key}"),
    ("POOL", lambda planned: planned.pool),
    ("GETS", lambda planned: planned.gets or None),
    ("WHY NOT", lambda planned: planned.reason or None),
)
"""How a plan is shown."""
