"""What every Kubernetes object has: metadata, identity, owner references, conditions.

Objects are frozen dataclasses with slots whose fields carry the API's own camelCase names, so
that a decoder can fill them from bytes without a mapping in between and a reader sees the names
that `kubectl -o yaml` shows. They are decoded once, shared by everybody and never changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple, Protocol, Self

from typing_extensions import override

_NOTHING: Mapping[str, str] = MappingProxyType({})
_set = object.__setattr__


class Key(NamedTuple):
    """Which object: namespace and name. A cluster-scoped object has the empty namespace."""

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
        apiVersion: of the owner's kind.
        kind: the owner's.
        name: the owner's.
        uid: the owner's; another one is another owner.
        controller: whether it is the one that manages the object.
        blockOwnerDeletion: whether foreground deletion of the owner waits for the object.
    """

    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    blockOwnerDeletion: bool = False


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """The part of `metadata` that controllers read.

    managedFields is never built: it is most of an object's bytes.

    Args:
        name: unique in its namespace, for the kind.
        namespace: empty for cluster-scoped objects.
        uid: of this one object; a re-creation has another.
        resourceVersion: of its last change; ordered within one kind.
        generation: counts the changes of spec.
        creationTimestamp: when it was created.
        deletionTimestamp: when its deletion was asked for; None if it was not.
        labels: what selectors select by.
        annotations: what they do not.
        finalizers: what has to be done before it goes.
        ownerReferences: what it goes with.
    """

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0
    creationTimestamp: datetime | None = None
    deletionTimestamp: datetime | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    annotations: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    finalizers: tuple[str, ...] = ()
    ownerReferences: tuple[OwnerReference, ...] = ()

    def __post_init__(self) -> None:
        # Objects of a cache are shared: who tries to change their labels is to be told at once.
        if type(self.labels) is dict:
            _set(self, "labels", MappingProxyType(self.labels))
        if type(self.annotations) is dict:
            _set(self, "annotations", MappingProxyType(self.annotations))

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
        """Whether deletion has begun."""
        return self.deletionTimestamp is not None


class Object(Protocol):
    """Anything with metadata: what the framework needs to know of a kind."""

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""
        ...


@dataclass(frozen=True, slots=True)
class Version:
    """One object at one resourceVersion: the precondition that our writes carry.

    Args:
        namespace: empty for cluster-scoped objects.
        name: of the object.
        uid: of the object.
        resourceVersion: that it was read at.
    """

    namespace: str
    name: str
    uid: str
    resourceVersion: str

    @classmethod
    def of(cls, obj: Object) -> Self:
        """Return the version that `obj` was read at."""
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
