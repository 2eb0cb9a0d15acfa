"""The time for which each version of an object existed, as lists and a watch of its kind prove it.

No answer of a server has the time of a write. But an object in a LIST was written before the
answer came. A version newer than the LIST was written after its request was sent. And the object
of a watch event was written before the event came. So a version existed during one interval
(`certain`), and cannot have existed outside of another one (`possible`), by the clock of the
observer. The shorter the pauses between the lists are, the closer are the two intervals.

This holds however late an event comes, and if a watch is cut: then a version may be missing, and
`certain` ends with the last LIST that showed it. resourceVersions are compared within one kind of
one server, whose history must not be lost.
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
class RecordedVersion(Generic[V]):
    """One version of one object, and the time for which it existed.

    Args:
        key: of the object.
        uid: of the object.
        value: the recorded content of the version.
        possible: the version did not exist outside of this interval.
        certain: the version existed in all of this interval; None if there is no such interval.
    """

    key: Key
    uid: str
    value: V
    possible: Interval
    certain: Interval | None


class Observation(NamedTuple, Generic[V]):
    """One version of one object in a LIST or in an event of a watch."""

    key: Key
    uid: str
    revision: int
    value: V


class _ListCall(NamedTuple):
    """A LIST: the times of request and answer, and the resourceVersion of the answer."""

    began: float
    ended: float
    revision: int


@dataclass(slots=True)
class _Version(Generic[V]):
    """One version: a time by which it existed, and a later one at which it still existed."""

    value: V
    there_by: float = math.inf
    still_at: float = -math.inf


@dataclass(slots=True)
class _Object(Generic[V]):
    """One object: its versions by resourceVersion, and a time by which it was gone."""

    key: Key
    versions: dict[int, _Version[V]] = field(default_factory=dict)
    gone_by: float = math.inf

    def version(self, revision: int, value: V) -> _Version[V]:
        return self.versions.setdefault(revision, _Version(value))


class History(Generic[V]):
    """The observed versions of all objects of one kind on one server."""

    def __init__(self) -> None:
        self._objects: dict[str, _Object[V]] = {}
        self._alive: set[str] = set()
        self._list_calls: list[_ListCall] = []

    @property
    def list_count(self) -> int:
        """The number of lists."""
        return len(self._list_calls)

    @property
    def longest_gap_seconds(self) -> float:
        """The most seconds between the requests of two successive lists."""
        return max((b.began - a.began for a, b in pairwise(self._list_calls)), default=math.inf)

    def find_next_list(self, moment: float) -> float:
        """Return the time of the first request of a LIST after a moment; infinity if none."""
        at = bisect_left(self._list_calls, moment, key=_get_begin)
        return self._list_calls[at].began if at < len(self._list_calls) else math.inf

    def list_deletions(self) -> Iterator[tuple[V, Interval]]:
        """Yield the last version of each deleted object, and the interval of its deletion."""
        for known in self._objects.values():
            if known.gone_by < math.inf:
                last = known.versions[max(known.versions)]
                still_at = max(version.still_at for version in known.versions.values())
                still_at = max(still_at, self._find_earliest_begin(max(known.versions)))
                yield last.value, Interval(still_at, known.gone_by)

    def note_event(self, arrived: float, seen: Observation[V]) -> None:
        """Note that an event of the watch showed a version; `arrived` is the time of the event."""
        version = self._object(seen).version(seen.revision, seen.value)
        version.there_by = min(version.there_by, arrived)

    def note_deletion(self, arrived: float, uid: str) -> None:
        """Note that an event of the watch showed a deletion; `arrived` is its time."""
        if uid in self._objects:
            self._note_end(uid, arrived)

    def note_list(
        self, began: float, ended: float, revision: int, items: Iterable[Observation[V]]
    ) -> None:
        """Note a LIST of all objects; lists are noted in the order of requests.

        Args:
            began: the time of the request.
            ended: the time of the answer.
            revision: the resourceVersion of the answer.
            items: the objects in the answer.
        """
        self._list_calls.append(_ListCall(began, ended, revision))
        listed = set()
        for seen in items:
            listed.add(seen.uid)
            version = self._object(seen).version(seen.revision, seen.value)
            version.there_by = min(version.there_by, ended)
            version.still_at = max(version.still_at, began)
        for uid in self._alive - listed:
            # An object that an event has shown meanwhile may be newer than the LIST.
            if min(self._objects[uid].versions) <= revision:
                self._note_end(uid, ended)

    def _object(self, seen: Observation[V]) -> _Object[V]:
        if seen.uid not in self._objects:
            self._alive.add(seen.uid)
        return self._objects.setdefault(seen.uid, _Object(seen.key))

    def _note_end(self, uid: str, at: float) -> None:
        self._alive.discard(uid)
        known = self._objects[uid]
        known.gone_by = min(known.gone_by, at)

    def list_versions(self) -> Iterator[RecordedVersion[V]]:
        """Yield all observed versions of all objects; those of an object come in order."""
        for uid, known in self._objects.items():
            revisions = sorted(known.versions)
            for revision, following in zip(revisions, [*revisions[1:], None], strict=True):
                version = known.versions[revision]
                end = (
                    known.gone_by
                    if following is None
                    else self._find_latest_begin(known, following)
                )
                began = self._find_latest_begin(known, revision)
                certain = Interval(began, min(version.still_at, end))
                yield RecordedVersion(
                    known.key,
                    uid,
                    value=version.value,
                    possible=Interval(self._find_earliest_begin(revision), end),
                    certain=certain if certain.begin < certain.end else None,
                )

    def _find_latest_begin(self, known: _Object[V], revision: int) -> float:
        """Return the time by which a version existed, by events and lists."""
        at = bisect_left(self._list_calls, revision, key=_get_revision)
        listed = self._list_calls[at].ended if at < len(self._list_calls) else math.inf
        return min(known.versions[revision].there_by, listed)

    def _find_earliest_begin(self, revision: int) -> float:
        """Return the latest time at which a version did not exist yet, by the lists before it."""
        at = bisect_left(self._list_calls, revision, key=_get_revision)
        return self._list_calls[at - 1].began if at else -math.inf


def _get_begin(read: _ListCall) -> float:
    return read.began


def _get_revision(read: _ListCall) -> int:
    return read.revision
