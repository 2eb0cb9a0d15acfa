"""A kind: its place in the API, the type of its objects, and the scope to list and watch."""

from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import quote

from controller.argumenttypes import check_type
from controller.meta import Key, MetadataOnly, Object, Untyped

T_co = TypeVar("T_co", bound=Object, covariant=True)
OutlineType = type[Object]
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Resource(Generic[T_co]):
    """A kind as the API server serves it.

    Args:
        group: the API group; empty for the core group.
        version: for example `v1alpha1`.
        kind: for example `NetworkPool`.
        plural: the name in paths, for example `networkpools`.
        type: the type that objects are decoded to: a frozen dataclass, msgspec.Struct or pydantic
            model whose fields have the API's names; Untyped; or MetadataOnly, for which the server
            sends only metadata.
        namespaced: whether its objects have a namespace.
        outline: a type with fewer fields for objects that do not fit `type`, so that code still
            knows what they refer to. None if no code needs that.

    Raises:
        TypeError: `type` or a name is of the wrong type.
        ValueError: the group has a version in it, or the plural is not in lower case.
    """

    group: str
    version: str
    kind: str
    plural: str
    type: type[T_co]
    namespaced: bool = True
    outline: OutlineType | None = None

    def __post_init__(self) -> None:
        for name in ("group", "version", "kind", "plural"):
            check_type(getattr(self, name), str, argument=f"Resource: {name}", expected="text")
        if "/" in self.group:
            group, _, version = self.group.partition("/")
            raise ValueError(
                f"Resource: group {self.group!r} has a version in it: write"
                f" Resource({group!r}, {version!r}, KIND, PLURAL, TYPE)"
            )
        if self.plural != self.plural.lower():
            raise ValueError(
                f"Resource {self.kind}: plural must be as in paths, in lower case, not"
                f" {self.plural!r}; the order is group, version, kind, plural, type"
            )
        if isinstance(self.type, str):
            raise TypeError(f"Resource {self.kind}: type must be a class, not {self.type!r}")

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """`plural.group`, as `kubectl api-resources` prints it; used in logs and metrics."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def metadata_only(self) -> "Resource[MetadataOnly]":
        """This resource with MetadataOnly as its type, for objects that may not fit `type`.

        Objects that a client reads or writes with it do not enter the caches of this resource,
        because objects in a cache have its type.
        """
        return Resource(
            self.group,
            self.version,
            self.kind,
            self.plural,
            MetadataOnly,
            namespaced=self.namespaced,
        )

    @property
    def untyped(self) -> "Resource[Untyped]":
        """This resource with Untyped as its type, to read all fields of an object.

        Objects that a client reads or writes with it do not enter the caches of this resource,
        because objects in a cache have its type.
        """
        return Resource(
            self.group,
            self.version,
            self.kind,
            self.plural,
            Untyped,
            namespaced=self.namespaced,
        )

    @property
    def accept(self) -> str:
        """The Accept header of requests for one object, and of watches."""
        return self._choose_media_type("PartialObjectMetadata")

    @property
    def accept_list(self) -> str:
        """The Accept header of requests for lists."""
        return self._choose_media_type("PartialObjectMetadataList")

    def _choose_media_type(self, metadata_only: str) -> str:
        """Return the value of the Accept header.

        Args:
            metadata_only: the kind to ask for if the type is MetadataOnly.
        """
        if self.type is not MetadataOnly:
            return JSON
        # A server that does not know the first media type answers with whole objects in the second
        # media type; the decoder skips their other fields.
        return f"{JSON};as={metadata_only};g=meta.k8s.io;v=v1,{JSON}"

    def build_collection_path(self, namespace: str = "") -> str:
        """Return the URL path of the objects in `namespace`, or in all namespaces if empty."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = (
            f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        )
        return f"{root}{within}/{self.plural}"

    def build_path(self, key: Key, subresource: str = "") -> str:
        """Return the URL path of one object, or of one of its subresources.

        Args:
            key: namespace and name.
            subresource: for example `status`; empty for the object itself.
        """
        tail = f"/{subresource}" if subresource else ""
        return f"{self.build_collection_path(key.namespace)}/{quote(key.name, safe='')}{tail}"


@dataclass(frozen=True, slots=True)
class Scope:
    """The objects of a kind to list and watch.

    Args:
        namespace: empty for all.
        labels: a label selector; empty for none.
        fields: a field selector; empty for none.
    """

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    @property
    def query(self) -> dict[str, str]:
        """The selectors as query parameters."""
        pairs = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in pairs.items() if value}
