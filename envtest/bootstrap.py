"""Create the objects that every server has: namespaces, default roles, and its own Service.

Existing objects of a data folder stay unchanged. Only the Service is updated, because the address
of the server may have changed.

The default ClusterRoles are those that people and clients use. A real server has about seventy
more, for kubelets, schedulers and the controllers of kube-controller-manager, which do not run
here. The rules of `admin`, `edit` and `view` name the kinds that are served here.
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
# Aggregated roles, and role -> the aggregated role that includes its rules.
_AGGREGATED: Final = ("admin", "edit", "view")
_AGGREGATED_INTO: Final = {
    "edit": "admin",
    "view": "edit",
    **{f"system:aggregate-to-{name}": name for name in _AGGREGATED},
}
# Role -> the groups to which it is bound.
_GROUPS_OF_ROLES: Final = {
    "cluster-admin": ("system:masters",),
    "system:basic-user": ("system:authenticated",),
    "system:discovery": ("system:authenticated",),
    "system:public-info-viewer": ("system:authenticated", "system:unauthenticated"),
}


def create_default_objects(api: Api) -> None:
    """Create the system's namespaces, the default roles and their bindings, if missing."""
    namespaces = ("default", "kube-node-lease", "kube-public", "kube-system")
    _create_missing(
        api, "", plural="namespaces", bodies=[{"metadata": {"name": name}} for name in namespaces]
    )
    _create_missing(api, _GROUP, plural="clusterroles", bodies=_build_cluster_roles())
    _create_missing(api, _GROUP, plural="clusterrolebindings", bodies=_build_bindings())


def publish_address(api: Api, cluster_address: str, address: str, port: int) -> None:
    """Create or update the Service `kubernetes` and its endpoints.

    Args:
        api: the state.
        cluster_address: the cluster address of the Service, the first one of its range.
        address: the address that the server listens on.
        port: the port that it listens on.
    """
    for group, plural, body in _describe_own_service(cluster_address, address, port):
        resource = _get_resource(api, group, plural)
        meta = body["metadata"]
        stored = api.get_table(resource).get(resource.build_key(meta["namespace"], meta["name"]))
        if stored is None:
            _store_object(api, resource, body)
            continue
        live = resource.decode_object(stored)
        updated_body = {**live, **body, "metadata": live["metadata"]}
        # The cluster address of the Service stays; only its ports follow the server's port.
        if "spec" in body:
            updated_body["spec"] = {**live["spec"], "ports": body["spec"]["ports"]}
        if updated_body != live:
            api.store.write(resource.table_name, stored.key, resource.to_stored_form(updated_body))


def _describe_own_service(
    cluster_address: str, address: str, port: int
) -> Iterator[tuple[str, str, Body]]:
    """Yield group, plural and object of the Service, its Endpoints and its EndpointSlice."""
    meta = {"name": "kubernetes", "namespace": "default"}
    labels = {"component": "apiserver", "provider": "kubernetes"}
    service_port = {"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}
    endpoint_port = {"name": "https", "port": port, "protocol": "TCP"}
    spec = {"clusterIP": cluster_address, "ipFamilyPolicy": "SingleStack", "ports": [service_port]}
    yield "", "services", {"metadata": {**meta, "labels": labels}, "spec": spec}
    subset = {"addresses": [{"ip": address}], "ports": [endpoint_port]}
    yield "", "endpoints", {"metadata": meta, "subsets": [subset]}
    labels = {"kubernetes.io/service-name": "kubernetes"}
    yield (
        "discovery.k8s.io",
        "endpointslices",
        {
            "metadata": {**meta, "labels": labels},
            "addressType": "IPv6" if ":" in address else "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": [endpoint_port],
        },
    )


def _create_missing(api: Api, group: str, plural: str, bodies: Iterable[Body]) -> None:
    """Create the objects that do not exist."""
    resource = _get_resource(api, group, plural)
    for body in bodies:
        if api.get_table(resource).get(body["metadata"]["name"]) is None:
            _store_object(api, resource, body)


def _get_resource(api: Api, group: str, plural: str) -> StoredResource:
    """Return the version v1 of a built-in resource."""
    resource = api.registry.find(group, "v1", plural)
    assert resource is not None
    return resource


def _store_object(api: Api, resource: StoredResource, body: Body) -> None:
    """Store a new object without authorization, admission and managedFields."""
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        **body,
        "metadata": dict(body["metadata"]),
    }
    resource.rules.set_defaults(body)
    resource.rules.prepare_create(body)
    objectmeta.set_creation_fields(body["metadata"])
    resource.rules.set_fields_after_naming(body)
    meta = body["metadata"]
    key = resource.build_key(meta.get("namespace", ""), meta["name"])
    api.store.write(resource.table_name, key, resource.to_stored_form(body))


def _build_cluster_roles() -> Iterator[Body]:
    """Yield the default ClusterRoles; `access.aggregation` sets the rules of aggregated ones."""
    for name, rules in _ROLES.items():
        yield {
            "metadata": _build_metadata(name),
            "rules": [_parse_rule(*fields) for fields in rules],
        }
    for name in _AGGREGATED:
        selectors = [{"matchLabels": {f"{_AGGREGATE}{name}": "true"}}]
        aggregation = {"clusterRoleSelectors": selectors}
        yield {"metadata": _build_metadata(name), "aggregationRule": aggregation, "rules": None}


def _build_bindings() -> Iterator[Body]:
    """Yield the default ClusterRoleBindings."""
    for name, groups in _GROUPS_OF_ROLES.items():
        yield {
            "metadata": _build_metadata(name),
            "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "Group", "apiGroup": _GROUP, "name": group} for group in groups],
        }


def _build_metadata(name: str) -> Body:
    """Return the metadata of a default role or binding, with the labels for aggregation."""
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    if name in _AGGREGATED_INTO:
        labels[f"{_AGGREGATE}{_AGGREGATED_INTO[name]}"] = "true"
    return {"name": name, "labels": labels}


def _parse_rule(*parts: str) -> Body:
    """Return the PolicyRule of an entry of `_ROLES`.

    Args:
        parts: paths and verbs, or groups (`_` is the core group), resources and verbs; each part
            is a list with spaces in between.
    """
    if len(parts) == 2:
        paths, verbs = (part.split(" ") for part in parts)
        return {"verbs": verbs, "nonResourceURLs": paths}
    groups, resources, verbs = (part.split(" ") for part in parts)
    return {
        "verbs": verbs,
        "apiGroups": ["" if group == "_" else group for group in groups],
        "resources": resources,
    }
