"""OpenAPI documents, as far as kubectl reads them: explain, validation and patch support."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from envtest.kinds.catalogue import schema_name, schemas
from envtest.server.custom import CustomRules
from envtest.server.registry import Registry
from envtest.server.resource import Resource

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
_ACTIONS = {
    "collection": (("get", "list"), ("post", "post"), ("delete", "deletecollection")),
    "object": (("get", "get"), ("put", "put"), ("patch", "patch"), ("delete", "delete")),
}
_INFO = {"title": "Kubernetes", "version": "v1.36.2"}


class OpenApi:
    """Documents by group version, built when asked for and kept until the registry changes."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._generation = -1
        self._documents: dict[str, bytes] = {}

    def index(self) -> bytes:
        """Return the answer to /openapi/v3."""
        self._refresh()
        paths = {}
        for group, versions in self._registry.groups().items():
            for version in versions:
                name = f"apis/{group}/{version}" if group else f"api/{version}"
                digest = hashlib.sha512(self._registry_text(group, version)).hexdigest().upper()
                paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={digest}"}
        return msgspec.json.encode({"paths": paths})

    def document(self, group: str, version: str) -> bytes | None:
        """Return the document of a group version, if it is served."""
        self._refresh()
        name = f"{group}/{version}"
        if name not in self._documents:
            resources = self._registry.in_version(group, version)
            if not resources:
                return None
            self._documents[name] = msgspec.json.encode(_document(resources))
        return self._documents[name]

    def swagger(self) -> bytes:
        """Return the answer to /openapi/v2; the definitions are in the third version only."""
        return msgspec.json.encode(
            {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}}
        )

    def _refresh(self) -> None:
        if self._generation != self._registry.generation:
            self._generation = self._registry.generation
            self._documents.clear()

    def _registry_text(self, group: str, version: str) -> bytes:
        return self.document(group, version) or b""


def _document(resources: list[Resource]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for resource in resources:
        paths.update(_paths(resource))
        if isinstance(resource.rules, CustomRules):
            found[_custom_name(resource)] = _custom_schema(resource, resource.rules.schema)
            _add_reachable(found, _META)
        else:
            _add_reachable(found, schema_name(resource.group, resource.version, resource.kind))
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": paths,
        "components": {"schemas": found},
    }


def _gvk(resource: Resource) -> dict[str, str]:
    return {"group": resource.group, "kind": resource.kind, "version": resource.version}


def _paths(resource: Resource) -> dict[str, Any]:
    """Return the paths of a resource with what is done there."""
    root = f"/apis/{resource.group}" if resource.group else "/api"
    base = f"{root}/{resource.version}"
    within = f"{base}/namespaces/{{namespace}}" if resource.namespaced else base
    found = {
        f"{within}/{resource.plural}": _operations(resource, "collection"),
        f"{within}/{resource.plural}/{{name}}": _operations(resource, "object"),
    }
    for name in resource.subresources:
        found[f"{within}/{resource.plural}/{{name}}/{name}"] = _operations(resource, "object")
    return found


def _operations(resource: Resource, scope: str) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in _WRITE_PARAMETERS
    ]
    return {
        method: {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _gvk(resource),
            **({"parameters": parameters} if method in {"post", "put", "patch"} else {}),
            "responses": {"200": {"description": "OK"}},
        }
        for method, action in _ACTIONS[scope]
    }


def _custom_name(resource: Resource) -> str:
    reversed_group = ".".join(reversed(resource.group.split(".")))
    return f"{reversed_group}.{resource.version}.{resource.kind}"


def _custom_schema(resource: Resource, schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        **schema.get("properties", {}),
        "metadata": {"allOf": [{"$ref": f"#/components/schemas/{_META}"}]},
    }
    return {
        **schema,
        "properties": properties,
        "x-kubernetes-group-version-kind": [_gvk(resource)],
    }


def _add_reachable(found: dict[str, Any], name: str) -> None:
    """Add a built-in schema and all that it refers to."""
    todo = [name]
    while todo:
        one = todo.pop()
        if one not in found and one in schemas():
            found[one] = schemas()[one]
            todo += _references(found[one])


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for item in schema for name in _references(item)]
    if not isinstance(schema, dict):
        return []
    reference = schema.get("$ref")
    own = [reference.rpartition("/")[2]] if isinstance(reference, str) else []
    return own + [name for value in schema.values() for name in _references(value)]
