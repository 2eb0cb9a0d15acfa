"""Promises and journals, where journals are stored, and the journal as an annotation of a pool.

A *promise* names a request at one resourceVersion, and the ranges that it will get. A *journal*
has the open promises of a pool, and a *revision* of each kind of requests: the resourceVersion up
to which a reader must have read that kind before it allocates. A kind with a revision has a
*memory* in the pool. A journal is *lost* if it is absent or cannot be trusted. Then a *fence*
voids earlier promises before anything is allocated (fence.py). The *effects* of a kind are the
objects of another kind that are created when a promise is kept: the IPAddress of a claim.

The journal of a kind that is not ours is an annotation, not a part of the status. The definitions
of those kinds belong to other projects, and drop fields that they do not declare. An annotation
leaves the generation of the pool alone. It is written with the pool's resourceVersion as
precondition, as every promise has to be. Annotations may have 256 KiB: MOST_RANGES keeps the
journal below half of that with names of ordinary length, and below 256 KiB with the longest names.

`clusterctl move`, backups and copied manifests copy an annotation to other objects, in whose
cluster its resourceVersions mean nothing. So the journal names the uid of its pool. A
journal with another uid counts as lost, and a pool without journal is fenced before it allocates.
The same goes for tools that replace all annotations: a lost journal costs a fence, nothing else.
A journal carries a checksum of its revisions and promises. A journal that was edited, truncated
or written in part by something else does not match it, and counts as lost too: what the missing
part promised may still be written. An earlier journal that is put back as a whole is not noticed.

Rejected: an object of our own for each pool (two objects cannot be written with one precondition,
and its deletion would have to follow the pool's), and promises in the requests (a request does not
serialise the writers of its pool).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from allocator import AddressRange
from controller.meta import Key, Object, parse_revision
from reconcilers.addressing import addresstexts
from reconcilers.api import names
from reconcilers.promises.identities import Holder

ANNOTATION = names.ANNOTATION_PROMISES
MOST_RANGES = 400
"""The most ranges that the open promises of one annotation may have together."""


Identity = tuple[str, str]
"""The uid and resourceVersion of a promise."""


class PromisedRange(NamedTuple):
    """A range that is promised or held.

    Args:
        range: the addresses.
        space: the name of the space that allocates them, for a pool with several; else empty.
    """

    range: AddressRange
    space: str = ""


@dataclass(frozen=True, slots=True)
class Promise:
    """Ranges for one request, at exactly one of its versions.

    Args:
        kind: the kind of the request, by its full name.
        key: namespace and name of the request.
        uid: the uid of the request.
        resourceVersion: the version of the request that was read when the ranges were chosen; a
            number.
        ranges: at least one range. All are written to the request together.
        choice: how the ranges were chosen, in words; empty if that is not recorded.
    """

    kind: str
    key: Key
    uid: str
    resourceVersion: str
    ranges: tuple[PromisedRange, ...]
    choice: str = ""
    holder: Holder = field(init=False, repr=False, compare=False)
    """The request, whichever version it has."""

    def __post_init__(self) -> None:
        # Each pass asks for the holder several times, so it is built once. The class is frozen.
        object.__setattr__(self, "holder", Holder(self.kind, self.key))

    @property
    def identity(self) -> Identity:
        """The uid and resourceVersion: a request has at most one promise for each version."""
        return self.uid, self.resourceVersion

    @property
    def revision(self) -> int:
        """The resourceVersion as a number."""
        return int(self.resourceVersion)

    def list_ranges_in_space(self, space: str = "") -> tuple[AddressRange, ...]:
        """Return the promised ranges of one space.

        Args:
            space: the name of the space; empty for a pool without named spaces.
        """
        return tuple(part.range for part in self.ranges if part.space == space)


NO_REVISIONS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Journal:
    """The open promises of a pool, and how far a reader must have read its requests.

    Args:
        revisions: by request kind, the highest resourceVersion of the requests that settled
            earlier promises, and of the objects that were created for these promises. A replica
            allocates only after it has read that far. A kind without revision has no memory:
            nothing may be allocated before a fence.
        promises: the promises that may still take effect.
    """

    revisions: Mapping[str, int] = field(default_factory=lambda: NO_REVISIONS)
    promises: tuple[Promise, ...] = ()

    def with_promises(self, promises: Sequence[Promise]) -> "Journal":
        """Return the journal with further promises."""
        return Journal(self.revisions, (*self.promises, *promises))

    def apply_fence(self, kind: str, revisions: Mapping[str, int]) -> "Journal":
        """Return the journal after a fence of one kind, without promises to that kind.

        The promises and revisions of other kinds stay.

        Args:
            kind: the kind of requests whose earlier promises were voided.
            revisions: the new revisions of that kind, and of the kind of its effects.
        """
        promises_to_others = tuple(promise for promise in self.promises if promise.kind != kind)
        return Journal({**self.revisions, **revisions}, promises_to_others)

    @property
    def range_count(self) -> int:
        """How many ranges are promised."""
        return sum(len(promise.ranges) for promise in self.promises)


def list_ranges(promises: Iterable[Promise]) -> Iterator[AddressRange]:
    """Yield all ranges of these promises."""
    return (part.range for promise in promises for part in promise.ranges)


def parse_promise(
    kind: str,
    key: Key,
    uid: str,
    resource_version: str,
    spans: Sequence[tuple[str, str, str]],
) -> Promise | None:
    """Return a promise as it was stored; None if an edit by hand made it unusable.

    Args:
        kind: the kind of the request, by its full name.
        key: namespace and name of the request.
        uid: the uid of the request.
        resource_version: the resourceVersion of the request.
        spans: first address, last address and space of each range.
    """
    if parse_revision(resource_version) is None or not spans:
        return None
    ranges = []
    for start, end, space in spans:
        parsed_range = addresstexts.parse_ends(start, end)
        if parsed_range is None:
            return None  # the other ranges alone are not what was promised
        ranges.append(PromisedRange(parsed_range, space))
    return Promise(kind, key, uid=uid, resourceVersion=resource_version, ranges=tuple(ranges))


def compute_checksum(*parts: object) -> str:
    """Return a checksum of values that JSON can express: 16 hexadecimal digits.

    It reveals accidental changes. It does not protect against a person who recomputes it.
    """
    return blake2b(msgspec.json.encode(parts), digest_size=8).hexdigest()


PoolT_contra = TypeVar("PoolT_contra", bound=Object, contravariant=True)


class JournalStore(Protocol[PoolT_contra]):
    """Reads and writes the journals of pools of one kind."""

    @property
    def subresource(self) -> str:
        """The subresource of the pool that is patched; empty for the pool itself."""
        ...

    def read(self, pool: PoolT_contra) -> Journal:
        """Return the journal of a pool; an empty one if it is lost.

        The journal is lost if the pool has none, or if it was written for another uid. It is also
        lost if it does not match its checksum, or if a promise in it cannot be parsed. Promises of
        a lost journal may still be written, and only a fence voids them.
        """
        ...

    def patch(self, pool: PoolT_contra, journal: Journal) -> Mapping[str, Any]:
        """Return the JSON merge patch that writes the journal of a pool.

        Args:
            pool: the pool as it is stored. The patch removes the entries of its earlier journal.
            journal: the journal to write.
        """
        ...

    def is_stored(self, answer: PoolT_contra, journal: Journal) -> bool:
        """Return whether the API server stored a journal as it was written.

        A CustomResourceDefinition without the fields, an admission webhook or a policy may change
        the journal. Then other replicas do not know of the promises, so none may be kept.

        Args:
            answer: the pool, as the API server answered the write.
            journal: the journal as it was sent.
        """
        ...

    def count_room(self, journal: Journal) -> int:
        """Return how many further promises, or ranges of promises, a journal has room for.

        The kind of the store decides whether promises or ranges are counted.
        """
        ...


class _StoredRange(msgspec.Struct, array_like=True, omit_defaults=True):
    """A promised range as the annotation has it: an array of up to three texts."""

    start: str
    end: str
    space: str = ""


class _StoredPromise(msgspec.Struct, array_like=True, omit_defaults=True):
    """A promise as the annotation has it: an array, because field names would double its size."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    ranges: list[_StoredRange]
    kind: str = ""
    """The full name of the kind of the request, unless that is the first kind of the store."""


class _Stored(msgspec.Struct, omit_defaults=True):
    """A journal as the annotation has it."""

    uid: str
    """Of the pool that the journal was written for."""
    revision: str
    """The revision of the first request kind of the store; empty for no memory."""
    promises: list[_StoredPromise] = []
    effects: str = ""
    """The revision of the effects of the first kind, "0" included; empty if it has no effects."""
    others: dict[str, str] = {}
    """The revisions of further request kinds and of their effects, by full name."""
    checksum: str = ""
    """Of all other fields."""

    @property
    def is_intact(self) -> bool:
        """Whether the fields are as they were when the checksum was computed."""
        return self.checksum == self._compute_checksum()

    def with_checksum(self) -> "_Stored":
        """Return the same journal with its checksum."""
        return replace(self, checksum=self._compute_checksum())

    def _compute_checksum(self) -> str:
        """Return the checksum of all fields but `checksum`."""
        others = sorted(self.others.items())
        return compute_checksum(self.uid, self.revision, self.effects, self.promises, others)


_decoder = msgspec.json.Decoder(_Stored)


@dataclass(frozen=True, slots=True)
class AnnotatedJournal:
    """Reads and writes journals that are an annotation of their pool.

    Args:
        kind: the first kind of the requests, by its full name; most such pools have one.
        has_spaces: whether a promise is of ranges of one named space of the pool; if not, it is of
            one range.
        effects: the kind of the objects that are created for promises beside the request, by its
            full name; empty for none. The journal has a revision of it as well. A journal that
            lacks it has no memory: these objects may hold addresses although their requests are
            gone.
        others: further kinds of requests that such a pool has, each with the kind of its effects,
            by full names.
    """

    kind: str
    has_spaces: bool = False
    effects: str = ""
    others: tuple[tuple[str, str], ...] = ()

    @property
    def subresource(self) -> str:
        """The subresource of the pool that is patched: none, for an annotation."""
        return ""

    def read(self, pool: Object) -> Journal:
        """Return the journal of a pool; an empty one if it is lost.

        A journal that only lacks the revision of the effects keeps its promises.
        """
        meta = pool.metadata
        annotation = meta.annotations.get(ANNOTATION)
        if not annotation:  # never written, or wiped
            return Journal()
        try:
            stored = _decoder.decode(annotation)
        except ValueError:  # edited by hand: as if it were wiped
            return Journal()
        revisions = self._parse_revisions(stored)
        # Another uid: the annotation was copied from another pool.
        if stored.uid != meta.uid or revisions is None or not stored.is_intact:
            return Journal()
        promises = []
        for stored_promise in stored.promises:
            promise = self._parse(stored_promise)
            if promise is None:  # this promise may still be written, and only a fence voids it
                return Journal()
            promises.append(promise)
        return Journal(revisions, tuple(promises))

    def _parse_revisions(self, stored: _Stored) -> dict[str, int] | None:
        """Return the stored revisions by full name of a kind; None if an edit made them unusable.

        A pool with several kinds of requests is fenced for one kind after the other. So the
        revision of the first kind may be empty, but only in such a pool.
        """
        revision = parse_revision(stored.revision)
        # Not a number, or empty in a pool with one kind of requests.
        if revision is None and (stored.revision or not self.others):
            return None
        revisions = {} if revision is None else {self.kind: revision}
        effects_revision = parse_revision(stored.effects)
        # Without it the journal has no memory, but its promises stay (`has_memory`).
        if self.effects and effects_revision is not None:
            revisions[self.effects] = effects_revision
        other_names = {name for names_of_kind in self.others for name in names_of_kind if name}
        for name, number in stored.others.items():
            other_revision = parse_revision(number)
            if name not in other_names or other_revision is None:
                return None
            revisions[name] = other_revision
        return revisions

    def has_memory(self, journal: Journal) -> bool:
        """Return whether a journal has a revision of every kind that a reader has to read."""
        pairs = ((self.kind, self.effects), *self.others)
        return all(kind in journal.revisions for pair in pairs for kind in pair if kind)

    def with_revision(
        self, revision: int, promises: Sequence[Promise] = (), effects: int = 0
    ) -> Journal:
        """Return a journal with revisions of the first kind and of its effects, and promises.

        Args:
            revision: the revision of the first kind of requests.
            promises: the promises to requests of that kind.
            effects: the revision of the objects that are created for promises; ignored if the kind
                has no effects.
        """
        effects_revisions = {self.effects: effects} if self.effects else {}
        return Journal({self.kind: revision, **effects_revisions}, tuple(promises))

    def patch(self, pool: Object, journal: Journal) -> Mapping[str, Any]:
        """Return the JSON merge patch that writes the journal of a pool.

        Args:
            journal: it must have a revision of the first kind of requests. Only in a pool with
                several kinds that kind may lack it, because each kind has a fence of its own.
        """
        return {
            "metadata": {"annotations": {ANNOTATION: self._encode(pool.metadata.uid, journal)}}
        }

    def is_stored(self, answer: Object, journal: Journal) -> bool:
        """Return whether the API server stored a journal as it was written."""
        stored = answer.metadata.annotations.get(ANNOTATION)
        return stored == self._encode(answer.metadata.uid, journal)

    def count_room(self, journal: Journal) -> int:
        """Return how many further ranges may be promised."""
        return MOST_RANGES - journal.range_count

    def _encode(self, uid: str, journal: Journal) -> str:
        """Return the text of the annotation for a journal of the pool with this uid."""
        promises = [
            _StoredPromise(
                promise.key.namespace,
                promise.key.name,
                uid=promise.uid,
                resource_version=promise.resourceVersion,
                ranges=[
                    _StoredRange(part.range.start_text, part.range.end_text, part.space)
                    for part in promise.ranges
                ],
                kind="" if promise.kind == self.kind else promise.kind,
            )
            for promise in journal.promises
        ]
        other_revisions = {name: str(revision) for name, revision in journal.revisions.items()}
        first_revision = other_revisions.pop(self.kind, "")
        effects_revision = other_revisions.pop(self.effects, "")
        assert first_revision or self.others, "the first write is a fence, which gives a revision"
        stored = _Stored(
            uid,
            first_revision,
            promises=promises,
            effects=effects_revision,
            others=other_revisions,
        )
        return msgspec.json.encode(stored.with_checksum()).decode()

    def _parse(self, stored: _StoredPromise) -> Promise | None:
        """Return a promise as it was stored; None if an edit by hand made it unusable."""
        spaces = [part.space for part in stored.ranges]
        # No pass writes a promise of several spaces, or of several ranges without space.
        is_usable = (
            len(set(spaces)) == 1 and "" not in spaces if self.has_spaces else spaces == [""]
        )
        if not is_usable:
            return None
        kind = stored.kind or self.kind
        if kind not in {self.kind, *(other_kind for other_kind, _ in self.others)}:
            return None  # a promise of another kind could not be kept, settled or voided here
        key = Key(stored.namespace, stored.name)
        spans = [(part.start, part.end, part.space) for part in stored.ranges]
        return parse_promise(
            kind, key, uid=stored.uid, resource_version=stored.resource_version, spans=spans
        )
