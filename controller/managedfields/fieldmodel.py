"""The field model of one kind in one version, made of its schema."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from controller.managedfields.fieldset import Fields
from controller.managedfields.model import UNKNOWN, UNKNOWN_ATOMIC, ListNode, MapNode, Node, Scalar
from controller.managedfields.objectmeta import OBJECT_META, SCHEMAS

Schema = Mapping[str, Any]
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_SCALARS = {
    "integer": Scalar.NUMERIC,
    "number": Scalar.NUMERIC,
    "boolean": Scalar.BOOLEAN,
    "string": Scalar.STRING,
}
_TEXT = Node(scalar=Scalar.STRING, strict=True, granular=True)


class SchemaDefinitions:
    """Schemas that refer to each other by name; each becomes one node, for types may recur."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        """Take the schemas under `components` of an OpenAPI v3 document."""
        self._schemas = schemas
        self._nodes: dict[str, Node] = {
            _QUANTITY: Node(scalar=Scalar.UNTYPED),
            _RAW: UNKNOWN_ATOMIC,
        }

    def node(self, name: str) -> Node:
        """Return the node of a named schema."""
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = Node()
            _fill(node, self._schemas[name], self, preserve=False)
        return node

    def refer(self, schema: Schema, name: str) -> Node:
        """Return the node of a named schema; the place that refers may say how maps are owned."""
        node = self.node(name)
        kind = schema.get("x-kubernetes-map-type")
        if kind is None or node.members is None:
            return node
        own = node.members
        members = MapNode(own.fields, own.other, atomic=kind == "atomic", defaults=own.defaults)
        return Node(
            node.scalar, node.items, members=members, strict=node.strict
        )  # may be atomic now


def custom_resource(schema: Schema, definitions: SchemaDefinitions, *, preserve: bool) -> Node:
    """Return the node of a custom resource, whose type and metadata the schema need not name."""
    root = {**schema, "x-kubernetes-embedded-resource": True, "type": "object"}
    return _node(root, definitions, preserve=preserve)


def _node(schema: Schema, definitions: SchemaDefinitions, *, preserve: bool) -> Node:
    """Return the node of a schema, which may be a reference."""
    name = _reference(schema)
    if name:
        return definitions.refer(schema, name)
    node = Node()
    _fill(node, schema, definitions, preserve=preserve)
    return node


def _reference(schema: Schema) -> str:
    """Return the name that a schema refers to, empty if it stands for itself."""
    wrapped = schema.get("allOf", ())
    place = schema.get("$ref") or (wrapped[0].get("$ref") if len(wrapped) == 1 else None) or ""
    return str(place).rpartition("/")[2]


def _fill(node: Node, schema: Schema, definitions: SchemaDefinitions, *, preserve: bool) -> None:
    """Set on a node which kinds of values its schema allows, and how their parts are owned."""
    preserve = preserve or schema.get("x-kubernetes-preserve-unknown-fields") is True
    kind = schema.get("type", "")
    if kind in {"object", ""}:
        node.members = _map_node(schema, definitions, preserve=preserve)
    if kind in {"array", ""}:
        node.items = _list_node(schema, definitions, preserve=preserve)
    if kind not in {"object", "array"}:
        node.scalar = _scalar(kind, schema.get("format", ""))
    children = _child_nodes(node, kind)
    if children is not None:
        # A type that contains itself is neither strict nor granular: among the children is a node
        # that is not finished yet.
        node.strict = all(child.strict for child in children)
        atom = node.members or node.items
        node.granular = not (atom and atom.atomic) and all(child.granular for child in children)


def _scalar(kind: str, form: str) -> Scalar:
    """Return the kind of scalar; strings of most formats are not checked to be strings."""
    if kind == "string" and form not in {"", "byte"}:
        return Scalar.UNTYPED
    return _SCALARS.get(kind, Scalar.UNTYPED)


def _child_nodes(node: Node, kind: str) -> list[Node] | None:
    """Return the nodes of the parts of a value whose only possible kind is `kind`.

    None if the kind is open. A scalar has no parts.
    """
    if kind == "object" and node.members is not None:
        own = node.members
        return [*own.fields.values(), *([own.other] if own.other else [])]
    if kind == "array" and node.items is not None:
        return [node.items.item]
    # A string with a format is no exception, whatever `_scalar` says: validation refuses all but
    # strings there.
    return [] if kind in _SCALARS else None


def _map_node(schema: Schema, definitions: SchemaDefinitions, *, preserve: bool) -> MapNode:
    """Return how the members of an object are owned."""
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    atom = MapNode(atomic=schema.get("x-kubernetes-map-type") == "atomic")
    for name, member in properties.items():
        atom.fields[name] = _node(member, definitions, preserve=preserve)
        if member.get("default") is not None:
            atom.defaults[name] = member["default"]
    if schema.get("x-kubernetes-embedded-resource") is True:
        atom.fields |= {
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": definitions.node(OBJECT_META),
        }
    other = schema.get("additionalProperties")
    if other is None:
        atom.other = UNKNOWN if preserve or not atom.fields else None
    elif isinstance(other, Mapping):
        atom.other = _node(other, definitions, preserve=preserve)
    else:
        atom.other = UNKNOWN if other else None
    return atom


def _list_node(schema: Schema, definitions: SchemaDefinitions, *, preserve: bool) -> ListNode:
    """Return how the items of a list are owned."""
    items = schema.get("items")
    node = _node(items, definitions, preserve=preserve) if items else UNKNOWN_ATOMIC
    kind = schema.get("x-kubernetes-list-type")
    if kind == "set":
        return ListNode(node, atomic=False)
    if kind == "map":
        return ListNode(node, atomic=False, keys=tuple(schema["x-kubernetes-list-map-keys"]))
    if kind is None and "merge" in str(schema.get("x-kubernetes-patch-strategy", "")).split(","):
        key = schema.get("x-kubernetes-patch-merge-key")
        return ListNode(node, atomic=False, keys=(key,) if key else ())
    return ListNode(node)


@dataclass(frozen=True, slots=True)
class FieldModel:
    """What server-side apply and ownership tracking need to know of a type.

    Attributes:
        root: how the fields of an object are owned.
        zero: the object that a new one is compared with: what Go writes of a struct without
            values, so that an empty `spec` of a Service has no owner; {} for custom resources.
        reset: by subresource ("" is the object itself), the fields that a write there cannot
            change and therefore does not own.
        is_custom: whether the kind is a custom resource, which is refused if an entry is of a
            version that it does not have; built-in kinds just drop such entries.
    """

    root: Node
    zero: Mapping[str, Any] = field(default_factory=dict)
    reset: Mapping[str, Fields] = field(default_factory=dict)
    is_custom: bool = False

    @classmethod
    def from_schema(
        cls,
        open_api_v3: Mapping[str, Any] | None,
        *,
        preserve_unknown: bool = False,
        status_subresource: bool = True,
    ) -> Self:
        """Return the model of a custom resource version.

        Args:
            open_api_v3: its structural schema, None for a version without one.
            preserve_unknown: the old `spec.preserveUnknownFields` of the CRD.
            status_subresource: whether the version has one; if so, only writes there own status.
        """
        reset: dict[str, Fields] = {}
        if status_subresource:
            reset = {"": {"f:status": {}}, "status": {"f:metadata": {}, "f:spec": {}}}
        if open_api_v3 is None:
            return cls(UNKNOWN, {}, reset, is_custom=True)
        root = custom_resource(open_api_v3, _definitions(), preserve=preserve_unknown)
        return cls(root, {}, reset, is_custom=True)


@functools.cache
def _definitions() -> SchemaDefinitions:
    """Return the definitions that every custom resource refers to, made into nodes on demand."""
    return SchemaDefinitions(SCHEMAS)


@dataclass(frozen=True, slots=True)
class Versions:
    """The other versions of a kind, for objects whose fields were written through several.

    Attributes:
        model: the model of an apiVersion, None if there is no such version, served or not.
        convert: an object as it reads in an apiVersion; must not change its argument.
    """

    model: Callable[[str], FieldModel | None]
    convert: Callable[[dict[str, Any], str], dict[str, Any]]
