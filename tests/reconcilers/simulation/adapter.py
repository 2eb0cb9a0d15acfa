"""The interface through which chaos, laws and scenes read and change the pools of one kind.

An adapter says how the objects of a kind are created, edited and read. Chaos (chaos.py), laws
(laws.py) and stage (stage.py) know no kind: they know adapters. An adapter adds the laws and the
disturbances that only its kind has.
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
from reconcilers.networkpool.statusjournal import compute_seal
from reconcilers.promises import journal
from reconcilers.promises.journal import ANNOTATION, AnnotatedJournal
from tests.reconcilers.simulation.model import Json, ModelServer
from tests.reconcilers.simulation.plans import Plan
from tests.reconcilers.simulation.replica import Process, World
from tests.reconcilers.simulation.wire import Flight

Address = tuple[str, IPv4Address | IPv6Address]
"""The name of a space, and an address in it: two spaces may have equal addresses."""
Disturbance = Callable[[], object]
"""Does something that people or failures do to the objects."""

NAMES = ("a", "b", "c", "d")
"""The names of the requests of a storm."""
FIRST = "10.0.0."
"""The beginning of all addresses; SPANS has the last parts."""
SPANS = {"p": (0, 2), "q": (16, 17)}
"""The last parts of the first and last address of each pool. Disturbances hit p only."""


class Promise(NamedTuple):
    """What a pool has promised.

    Args:
        uid: of the request.
        version: the resourceVersion of the request: at another one the promise is over.
        addresses: the promised addresses.
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
    """The place where pools of a kind keep their journal. A pool without memory has no journal."""

    @abstractmethod
    def read_promises(self, pool: Json) -> Sequence[StoredPromise]:
        """Return the open promises in the journal of a pool."""

    @abstractmethod
    def make_removal(self) -> Json:
        """Return the patch that removes a pool's journal."""

    @abstractmethod
    def make_truncation(self, pool: Json) -> Json:
        """Return the patch that removes the promises from a pool's journal, and nothing else."""

    @abstractmethod
    def make_empty_journal(self, pool: Json, revision: int) -> Json:
        """Return the patch that gives a pool a journal without promises.

        Args:
            pool: as it is stored.
            revision: up to which the journal says that requests were read.
        """

    @abstractmethod
    def make_copy(self, pool: Json) -> Json | None:
        """Return the patch that gives another pool this pool's journal; None if it has none."""


class AnnotationMemory(Memory):
    """The journal is an annotation of the pool."""

    @override
    def read_promises(self, pool: Json) -> Sequence[StoredPromise]:
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
            for promise in AnnotatedJournal("").read(decode_metadata(pool)).promises
        ]

    @override
    def make_removal(self) -> Json:
        return {"metadata": {"annotations": {ANNOTATION: None}}}

    @override
    def make_truncation(self, pool: Json) -> Json:
        stored = msgspec.json.decode(pool["metadata"]["annotations"][ANNOTATION])
        stored_text = msgspec.json.encode({**stored, "promises": []}).decode()
        return {"metadata": {"annotations": {ANNOTATION: stored_text}}}

    @override
    def make_empty_journal(self, pool: Json, revision: int) -> Json:
        # The stored journal does not name the kinds.
        journals = AnnotatedJournal("requests", effects="effects")
        return dict(journals.patch(decode_metadata(pool), journals.with_revision(revision)))

    @override
    def make_copy(self, pool: Json) -> Json | None:
        journal_text = (pool["metadata"].get("annotations") or {}).get(ANNOTATION)
        return {"metadata": {"annotations": {ANNOTATION: journal_text}}} if journal_text else None


def seal_annotation(fields: Json) -> str:
    """Return the text of a journal in an annotation, with the checksum of its fields."""
    stored = msgspec.convert(fields, journal._Stored)
    return msgspec.json.encode(stored.with_checksum()).decode()


def decode_metadata(pool: Json) -> MetadataOnly:
    """Return the metadata of a stored pool, for a journal that is an annotation."""
    return MetadataOnly(msgspec.convert(pool["metadata"], ObjectMeta))


class StatusMemory(Memory):
    """The journal is a part of the pool's status."""

    @override
    def read_promises(self, pool: Json) -> Sequence[StoredPromise]:
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
    def make_removal(self) -> Json:
        return {"status": None}

    @override
    def make_truncation(self, pool: Json) -> Json:
        return {"status": {"assignments": None}}

    @override
    def make_empty_journal(self, pool: Json, revision: int) -> Json:
        revisions = {IP_ALLOCATION.full_name: str(revision)}
        journal_of = compute_seal(pool["metadata"]["uid"], revisions, ())
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
        is_block: whether the addresses have to be consecutive.
    """

    choice: frozenset[Address]
    count: int = 1
    is_block: bool = False

    def can_be_met(self, taken_addresses: frozenset[Address]) -> bool:
        """Return whether the need can be met while `taken_addresses` are in use."""
        free = self.choice - taken_addresses
        if not self.is_block:
            return len(free) >= self.count
        length = 0
        for space, address in sort_addresses(self.choice):
            length = length + 1 if (space, address) in free else 0
            if length >= self.count:
                return True
        return False


class Figure(Enum):
    """A figure in the status of a pool; the value is its word in a verdict."""

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
        plan: which disturbances happen how often.
    """

    pools: ClassVar[str]
    """The plural of the pools."""
    requests: ClassVar[tuple[str, ...]]
    """The plurals of the objects that get promised addresses, and show them."""
    resets: ClassVar[Mapping[str, Json]]
    """By plural of the requests: the patch by which a person wipes the addresses of a request."""
    memories: ClassVar[tuple[Memory, ...]] = (AnnotationMemory(),)
    finalizers: ClassVar[Mapping[str, str]] = {}
    """By plural: the finalizer without which a pool promises, or a request gets, nothing."""
    pool_numbers: ClassVar[tuple[int, ...]] = (0,)
    """The numbers of the reconcilers of a replica that promise addresses of a pool."""

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
    def create_request(self, name: str, count: int = 1, since: str = "") -> None:
        """Create a request for pool p with the finalizer that it needs to be served.

        Args:
            name: of the request.
            count: how many addresses it asks for, if requests of this kind say so.
            since: the RFC 3339 time of the first request, if requests of this kind record it.
        """

    @abstractmethod
    def find_request(self, name: str) -> Json | None:
        """Return the object that shows the addresses of a request; None if it does not exist."""

    @abstractmethod
    def is_grant(self, flight: Flight, name: str) -> bool:
        """Return whether a request on its way writes promised addresses to the request `name`."""

    @abstractmethod
    def make_replica(self, world: World) -> Process:
        """Return a process that serves the pools; it has read nothing yet."""

    def make_replica_without_integration(self, world: World) -> Process:
        """Return a process whose integration is switched off; it has read nothing yet."""
        raise NotImplementedError(f"{type(self).__name__} is not played with `switches`")

    def pick_name(self, plural: str) -> str | None:
        """Return the name of a random object of a kind, None if there is none."""
        names = [name for kind, name in sorted(self.model.objects) if kind == plural]
        return self.random.choice(names) if names else None

    def pick_pool(self) -> str:
        """Return the name of the pool that a new request names: p or, less often, q."""
        return "q" if self.random.random() < self.plan.others else "p"

    # Disturbances.

    @abstractmethod
    def act_as_user(self) -> None:
        """Let a user create or delete a request."""

    def list_disturbances(self) -> Mapping[str, Sequence[Disturbance]]:
        """Return the disturbances of this kind alone, by the field of Plan that allows them."""
        return {}

    def prepare_calm(self) -> None:
        """Make every request servable before the calm, the undisturbed last phase of a run.

        Create missing pools. Adapters that override this also undo their own disturbances that
        keep requests waiting.
        """
        for name in SPANS:
            self.make_pool(name)

    # Addresses, promises and figures.

    @abstractmethod
    def list_shown(self, request: Json) -> frozenset[Address]:
        """Return the addresses that a request shows to its user."""

    @abstractmethod
    def list_offered(self, request: Json) -> frozenset[Address]:
        """Return the addresses that the pool of a request hands out."""

    @abstractmethod
    def list_unserved(self) -> Iterator[tuple[str, list[Need]]]:
        """Yield the requests that a pool should serve by now: their names, and their needs."""

    def read_figures(self, pool: Json) -> Iterator[Figures]:
        """Yield the figures in the status of a pool; none if its kind has no status."""
        del pool
        yield from ()

    def name_space(self, pool: Json, name: str) -> str:
        """Return the name in Address of a space of a pool, from its name in the journal."""
        del pool, name
        return ""

    def read_promises(self, pool: Json) -> Iterator[Promise]:
        """Yield the promises in the journals of a pool."""
        for memory in self.memories:
            for promise in memory.read_promises(pool):
                yield Promise(
                    promise.uid,
                    promise.version,
                    frozenset(
                        (self.name_space(pool, space), address)
                        for space, first, last in promise.ranges
                        for address in expand_range(first, last)
                    ),
                )

    def list_taken(self) -> frozenset[Address]:
        """Return the addresses that no waiting request can get."""
        return frozenset(
            address
            for plural in self.requests
            for request in self.model.list_objects(plural)
            for address in self.list_shown(request)
        )

    def describe_request(self, request: Json) -> str:
        """Return the name of a request for a verdict."""
        return str(request["metadata"]["name"])

    def is_released(self, plural: str, old: Json, new: Json) -> bool:
        """Return whether a request shows fewer addresses because it has released them."""
        del old
        meta, finalizer = new["metadata"], self.finalizers.get(plural)
        return "deletionTimestamp" in meta and finalizer not in meta.get("finalizers", ())

    # Further laws.

    def note_change(self, plural: str, old: Json | None, new: Json | None) -> None:
        """Remember what the laws of this kind need to know about a change, whoever made it."""
        return

    def find_violations(self, plural: str, old: Json | None, new: Json | None) -> Iterator[str]:
        """Yield the violations of this kind's own laws by a change of an object."""
        del plural, old, new
        yield from ()

    def find_unfinished_work(self) -> str | None:
        """Return work of this kind that is not done at rest; None if all is done."""
        return None


def expand_range(first: str, last: str) -> Iterator[IPv4Address | IPv6Address]:
    """Yield the addresses of a range from its first and last address."""
    start, end = ip_address(first), ip_address(last)
    return (type(start)(number) for number in range(int(start), int(end) + 1))


def list_span_addresses(pool: str) -> frozenset[Address]:
    """Return the addresses of a pool in SPANS."""
    first, last = SPANS[pool]
    return frozenset(
        ("", address) for address in expand_range(f"{FIRST}{first}", f"{FIRST}{last}")
    )


def sort_addresses(addresses: Iterable[Address]) -> list[Address]:
    """Return addresses sorted by space, family and number."""
    return sorted(addresses, key=lambda pair: (pair[0], pair[1].version, int(pair[1])))


def join_addresses(addresses: Iterable[Address]) -> str:
    """Return addresses as one text for a verdict."""
    return ", ".join(str(address) for _, address in sort_addresses(addresses))
