"""The roles and bindings of RBAC that every cluster has from its start.

What each grants is Kubernetes' default policy. Roles of the controllers in kube-controller-manager
(`system:controller:...`) are left out: nobody here acts for them.
"""

from collections.abc import Iterator
from typing import Any, Final

GROUP: Final = "rbac.authorization.k8s.io"
_LABELS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATIONS: Final = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_AGGREGATE: Final = f"{GROUP}/aggregate-to-"

_READ: Final = "get list watch"
_WRITE: Final = "create delete deletecollection patch update"
_ALL: Final = "create delete deletecollection get list patch update watch"
_EVENTS: Final = ("_ events.k8s.io", "events", "create patch update")
_REVIEWS: Final = (
    ("authentication.k8s.io", "tokenreviews", "create"),
    ("authorization.k8s.io", "subjectaccessreviews", "create"),
)
_WORKLOADS: Final = (
    "controllerrevisions daemonsets daemonsets/status deployments deployments/scale "
    "deployments/status replicasets replicasets/scale replicasets/status statefulsets "
    "statefulsets/scale statefulsets/status"
)
_SUBS: Final = "pods/attach pods/exec pods/portforward pods/proxy"

# Groups (`_` is the core), resources, verbs and perhaps names, each separated by blanks; a rule of
# two parts is for paths.
_RULES: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "cluster-admin": (("*", "*", "*"), ("*", "*")),
    "system:aggregate-to-admin": (
        ("authorization.k8s.io", "localsubjectaccessreviews", "create"),
        (GROUP, "rolebindings roles", _ALL),
    ),
    "system:aggregate-to-edit": (
        ("_", f"{_SUBS} secrets services/proxy", _READ),
        ("_", "serviceaccounts", "impersonate"),
        ("_", f"pods {_SUBS}", _WRITE),
        ("_", "pods/eviction", "create"),
        (
            "_",
            (
                "configmaps events persistentvolumeclaims replicationcontrollers "
                "replicationcontrollers/scale secrets serviceaccounts services services/proxy"
            ),
            _WRITE,
        ),
        ("_", "serviceaccounts/token", "create"),
        (
            "apps",
            (
                "daemonsets deployments deployments/rollback deployments/scale replicasets "
                "replicasets/scale statefulsets statefulsets/scale"
            ),
            _WRITE,
        ),
        ("autoscaling", "horizontalpodautoscalers", _WRITE),
        ("batch", "cronjobs jobs", _WRITE),
        (
            "extensions",
            (
                "daemonsets deployments deployments/rollback deployments/scale ingresses "
                "networkpolicies replicasets replicasets/scale replicationcontrollers/scale"
            ),
            _WRITE,
        ),
        ("policy", "poddisruptionbudgets", _WRITE),
        ("networking.k8s.io", "ingresses networkpolicies", _WRITE),
        ("coordination.k8s.io", "leases", _ALL),
    ),
    "system:aggregate-to-view": (
        (
            "_",
            (
                "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods "
                "replicationcontrollers replicationcontrollers/scale serviceaccounts services "
                "services/status"
            ),
            _READ,
        ),
        (
            "_",
            (
                "bindings events limitranges namespaces/status pods/log pods/status "
                "replicationcontrollers/status resourcequotas resourcequotas/status"
            ),
            _READ,
        ),
        ("_", "namespaces", _READ),
        ("discovery.k8s.io", "endpointslices", _READ),
        ("apps", _WORKLOADS, _READ),
        ("autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status", _READ),
        ("batch", "cronjobs cronjobs/status jobs jobs/status", _READ),
        (
            "extensions",
            (
                "daemonsets daemonsets/status deployments deployments/scale deployments/status "
                "ingresses ingresses/status networkpolicies replicasets replicasets/scale "
                "replicasets/status replicationcontrollers/scale"
            ),
            _READ,
        ),
        ("policy", "poddisruptionbudgets poddisruptionbudgets/status", _READ),
        ("networking.k8s.io", "ingresses ingresses/status networkpolicies", _READ),
    ),
    "system:auth-delegator": _REVIEWS,
    "system:basic-user": (
        ("authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews", "create"),
        ("authentication.k8s.io", "selfsubjectreviews", "create"),
    ),
    "system:discovery": (
        (
            (
                "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version "
                "/version/"
            ),
            "get",
        ),
    ),
    "system:kube-aggregator": (("_", "endpoints services", _READ),),
    "system:kube-controller-manager": (
        _EVENTS,
        ("coordination.k8s.io", "leases", "create"),
        ("coordination.k8s.io", "leases", "get update", "kube-controller-manager"),
        ("_", "secrets serviceaccounts", "create"),
        ("_", "secrets", "delete"),
        ("_", "configmaps namespaces secrets serviceaccounts", "get"),
        ("_", "secrets serviceaccounts", "update"),
        *_REVIEWS,
        ("*", "*", "list watch"),
        ("_", "serviceaccounts/token", "create"),
    ),
    "system:kube-dns": (("_", "endpoints services", "list watch"),),
    "system:kube-scheduler": (
        _EVENTS,
        ("coordination.k8s.io", "leases", "create"),
        ("coordination.k8s.io", "leases", "get update", "kube-scheduler"),
        ("_", "nodes", _READ),
        ("_", "pods", "delete get list watch"),
        ("_", "bindings pods/binding", "create"),
        ("_", "pods/status", "patch update"),
        ("_", "replicationcontrollers services", _READ),
        ("apps extensions", "replicasets", _READ),
        ("apps", "statefulsets", _READ),
        ("policy", "poddisruptionbudgets", _READ),
        ("_", "persistentvolumeclaims persistentvolumes", _READ),
        *_REVIEWS,
        ("storage.k8s.io", "csinodes", _READ),
        ("_", "namespaces", _READ),
        ("storage.k8s.io", "csidrivers", _READ),
        ("storage.k8s.io", "csistoragecapacities", _READ),
    ),
    "system:kubelet-api-admin": (
        ("_", "nodes", _READ),
        ("_", "nodes", "proxy"),
        ("_", "nodes/log nodes/metrics nodes/proxy nodes/stats", "*"),
    ),
    "system:monitoring": (
        (
            "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*",
            "get",
        ),
    ),
    "system:node": (
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews", "create"),
        ("_", "services", _READ),
        ("_", "nodes", "create get list watch"),
        ("_", "nodes/status", "patch update"),
        ("_", "nodes", "patch update"),
        ("_", "events", "create patch update"),
        ("_", "pods", _READ),
        ("_", "pods", "create delete"),
        ("_", "pods/status", "patch update"),
        ("_", "pods/eviction", "create"),
        ("_", "configmaps secrets", _READ),
        ("_", "persistentvolumeclaims persistentvolumes", "get"),
        ("_", "endpoints", "get"),
        ("certificates.k8s.io", "certificatesigningrequests", "create get list watch"),
        ("coordination.k8s.io", "leases", "create delete get patch update"),
        ("storage.k8s.io", "volumeattachments", "get"),
        ("_", "serviceaccounts/token", "create"),
        ("_", "persistentvolumeclaims/status", "get patch update"),
        ("storage.k8s.io", "csidrivers", _READ),
        ("storage.k8s.io", "csinodes", "create delete get patch update"),
        ("node.k8s.io", "runtimeclasses", _READ),
    ),
    "system:node-bootstrapper": (
        ("certificates.k8s.io", "certificatesigningrequests", "create get list watch"),
    ),
    "system:node-problem-detector": (
        ("_", "nodes", "get"),
        ("_", "nodes/status", "patch"),
        _EVENTS,
    ),
    "system:node-proxier": (
        ("_", "endpoints services", "list watch"),
        ("_", "nodes", _READ),
        _EVENTS,
        ("discovery.k8s.io", "endpointslices", "list watch"),
    ),
    "system:persistent-volume-provisioner": (
        ("_", "persistentvolumes", "create delete get list watch"),
        ("_", "persistentvolumeclaims", "get list update watch"),
        ("storage.k8s.io", "storageclasses", _READ),
        ("_", "events", "watch"),
        _EVENTS,
    ),
    "system:public-info-viewer": (("/healthz /livez /readyz /version /version/", "get"),),
    "system:service-account-issuer-discovery": (
        ("/.well-known/openid-configuration /openid/v1/jwks", "get"),
    ),
    "system:volume-scheduler": (
        ("_", "persistentvolumes", "get list patch update watch"),
        ("storage.k8s.io", "storageclasses", _READ),
        ("_", "persistentvolumeclaims", "get list patch update watch"),
    ),
}
# What may be asked of certificates: role -> resource, verb and perhaps the signer.
_CERTIFICATES: Final = {
    "certificatesigningrequests:nodeclient": ("certificatesigningrequests/nodeclient", "create"),
    "certificatesigningrequests:selfnodeclient": (
        "certificatesigningrequests/selfnodeclient",
        "create",
    ),
    **{
        f"{signer}-approver": ("signers", "approve", f"kubernetes.io/{signer}")
        for signer in (
            "kube-apiserver-client",
            "kube-apiserver-client-kubelet",
            "kubelet-serving",
            "legacy-unknown",
        )
    },
}
# Role -> the aggregate that it is made of; and which role each of the parts goes into.
_AGGREGATED: Final = ("admin", "edit", "view")
_PART_OF: Final = {
    "edit": "admin",
    "view": "edit",
    **{f"system:aggregate-to-{name}": name for name in _AGGREGATED},
}
# Role -> subjects: a kind (`account` is a service account of kube-system) and a name.
_BOUND: Final = {
    "cluster-admin": ("group system:masters",),
    "system:basic-user": ("group system:authenticated",),
    "system:discovery": ("group system:authenticated",),
    "system:kube-controller-manager": ("user system:kube-controller-manager",),
    "system:kube-dns": ("account kube-dns",),
    "system:kube-scheduler": ("user system:kube-scheduler",),
    "system:monitoring": ("group system:monitoring",),
    "system:node": (),
    "system:node-proxier": ("user system:kube-proxy",),
    "system:public-info-viewer": (
        "group system:authenticated",
        "group system:unauthenticated",
    ),
    "system:service-account-issuer-discovery": ("group system:serviceaccounts",),
    "system:volume-scheduler": ("user system:kube-scheduler",),
}


def cluster_roles() -> Iterator[dict[str, Any]]:
    """Yield the default ClusterRoles; the rules of aggregated ones are still to be found."""
    certificates = {
        f"system:certificates.k8s.io:{name}": (("certificates.k8s.io", *rule),)
        for name, rule in _CERTIFICATES.items()
    }
    for name, rules in {**_RULES, **certificates}.items():
        yield {"metadata": _meta(name), "rules": [_rule(*parts) for parts in rules]}
    for name in _AGGREGATED:
        chosen = [{"matchLabels": {f"{_AGGREGATE}{name}": "true"}}]
        yield {"metadata": _meta(name), "aggregationRule": {"clusterRoleSelectors": chosen}}


def cluster_role_bindings() -> Iterator[dict[str, Any]]:
    """Yield the default ClusterRoleBindings."""
    for name, subjects in _BOUND.items():
        reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
        body: dict[str, Any] = {"metadata": _meta(name), "roleRef": reference}
        if subjects:
            body["subjects"] = [_subject(*one.split(" ")) for one in subjects]
        yield body


def _meta(name: str) -> dict[str, Any]:
    labels = dict(_LABELS)
    if name in _PART_OF:
        labels[f"{_AGGREGATE}{_PART_OF[name]}"] = "true"
    return {"name": name, "labels": labels, "annotations": dict(_ANNOTATIONS)}


def _rule(*parts: str) -> dict[str, Any]:
    first, *others = ([*part.split(" ")] for part in parts)
    if len(parts) == 2:
        return {"verbs": others[0], "nonResourceURLs": first}
    groups = ["" if group == "_" else group for group in first]
    rule = {"verbs": others[1], "apiGroups": groups, "resources": others[0]}
    if len(others) > 2:
        rule["resourceNames"] = others[2]
    return rule


def _subject(kind: str, name: str) -> dict[str, Any]:
    if kind == "account":
        return {"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}
    return {"kind": kind.capitalize(), "apiGroup": GROUP, "name": name}
