"""The views of integrations, for commands and pages.

A *picture* is a pool with the holder of each address. A *trouble* is something that is wrong. A
*plan* says for each request in manifests which address it gets.
"""

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
"""Returns whether the user wants to see a pool."""


def want_every_pool(_: PoolName) -> bool:
    """Return True for every pool."""
    return True


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that is wrong with one object.

    Args:
        kind: a CamelCase word that does not change between versions.
        subject: the kind of the object.
        key: namespace and name of the object.
        sentence: what is wrong, and its consequence.
        seen: the object as it was read; None if it could not be decoded.
        removable: whether the deletion of the object is a way to correct the trouble.
        since: the time at which the trouble began; None if unknown.
    """

    kind: str
    severity: Severity
    subject: str
    key: Key
    sentence: str
    seen: Object | None = None
    removable: bool = False
    since: datetime | None = None


def list_unreadable_troubles(unreadable: Mapping[tuple[str, Key], str]) -> Iterator[Trouble]:
    """Yield one trouble per object that could not be decoded.

    Args:
        unreadable: the reasons, by kind and key.
    """
    for (kind, key), reason in unreadable.items():
        yield Trouble(
            UNREADABLE, "error", subject=kind, key=key, sentence=f"cannot be read: {reason}"
        )


def list_overlap_troubles(spaces: SpaceIndex) -> Iterator[Trouble]:
    """Yield a trouble for each pool whose addresses other pools hand out, too.

    NetworkPools are left out: their own audit reports overlaps.

    Args:
        spaces: the addresses that pools of all kinds hand out.
    """
    for pool in sorted(spaces.list_names()):
        for offer in spaces.get_offers(pool) if pool.kind != NETWORK_POOL.kind else ():
            if sentence := describe_overlaps(spaces, [offer]):
                where = f"datacenter {offer.part}: " if offer.part else ""
                # A PoolName is kind and key: the subject of the trouble.
                yield Trouble(POOLS_OVERLAP, "warning", *pool, f"{where}{sentence}")


def describe_overlaps(spaces: SpaceIndex, offers: Sequence[PoolOffer]) -> str:
    """Return a sentence about the pools that overlap with a pool; empty if no pool does.

    Args:
        offers: the addresses that the pool hands out.
    """
    sentence = spaces.find_sharing(offers).sentence
    if not sentence:
        return ""
    limit = "" if spaces.is_complete else "; pools that were not read were not compared"
    return f"{sentence}: well for separate sites, a slip otherwise{limit}"


@dataclass(frozen=True, slots=True)
class Planned:
    """The outcome of a request in manifests, once the controllers of `plan` have run.

    Args:
        group: the API group of the request.
        kind: the kind of the request.
        key: namespace and name of the request.
        pool: the pool that it names, as `Kind namespace/name`.
        gets: its address; empty if it gets none.
        reason: why it gets no address; empty if it gets one.
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
        pictures: the pictures of pools, ordered by kind, namespace and name. NetworkPools have
            their pictures elsewhere.
        troubles: what is wrong.
        holders: by NetworkPool, the addresses that requests other than IPAllocations hold, and
            such requests that wait.
        not_read: the kinds that the user may not read, in all namespaces or in all but one.
        spaces: the addresses that pools of all kinds hand out, NetworkPools included.
        unreadable: by NetworkPool, the objects that may hold its addresses and cannot be decoded,
            IPAllocations excepted.
    """

    pictures: Sequence[PoolPicture] = ()
    troubles: Sequence[Trouble] = ()
    holders: Mapping[Key, PoolHolders] = field(default_factory=dict)
    not_read: Sequence[NotRead] = ()
    spaces: SpaceIndex = field(default_factory=SpaceIndex)
    unreadable: Mapping[Key, Sequence[UnreadableObject]] = field(default_factory=dict)

    def select_namespaces(self, namespaces: Collection[str]) -> "Views":
        """Return these views with only the pictures, troubles and holders of some namespaces.

        The other fields stay as they are.

        Args:
            namespaces: the namespaces to keep; the empty name keeps cluster-scoped objects.
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
        """By NetworkPool, the ranges that requests other than IPAllocations hold."""
        return {
            key: [entry.range for entry in holders.held_addresses]
            for key, holders in self.holders.items()
        }


def merge_views(parts: Iterable[Views]) -> Views:
    """Return the views of several platforms as one, in the order of the platforms.

    At most one platform has holders of a NetworkPool, so no entry is overwritten. The offers of
    pools (`spaces`) stay empty; the caller adds them.

    Args:
        parts: the views of each platform.
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
"""The columns of a plan: heading, and the text for an outcome; None for an empty cell."""
