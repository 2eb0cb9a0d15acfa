"""What a fresh server holds before anybody asks: namespaces, and the roles that everyone needs."""

from collections.abc import Iterator
from typing import Any

from envtest.server import objectmeta
from envtest.server.api import Api

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_RBAC = "rbac.authorization.k8s.io"
_DISCOVERY = [
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
]
_PUBLIC = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_REVIEWS = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
_READ = ["get", "list", "watch"]
_EVERYONE = ("system:authenticated", "system:unauthenticated")

_ROLES: dict[str, list[dict[str, Any]]] = {
    "cluster-admin": [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ],
    "system:discovery": [{"nonResourceURLs": _DISCOVERY, "verbs": ["get"]}],
    "system:public-info-viewer": [{"nonResourceURLs": _PUBLIC, "verbs": ["get"]}],
    "system:basic-user": [
        {"apiGroups": ["authorization.k8s.io"], "resources": _REVIEWS, "verbs": ["create"]},
        {
            "apiGroups": ["authentication.k8s.io"],
            "resources": ["selfsubjectreviews"],
            "verbs": ["create"],
        },
    ],
    "system:auth-delegator": [
        {
            "apiGroups": ["authentication.k8s.io"],
            "resources": ["tokenreviews"],
            "verbs": ["create"],
        },
        {
            "apiGroups": ["authorization.k8s.io"],
            "resources": ["subjectaccessreviews"],
            "verbs": ["create"],
        },
    ],
    "view": [
        {
            "apiGroups": [""],
            "resources": ["configmaps", "events", "namespaces", "pods", "services"],
            "verbs": _READ,
        },
        {"apiGroups": ["apps", "batch"], "resources": ["*"], "verbs": _READ},
    ],
    "edit": [
        {
            "apiGroups": [""],
            "resources": [
                "configmaps",
                "events",
                "pods",
                "secrets",
                "serviceaccounts",
                "services",
            ],
            "verbs": ["*"],
        },
        {"apiGroups": ["apps", "batch"], "resources": ["*"], "verbs": ["*"]},
    ],
    "admin": [
        {"apiGroups": ["", "apps", "batch", _RBAC], "resources": ["*"], "verbs": ["*"]},
    ],
}
_BINDINGS = {
    "cluster-admin": ("system:masters",),
    "system:discovery": ("system:authenticated",),
    "system:basic-user": ("system:authenticated",),
    "system:public-info-viewer": _EVERYONE,
}


def bootstrap(api: Api) -> None:
    """Create what is missing; what is there stays as it is."""
    for group, version, plural, body in _objects():
        resource = api.registry.find(group, version, plural)
        assert resource is not None
        key = body["metadata"]["name"]
        if api.table(resource).get(key) is not None:
            continue
        resource.rules.default(body)
        resource.rules.prepare_create(body)
        objectmeta.fill_in(body["metadata"])
        api.store.write(resource.place, key, resource.stored_form(body))


def _objects() -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    for name in _NAMESPACES:
        yield "", "v1", "namespaces", {"metadata": {"name": name}}
    for name, rules in _ROLES.items():
        meta = {"name": name, "labels": dict(labels)}
        yield _RBAC, "v1", "clusterroles", {"metadata": meta, "rules": rules}
    for name, groups in _BINDINGS.items():
        meta = {"name": name, "labels": dict(labels)}
        yield (
            _RBAC,
            "v1",
            "clusterrolebindings",
            {
                "metadata": meta,
                "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
                "subjects": [
                    {"apiGroup": _RBAC, "kind": "Group", "name": group} for group in groups
                ],
            },
        )
