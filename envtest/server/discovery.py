"""Discovery: the groups, versions and resources that are served.

Clients read them in one document each, or all in one document (aggregated discovery).
"""

import base64
import hashlib
from typing import Any

from envtest.kinds.catalogue import list_resources
from envtest.server.resource import Registry, StoredResource

VERSION = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2+envtest",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "cpython",
    "platform": "python",
}
_AGGREGATED = "APIGroupDiscoveryList"
# Built-in groups in the order of kube-apiserver. If two groups have a resource of the same name,
# clients take that of the earlier group. Groups of custom resources follow, by name.
_ORDER = (
    "",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "batch",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
)


def build_core_versions(address: str) -> dict[str, Any]:
    """Return the answer to /api."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def build_group_list(registry: Registry) -> dict[str, Any]:
    """Return the answer to /apis: all groups but the core group, whose name is empty."""
    groups = [_describe_group(name, versions) for name, versions in _sort_groups(registry) if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _sort_groups(registry: Registry) -> list[tuple[str, list[str]]]:
    """Return the groups with their versions in the order of `_ORDER`, then by name."""

    def rank(item: tuple[str, list[str]]) -> tuple[int, str]:
        """Return the sort key of a group: its place in `_ORDER`; other groups follow by name."""
        is_built_in = item[0] in _ORDER
        return (_ORDER.index(item[0]), "") if is_built_in else (len(_ORDER), item[0])

    return sorted(registry.list_groups().items(), key=rank)


def build_group(registry: Registry, name: str) -> dict[str, Any] | None:
    """Return the answer to /apis/NAME; None if there is no such group."""
    versions = registry.list_groups().get(name)
    if not versions or not name:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_describe_group(name, versions)}


def _describe_group(name: str, versions: list[str]) -> dict[str, Any]:
    """Return a group with its versions, the preferred version first."""
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def build_resource_list(
    registry: Registry, group_name: str, version: str
) -> dict[str, Any] | None:
    """Return the answer to /apis/GROUP/VERSION; None if that version is not served."""
    group_resources = registry.list_version(group_name, version)
    if not group_resources:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_resources[0].api_version,
        "resources": [
            entry for resource in group_resources for entry in _describe_resource(resource)
        ],
    }


def _describe_resource(resource: StoredResource) -> list[dict[str, Any]]:
    """Return the entries of a resource and its subresources."""
    main: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        main["shortNames"] = list(resource.short_names)
    if resource.categories:
        main["categories"] = list(resource.categories)
    # Only kinds that are stored can be watched.
    if "watch" in resource.verbs:
        main["storageVersionHash"] = _compute_storage_hash(resource)
    subresources = [
        # Subresources are not stored, so they have no hash of their stored version.
        {
            **{key: value for key, value in entry.items() if key != "storageVersionHash"},
            "name": f"{resource.plural}/{name}",
        }
        for name, entry in resource.subresources.items()
    ]
    return [main, *subresources]


def _compute_storage_hash(resource: StoredResource) -> str:
    """Return the hash by which clients see that the stored version of a kind changed."""
    if not resource.rules.is_custom:
        # kube-apiserver stores some built-in kinds in another version than the served one, so
        # the hash comes from its recorded discovery documents.
        entries = list_resources()[resource.api_version]
        return str(
            next(
                entry["storageVersionHash"]
                for entry in entries
                if entry["name"] == resource.plural
            )
        )
    # As in kube-apiserver (discovery.StorageVersionHash): eight bytes of the hash.
    identifier = f"{resource.group}/{resource.version}/{resource.kind}"
    return base64.b64encode(hashlib.sha256(identifier.encode()).digest()[:8]).decode()


def build_aggregated_discovery(registry: Registry, *, core: bool) -> dict[str, Any]:
    """Return the aggregated discovery document: the core group for /api, the others for /apis."""
    items = []
    for name, versions in _sort_groups(registry):
        is_core = name == ""
        if is_core != core:
            continue
        entries = [_describe_version(registry, name, version) for version in versions]
        items.append({"metadata": {"name": name, "creationTimestamp": None}, "versions": entries})
    return {
        "kind": _AGGREGATED,
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _describe_version(registry: Registry, group_name: str, version: str) -> dict[str, Any]:
    """Return the aggregated entry of one group version."""
    resources = [
        _describe_aggregated(resource) for resource in registry.list_version(group_name, version)
    ]
    return {"version": version, "resources": resources, "freshness": "Current"}


def _describe_aggregated(resource: StoredResource) -> dict[str, Any]:
    """Return the aggregated entry of a resource, which includes its subresources."""
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": _describe_kind(resource, {}),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": name,
                "responseKind": _describe_kind(resource, subresource),
                "verbs": list(subresource["verbs"]),
            }
            for name, subresource in resource.subresources.items()
        ]
    return entry


def _describe_kind(resource: StoredResource, entry: dict[str, Any]) -> dict[str, str]:
    """Return the kind that a subresource answers with; by default it is the resource's kind."""
    return {
        "group": entry.get("group", resource.group),
        "version": entry.get("version", resource.version),
        "kind": entry.get("kind", resource.kind),
    }
