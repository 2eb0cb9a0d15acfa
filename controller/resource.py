"""Which kind: its place in the API and the type its objects are decoded to."""

from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import quote

from controller.meta import Key, Object

T = TypeVar("T", bound=Object)
OutlineType = type[Object]


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """A kind as the API server serves it.

    Args:
        group: the API group; empty for the core group.
        version: for example `v1alpha1`.
        kind: for example `NetworkPool`.
        plural: the name in paths, for example `networkpools`.
        type: what objects are decoded to: a frozen dataclass or msgspec.Struct whose fields
            carry the API's names.
        namespaced: whether its objects live in namespaces.
        outline: a type with fewer fields, for objects that do not fit `type`: what they concern
            may still be told. None if it would be of no use.
    """

    group: str
    version: str
    kind: str
    plural: str
    type: type[T]
    namespaced: bool = True
    outline: OutlineType | None = None

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """`plural.group`, as `kubectl api-resources` names it; used in logs and metrics."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def collection(self, namespace: str = "") -> str:
        """Return the path of the collection in `namespace`, or of all namespaces if empty."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = (
            f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        )
        return f"{root}{within}/{self.plural}"

    def path(self, key: Key, subresource: str = "") -> str:
        """Return the path of one object, or of one of its subresources.

        Args:
            key: namespace and name.
            subresource: for example `status`; empty for the object itself.
        """
        tail = f"/{subresource}" if subresource else ""
        return f"{self.collection(key.namespace)}/{quote(key.name, safe='')}{tail}"
