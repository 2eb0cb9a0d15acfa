"""Field models made from OpenAPI v3: from the schema of a CRD, or from named definitions.

The rules are those by which the real server turns schemas into field models: the list and map
extensions decide, an object without properties is free-form, and below
`x-kubernetes-preserve-unknown-fields` members that the schema does not name are free-form too.
"""

from collections.abc import Mapping
from typing import Any

from envtest.patching.model import UNKNOWN, UNKNOWN_ATOMIC, ListNode, MapNode, Node, Scalar

Schema = Mapping[str, Any]
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_SCALARS = {
    "integer": Scalar.NUMERIC,
    "number": Scalar.NUMERIC,
    "boolean": Scalar.BOOLEAN,
    "string": Scalar.STRING,
}
_TEXT = Node(scalar=Scalar.STRING, strict=True, granular=True)


class Definitions:
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
        found = self._nodes.get(name)
        if found is None:
            found = self._nodes[name] = Node()
            _fill(found, self._schemas[name], self, preserve=False)
        return found

    def refer(self, schema: Schema, name: str) -> Node:
        """Return the node of a named schema; the place that refers may say how maps are owned."""
        node = self.node(name)
        kind = schema.get("x-kubernetes-map-type")
        if kind is None or node.members is None:
            return node
        own = node.members
        members = MapNode(own.fields, own.other, kind == "atomic", own.defaults)
        return Node(node.scalar, node.items, members, node.strict)  # may be atomic now


def custom_resource(schema: Schema, definitions: Definitions, *, preserve: bool) -> Node:
    """Return the node of a custom resource, whose type and metadata the schema need not name."""
    root = {**schema, "x-kubernetes-embedded-resource": True, "type": "object"}
    return _node(root, definitions, preserve=preserve)


def _node(schema: Schema, definitions: Definitions, *, preserve: bool) -> Node:
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


def _fill(node: Node, schema: Schema, definitions: Definitions, *, preserve: bool) -> None:
    """Say what a value of the schema may be."""
    preserve = preserve or schema.get("x-kubernetes-preserve-unknown-fields") is True
    kind = schema.get("type", "")
    if kind in {"object", ""}:
        node.members = _members(schema, definitions, preserve=preserve)
    if kind in {"array", ""}:
        node.items = _items(schema, definitions, preserve=preserve)
    if kind not in {"object", "array"}:
        node.scalar = _scalar(kind, schema.get("format", ""))
    below = _below(node, kind)
    if below is not None:
        node.strict = all(child.strict for child in below)
        atom = node.members or node.items
        node.granular = not (atom and atom.atomic) and all(child.granular for child in below)


def _scalar(kind: str, form: str) -> Scalar:
    """Return the kind of scalar; strings of most formats are not checked to be strings."""
    if kind == "string" and form not in {"", "byte"}:
        return Scalar.UNTYPED
    return _SCALARS.get(kind, Scalar.UNTYPED)


def _below(node: Node, kind: str) -> list[Node] | None:
    """Return the nodes below one of a single known kind, None for any other.

    Validation makes a string of every string with a format. A type that contains itself counts
    as of no known kind, because its node is not finished when its parts ask.
    """
    if kind == "object" and node.members is not None:
        own = node.members
        return [*own.fields.values(), *([own.other] if own.other else [])]
    if kind == "array" and node.items is not None:
        return [node.items.item]
    return [] if kind in _SCALARS else None


def _members(schema: Schema, definitions: Definitions, *, preserve: bool) -> MapNode:
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


def _items(schema: Schema, definitions: Definitions, *, preserve: bool) -> ListNode:
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
