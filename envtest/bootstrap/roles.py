"""The default ClusterRoles that people and clients of the embedded server meet.

A real server has about seventy more, for kubelets, schedulers and the controllers of
kube-controller-manager; nothing here acts for those. The rules of `admin`, `edit` and `view` name
the kinds that are served here.
"""

from collections.abc import Iterator
from typing import Any, Final

GROUP: Final = "rbac.authorization.k8s.io"
_AGGREGATE: Final = f"{GROUP}/aggregate-to-"
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
        (GROUP, "rolebindings roles", f"{_READ} {_WRITE}"),
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


def cluster_roles() -> Iterator[Body]:
    """Yield the default ClusterRoles; the rules of aggregated ones are found among the others."""
    for name, rules in _ROLES.items():
        yield {"metadata": _metadata(name), "rules": [_rule(*one) for one in rules]}
    for name in _AGGREGATED:
        selected = [{"matchLabels": {f"{_AGGREGATE}{name}": "true"}}]
        aggregation = {"clusterRoleSelectors": selected}
        yield {"metadata": _metadata(name), "aggregationRule": aggregation, "rules": None}


def cluster_role_bindings() -> Iterator[Body]:
    """Yield the default ClusterRoleBindings."""
    for name, groups in _BOUND.items():
        yield {
            "metadata": _metadata(name),
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "Group", "apiGroup": GROUP, "name": one} for one in groups],
        }


def _metadata(name: str) -> Body:
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    if name in _PART_OF:
        labels[f"{_AGGREGATE}{_PART_OF[name]}"] = "true"
    return {"name": name, "labels": labels}


def _rule(*parts: str) -> Body:
    """Return the PolicyRule of one line of the table."""
    first, *others = (part.split(" ") for part in parts)
    if len(parts) == 2:
        return {"verbs": others[0], "nonResourceURLs": first}
    groups = ["" if group == "_" else group for group in first]
    return {"verbs": others[1], "apiGroups": groups, "resources": others[0]}
