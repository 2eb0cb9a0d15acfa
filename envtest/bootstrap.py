"""Makes what every server holds: namespaces and roles at its start, its Service once it listens.

What is there already, in a data folder, stays as it is; the Service alone is brought up to date,
because a server that starts again may listen elsewhere.

Of the default ClusterRoles there are those that people and clients meet. A real server has about
seventy more, for kubelets, schedulers and the controllers of kube-controller-manager; nothing here
acts for those. The rules of `admin`, `edit` and `view` name the kinds that are served here.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from envtest.server import objectmeta
from envtest.server.api import Api
from envtest.server.resource import StoredResource

_GROUP: Final = "rbac.authorization.k8s.io"
_AGGREGATE: Final = f"{_GROUP}/aggregate-to-"
_READ: Final = "get list watch"
_WRITE: Final = "create delete deletecollection patch update"

Body = dict[str, Any]
# API groups (`_` is the core group), resources, verbs; or paths and verbs.
_Rule = tuple[str, ...]

_WORKLOADS: Final = "daemonsets deployments replicasets statefulsets"
_SCALES: Final = "deployments/scale replicasets/scale statefulsets/scale"
_CORE: Final = "configmaps endpoints persistentvolumeclaims pods serviceaccounts services"
_ROLES: Final[dict[str, tuple[_Rule, ...]]] = {
    "cluster-admin": (("*", "*", "*"), ("*", "*")),
    "system:aggregate-to-admin": (
        ("authorization.k8s.io", "localsubjectaccessreviews", "create"),
        (_GROUP, "rolebindings roles", f"{_READ} {_WRITE}"),
    ),
    "system:aggregate-to-edit": (
        ("_", "secrets", _READ),
        ("_", "serviceaccounts", "impersonate"),
        ("_", "serviceaccounts/token", "create"),
        ("_", f"{_CORE} secrets", _WRITE),
        ("_ events.k8s.io", "events", _WRITE),
        ("apps", f"{_WORKLOADS} {_SCALES}", _WRITE),
        ("batch", "cronjobs jobs", _WRITE),
        ("policy", "poddisruptionbudgets", _WRITE),
        ("networking.k8s.io", "ingresses networkpolicies", _WRITE),
        ("coordination.k8s.io", "leases", f"{_READ} {_WRITE}"),
    ),
    "system:aggregate-to-view": (
        ("_", f"{_CORE} pods/status services/status", _READ),
        ("_", "limitranges namespaces namespaces/status resourcequotas", _READ),
        ("_ events.k8s.io", "events", _READ),
        ("discovery.k8s.io", "endpointslices", _READ),
        ("apps", f"{_WORKLOADS} {_SCALES}", _READ),
        ("batch", "cronjobs jobs", _READ),
        ("policy", "poddisruptionbudgets", _READ),
        ("networking.k8s.io", "ingresses networkpolicies", _READ),
    ),
    "system:auth-delegator": (
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    ),
    "system:basic-user": (
        ("authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews", "create"),
        ("authentication.k8s.io", "selfsubjectreviews", "create"),
    ),
    "system:discovery": (
        ("/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version", "get"),
    ),
    "system:public-info-viewer": (("/healthz /livez /readyz /version", "get"),),
}
# Roles whose rules are those of others, and into which of them each part goes.
_AGGREGATED: Final = ("admin", "edit", "view")
_PART_OF: Final = {
    "edit": "admin",
    "view": "edit",
    **{f"system:aggregate-to-{name}": name for name in _AGGREGATED},
}
# Role -> the groups that hold it.
_BOUND: Final = {
    "cluster-admin": ("system:masters",),
    "system:basic-user": ("system:authenticated",),
    "system:discovery": ("system:authenticated",),
    "system:public-info-viewer": ("system:authenticated", "system:unauthenticated"),
}


def bootstrap(api: Api) -> None:
    """Make the namespaces of the system and the default roles where they are missing."""
    namespaces = ("default", "kube-node-lease", "kube-public", "kube-system")
    _make(
        api, "", plural="namespaces", bodies=[{"metadata": {"name": name}} for name in namespaces]
    )
    _make(api, _GROUP, plural="clusterroles", bodies=_cluster_roles())
    _make(api, _GROUP, plural="clusterrolebindings", bodies=_cluster_role_bindings())


def publish_address(api: Api, service: str, address: str, port: int) -> None:
    """Write the Service `kubernetes` and where it leads to.

    Args:
        api: the state.
        service: the cluster address of the Service, the first one of its range.
        address: the address that the server listens on.
        port: the port that it listens on.
    """
    for group, plural, body in _own_service(service, address, port):
        resource = _find(api, group, plural)
        meta = body["metadata"]
        stored = api.table(resource).get(resource.key(meta["namespace"], meta["name"]))
        if stored is None:
            _create(api, resource, body)
            continue
        live = resource.load(stored)
        changed = {**live, **body, "metadata": live["metadata"]}
        if "spec" in body:
            changed["spec"] = {**live["spec"], "ports": body["spec"]["ports"]}
        if changed != live:
            api.store.write(resource.place, stored.key, resource.to_stored_form(changed))


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
    """Create the objects that do not exist."""
    resource = _find(api, group, plural)
    for body in bodies:
        if api.table(resource).get(body["metadata"]["name"]) is None:
            _create(api, resource, body)


def _find(api: Api, group: str, plural: str) -> StoredResource:
    """Return a built-in resource; all that are asked for have a version v1."""
    resource = api.registry.find(group, "v1", plural)
    assert resource is not None
    return resource


def _create(api: Api, resource: StoredResource, body: Body) -> None:
    """Store a new object past authorization and admission; it has no managedFields."""
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        **body,
        "metadata": dict(body["metadata"]),
    }
    resource.rules.default(body)
    resource.rules.prepare_create(body)
    objectmeta.fill_in_new(body["metadata"])
    resource.rules.complete_new(body)
    meta = body["metadata"]
    key = resource.key(meta.get("namespace", ""), meta["name"])
    api.store.write(resource.place, key, resource.to_stored_form(body))


def _cluster_roles() -> Iterator[Body]:
    """Yield the default ClusterRoles; the rules of aggregated ones are found among the others."""
    for name, rules in _ROLES.items():
        yield {"metadata": _metadata(name), "rules": [_rule(*fields) for fields in rules]}
    for name in _AGGREGATED:
        selected = [{"matchLabels": {f"{_AGGREGATE}{name}": "true"}}]
        aggregation = {"clusterRoleSelectors": selected}
        yield {"metadata": _metadata(name), "aggregationRule": aggregation, "rules": None}


def _cluster_role_bindings() -> Iterator[Body]:
    """Yield the default ClusterRoleBindings."""
    for name, groups in _BOUND.items():
        yield {
            "metadata": _metadata(name),
            "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "Group", "apiGroup": _GROUP, "name": group} for group in groups],
        }


def _metadata(name: str) -> Body:
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    if name in _PART_OF:
        labels[f"{_AGGREGATE}{_PART_OF[name]}"] = "true"
    return {"name": name, "labels": labels}


def _rule(*parts: str) -> Body:
    """Return the PolicyRule of one line of the table."""
    first, *other_authenticators = (part.split(" ") for part in parts)
    if len(parts) == 2:
        return {"verbs": other_authenticators[0], "nonResourceURLs": first}
    groups = ["" if group == "_" else group for group in first]
    return {
        "verbs": other_authenticators[1],
        "apiGroups": groups,
        "resources": other_authenticators[0],
    }
