"""Makes what every server holds: namespaces and roles at its start, its Service once it listens.

What is there already, in a data folder, stays as it is; the Service alone is brought up to date,
because a server that starts again may listen elsewhere.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from envtest.bootstrap.roles import GROUP, cluster_role_bindings, cluster_roles
from envtest.server import objectmeta
from envtest.server.api import Api
from envtest.server.resource import Resource

Body = dict[str, Any]


def bootstrap(api: Api) -> None:
    """Make the namespaces of the system and the default roles where they are missing."""
    namespaces = ("default", "kube-node-lease", "kube-public", "kube-system")
    _make(api, "", "namespaces", [{"metadata": {"name": name}} for name in namespaces])
    _make(api, GROUP, "clusterroles", cluster_roles())
    _make(api, GROUP, "clusterrolebindings", cluster_role_bindings())


def publish_address(api: Api, service: str, address: str, port: int) -> None:
    """Write the Service `kubernetes` and where it leads to.

    Args:
        api: the state.
        service: the cluster address of the Service, the first one of its range.
        address: the address that the server listens on.
        port: the port that it listens on.
    """
    for group, plural, wanted in _own_service(service, address, port):
        resource = _find(api, group, plural)
        meta = wanted["metadata"]
        stored = api.table(resource).get(resource.key(meta["namespace"], meta["name"]))
        if stored is None:
            _create(api, resource, wanted)
            continue
        live = resource.load(stored)
        changed = {**live, **wanted, "metadata": live["metadata"]}
        if "spec" in wanted:
            changed["spec"] = {**live["spec"], "ports": wanted["spec"]["ports"]}
        if changed != live:
            api.store.write(resource.place, stored.key, resource.stored_form(changed))


def _own_service(service: str, address: str, port: int) -> Iterator[tuple[str, str, Body]]:
    """Yield group, plural and object for the Service and its endpoints in both forms."""
    meta = {"name": "kubernetes", "namespace": "default"}
    labels = {"component": "apiserver", "provider": "kubernetes"}
    front = {"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}
    back = {"name": "https", "port": port, "protocol": "TCP"}
    spec = {"clusterIP": service, "ipFamilyPolicy": "SingleStack", "ports": [front]}
    yield "", "services", {"metadata": {**meta, "labels": labels}, "spec": spec}
    subset = {"addresses": [{"ip": address}], "ports": [back]}
    yield "", "endpoints", {"metadata": meta, "subsets": [subset]}
    labels = {"kubernetes.io/service-name": "kubernetes"}
    yield (
        "discovery.k8s.io",
        "endpointslices",
        {
            "metadata": {**meta, "labels": labels},
            "addressType": "IPv6" if ":" in address else "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": [back],
        },
    )


def _make(api: Api, group: str, plural: str, bodies: Iterable[Body]) -> None:
    """Create the objects that are not there."""
    resource = _find(api, group, plural)
    for body in bodies:
        if api.table(resource).get(body["metadata"]["name"]) is None:
            _create(api, resource, body)


def _find(api: Api, group: str, plural: str) -> Resource:
    """Return a built-in resource; all that are asked for have a version v1."""
    resource = api.registry.find(group, "v1", plural)
    assert resource is not None
    return resource


def _create(api: Api, resource: Resource, body: Body) -> None:
    """Store a new object past authorization and admission; nobody owns its fields."""
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        **body,
        "metadata": dict(body["metadata"]),
    }
    resource.rules.default(body)
    resource.rules.prepare_create(body)
    objectmeta.fill_in(body["metadata"])
    meta = body["metadata"]
    key = resource.key(meta.get("namespace", ""), meta["name"])
    api.store.write(resource.place, key, resource.stored_form(body))
