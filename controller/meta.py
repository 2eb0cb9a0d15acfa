"""Metadata, identity and versions of Kubernetes objects.

Objects are frozen dataclasses with slots. Their fields have the API's camelCase names, so that a
decoder can fill them from bytes without a mapping, and code has the names that `kubectl -o yaml`
prints. They are decoded once, shared and never changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from sys import intern
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, Self

from typing_extensions import override

_EMPTY: Mapping[str, str] = MappingProxyType({})
_set = object.__setattr__


def intern_fields(obj: object, *fields: str) -> None:
    """Replace texts of an object by the one copy that all objects with the same text share.

    For `__post_init__` of frozen dataclasses that are cached by the thousand: a decoder makes a
    copy of a namespace or a phase for each object, which is most of what the object takes.

    Args:
        obj: just made.
        fields: which hold a text, or None.
    """
    for name in fields:
        value = getattr(obj, name)
        if value:
            _set(obj, name, intern(value))


class Key(NamedTuple):
    """Namespace and name of an object; the namespace of a cluster-scoped object is empty."""

    namespace: str
    name: str

    @override
    def __str__(self) -> str:
        """Return `namespace/name`, or the name alone for a cluster-scoped object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class OwnerReference:
    """One entry of `metadata.ownerReferences`.

    Args:
        apiVersion: group and version of the owner's kind.
        kind: the owner's kind.
        name: the owner's name.
        uid: the owner's uid; an owner created again has another one.
        controller: whether it is the controlling owner; None where it does not say, for no.
        blockOwnerDeletion: whether foreground deletion of the owner waits for the object; None
            where it does not say, for no.
    """

    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    blockOwnerDeletion: bool | None = None


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """The fields of `metadata` that controllers read.

    managedFields is not decoded (see TracedMeta): it is most of an object's bytes.

    Args:
        name: unique within the namespace and kind.
        namespace: empty for cluster-scoped objects.
        uid: unique; an object created again has another one.
        resourceVersion: of the last change; ordered within one kind.
        generation: incremented when the spec changes.
        creationTimestamp: when the object was created.
        deletionTimestamp: when its deletion was requested; None if it was not.
        labels: can be selected by.
        annotations: cannot be selected by.
        finalizers: the object is deleted when this is empty.
        ownerReferences: the object is deleted with these.
    """

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0
    creationTimestamp: datetime | None = None
    deletionTimestamp: datetime | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    annotations: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    finalizers: tuple[str, ...] = ()
    ownerReferences: tuple[OwnerReference, ...] = ()

    def __post_init__(self) -> None:
        intern_fields(self, "namespace")
        if self.finalizers:
            _set(self, "finalizers", tuple(map(intern, self.finalizers)))
        # Cached objects are shared: an attempt to change their labels must raise.
        if type(self.labels) is dict:
            labels = {intern(name): intern(value) for name, value in self.labels.items()}
            _set(self, "labels", MappingProxyType(labels))
        if type(self.annotations) is dict:
            annotations = {intern(name): value for name, value in self.annotations.items()}
            _set(self, "annotations", MappingProxyType(annotations))

    @property
    def key(self) -> Key:
        """The namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def revision(self) -> int:
        """The resourceVersion as a number; 0 if there is none.

        Comparable within one kind only (KEP-5504: ordered within one group and resource).

        Raises:
            ValueError: the server's resourceVersion is no number.
        """
        return int(self.resourceVersion) if self.resourceVersion else 0

    @property
    def terminating(self) -> bool:
        """Whether the object is being deleted."""
        return self.deletionTimestamp is not None


def parse_revision(revision: str) -> int | None:
    """Return a resourceVersion that a person may have edited as a number; None if it is none.

    The API server counts with 64 bits, so text of more than 20 digits is no resourceVersion.
    `int` raises ValueError for 4,300 digits and more.
    """
    is_number = len(revision) <= _MOST_DIGITS and revision.isascii() and revision.isdecimal()
    return int(revision) if is_number else None


_MOST_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Writer:
    """One entry of `metadata.managedFields`: the last write of one manager, not its fields.

    Args:
        manager: its name.
        subresource: what was written; empty for the object itself.
        time: when that last changed anything, RFC 3339; text, as it is hardly ever looked at.
    """

    manager: str = ""
    subresource: str = ""
    time: str = ""

    def __post_init__(self) -> None:
        intern_fields(self, "manager", "subresource")


@dataclass(frozen=True, slots=True)
class TracedMeta(ObjectMeta):
    """Metadata with its writers, for kinds whose writers matter.

    Args:
        managedFields: who wrote, and when.
    """

    managedFields: tuple[Writer, ...] = ()


class Object(Protocol):
    """Anything with metadata; all that the framework requires of a kind's type."""

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""
        ...


@dataclass(frozen=True, slots=True)
class MetadataOnly:
    """An object of any kind, of which only the metadata is asked for, sent and kept.

    For controllers that need no more than names, labels, owners or finalizers: as the type of a
    Resource it makes informers ask the API server for PartialObjectMetadata.

    Args:
        metadata: the metadata, as of every object.
    """

    metadata: ObjectMeta


@dataclass(frozen=True, slots=True)
class Version:
    """One object at one resourceVersion: the precondition of a write.

    Args:
        namespace: empty for cluster-scoped objects.
        name: the object's name.
        uid: the object's uid.
        resourceVersion: the version that the object was read at.
    """

    namespace: str
    name: str
    uid: str
    resourceVersion: str

    @classmethod
    def from_object(cls, obj: Object) -> Self:
        """Return the version of `obj`."""
        meta = obj.metadata
        return cls(meta.namespace, meta.name, meta.uid, meta.resourceVersion)

    @property
    def key(self) -> Key:
        """The namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def revision(self) -> int:
        """The resourceVersion as a number; 0 if there is none.

        Raises:
            ValueError: the server's resourceVersion is no number.
        """
        return int(self.resourceVersion) if self.resourceVersion else 0


@dataclass(frozen=True, slots=True)
class Untyped:
    """An object of any kind; the `type` of a Resource whose fields are not known in advance.

    It costs more memory than a class that names the fields which are read, because everything is
    kept. What is in `body` is shared with all readers of a cache: never change it.

    Args:
        metadata: the metadata, as of every object.
        body: the whole object as decoded JSON: `obj.body["spec"]["replicas"]`.
    """

    metadata: ObjectMeta
    body: Mapping[str, Any]
