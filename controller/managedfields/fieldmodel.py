"""The field model of one kind in one version, built from its schema.

Two words of Node (model.py) recur. `strict`: equal values in Python are equal in JSON, because no
untyped scalar is below. `granular`: nothing at or below the node is owned as a whole.

`preserve` is a parameter of most functions: whether an object, and each object below it, may have
fields that its schema does not declare.
"""

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
    """Schemas that refer to each other by name, and one node for each.

    A schema that contains itself gets a node that contains itself.

    Args:
        schemas: the `components.schemas` of an OpenAPI v3 document.
    """

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas
        self._nodes: dict[str, Node] = {
            _QUANTITY: Node(scalar=Scalar.UNTYPED),
            _RAW: UNKNOWN_ATOMIC,
        }

    def get_node(self, name: str) -> Node:
        """Return the node of a named schema, created at the first call for that name."""
        node = self._nodes.get(name)
        if node is None:
            # Entered before it is filled: a schema that contains itself finds this node.
            node = self._nodes[name] = Node()
            _fill_node(node, self._schemas[name], self, preserve=False)
        return node

    def get_referred_node(self, schema: Schema, name: str) -> Node:
        """Return the node of the named schema to which `schema` refers.

        The referring schema may have its own x-kubernetes-map-type. Then the node is a copy with
        that map type.
        """
        node = self.get_node(name)
        map_type = schema.get("x-kubernetes-map-type")
        if map_type is None or node.members is None:
            return node
        shared = node.members
        is_atomic = map_type == "atomic"
        members = MapNode(shared.fields, shared.other, atomic=is_atomic, defaults=shared.defaults)
        # Not granular: the copy may be atomic where the named node is not.
        return Node(node.scalar, node.items, members=members, strict=node.strict)


def create_custom_resource_node(
    schema: Schema, definitions: SchemaDefinitions, *, preserve: bool
) -> Node:
    """Return the root node of a custom resource.

    A CRD's schema need not declare apiVersion, kind, metadata and `type: object`: they are added
    here, as an embedded resource has them.

    Args:
        schema: the structural schema of the version.
        definitions: the definition of ObjectMeta.
        preserve: the old `spec.preserveUnknownFields` of the CRD.
    """
    root = {**schema, "x-kubernetes-embedded-resource": True, "type": "object"}
    return _create_node(root, definitions, preserve=preserve)


def _create_node(schema: Schema, definitions: SchemaDefinitions, *, preserve: bool) -> Node:
    """Return the node of a schema, which may be a reference."""
    name = _get_reference(schema)
    if name:
        return definitions.get_referred_node(schema, name)
    node = Node()
    _fill_node(node, schema, definitions, preserve=preserve)
    return node


def _get_reference(schema: Schema) -> str:
    """Return the name of the schema to which a `$ref` refers; empty if there is no `$ref`.

    kube-apiserver wraps a `$ref` with siblings, such as a default, into an `allOf` of one entry.
    """
    wrapped = schema.get("allOf", ())
    referring = wrapped[0] if len(wrapped) == 1 and "$ref" not in schema else schema
    pointer = str(referring.get("$ref") or "")
    return pointer.rpartition("/")[2]


def _fill_node(
    node: Node, schema: Schema, definitions: SchemaDefinitions, *, preserve: bool
) -> None:
    """Fill in a node from its schema.

    That is the JSON types that the schema allows, how their parts are owned, and the flags
    `strict` and `granular` of the node. A schema without `type` allows all JSON types.
    """
    preserve = preserve or schema.get("x-kubernetes-preserve-unknown-fields") is True
    json_type = schema.get("type", "")
    if json_type in {"object", ""}:
        node.members = _create_map_node(schema, definitions, preserve=preserve)
    if json_type in {"array", ""}:
        node.items = _create_list_node(schema, definitions, preserve=preserve)
    if json_type not in {"object", "array"}:
        node.scalar = _choose_scalar(json_type, schema.get("format", ""))
    children = _list_child_nodes(node, json_type)
    # None: the schema does not restrict the type. Such a node stays neither strict nor granular.
    if children is not None:
        # A type that contains itself is neither strict nor granular: among its children is a node
        # that is not filled yet, whose two flags are still False.
        node.strict = all(child.strict for child in children)
        atom = node.members or node.items
        node.granular = not (atom and atom.atomic) and all(child.granular for child in children)


def _choose_scalar(json_type: str, string_format: str) -> Scalar:
    """Return the scalar of a JSON type and format.

    As in the real server, a string with a format other than "byte" is untyped.
    """
    if json_type == "string" and string_format not in {"", "byte"}:
        return Scalar.UNTYPED
    return _SCALARS.get(json_type, Scalar.UNTYPED)


def _list_child_nodes(node: Node, json_type: str) -> list[Node] | None:
    """Return the nodes of the parts of a value that can only have the type `json_type`.

    Return an empty list for a scalar, which has no parts, and None if the schema does not restrict
    the type: such a node is neither strict nor granular.
    """
    if json_type == "object" and node.members is not None:
        members = node.members
        return [*members.fields.values(), *([members.other] if members.other else [])]
    if json_type == "array" and node.items is not None:
        return [node.items.item]
    # A string with a format counts as a scalar without parts, too. `_choose_scalar` calls it
    # untyped, but validation rejects any other value than a string there.
    return [] if json_type in _SCALARS else None


def _create_map_node(schema: Schema, definitions: SchemaDefinitions, *, preserve: bool) -> MapNode:
    """Return how the members of an object are owned."""
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    atom = MapNode(atomic=schema.get("x-kubernetes-map-type") == "atomic")
    for name, member in properties.items():
        atom.fields[name] = _create_node(member, definitions, preserve=preserve)
        # Defaults of key fields identify the items of a list that omit these fields.
        if member.get("default") is not None:
            atom.defaults[name] = member["default"]
    if schema.get("x-kubernetes-embedded-resource") is True:
        atom.fields |= {
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": definitions.get_node(OBJECT_META),
        }
    # additionalProperties is absent, a schema, or a boolean.
    other = schema.get("additionalProperties")
    if other is None:
        # An object without any declared property is free-form.
        atom.other = UNKNOWN if preserve or not atom.fields else None
    elif isinstance(other, Mapping):
        atom.other = _create_node(other, definitions, preserve=preserve)
    else:
        atom.other = UNKNOWN if other else None
    return atom


def _create_list_node(
    schema: Schema, definitions: SchemaDefinitions, *, preserve: bool
) -> ListNode:
    """Return how the items of a list are owned.

    x-kubernetes-list-type decides. Without it, the patch strategy "merge" of strategic merge
    patches decides; without both, the list is atomic.
    """
    items = schema.get("items")
    node = _create_node(items, definitions, preserve=preserve) if items else UNKNOWN_ATOMIC
    list_type = schema.get("x-kubernetes-list-type")
    if list_type == "set":
        return ListNode(node, atomic=False)
    if list_type == "map":
        return ListNode(node, atomic=False, keys=tuple(schema["x-kubernetes-list-map-keys"]))
    strategies = str(schema.get("x-kubernetes-patch-strategy", "")).split(",")
    if list_type is None and "merge" in strategies:
        key = schema.get("x-kubernetes-patch-merge-key")
        return ListNode(node, atomic=False, keys=(key,) if key else ())
    return ListNode(node)


@dataclass(frozen=True, slots=True)
class FieldModel:
    """What server-side apply and ownership tracking need to know of a type.

    Attributes:
        root: how the fields of an object are owned.
        zero: the JSON of Go's empty struct, to which a created object is compared. So an empty
            `spec` of a Service has no owner. {} for custom resources.
        reset: by subresource ("" is the object itself), the fields that a write there cannot
            change and therefore does not own.
        is_custom: whether the kind is a custom resource. If managedFields have an entry of a
            version that does not exist, a write to a custom resource fails; for a built-in kind,
            the entry is dropped.
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
        root = create_custom_resource_node(
            open_api_v3, _get_definitions(), preserve=preserve_unknown
        )
        return cls(root, {}, reset, is_custom=True)


@functools.cache
def _get_definitions() -> SchemaDefinitions:
    """Return the definitions of ObjectMeta, which all custom resources share; cached."""
    return SchemaDefinitions(SCHEMAS)


@dataclass(frozen=True, slots=True)
class Versions:
    """The other versions of a kind, for objects whose fields were written through several.

    Attributes:
        model: returns the model of an apiVersion; None if the kind has no such version. A version
            that is not served has a model, too.
        convert: returns an object converted to an apiVersion; must not change its argument.
    """

    model: Callable[[str], FieldModel | None]
    convert: Callable[[dict[str, Any], str], dict[str, Any]]
