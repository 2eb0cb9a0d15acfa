"""The OpenAPI definitions that the server publishes of custom resources.

The third version tells everything. The second one, which old clients read, leaves out what its
schemas cannot say or what made kubectl refuse objects: defaults, alternatives, nullable fields'
types, and the structure of what preserves unknown fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from envtest.schema import wording

_Schema = dict[str, Any]
_V3: Final = "#/components/schemas/"
_V2: Final = "#/definitions/"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_LIST_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_NOT_IN_V2: Final = frozenset({"allOf", "anyOf", "default", "not", "nullable", "oneOf"})
_SELECTABLE: Final = "x-kubernetes-selectable-fields"
_STRUCTURE: Final = frozenset({"items", "properties", "type"})


def openapi_v3(spec: Mapping[str, Any], version: str) -> dict[str, _Schema]:
    """The definitions of a kind and of its list, by name, for `components.schemas`.

    Args:
        spec: the `spec` of a CRD.
        version: the name of one of its versions.
    """
    return _definitions(spec, version, v2=False)


def openapi_v2(specs: Iterable[Mapping[str, Any]]) -> dict[str, _Schema]:
    """The definitions of all served versions of several CRDs, by name, for `definitions`."""
    found: dict[str, _Schema] = {}
    for spec in specs:
        for version in spec["versions"]:
            if version.get("served"):
                found |= _definitions(spec, version["name"], v2=True)
    return found


def definition_name(group: str, version: str, kind: str) -> str:
    """How the definition of a kind is called: the group's name reversed, version, kind."""
    return ".".join([*reversed(group.split(".")), version, kind])


def _definitions(spec: Mapping[str, Any], version: str, *, v2: bool) -> dict[str, _Schema]:
    names, group = spec["names"], spec["group"]
    entry = next(entry for entry in spec["versions"] if entry["name"] == version)
    schema = (entry.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
    name = definition_name(group, version, names["kind"])
    list_name = definition_name(group, version, names["listKind"])
    base = {"group": group, "version": version}
    kind = _root(_without_v3_only(schema) if v2 else _published(schema), v2=v2)
    kind["x-kubernetes-group-version-kind"] = [{**base, "kind": names["kind"]}]
    listed = _list(names, (_V2 if v2 else _V3) + name, v2=v2)
    listed["x-kubernetes-group-version-kind"] = [{**base, "kind": names["listKind"]}]
    if selectable := entry.get("selectableFields"):
        paths = [{"fieldPath": one["jsonPath"].removeprefix(".")} for one in selectable]
        kind[_SELECTABLE] = listed[_SELECTABLE] = paths
    return {name: kind, list_name: listed}


def _reference(name: str, description: str, *, v2: bool) -> _Schema:
    if v2:
        return {"description": description, "$ref": _V2 + name}
    return {"description": description, "allOf": [{"$ref": _V3 + name}]}


def _type_meta() -> _Schema:
    return {
        "apiVersion": {"description": wording.API_VERSION, "type": "string"},
        "kind": {"description": wording.KIND, "type": "string"},
    }


def _root(schema: _Schema, *, v2: bool) -> _Schema:
    """A kind's definition, with type and metadata as every object has them."""
    if v2 and _PRESERVE in schema:
        return {"type": "object"}
    properties = {**schema.get("properties", {}), **_type_meta()}
    properties["metadata"] = _reference(_META, wording.METADATA, v2=v2)
    return {**schema, "properties": properties}


def _list(names: Mapping[str, Any], reference: str, *, v2: bool) -> _Schema:
    described = f"List of {names['plural']}. More info: {wording.CONVENTIONS}"
    items = {"description": described, "type": "array", "items": {"$ref": reference}}
    metadata = _reference(_LIST_META, wording.LIST_METADATA, v2=v2)
    return {
        "description": f"{names['listKind']} is a list of {names['kind']}",
        "type": "object",
        "required": ["items"],
        "properties": {**_type_meta(), "items": items, "metadata": metadata},
    }


def _published(schema: Mapping[str, Any]) -> _Schema:
    """A schema with type and metadata of embedded objects filled in, at every depth."""
    found = {name: _child(name, value) for name, value in schema.items()}
    return _with_type_meta(found, v2=False) if schema.get(_EMBEDDED) else found


def _with_type_meta(schema: _Schema, *, v2: bool) -> _Schema:
    """An embedded object's schema with type and metadata."""
    embedded = {
        "apiVersion": {"description": wording.EMBEDDED_API_VERSION, "type": "string"},
        "kind": {"description": wording.EMBEDDED_KIND, "type": "string"},
        "metadata": _reference(_META, wording.METADATA, v2=v2),
    }
    required = [*(schema.get("required") or ()), "kind", "apiVersion"]
    return {
        **schema,
        "properties": {**schema.get("properties", {}), **embedded},
        "required": list(dict.fromkeys(required)),
    }


def _child(name: str, value: Any) -> Any:
    if name == "properties":
        return {key: _published(child) for key, child in value.items()}
    if name in {"items", "additionalProperties"} and isinstance(value, Mapping):
        return _published(value)
    return value


def _without_v3_only(schema: Mapping[str, Any]) -> _Schema:
    """A schema as the second version of OpenAPI can say it."""
    dropped = _NOT_IN_V2
    if schema.get("nullable") or schema.get(_PRESERVE):
        dropped |= _STRUCTURE
    found: _Schema = {}
    for name, value in schema.items():
        if name in dropped:
            continue
        if name == "properties":
            found[name] = {key: _without_v3_only(child) for key, child in value.items()}
        elif name in {"items", "additionalProperties"} and isinstance(value, Mapping):
            found[name] = _without_v3_only(value)
        else:
            found[name] = value
    if schema.get(_EMBEDDED) and not schema.get(_PRESERVE):
        return _with_type_meta(found, v2=True)
    return found
