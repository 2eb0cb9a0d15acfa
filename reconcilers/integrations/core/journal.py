"""The journal of a space: open promises, and the version up to which caches must be read.

It is an annotation of the object that serialises, not a part of its status: the definitions of
those kinds are other projects', which keep no field that they do not know, and an annotation is
the only place that every kind has. It is written with the object's resourceVersion as
precondition, as every promise has to be, leaves the generation alone, and is no change of the
spec. Annotations may have 256 KiB; what may be open at once is limited to half of that with names
of ordinary length, and stays below it with the longest.

An annotation travels: `clusterctl move`, backups and copied manifests carry it to other objects,
where the numbers are of another history. So the journal names the uid of its object; a journal of
another uid is none, and an object without one hands out nothing until it is fenced. The same goes
for tools that replace objects with all annotations: losing the journal costs a fence, nothing
else.

Rejected: an object of our own for each pool (two objects cannot be written at once, and its
deletion would have to be tied to the pool's), and promises in the claims (a claim is no
serialisation point for the pool).
"""

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from functools import lru_cache
from typing import Any

import msgspec

from allocator import AddressRange, AllocatorError
from controller.meta import Key, ObjectMeta
from reconcilers.api import names

ANNOTATION = names.ANNOTATION_PROMISES
MOST_PROMISES = 400
"""As many promises are open at once at most."""


@dataclass(frozen=True, slots=True)
class Promise:
    """An address range for one request, at exactly one of its versions.

    Args:
        namespace: of the request.
        name: of the request.
        uid: of the request.
        resourceVersion: of the request as it was read when the choice was made.
        startAddress: the first address.
        endAddress: the last one.
        part: of an object whose parts hand out by themselves, which; else empty.
    """

    namespace: str
    name: str
    uid: str
    resourceVersion: str
    startAddress: str
    endAddress: str
    part: str = ""

    @property
    def key(self) -> Key:
        """Namespace and name of the request."""
        return Key(self.namespace, self.name)

    @property
    def identity(self) -> tuple[str, str]:
        """The uid and version: one request at one version is promised one range."""
        return self.uid, self.resourceVersion

    @property
    def version(self) -> int | None:
        """The version as a number; None if a manual edit made it something else."""
        return int(self.resourceVersion) if self.resourceVersion.isdecimal() else None

    @property
    def range(self) -> AddressRange | None:
        """The promised range; None if a manual edit made it something else."""
        return _parsed(self.startAddress, self.endAddress)


@lru_cache(maxsize=16_384)
def _parsed(start: str, end: str) -> AddressRange | None:
    try:
        return AddressRange.parse(start, end)
    except AllocatorError:
        return None


@dataclass(frozen=True, slots=True)
class Journal:
    """What an object remembers of the addresses that were handed out by it.

    Args:
        revision: the highest resourceVersion of the requests that settled earlier promises:
            a replica that hands out has to have read so far. None without memory: nothing may be
            handed out.
        promises: those that may still take effect.
    """

    revision: int | None = None
    promises: tuple[Promise, ...] = ()


class _Stored(msgspec.Struct):
    uid: str
    revision: str
    promises: list[tuple[str, ...]] = []
    """The fields of each promise in their order, without names, which would be half of it.

    The part is left out where it is empty.
    """


_LENGTHS = {6, 7}
_decoder = msgspec.json.Decoder(_Stored)


def journal_of(meta: ObjectMeta) -> Journal:
    """Return the journal of an object; one without memory if it has none of its own."""
    text = meta.annotations.get(ANNOTATION)
    if not text:
        return Journal()
    try:
        stored = _decoder.decode(text)
    except ValueError:  # edited by hand: as if it were wiped
        return Journal()
    if stored.uid != meta.uid or not stored.revision.isdecimal():
        return Journal()
    if any(len(one) not in _LENGTHS for one in stored.promises):
        return Journal()
    return Journal(int(stored.revision), tuple(Promise(*one) for one in stored.promises))


def journal_patch(meta: ObjectMeta, journal: Journal) -> Mapping[str, Any]:
    """Return the JSON merge patch that writes the journal of an object."""
    promises = [astuple(one) if one.part else astuple(one)[:-1] for one in journal.promises]
    stored = _Stored(meta.uid, str(journal.revision or 0), promises)
    text = msgspec.json.encode(stored).decode()
    return {"metadata": {"annotations": {ANNOTATION: text}}}
