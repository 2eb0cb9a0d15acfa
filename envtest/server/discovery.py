"""Discovery: which groups, versions and resources there are, one by one and all at once."""

import base64
import hashlib
from typing import Any

from envtest.kinds.catalogue import resources
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
# The order of built-in groups, which says whose resource wins where names meet, as kube-apiserver
# has it; groups of custom resources come after them, by name.
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


def core_versions(address: str) -> dict[str, Any]:
    """Return the answer to /api."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(registry: Registry) -> dict[str, Any]:
    """Return the answer to /apis."""
    groups = [_group(name, versions) for name, versions in _in_order(registry) if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _in_order(registry: Registry) -> list[tuple[str, list[str]]]:
    """Return groups with their versions, those first whose resources win where names meet."""

    def place(item: tuple[str, list[str]]) -> tuple[int, str]:
        known = item[0] in _ORDER
        return (_ORDER.index(item[0]), "") if known else (len(_ORDER), item[0])

    return sorted(registry.groups().items(), key=place)


def group(registry: Registry, name: str) -> dict[str, Any] | None:
    """Return the answer to /apis/NAME, if there is such a group."""
    versions = registry.groups().get(name)
    if not versions or not name:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def _group(name: str, versions: list[str]) -> dict[str, Any]:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def resource_list(registry: Registry, group_name: str, version: str) -> dict[str, Any] | None:
    """Return the resources of a group version, if it is served."""
    group_resources = registry.in_version(group_name, version)
    if not group_resources:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_resources[0].api_version,
        "resources": [entry for resource in group_resources for entry in _entries(resource)],
    }


def _entries(resource: StoredResource) -> list[dict[str, Any]]:
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
    if "watch" in resource.verbs:
        main["storageVersionHash"] = _hash(resource)
    subresources = [
        {
            **{key: value for key, value in entry.items() if key != "storageVersionHash"},
            "name": f"{resource.plural}/{name}",
        }
        for name, entry in resource.subresources.items()
    ]
    return [main, *subresources]


def _hash(resource: StoredResource) -> str:
    """Return the hash by which clients see that the stored version of a kind changed."""
    if not resource.rules.custom:
        # Not every built-in kind is stored in the version in which it is served.
        known = resources()[resource.api_version]
        return str(
            next(
                entry["storageVersionHash"] for entry in known if entry["name"] == resource.plural
            )
        )
    identifier = f"{resource.group}/{resource.version}/{resource.kind}"
    return base64.b64encode(hashlib.sha256(identifier.encode()).digest()[:8]).decode()


def aggregate_groups(registry: Registry, *, core: bool) -> dict[str, Any]:
    """Return the aggregated discovery document: the core group for /api, the others for /apis."""
    items = []
    for name, versions in _in_order(registry):
        if (name == "") is not core:
            continue
        entries = [_version(registry, name, version) for version in versions]
        items.append({"metadata": {"name": name, "creationTimestamp": None}, "versions": entries})
    return {
        "kind": _AGGREGATED,
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _version(registry: Registry, group_name: str, version: str) -> dict[str, Any]:
    resources = [
        _aggregated_entry(resource) for resource in registry.in_version(group_name, version)
    ]
    return {"version": version, "resources": resources, "freshness": "Current"}


def _aggregated_entry(resource: StoredResource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": _kind(resource, {}),
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
                "responseKind": _kind(resource, subresource),
                "verbs": list(subresource["verbs"]),
            }
            for name, subresource in resource.subresources.items()
        ]
    return entry


def _kind(resource: StoredResource, entry: dict[str, Any]) -> dict[str, str]:
    return {
        "group": entry.get("group", resource.group),
        "version": entry.get("version", resource.version),
        "kind": entry.get("kind", resource.kind),
    }
