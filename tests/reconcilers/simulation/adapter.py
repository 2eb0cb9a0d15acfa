"""What chaos, laws and scenes ask about the pools of one kind.

An adapter says how the objects of a kind are created, edited and read. Chaos (chaos.py), laws
(laws.py) and stage (stage.py) know no kind: they know adapters. An adapter adds the laws and the
events that only its kind has.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address, IPv6Address, ip_address
from random import Random
from typing import ClassVar, NamedTuple

import msgspec
from typing_extensions import override

from controller.meta import MetadataOnly, ObjectMeta
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.networkpool.statusjournal import seal
from reconcilers.promises import journal
from reconcilers.promises.journal import ANNOTATION, AnnotatedJournal
from tests.reconcilers.simulation.model import Json, ModelServer
from tests.reconcilers.simulation.plans import Plan
from tests.reconcilers.simulation.replica import Process, World
from tests.reconcilers.simulation.wire import Flight

Address = tuple[str, IPv4Address | IPv6Address]
"""The name of a space, and an address in it: two spaces may have equal addresses."""
Event = Callable[[], object]

NAMES = ("a", "b", "c", "d")
"""The requests of a storm."""
FIRST = "10.0.0."
SPANS = {"p": (0, 2), "q": (16, 17)}
"""The pools: p, which is harmed, and the smaller q; and the last parts of their addresses."""


class Promise(NamedTuple):
    """What a pool has promised.

    Args:
        uid: of the request.
        version: the resourceVersion of the request: at another one the promise is over.
        addresses: what is promised.
    """

    uid: str
    version: str
    addresses: frozenset[Address]


class StoredPromise(NamedTuple):
    """A promise as the server stores it.

    Args:
        uid: of the request.
        version: the resourceVersion of the request.
        ranges: the name of the space, first and last address.
    """

    uid: str
    version: str
    ranges: tuple[tuple[str, str, str], ...]


class Memory(ABC):
    """Where pools of a kind keep their journal."""

    @abstractmethod
    def promises(self, pool: Json) -> Sequence[StoredPromise]:
        """Return the open promises of a pool."""

    @abstractmethod
    def forgotten(self) -> Json:
        """Return the patch by which a pool loses its journal."""

    @abstractmethod
    def make_truncation(self, pool: Json) -> Json:
        """Return the patch by which a pool loses its promises alone, of its journal."""

    @abstractmethod
    def of_history(self, pool: Json, revision: int) -> Json:
        """Return the patch by which a pool has read up to a revision, and promised nothing."""

    @abstractmethod
    def make_copy(self, pool: Json) -> Json | None:
        """Return the patch by which another pool has this pool's journal; None if it has none."""


class AnnotationMemory(Memory):
    """The journal is an annotation of the pool."""

    @override
    def promises(self, pool: Json) -> Sequence[StoredPromise]:
        if ANNOTATION not in (pool["metadata"].get("annotations") or {}):
            return ()
        return [
            StoredPromise(
                promise.uid,
                promise.resourceVersion,
                tuple(
                    (part.space, part.range.start_text, part.range.end_text)
                    for part in promise.ranges
                ),
            )
            for promise in AnnotatedJournal("").read(_with_metadata(pool)).promises
        ]

    @override
    def forgotten(self) -> Json:
        return {"metadata": {"annotations": {ANNOTATION: None}}}

    @override
    def make_truncation(self, pool: Json) -> Json:
        stored = msgspec.json.decode(pool["metadata"]["annotations"][ANNOTATION])
        stored_text = msgspec.json.encode({**stored, "promises": []}).decode()
        return {"metadata": {"annotations": {ANNOTATION: stored_text}}}

    @override
    def of_history(self, pool: Json, revision: int) -> Json:
        # The stored journal does not name the kinds.
        journals = AnnotatedJournal("requests", effects="effects")
        return dict(journals.patch(_with_metadata(pool), journals.with_revision(revision)))

    @override
    def make_copy(self, pool: Json) -> Json | None:
        journal_text = (pool["metadata"].get("annotations") or {}).get(ANNOTATION)
        return {"metadata": {"annotations": {ANNOTATION: journal_text}}} if journal_text else None


def seal_annotation(fields: Json) -> str:
    """Return the text of a journal in an annotation, with the checksum of its fields."""
    stored = msgspec.convert(fields, journal._Stored)
    return msgspec.json.encode(stored.with_checksum()).decode()


def _with_metadata(pool: Json) -> MetadataOnly:
    """Return a pool for a journal that is an annotation."""
    return MetadataOnly(msgspec.convert(pool["metadata"], ObjectMeta))


class StatusMemory(Memory):
    """The journal is a part of the pool's status."""

    @override
    def promises(self, pool: Json) -> Sequence[StoredPromise]:
        stored: list[Json] = (pool.get("status") or {}).get("assignments") or []
        return [
            StoredPromise(
                promise["uid"],
                promise["resourceVersion"],
                tuple(
                    ("", promise[start], promise[end])
                    for start, end in _STORED_RANGES
                    if promise.get(start)
                ),
            )
            for promise in stored
        ]

    @override
    def forgotten(self) -> Json:
        return {"status": None}

    @override
    def make_truncation(self, pool: Json) -> Json:
        return {"status": {"assignments": None}}

    @override
    def of_history(self, pool: Json, revision: int) -> Json:
        revisions = {IP_ALLOCATION.full_name: str(revision)}
        journal_of = seal(pool["metadata"]["uid"], revisions, ())
        return {"status": {"revisions": revisions, "journalOf": journal_of, "assignments": None}}

    @override
    def make_copy(self, pool: Json) -> Json | None:
        return {"status": pool["status"]} if pool.get("status") else None


_STORED_RANGES = (
    ("startAddress", "endAddress"),
    ("secondaryStartAddress", "secondaryEndAddress"),
)


@dataclass(frozen=True)
class Need:
    """Addresses that a request still lacks.

    Args:
        choice: the addresses that it may get.
        count: how many of them it lacks.
        is_block: whether they have to be one block.
    """

    choice: frozenset[Address]
    count: int = 1
    is_block: bool = False

    def fits(self, addresses: frozenset[Address]) -> bool:
        """Return whether enough addresses are free."""
        free = self.choice - addresses
        if not self.is_block:
            return len(free) >= self.count
        length = 0
        for space, address in in_order(self.choice):
            length = length + 1 if (space, address) in free else 0
            if length >= self.count:
                return True
        return False


class Figure(Enum):
    """What a figure in the status of a pool counts; the value is its word in a verdict."""

    TOTAL = "total"
    """Addresses that the pool hands out."""
    USED = "used"
    """Addresses of these that an object shows."""
    FREE = "free"
    """Addresses of these that no object shows."""
    LARGEST = "largest free block"
    """The length of the longest run of free addresses."""
    PERCENT = "percent used"
    """Used of total, rounded down."""
    HOLDERS = "holders"
    """Requests that show an address of the pool."""


class Figures(NamedTuple):
    """Figures that the status of a pool shows.

    Args:
        addresses: the addresses that the figures count; not empty.
        counts: the figures; None where the status lacks one.
        holders: the plurals of the requests that HOLDERS counts.
    """

    addresses: frozenset[Address]
    counts: Mapping[Figure, int | None]
    holders: Sequence[str] = ()


class Adapter(ABC):
    """The pools of one kind, and the requests for their addresses.

    Args:
        model: the API server.
        rnd: decides what users and chaos do.
        plan: what is thrown at the replicas.
    """

    pools: ClassVar[str]
    """The plural of the pools."""
    requests: ClassVar[tuple[str, ...]]
    """The plurals of the objects that are written when a promise is kept: these show addresses."""
    resets: ClassVar[Mapping[str, Json]]
    """By plural of the requests: the patch by which a person wipes what a request shows."""
    memories: ClassVar[tuple[Memory, ...]] = (AnnotationMemory(),)
    finalizers: ClassVar[Mapping[str, str]] = {}
    """By plural: the finalizer without which a pool promises, or a request gets, nothing."""
    pool_numbers: ClassVar[tuple[int, ...]] = (0,)
    """Which reconcilers of a replica hand out of a pool."""

    def __init__(self, model: ModelServer, rnd: Random, plan: Plan) -> None:
        self.model = model
        self.random = rnd
        self.plan = plan
        self.is_abandoned = False
        """Whether no process has the integration, so that another controller may do its work."""

    # Objects.

    @abstractmethod
    def make_pool(self, name: str) -> None:
        """Create a pool of the addresses in SPANS, unless it exists."""

    @abstractmethod
    def ask(self, name: str, count: int = 1, since: str = "") -> None:
        """Create a request of that name for pool p that may be served.

        Args:
            name: of the request.
            count: how many addresses it asks for, where requests say that.
            since: when it was first asked for, where requests say that.
        """

    @abstractmethod
    def request_of(self, name: str) -> Json | None:
        """Return the request that shows what `ask` asked for, None if it is not there."""

    @abstractmethod
    def gives(self, flight: Flight, name: str) -> bool:
        """Return whether a write of ours keeps a promise to a request."""

    @abstractmethod
    def make_replica(self, world: World) -> Process:
        """Return a process that serves the pools; it has read nothing yet."""

    def make_replica_without_integration(self, world: World) -> Process:
        """Return a process whose integration is switched off; it has read nothing yet."""
        raise NotImplementedError(f"{type(self).__name__} is not played with `switches`")

    def pick(self, plural: str) -> str | None:
        """Return the name of an object of a kind, None if there is none."""
        names = [name for kind, name in sorted(self.model.objects) if kind == plural]
        return self.random.choice(names) if names else None

    def pick_pool(self) -> str:
        """Return the pool that a new request asks."""
        return "q" if self.random.random() < self.plan.others else "p"

    # What happens.

    @abstractmethod
    def use(self) -> None:
        """Let a user create or delete a request."""

    def events(self) -> Mapping[str, Sequence[Event]]:
        """Return the events of this kind alone, by the field of Plan that asks for it."""
        return {}

    def prepare_calm(self) -> None:
        """Create the pools that are missing, and end what keeps requests waiting."""
        for name in SPANS:
            self.make_pool(name)

    # What is shown.

    @abstractmethod
    def addresses(self, request: Json) -> frozenset[Address]:
        """Return the addresses that a request shows to its user."""

    @abstractmethod
    def list_offered(self, request: Json) -> frozenset[Address]:
        """Return the addresses that the pool of a request hands out."""

    @abstractmethod
    def waiting(self) -> Iterator[tuple[str, list[Need]]]:
        """Yield the requests that a pool should serve: their names, and what they lack."""

    def figures(self, pool: Json) -> Iterator[Figures]:
        """Yield the figures in the status of a pool; none if its kind has no status."""
        del pool
        yield from ()

    def space_of(self, pool: Json, name: str) -> str:
        """Return the space of an address that a pool promised in its space of that name."""
        del pool, name
        return ""

    def promises(self, pool: Json) -> Iterator[Promise]:
        """Yield the promises of a pool."""
        for memory in self.memories:
            for promise in memory.promises(pool):
                yield Promise(
                    promise.uid,
                    promise.version,
                    frozenset(
                        (self.space_of(pool, space), address)
                        for space, first, last in promise.ranges
                        for address in addresses_between(first, last)
                    ),
                )

    def list_taken(self) -> frozenset[Address]:
        """Return the addresses that a waiting request cannot get."""
        return frozenset(
            address
            for plural in self.requests
            for request in self.model.of(plural)
            for address in self.addresses(request)
        )

    def full_name(self, request: Json) -> str:
        """Return the name of a request in verdicts."""
        return str(request["metadata"]["name"])

    def is_released(self, plural: str, old: Json, new: Json) -> bool:
        """Return whether a request shows fewer addresses because it has released them."""
        del old
        meta, finalizer = new["metadata"], self.finalizers.get(plural)
        return "deletionTimestamp" in meta and finalizer not in meta.get("finalizers", ())

    # Further laws.

    def note_change(self, plural: str, old: Json | None, new: Json | None) -> None:
        """Remember what the laws of this kind have to know of a change, whoever made it."""
        return

    def crimes(self, plural: str, old: Json | None, new: Json | None) -> Iterator[str]:
        """Yield the violations of a change, by the laws of this kind alone."""
        del plural, old, new
        yield from ()

    def undone(self) -> str | None:
        """Return the work of this kind that is not done at rest; None if there is none."""
        return None


def addresses_between(first: str, last: str) -> Iterator[IPv4Address | IPv6Address]:
    """Yield the addresses of a range."""
    start, end = ip_address(first), ip_address(last)
    return (type(start)(number) for number in range(int(start), int(end) + 1))


def span_addresses(pool: str) -> frozenset[Address]:
    """Return the addresses of a pool in SPANS."""
    first, last = SPANS[pool]
    return frozenset(
        ("", address) for address in addresses_between(f"{FIRST}{first}", f"{FIRST}{last}")
    )


def in_order(addresses: Iterable[Address]) -> list[Address]:
    """Return addresses by space, family and number."""
    return sorted(addresses, key=lambda pair: (pair[0], pair[1].version, int(pair[1])))


def texts(addresses: Iterable[Address]) -> str:
    """Return addresses for a verdict."""
    return ", ".join(str(address) for _, address in in_order(addresses))
