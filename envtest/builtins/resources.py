"""The built-in resources, built from the catalogue and the rules of each kind."""

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Any

from envtest.builtins.core import KeyedRules, LeaseRules, NamespaceRules, SecretRules
from envtest.builtins.definitions import DefinitionRules
from envtest.builtins.events import EventRules, convert_to_core, convert_to_events_group
from envtest.builtins.roles import BindingRules, RoleRules
from envtest.builtins.rules import BuiltinRules
from envtest.builtins.services import ServiceRules
from envtest.builtins.webhooks import WebhookRules
from envtest.kinds.catalogue import list_resources
from envtest.server.resource import StoredResource
from envtest.storage import Store

_RULES_BY_KIND: dict[tuple[str, str], type[BuiltinRules]] = {
    ("", "Namespace"): NamespaceRules,
    ("", "Secret"): SecretRules,
    ("", "ConfigMap"): KeyedRules,
    ("", "Event"): EventRules,
    ("events.k8s.io", "Event"): EventRules,
    ("coordination.k8s.io", "Lease"): LeaseRules,
    ("rbac.authorization.k8s.io", "ClusterRole"): RoleRules,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): BindingRules,
    ("rbac.authorization.k8s.io", "Role"): RoleRules,
    ("rbac.authorization.k8s.io", "RoleBinding"): BindingRules,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): DefinitionRules,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): WebhookRules,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): WebhookRules,
}
# The warnings to clients that use a deprecated kind.
_DEPRECATED = {
    ("", "v1", "Endpoints"): (
        "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    ),
}


def list_builtin_resources(store: Store, service_network: IPv4Network) -> Iterator[StoredResource]:
    """Yield every built-in resource.

    Args:
        store: the objects, in which services look up used addresses and ports.
        service_network: the range of cluster addresses.
    """
    for group_version, entries in list_resources().items():
        group, _, version = group_version.rpartition("/")
        for entry in entries:
            if "/" not in entry["name"]:
                yield _build_resource(
                    group,
                    version,
                    entry=entry,
                    entries=entries,
                    store=store,
                    service_network=service_network,
                )


def _build_resource(  # the parts of one discovery entry
    group: str,
    version: str,
    entry: dict[str, Any],
    entries: list[dict[str, Any]],
    store: Store,
    service_network: IPv4Network,
) -> StoredResource:
    """Return a resource with the rules of its kind.

    Args:
        entry: the discovery entry of the resource.
        entries: all discovery entries of the group version, which include the subresources.
        store: the objects, in which services look up used addresses and ports.
        service_network: the range of cluster addresses.
    """
    plural, kind = entry["name"], entry["kind"]
    subresources = {
        entry["name"].partition("/")[2]: entry
        for entry in entries
        if entry["name"].startswith(f"{plural}/")
    }
    rules: BuiltinRules
    if (group, kind) == ("", "Service"):
        rules = ServiceRules(store, service_network)
    else:
        rules_class = _RULES_BY_KIND.get((group, kind), BuiltinRules)
        rules = rules_class(group, version, kind, has_status="status" in subresources)
    rules.set_scope(namespaced=entry["namespaced"])
    # Events of both groups are the same objects, stored as those of the core group.
    is_new_event = (group, kind) == ("events.k8s.io", "Event")
    return StoredResource(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        list_kind=f"{kind}List",
        singular=entry["singularName"],
        namespaced=entry["namespaced"],
        rules=rules,
        verbs=tuple(entry["verbs"]),
        subresources=subresources,
        short_names=tuple(entry.get("shortNames", ())),
        categories=tuple(entry.get("categories", ())),
        deprecation=_DEPRECATED.get((group, version, kind), ""),
        table_name=f"{group}/{plural}" if group and not is_new_event else plural,
        to_version=convert_to_events_group if is_new_event else None,
        to_storage=convert_to_core if is_new_event else None,
    )
