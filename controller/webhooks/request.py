"""What an API server asks before it lets a write through: admission.k8s.io/v1, typed.

Fields are named as in the API. The objects are decoded to the type that the webhook was
registered with; their bytes are there too, for a patch that must not touch what a type does not
name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar

from controller.meta import Key

T = TypeVar("T")
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class GroupVersionKind:
    """A kind by its place in the API; the core group is empty.

    Args:
        group: empty for the core group.
        version: for example `v1`.
        kind: for example `Pod`.
    """

    group: str = ""
    version: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class GroupVersionResource:
    """A resource by its place in the API; `resource` is the plural name.

    Args:
        group: empty for the core group.
        version: for example `v1`.
        resource: the plural name, for example `pods`.
    """

    group: str = ""
    version: str = ""
    resource: str = ""


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Who asks for the write, as the API server authenticated them.

    Args:
        username: for example `system:serviceaccount:NAMESPACE:NAME`.
        uid: of the user, where the authenticator knows one.
        groups: that the user is in.
        extra: what else the authenticator tells.
    """

    username: str = ""
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest(Generic[T]):
    """A write that waits for an answer.

    Args:
        uid: of this request; the answer repeats it.
        kind: of the object as the webhook sees it.
        resource: what is written to, as the webhook sees it.
        subResource: for example `status` or `scale`; empty for the object itself.
        requestKind: as the client asked for it; another version than `kind` where the server
            converted the object to one that the webhook's rules name.
        requestResource: likewise.
        requestSubResource: likewise.
        name: of the object; empty on a create with generateName, and when a collection is deleted.
        namespace: of the object; empty if it is cluster-scoped.
        operation: what is done.
        userInfo: who does it.
        object: what would be stored; None for DELETE.
        oldObject: what is stored; None for CREATE and CONNECT, and if it cannot be read.
        objectBytes: the JSON of `object`; empty if there is none.
        oldObjectBytes: the JSON of `oldObject`; empty if there is none.
        oldObjectError: why the stored object cannot be read as the webhook's type; empty if it
            can. It is no refusal by itself, or a broken object could be neither mended nor
            deleted.
        dryRun: nothing will be stored: the webhook must have no side effects.
        options: the CreateOptions, UpdateOptions or DeleteOptions of the request.
    """

    uid: str
    kind: GroupVersionKind
    resource: GroupVersionResource
    operation: Operation
    subResource: str = ""
    requestKind: GroupVersionKind | None = None
    requestResource: GroupVersionResource | None = None
    requestSubResource: str = ""
    name: str = ""
    namespace: str = ""
    userInfo: UserInfo = field(default_factory=UserInfo)
    object: T | None = None
    oldObject: T | None = None
    objectBytes: bytes = b""
    oldObjectBytes: bytes = b""
    oldObjectError: str = ""
    dryRun: bool = False
    options: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)

    @property
    def key(self) -> Key:
        """The namespace and name."""
        return Key(self.namespace, self.name)
