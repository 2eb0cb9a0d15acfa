"""Metadata, identity and versions of Kubernetes objects.

Objects are frozen dataclasses or Structs. Their fields have the API's camelCase names, so that a
decoder can fill them from bytes without a mapping, and code has the names that `kubectl -o yaml`
prints. They are decoded once, shared and never changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from sys import intern
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, Self

import msgspec
from msgspec.structs import force_setattr
from typing_extensions import override

_EMPTY: Mapping[str, str] = MappingProxyType({})
_set_field = object.__setattr__


def intern_fields(obj: object, *fields: str) -> None:
    """Replace texts in fields of an object by the one copy that all objects share.

    For `__post_init__` of frozen dataclasses and Structs that are cached by the thousand. A
    decoder makes a copy of a namespace or a phase for each object, and such copies take most of
    an object's memory.

    Args:
        obj: the new object.
        fields: the names of the fields; each holds a text or None.
    """
    for name in fields:
        value = getattr(obj, name)
        if not value:
            continue  # None, or the empty text, which Python shares by itself
        if isinstance(obj, msgspec.Struct):
            force_setattr(obj, name, intern(value))
        else:
            _set_field(obj, name, intern(value))


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
        controller: whether it is the controlling owner; None, if the field is missing, means no.
        blockOwnerDeletion: whether foreground deletion of the owner waits for the object; None,
            if the field is missing, means no.
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
        resourceVersion: the version by the last change; ordered within one kind.
        generation: incremented when the spec changes.
        creationTimestamp: when the object was created.
        deletionTimestamp: when its deletion was requested; None if no one requested it.
        labels: values that selectors can select by.
        annotations: values that selectors cannot select by.
        finalizers: a requested deletion waits until this is empty.
        ownerReferences: the owners; the object is deleted when none of them exists any more.
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
        intern_fields(self, "namespace")  # thousands of objects have the same few of these texts
        if self.finalizers:
            _set_field(self, "finalizers", tuple(map(intern, self.finalizers)))
        # Cached objects are shared: an attempt to change their labels must raise. A copy of an
        # object has such a read-only mapping already.
        if type(self.labels) is dict:
            labels = {intern(name): intern(value) for name, value in self.labels.items()}
            _set_field(self, "labels", MappingProxyType(labels))
        if type(self.annotations) is dict:
            annotations = {intern(name): value for name, value in self.annotations.items()}
            _set_field(self, "annotations", MappingProxyType(annotations))

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
    def is_terminating(self) -> bool:
        """Whether the object is being deleted."""
        return self.deletionTimestamp is not None


def parse_revision(revision: str) -> int | None:
    """Return a text that may be a resourceVersion as a number; None if it cannot be one.

    A person may have edited the text. The API server counts with 64 bits, so a text of more than
    20 digits is no resourceVersion; `int` raises ValueError for 4,300 digits and more.
    """
    is_number = len(revision) <= _MOST_DIGITS and revision.isascii() and revision.isdecimal()
    return int(revision) if is_number else None


_MOST_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Writer:
    """One entry of `metadata.managedFields`: the last write of one manager, not its fields.

    Args:
        manager: the name of the manager.
        subresource: the subresource that was written; empty for the object itself.
        time: when that write last changed anything, RFC 3339; text, because few readers need it.
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
    """Anything with metadata: the framework requires no more of a kind's type."""

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""
        ...


@dataclass(frozen=True, slots=True)
class MetadataOnly:
    """The metadata of an object of any kind; other fields are neither requested nor kept.

    For controllers that need only names, labels, owners or finalizers. With this as the type of a
    Resource, informers ask the API server for PartialObjectMetadata.

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

    It takes more memory than a class with a few fields, because it keeps all fields. All readers
    of a cache share `body`: never change it.

    Args:
        metadata: the metadata, as of every object.
        body: the whole object as decoded JSON: `obj.body["spec"]["replicas"]`.
    """

    metadata: ObjectMeta
    body: Mapping[str, Any]
