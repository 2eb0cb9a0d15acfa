"""The roles of people and of the parts of a cluster, and who holds them from the start.

These are the roles of Kubernetes 1.36 with its default feature gates.
"""

from typing import Final

from envtest.bootstrap.shorthand import ALL, CHANGE, EVENTS, LOOK, READ, REVIEWS, WRITE, Line

_RBAC: Final = "rbac.authorization.k8s.io"
_DRA: Final = "resource.k8s.io"
_PEEK: Final = "get list patch update watch"
_SUBS: Final = "pods/attach pods/exec pods/portforward pods/proxy"
_HEALTH: Final = "/healthz /livez /readyz"
_LEASES: Final = "coordination.k8s.io"

COMPONENTS: Final[dict[str, tuple[Line, ...]]] = {
    "cluster-admin": (("*", "*", "*"), ("*", "*")),
    "system:aggregate-to-admin": (
        ("authorization.k8s.io", "localsubjectaccessreviews", "create"),
        (_RBAC, "rolebindings roles", ALL),
    ),
    "system:aggregate-to-edit": (
        ("_", f"{_SUBS} secrets services/proxy", READ),
        ("_", "serviceaccounts", "impersonate"),
        ("_", f"pods {_SUBS}", WRITE),
        ("_", "pods/eviction", "create"),
        (
            "_",
            (
                "configmaps persistentvolumeclaims replicationcontrollers "
                "replicationcontrollers/scale secrets serviceaccounts services services/proxy"
            ),
            WRITE,
        ),
        ("_", "serviceaccounts/token", "create"),
        ("_ events.k8s.io", "events", WRITE),
        (
            "apps",
            (
                "daemonsets deployments deployments/rollback deployments/scale replicasets "
                "replicasets/scale statefulsets statefulsets/scale"
            ),
            WRITE,
        ),
        ("autoscaling", "horizontalpodautoscalers", WRITE),
        ("batch", "cronjobs jobs", WRITE),
        (
            "extensions",
            (
                "daemonsets deployments deployments/rollback deployments/scale ingresses "
                "networkpolicies replicasets replicasets/scale replicationcontrollers/scale"
            ),
            WRITE,
        ),
        ("policy", "poddisruptionbudgets", WRITE),
        ("networking.k8s.io", "ingresses networkpolicies", WRITE),
        (_LEASES, "leases", ALL),
        (_DRA, "resourceclaims resourceclaimtemplates", WRITE),
    ),
    "system:aggregate-to-view": (
        (
            "_",
            (
                "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods "
                "replicationcontrollers replicationcontrollers/scale serviceaccounts services "
                "services/status"
            ),
            READ,
        ),
        (
            "_",
            (
                "bindings limitranges namespaces/status pods/log pods/status "
                "replicationcontrollers/status resourcequotas resourcequotas/status"
            ),
            READ,
        ),
        ("_", "namespaces", READ),
        ("_ events.k8s.io", "events", READ),
        ("discovery.k8s.io", "endpointslices", READ),
        (
            "apps",
            (
                "controllerrevisions daemonsets daemonsets/status deployments deployments/scale "
                "deployments/status replicasets replicasets/scale replicasets/status "
                "statefulsets statefulsets/scale statefulsets/status"
            ),
            READ,
        ),
        ("autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status", READ),
        ("batch", "cronjobs cronjobs/status jobs jobs/status", READ),
        (
            "extensions",
            (
                "daemonsets daemonsets/status deployments deployments/scale deployments/status "
                "ingresses ingresses/status networkpolicies replicasets replicasets/scale "
                "replicasets/status replicationcontrollers/scale"
            ),
            READ,
        ),
        ("policy", "poddisruptionbudgets poddisruptionbudgets/status", READ),
        ("networking.k8s.io", "ingresses ingresses/status networkpolicies", READ),
        (_DRA, "resourceclaims resourceclaims/status resourceclaimtemplates", READ),
    ),
    "system:auth-delegator": REVIEWS,
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
    "system:heapster": (
        ("_", "events namespaces nodes pods", READ),
        ("extensions", "deployments", READ),
    ),
    "system:kube-aggregator": (("_", "endpoints services", READ),),
    "system:kube-controller-manager": (
        EVENTS,
        (_LEASES, "leases", "create"),
        (_LEASES, "leases", "get update", "kube-controller-manager"),
        ("_", "secrets serviceaccounts", "create"),
        ("_", "secrets", "delete"),
        ("_", "configmaps namespaces secrets serviceaccounts", "get"),
        ("_", "secrets serviceaccounts", "update"),
        *REVIEWS,
        ("*", "*", LOOK),
        ("_", "serviceaccounts/token", "create"),
    ),
    "system:kube-dns": (("_", "endpoints services", LOOK),),
    "system:kube-scheduler": (
        EVENTS,
        (_LEASES, "leases", "create"),
        (_LEASES, "leases", "get list update watch", "kube-scheduler"),
        (_LEASES, "leasecandidates", ALL),
        ("_", "nodes", READ),
        ("_", "pods", "delete get list watch"),
        ("_", "bindings pods/binding", "create"),
        ("_", "pods/status", CHANGE),
        ("_", "replicationcontrollers services", READ),
        ("apps extensions", "replicasets", READ),
        ("apps", "statefulsets", READ),
        ("policy", "poddisruptionbudgets", READ),
        ("_", "persistentvolumeclaims persistentvolumes", READ),
        *REVIEWS,
        ("storage.k8s.io", "csinodes", READ),
        ("storage.k8s.io", "volumeattachments", READ),
        ("_", "namespaces", READ),
        ("storage.k8s.io", "csidrivers", READ),
        ("storage.k8s.io", "csistoragecapacities", READ),
        (_DRA, "deviceclasses", READ),
        (_DRA, "resourceclaims", _PEEK),
        (_DRA, "resourceclaims/status", _PEEK),
        ("_", "pods/finalizers", "update"),
        (_DRA, "resourceslices", READ),
        (_DRA, "resourceclaims", "create delete"),
        (_DRA, "resourceclaims/binding", CHANGE),
    ),
    "system:kubelet-api-admin": (
        ("_", "nodes", READ),
        ("_", "nodes", "proxy"),
        ("_", "nodes/log nodes/metrics nodes/proxy nodes/stats", "*"),
        ("_", "nodes/configz nodes/healthz nodes/pods", "*"),
    ),
    "system:monitoring": (
        (
            (
                "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz "
                "/readyz/* /statusz"
            ),
            "get",
        ),
        ("_", "nodes/metrics", "get"),
    ),
    "system:node": (
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews", "create"),
        ("_", "services", READ),
        ("_", "nodes", "create get list watch"),
        ("_", "nodes/status", CHANGE),
        ("_", "nodes", CHANGE),
        EVENTS,
        ("_", "pods", READ),
        ("_", "pods", "create delete"),
        ("_", "pods/status", CHANGE),
        ("_", "pods/eviction", "create"),
        ("_", "configmaps secrets", READ),
        ("_", "persistentvolumeclaims persistentvolumes", "get"),
        ("_", "endpoints", "get"),
        ("certificates.k8s.io", "certificatesigningrequests", "create get list watch"),
        (_LEASES, "leases", "create delete get patch update"),
        ("storage.k8s.io", "volumeattachments", "get"),
        ("_", "serviceaccounts/token", "create"),
        ("_", "persistentvolumeclaims/status", "get patch update"),
        ("storage.k8s.io", "csidrivers", READ),
        ("storage.k8s.io", "csinodes", "create delete get patch update"),
        ("node.k8s.io", "runtimeclasses", READ),
        (_DRA, "resourceclaims", "get"),
        (_DRA, "resourceslices", "deletecollection"),
        ("_", "serviceaccounts", "get"),
    ),
    "system:node-bootstrapper": (
        ("certificates.k8s.io", "certificatesigningrequests", "create get list watch"),
    ),
    "system:node-problem-detector": (
        ("_", "nodes", "get"),
        ("_", "nodes/status", "patch"),
        EVENTS,
    ),
    "system:node-proxier": (
        ("_", "endpoints services", LOOK),
        ("_", "nodes", READ),
        EVENTS,
        ("networking.k8s.io", "servicecidrs", LOOK),
        ("discovery.k8s.io", "endpointslices", LOOK),
    ),
    "system:persistent-volume-provisioner": (
        ("_", "persistentvolumes", "create delete get list watch"),
        ("_", "persistentvolumeclaims", "get list update watch"),
        ("storage.k8s.io", "storageclasses", READ),
        ("_", "events", "watch"),
        EVENTS,
    ),
    "system:public-info-viewer": ((f"{_HEALTH} /version /version/", "get"),),
    "system:service-account-issuer-discovery": (
        (
            (
                "/.well-known/openid-configuration /.well-known/openid-configuration/ "
                "/openid/v1/jwks /openid/v1/jwks/"
            ),
            "get",
        ),
    ),
    "system:volume-scheduler": (
        ("_", "persistentvolumes", _PEEK),
        ("storage.k8s.io", "storageclasses", READ),
        ("_", "persistentvolumeclaims", _PEEK),
    ),
}
# What may be asked of certificates: role -> resource, verb and perhaps the signer.
CERTIFICATES: Final = {
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
# Roles that are made up of others; and which of them each of the parts goes into.
AGGREGATED: Final = ("admin", "edit", "view")
PART_OF: Final = {
    "edit": "admin",
    "view": "edit",
    **{f"system:aggregate-to-{name}": name for name in AGGREGATED},
}
# Role -> subjects: a kind (`account` is a service account of kube-system) and a name.
BOUND: Final = {
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
