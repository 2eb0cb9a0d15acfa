"""OpenAPI documents with the parts that kubectl reads to explain, validate and patch objects."""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from envtest.kinds.catalogue import build_schema_name, get_schemas
from envtest.schema import build_definitions
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

    def build_index(self) -> bytes:
        """Return the answer to /openapi/v3: the URL of the document of each group version.

        The URL contains a hash of the document, so that clients cache the document by it.
        """
        self._refresh()
        paths = {}
        for group, versions in self._registry.list_groups().items():
            for version in versions:
                name = f"apis/{group}/{version}" if group else f"api/{version}"
                # Never None, because the registry lists only versions that are served.
                document = self.get_document(group, version) or b""
                digest = hashlib.sha512(document).hexdigest().upper()
                paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={digest}"}
        return msgspec.json.encode({"paths": paths})

    def get_document(self, group: str, version: str) -> bytes | None:
        """Return the document of a group version; None if that version is not served."""
        self._refresh()
        name = f"{group}/{version}"
        if name not in self._documents:
            resources = self._registry.list_version(group, version)
            if not resources:
                return None
            self._documents[name] = msgspec.json.encode(_build_document(resources))
        return self._documents[name]

    def _refresh(self) -> None:
        """Forget all documents if the registry changed since they were built."""
        if self._generation != self._registry.generation:
            self._generation = self._registry.generation
            self._documents.clear()


def _build_document(resources: Sequence[StoredResource]) -> dict[str, Any]:
    """Return the OpenAPI v3 document of one group version."""
    definitions: dict[str, Any] = {}
    for resource in resources:
        if isinstance(resource.rules, CustomRules):
            definitions |= build_definitions(resource.rules.definition, resource.version)
    _add_builtin(definitions, resources)
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": _build_paths(resources),
        "components": {"schemas": definitions},
    }


def _build_paths(resources: Sequence[StoredResource]) -> dict[str, Any]:
    """Return the operations of resources by path."""
    paths: dict[str, Any] = {}
    for resource in resources:
        root = f"/apis/{resource.group}" if resource.group else "/api"
        version_path = f"{root}/{resource.version}"
        namespace_path = f"{version_path}/namespaces/{{namespace}}"
        collection = f"{namespace_path if resource.namespaced else version_path}/{resource.plural}"
        operations = _build_operations(resource, "object")
        paths[collection] = _build_operations(resource, "collection")
        paths[f"{collection}/{{name}}"] = operations
        for name in resource.subresources:
            paths[f"{collection}/{{name}}/{name}"] = operations
    return paths


def _build_operations(resource: StoredResource, scope: str) -> dict[str, Any]:
    """Return the operations on a resource by HTTP method; `scope` is a key of `_ACTIONS`."""
    schema = {"type": "string", "uniqueItems": True}
    parameters = [{"name": name, "in": "query", "schema": schema} for name in _WRITE_PARAMETERS]
    kind = {"group": resource.group, "kind": resource.kind, "version": resource.version}
    return {
        method: {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind,
            **({"parameters": parameters} if method in {"post", "put", "patch"} else {}),
            "responses": {"200": {"description": "OK"}},
        }
        for method, action in _ACTIONS[scope]
    }


def _add_builtin(definitions: dict[str, Any], resources: Sequence[StoredResource]) -> None:
    """Add the schemas of built-in kinds, and every schema that kinds refer to."""
    pending_names = [
        build_schema_name(resource.group, resource.version, resource.kind)
        for resource in resources
        if not resource.rules.is_custom
    ]
    # Schemas of custom kinds refer to those of metadata.
    if len(pending_names) < len(resources):
        pending_names += _META
    builtin_schemas = get_schemas()
    while pending_names:
        name = pending_names.pop()
        if name not in definitions and name in builtin_schemas:
            definitions[name] = builtin_schemas[name]
            pending_names += _list_references(builtin_schemas[name])


def _list_references(schema: Any) -> list[str]:
    """Return the names of all schemas that a schema refers to, at any depth."""
    if isinstance(schema, list):
        return [name for item in schema for name in _list_references(item)]
    if not isinstance(schema, dict):
        return []
    reference = schema.get("$ref")
    names = [reference.rpartition("/")[2]] if isinstance(reference, str) else []
    return names + [name for value in schema.values() for name in _list_references(value)]
