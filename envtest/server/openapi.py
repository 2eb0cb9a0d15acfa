"""OpenAPI documents, as far as kubectl reads them: explain, validation and patch support."""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from envtest.kinds.catalogue import schema_name, schemas
from envtest.schema import openapi_v3
from envtest.server.custom import CustomRules
from envtest.server.resource import Registry, StoredResource

_META = (
    "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
)
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

    def _refresh(self) -> None:
        if self._generation != self._registry.generation:
            self._generation = self._registry.generation
            self._documents.clear()

    def _registry_text(self, group: str, version: str) -> bytes:
        return self.document(group, version) or b""


def _document(resources: Sequence[StoredResource]) -> dict[str, Any]:
    """Return the OpenAPI v3 document of one group version."""
    definitions: dict[str, Any] = {}
    for resource in resources:
        if isinstance(resource.rules, CustomRules):
            definitions |= openapi_v3(resource.rules.definition, resource.version)
    _add_builtin(definitions, resources)
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": _paths(resources),
        "components": {"schemas": definitions},
    }


def _gvk(resource: StoredResource) -> dict[str, str]:
    return {"group": resource.group, "kind": resource.kind, "version": resource.version}


def _paths(resources: Sequence[StoredResource]) -> dict[str, Any]:
    """Return the paths of resources with what is done there."""
    paths: dict[str, Any] = {}
    for resource in resources:
        root = f"/apis/{resource.group}" if resource.group else "/api"
        base = f"{root}/{resource.version}"
        within = f"{base}/namespaces/{{namespace}}" if resource.namespaced else base
        collection = f"{within}/{resource.plural}"
        operations = _operations(resource, "object")
        paths[collection] = _operations(resource, "collection")
        paths[f"{collection}/{{name}}"] = operations
        for name in resource.subresources:
            paths[f"{collection}/{{name}}/{name}"] = operations
    return paths


def _operations(resource: StoredResource, scope: str) -> dict[str, Any]:
    kind = {"type": "string", "uniqueItems": True}
    parameters = [{"name": name, "in": "query", "schema": kind} for name in _WRITE_PARAMETERS]
    return {
        method: {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _gvk(resource),
            **({"parameters": parameters} if method in {"post", "put", "patch"} else {}),
            "responses": {"200": {"description": "OK"}},
        }
        for method, action in _ACTIONS[scope]
    }


def _add_builtin(definitions: dict[str, Any], resources: Sequence[StoredResource]) -> None:
    """Add the schemas of built-in kinds and all that they, or custom kinds, refer to."""
    todo = [
        schema_name(resource.group, resource.version, resource.kind)
        for resource in resources
        if not resource.rules.custom
    ]
    if len(todo) < len(resources):
        todo += _META
    known = schemas()
    while todo:
        name = todo.pop()
        if name not in definitions and name in known:
            definitions[name] = known[name]
            todo += _references(known[name])


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for item in schema for name in _references(item)]
    if not isinstance(schema, dict):
        return []
    reference = schema.get("$ref")
    own = [reference.rpartition("/")[2]] if isinstance(reference, str) else []
    return own + [name for value in schema.values() for name in _references(value)]
