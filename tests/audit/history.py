"""When each version of the objects of one kind was in force, as lists and a watch prove it.

No answer of a server says when something was written. But what a list shows was written before its
answer came; what is newer than it was not written when it was asked for; and what an event of a
watch reports was written before the event came. So a version was in force without doubt in one
interval (`certain`), and cannot have been in force outside another (`possible`), both by the clock
of who asked. The more often is asked, the closer the two are.

This holds however late an event comes. A watch that was cut makes no interval wrong either: a
version that was not seen is missing, and `certain` reaches no further than a list confirmed it.
Resource versions are compared within one kind of one server, which must not lose its history.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from controller.meta import Key

V = TypeVar("V")


class Interval(NamedTuple):
    """A stretch of time, in seconds of the observer's clock."""

    begin: float
    end: float

    def overlap(self, other: "Interval") -> "Interval | None":
        """Return the time that both have in common; None if there is none."""
        interval = Interval(max(self.begin, other.begin), min(self.end, other.end))
        return interval if interval.begin < interval.end else None


@dataclass(frozen=True, slots=True)
class Stay(Generic[V]):
    """One version of one object.

    Args:
        key: of the object.
        uid: of the object.
        value: what was remembered of it.
        possible: outside of it the version was not in force.
        certain: within it the version was in force; None if there is no such time.
    """

    key: Key
    uid: str
    value: V
    possible: Interval
    certain: Interval | None


class Sighting(NamedTuple, Generic[V]):
    """One version of one object, as a list or an event shows it."""

    key: Key
    uid: str
    revision: int
    value: V


class _Read(NamedTuple):
    """A list: when it was asked for and answered, and the resourceVersion of the answer."""

    began: float
    ended: float
    revision: int


@dataclass(slots=True)
class _Version(Generic[V]):
    """What is known of one version: by when it was there, and when it still was."""

    value: V
    there_by: float = math.inf
    still_at: float = -math.inf


@dataclass(slots=True)
class _Object(Generic[V]):
    """What is known of one object, its versions by resourceVersion."""

    key: Key
    versions: dict[int, _Version[V]] = field(default_factory=dict)
    gone_by: float = math.inf

    def version(self, revision: int, value: V) -> _Version[V]:
        return self.versions.setdefault(revision, _Version(value))


class History(Generic[V]):
    """What was seen of one kind on one server."""

    def __init__(self) -> None:
        self._objects: dict[str, _Object[V]] = {}
        self._alive: set[str] = set()
        self._reads: list[_Read] = []

    @property
    def reads(self) -> int:
        """How many lists there were."""
        return len(self._reads)

    @property
    def longest_silence(self) -> float:
        """The most seconds from asking for a list to asking for the next one."""
        return max((b.began - a.began for a, b in pairwise(self._reads)), default=math.inf)

    def next_look(self, moment: float) -> float:
        """Return when the first list after a moment was asked for; infinity if none was."""
        at = bisect_left(self._reads, moment, key=_began)
        return self._reads[at].began if at < len(self._reads) else math.inf

    def ends(self) -> Iterator[tuple[V, Interval]]:
        """Yield of each object that is gone its last version, and in which time it went."""
        for known in self._objects.values():
            if known.gone_by < math.inf:
                last = known.versions[max(known.versions)]
                still_at = max(version.still_at for version in known.versions.values())
                still_at = max(still_at, self._not_before(max(known.versions)))
                yield last.value, Interval(still_at, known.gone_by)

    def event(self, arrived: float, seen: Sighting[V]) -> None:
        """Take in that a watch has shown a version at a time."""
        version = self._object(seen).version(seen.revision, seen.value)
        version.there_by = min(version.there_by, arrived)

    def deletion(self, arrived: float, uid: str) -> None:
        """Take in that a watch has shown at a time that an object is gone."""
        if uid in self._objects:
            self._end(uid, arrived)

    def note_list(
        self, began: float, ended: float, revision: int, items: Iterable[Sighting[V]]
    ) -> None:
        """Take in a list of everything; one list after the other, and each as of then.

        Args:
            began: when it was asked for.
            ended: when its answer had come.
            revision: its resourceVersion.
            items: what it showed.
        """
        self._reads.append(_Read(began, ended, revision))
        listed = set()
        for seen in items:
            listed.add(seen.uid)
            version = self._object(seen).version(seen.revision, seen.value)
            version.there_by = min(version.there_by, ended)
            version.still_at = max(version.still_at, began)
        for uid in self._alive - listed:
            # One that an event has shown meanwhile may be younger than the list.
            if min(self._objects[uid].versions) <= revision:
                self._end(uid, ended)

    def _object(self, seen: Sighting[V]) -> _Object[V]:
        if seen.uid not in self._objects:
            self._alive.add(seen.uid)
        return self._objects.setdefault(seen.uid, _Object(seen.key))

    def _end(self, uid: str, at: float) -> None:
        self._alive.discard(uid)
        known = self._objects[uid]
        known.gone_by = min(known.gone_by, at)

    def stays(self) -> Iterator[Stay[V]]:
        """Yield every version that was seen of every object, in order for each object."""
        for uid, known in self._objects.items():
            revisions = sorted(known.versions)
            for revision, following in zip(revisions, [*revisions[1:], None], strict=True):
                version = known.versions[revision]
                end = known.gone_by if following is None else self._there_by(known, following)
                began = self._there_by(known, revision)
                certain = Interval(began, min(version.still_at, end))
                yield Stay(
                    known.key,
                    uid,
                    value=version.value,
                    possible=Interval(self._not_before(revision), end),
                    certain=certain if certain.begin < certain.end else None,
                )

    def _there_by(self, known: _Object[V], revision: int) -> float:
        """Return when a version was there at the latest: seen itself, or what is younger."""
        at = bisect_left(self._reads, revision, key=_revision)
        listed = self._reads[at].ended if at < len(self._reads) else math.inf
        return min(known.versions[revision].there_by, listed)

    def _not_before(self, revision: int) -> float:
        """Return when a version was not there yet."""
        at = bisect_left(self._reads, revision, key=_revision)
        return self._reads[at - 1].began if at else -math.inf


def _began(read: _Read) -> float:
    return read.began


def _revision(read: _Read) -> int:
    return read.revision
