"""What a fresh server holds before anybody asks: namespaces, and the roles that everyone needs."""

import copy
from collections.abc import Iterator
from typing import Any

from envtest.access.policy import GROUP, cluster_role_bindings, cluster_roles
from envtest.server import objectmeta
from envtest.server.api import Api

# The server's own service, at the first address of the range; nothing is behind it here.
_KUBERNETES: dict[str, Any] = {
    "metadata": {
        "name": "kubernetes",
        "namespace": "default",
        "labels": {"component": "apiserver", "provider": "kubernetes"},
    },
    "spec": {
        "clusterIP": "10.96.0.1",
        "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
    },
}
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


def bootstrap(api: Api) -> None:
    """Create what is missing; what is there stays as it is."""
    for group, plural, body in _objects():
        resource = api.registry.find(group, "v1", plural)
        assert resource is not None
        meta = body["metadata"]
        key = f"{meta['namespace']}/{meta['name']}" if resource.namespaced else meta["name"]
        if api.table(resource).get(key) is not None:
            continue
        resource.rules.default(body)
        resource.rules.prepare_create(body)
        objectmeta.fill_in(body["metadata"])
        api.store.write(resource.place, key, resource.stored_form(body))


def _objects() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for name in _NAMESPACES:
        yield "", "namespaces", {"metadata": {"name": name}}
    yield "", "services", copy.deepcopy(_KUBERNETES)
    for body in cluster_roles():
        yield GROUP, "clusterroles", body
    for body in cluster_role_bindings():
        yield GROUP, "clusterrolebindings", body
