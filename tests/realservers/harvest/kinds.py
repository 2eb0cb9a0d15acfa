"""Rebuild `kinds.json` from a running API server.

    python -m tests.realservers.harvest.kinds URL TOKEN

The file holds facts only: which built-in kinds the embedded server serves, how discovery describes
them, and the shape of their fields. Descriptions are left out; they are prose of another project
and most of the bytes.
"""

import json
import ssl
import sys
import urllib.request
from pathlib import Path
from typing import Any

import envtest.kinds

GROUP_VERSIONS = (
    "v1",
    "admissionregistration.k8s.io/v1",
    "apiextensions.k8s.io/v1",
    "apps/v1",
    "authentication.k8s.io/v1",
    "authorization.k8s.io/v1",
    "batch/v1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "events.k8s.io/v1",
    "networking.k8s.io/v1",
    "policy/v1",
    "rbac.authorization.k8s.io/v1",
    # Nothing here uses priorities, but kubectl takes the short name `pc` for them on real servers.
    "scheduling.k8s.io/v1",
)
# Kinds of these groups that nothing here meets.
LEFT_OUT = (
    "bindings",
    "componentstatuses",
    "controllerrevisions",
    "ingressclasses",
    "ipaddresses",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "podtemplates",
    "servicecidrs",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
)
LEFT_OUT_SUBRESOURCES = (
    "attach",
    "binding",
    "ephemeralcontainers",
    "eviction",
    "exec",
    "log",
    "portforward",
    "proxy",
    "resize",
)
_ALSO = ("DeleteOptions", "ListMeta")


def main() -> int:
    """Fetch, trim and write; print what was written."""
    url, token = sys.argv[1:3]
    target = Path(envtest.kinds.__file__).with_name("kinds.json")
    resources: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for gv in GROUP_VERSIONS:
        root = f"/api/{gv}" if "/" not in gv else f"/apis/{gv}"
        resources[gv] = [
            entry for entry in _get(url + root, token)["resources"] if _is_kept(entry["name"])
        ]
        all_schemas = _get(f"{url}/openapi/v3{root}", token)["components"]["schemas"]
        schemas.update(_reachable(all_schemas, gv, resources[gv]))
    content = json.dumps(
        {"resources": resources, "schemas": schemas}, sort_keys=True, separators=(",", ":")
    )
    target.write_text(content + "\n", encoding="utf-8")
    sys.stdout.write(f"{target}: {len(content)} bytes, {len(schemas)} schemas\n")
    return 0


def _get(url: str, token: str) -> Any:  # JSON of any shape
    """Read one JSON document; the server's certificate is not checked, it is a throwaway."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, context=context) as answer:
        return json.load(answer)


def _is_kept(name: str) -> bool:
    """Return whether a resource or subresource is one that the embedded server answers for."""
    resource, _, subresource = name.partition("/")
    return resource not in LEFT_OUT and subresource not in LEFT_OUT_SUBRESOURCES


def _reachable(
    all_schemas: dict[str, Any], gv: str, entries: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the schemas of a group's kinds and all that they refer to, without descriptions."""
    group, _, version = gv.rpartition("/")
    # A subresource may be of a kind of another group.
    kinds = {
        (entry.get("group", group), entry.get("version", version), entry["kind"])
        for entry in entries
    }
    todo = [
        name
        for name, schema in all_schemas.items()
        for gvk in schema.get("x-kubernetes-group-version-kind", ())
        if (gvk["group"], gvk["version"], gvk["kind"]) in kinds
    ]
    # The lists of custom kinds refer to it, even though no built-in list is kept.
    # DeleteOptions are a body, though of no resource.
    todo += all_schemas.keys() & {f"io.k8s.apimachinery.pkg.apis.meta.v1.{name}" for name in _ALSO}
    kept: dict[str, Any] = {}
    while todo:
        name = todo.pop()
        if name not in kept:
            kept[name] = _trim(all_schemas[name])
            todo += _references(kept[name])
    return kept


def _trim(schema: Any, *, is_map: bool = False) -> Any:
    """Drop descriptions and collapse single-entry allOf, which only carries a default along."""
    if isinstance(schema, list):
        return [_trim(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _trim(value, is_map=key == "properties")
        for key, value in schema.items()
        if is_map or key not in {"description", "default"} or (key == "default" and value != {})
    }


def _references(schema: Any) -> list[str]:
    """List the names of the schemas that a schema refers to."""
    if isinstance(schema, list):
        return [name for item in schema for name in _references(item)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"].rpartition("/")[2]] if isinstance(schema.get("$ref"), str) else []
    return own + [name for value in schema.values() for name in _references(value)]


if __name__ == "__main__":
    sys.exit(main())
