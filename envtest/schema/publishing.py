"""The OpenAPI definitions (version 3) that the server publishes of custom resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from envtest.schema import wording

_Schema = dict[str, Any]
_V3: Final = "#/components/schemas/"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_LIST_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_KIND: Final = "x-kubernetes-group-version-kind"
_SELECTABLE: Final = "x-kubernetes-selectable-fields"


def build_definitions(spec: Mapping[str, Any], version: str) -> dict[str, _Schema]:
    """Return the definitions of a kind and its list, by name, for `components.schemas`.

    Args:
        spec: the `spec` of a CRD.
        version: the name of one of its versions.
    """
    names, group = spec["names"], spec["group"]
    entry = next(entry for entry in spec["versions"] if entry["name"] == version)
    schema = (entry.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
    name = build_definition_name(group, version, names["kind"])
    list_name = build_definition_name(group, version, names["listKind"])
    group_version = {"group": group, "version": version}
    kind_definition = _build_kind(_add_embedded_metadata(schema))
    kind_definition[_KIND] = [{**group_version, "kind": names["kind"]}]
    list_definition = _build_list(names, _V3 + name)
    list_definition[_KIND] = [{**group_version, "kind": names["listKind"]}]
    if selectable := entry.get("selectableFields"):
        paths = [{"fieldPath": field["jsonPath"].removeprefix(".")} for field in selectable]
        kind_definition[_SELECTABLE] = list_definition[_SELECTABLE] = paths
    return {name: kind_definition, list_name: list_definition}


def build_definition_name(group: str, version: str, kind: str) -> str:
    """Return the name of a kind's definition: the group's name reversed, version, kind."""
    return ".".join([*reversed(group.split(".")), version, kind])


def _build_reference(name: str, description: str) -> _Schema:
    """Return a schema that refers to a definition; allOf lets it have its own description."""
    return {"description": description, "allOf": [{"$ref": _V3 + name}]}


def _describe_type_meta() -> _Schema:
    """Return the properties apiVersion and kind."""
    return {
        "apiVersion": {"description": wording.API_VERSION, "type": "string"},
        "kind": {"description": wording.KIND, "type": "string"},
    }


def _build_kind(schema: _Schema) -> _Schema:
    """Return a kind's definition: its schema with apiVersion, kind and metadata."""
    properties = {**schema.get("properties", {}), **_describe_type_meta()}
    properties["metadata"] = _build_reference(_META, wording.METADATA)
    return {**schema, "properties": properties}


def _build_list(names: Mapping[str, Any], reference: str) -> _Schema:
    """Return the definition of a kind's list; `reference` is the definition of its items."""
    description = f"List of {names['plural']}. More info: {wording.CONVENTIONS}"
    items = {"description": description, "type": "array", "items": {"$ref": reference}}
    metadata = _build_reference(_LIST_META, wording.LIST_METADATA)
    return {
        "description": f"{names['listKind']} is a list of {names['kind']}",
        "type": "object",
        "required": ["items"],
        "properties": {**_describe_type_meta(), "items": items, "metadata": metadata},
    }


def _add_embedded_metadata(schema: Mapping[str, Any]) -> _Schema:
    """Return a schema with type and metadata added to embedded objects, at every depth."""
    node = {name: _add_below(name, value) for name, value in schema.items()}
    return _add_type_meta(node) if schema.get(_EMBEDDED) else node


def _add_type_meta(schema: _Schema) -> _Schema:
    """Return an embedded object's schema with type and metadata added."""
    embedded = {
        "apiVersion": {"description": wording.EMBEDDED_API_VERSION, "type": "string"},
        "kind": {"description": wording.EMBEDDED_KIND, "type": "string"},
        "metadata": _build_reference(_META, wording.METADATA),
    }
    required = [*(schema.get("required") or ()), "kind", "apiVersion"]
    return {
        **schema,
        "properties": {**schema.get("properties", {}), **embedded},
        "required": list(dict.fromkeys(required)),
    }


def _add_below(name: str, value: Any) -> Any:
    """Return the value of a keyword, with type and metadata added to embedded objects in it."""
    if name == "properties":
        return {key: _add_embedded_metadata(child) for key, child in value.items()}
    if name in {"items", "additionalProperties"} and isinstance(value, Mapping):
        return _add_embedded_metadata(value)
    return value
