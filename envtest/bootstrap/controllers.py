"""What the controllers of kube-controller-manager may do, each by a service account of its own.

Nobody here acts for them, but a real server holds their roles, and people bind them, copy them and
look them up. These are the roles of Kubernetes 1.36 with its default feature gates.
"""

from typing import Final

from envtest.bootstrap.shorthand import CHANGE, EVENTS, LOOK, READ, Line

_APPS: Final = "apps extensions"
_SIGNERS: Final = (
    "kubernetes.io/kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet "
    "kubernetes.io/kubelet-serving kubernetes.io/legacy-unknown"
)
_MOST: Final = "create delete get list patch update watch"
_OWN: Final = "create delete get list update watch"
_PODS: Final[Line] = ("_", "pods", "create delete list patch watch")
_TRACKING: Final = "kube-apiserver-legacy-service-account-token-tracking"

# Name of a controller, which is its service account in kube-system -> its rules.
CONTROLLERS: Final[dict[str, tuple[Line, ...]]] = {
    "attachdetach-controller": (
        ("_", "persistentvolumeclaims persistentvolumes", LOOK),
        ("_", "nodes", READ),
        ("_", "nodes/status", CHANGE),
        ("_", "pods", LOOK),
        EVENTS,
        ("storage.k8s.io", "volumeattachments", "create delete get list watch"),
        ("storage.k8s.io", "csidrivers", READ),
        ("storage.k8s.io", "csinodes", READ),
    ),
    "certificate-controller": (
        ("certificates.k8s.io", "certificatesigningrequests", "delete get list watch"),
        (
            "certificates.k8s.io",
            "certificatesigningrequests/approval certificatesigningrequests/status",
            "update",
        ),
        (
            "certificates.k8s.io",
            "signers",
            "approve",
            "kubernetes.io/kube-apiserver-client-kubelet",
        ),
        ("certificates.k8s.io", "signers", "sign", _SIGNERS),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
        EVENTS,
    ),
    "clusterrole-aggregation-controller": (
        ("rbac.authorization.k8s.io", "clusterroles", "escalate get list patch update watch"),
    ),
    "cronjob-controller": (
        ("batch", "cronjobs", "get list update watch"),
        ("batch", "jobs", _MOST),
        ("batch", "cronjobs/status", "update"),
        ("batch", "cronjobs/finalizers", "update"),
        ("_", "pods", "delete list watch"),
        EVENTS,
    ),
    "daemon-set-controller": (
        (_APPS, "daemonsets", READ),
        (_APPS, "daemonsets/status", "update"),
        (_APPS, "daemonsets/finalizers", "update"),
        ("_", "nodes", LOOK),
        _PODS,
        ("_", "pods/binding", "create"),
        ("apps", "controllerrevisions", _MOST),
        EVENTS,
    ),
    "deployment-controller": (
        (_APPS, "deployments", "get list update watch"),
        (_APPS, "deployments/status", "update"),
        (_APPS, "deployments/finalizers", "update"),
        (_APPS, "replicasets", _MOST),
        ("_", "pods", "get list update watch"),
        EVENTS,
    ),
    "device-taint-eviction-controller": (
        ("_", "pods", "delete get list watch"),
        ("_", "pods/status", CHANGE),
        ("resource.k8s.io", "resourceclaims", READ),
        ("resource.k8s.io", "resourceslices", READ),
        ("resource.k8s.io", "deviceclasses", READ),
        EVENTS,
    ),
    "disruption-controller": (
        (_APPS, "deployments", READ),
        (_APPS, "replicasets", READ),
        ("_", "replicationcontrollers", READ),
        ("policy", "poddisruptionbudgets", READ),
        ("apps", "statefulsets", READ),
        ("policy", "poddisruptionbudgets/status", "update"),
        ("_", "pods/status", CHANGE),
        ("*", "*/scale", "get"),
        EVENTS,
    ),
    "endpoint-controller": (
        ("_", "pods services", READ),
        ("_", "endpoints", _OWN),
        ("_", "endpoints/restricted", "create"),
        EVENTS,
    ),
    "endpointslice-controller": (
        ("_", "nodes pods services", READ),
        ("_", "services/finalizers", "update"),
        ("discovery.k8s.io", "endpointslices", _OWN),
        EVENTS,
    ),
    "endpointslicemirroring-controller": (
        ("_", "endpoints services", READ),
        ("_", "services/finalizers", "update"),
        ("_", "endpoints/finalizers", "update"),
        ("discovery.k8s.io", "endpointslices", _OWN),
        EVENTS,
    ),
    "ephemeral-volume-controller": (
        ("_", "pods", READ),
        ("_", "pods/finalizers", "update"),
        ("_", "persistentvolumeclaims", "create get list watch"),
        EVENTS,
    ),
    "expand-controller": (
        ("_", "persistentvolumes", "get list patch update watch"),
        ("_", "persistentvolumeclaims/status", CHANGE),
        ("_", "persistentvolumeclaims", READ),
        EVENTS,
    ),
    "generic-garbage-collector": (
        ("*", "*", "delete get list patch update watch"),
        EVENTS,
    ),
    "horizontal-pod-autoscaler": (
        ("autoscaling", "horizontalpodautoscalers", READ),
        ("autoscaling", "horizontalpodautoscalers/status", "update"),
        ("*", "*/scale", "get update"),
        ("_", "pods", LOOK),
        ("metrics.k8s.io", "pods", LOOK),
        ("custom.metrics.k8s.io", "*", READ),
        ("external.metrics.k8s.io", "*", READ),
        EVENTS,
    ),
    "job-controller": (
        ("batch", "jobs", "get list patch update watch"),
        ("batch", "jobs/status", "update"),
        ("batch", "jobs/finalizers", "update"),
        _PODS,
        EVENTS,
    ),
    "legacy-service-account-token-cleaner": (
        ("_", "configmaps", "get", _TRACKING),
        ("_", "secrets", "delete patch"),
    ),
    "namespace-controller": (
        ("_", "namespaces", "delete get list watch"),
        ("_", "namespaces/finalize namespaces/status", "update"),
        ("*", "*", "delete deletecollection get list watch"),
    ),
    "node-controller": (
        ("_", "nodes", "delete get list patch update watch"),
        ("_", "nodes/status", CHANGE),
        ("_", "pods/status", CHANGE),
        ("_", "pods", "delete get list watch"),
        EVENTS,
    ),
    "persistent-volume-binder": (
        ("_", "persistentvolumes", _OWN),
        ("_", "persistentvolumes/status", "update"),
        ("_", "persistentvolumeclaims", "get list update watch"),
        ("_", "persistentvolumeclaims/status", "update"),
        ("_", "pods", "create delete get list watch"),
        ("storage.k8s.io", "storageclasses", READ),
        ("_", "nodes", LOOK),
        EVENTS,
        ("_", "events", "watch"),
    ),
    "pod-garbage-collector": (
        ("_", "pods", "delete list watch"),
        ("_", "nodes", READ),
        ("_", "pods/status", "patch"),
    ),
    "pv-protection-controller": (
        ("_", "persistentvolumes", "get list update watch"),
        EVENTS,
    ),
    "pvc-protection-controller": (
        ("_", "persistentvolumeclaims", "get list update watch"),
        ("_", "persistentvolumeclaims/status", "update"),
        ("_", "pods", READ),
        EVENTS,
    ),
    "replicaset-controller": (
        (_APPS, "replicasets", "get list update watch"),
        (_APPS, "replicasets/status", "update"),
        (_APPS, "replicasets/finalizers", "update"),
        _PODS,
        EVENTS,
    ),
    "replication-controller": (
        ("_", "replicationcontrollers", "get list update watch"),
        ("_", "replicationcontrollers/status", "update"),
        ("_", "replicationcontrollers/finalizers", "update"),
        _PODS,
        EVENTS,
    ),
    "resource-claim-controller": (
        ("_", "pods", READ),
        ("_", "pods/finalizers", "update"),
        ("resource.k8s.io", "resourceclaims", "create delete get list watch"),
        ("resource.k8s.io", "resourceclaims resourceclaims/status", CHANGE),
        ("_", "pods/status", CHANGE),
        EVENTS,
        ("resource.k8s.io", "resourceclaims/binding", CHANGE),
    ),
    "resourcequota-controller": (
        ("*", "*", LOOK),
        ("_", "resourcequotas/status", "update"),
        EVENTS,
    ),
    "root-ca-cert-publisher": (
        ("_", "configmaps", "create update"),
        EVENTS,
    ),
    "route-controller": (
        ("_", "nodes", LOOK),
        ("_", "nodes/status", "patch"),
        EVENTS,
    ),
    "selinux-warning-controller": (
        EVENTS,
        ("_", "persistentvolumes", READ),
        ("_", "persistentvolumeclaims", READ),
        ("_", "pods", READ),
        ("storage.k8s.io", "csidrivers", READ),
    ),
    "service-account-controller": (
        ("_", "serviceaccounts", "create"),
        EVENTS,
    ),
    "service-cidrs-controller": (
        ("networking.k8s.io", "servicecidrs", "get list patch update watch"),
        ("networking.k8s.io", "servicecidrs/finalizers", CHANGE),
        ("networking.k8s.io", "servicecidrs/status", CHANGE),
        ("networking.k8s.io", "ipaddresses", READ),
        EVENTS,
    ),
    "service-controller": (
        ("_", "services", READ),
        ("_", "services/status", CHANGE),
        ("_", "nodes", LOOK),
        EVENTS,
    ),
    "statefulset-controller": (
        ("_", "pods", LOOK),
        ("apps", "statefulsets", READ),
        ("apps", "statefulsets/status", "update"),
        ("apps", "statefulsets/finalizers", "update"),
        ("_", "pods", "create delete get patch update"),
        ("apps", "controllerrevisions", _MOST),
        ("_", "persistentvolumeclaims", "create get list watch"),
        ("_", "persistentvolumeclaims", "delete update"),
        ("_", "pods/finalizers", "update"),
        EVENTS,
    ),
    "ttl-after-finished-controller": (
        ("batch", "jobs", "delete get list watch"),
        EVENTS,
    ),
    "ttl-controller": (
        ("_", "nodes", "list patch update watch"),
        EVENTS,
    ),
    "validatingadmissionpolicy-status-controller": (
        ("admissionregistration.k8s.io", "validatingadmissionpolicies", READ),
        (
            "admissionregistration.k8s.io",
            "validatingadmissionpolicies/status",
            "get patch update",
        ),
        EVENTS,
    ),
    "volumeattributesclass-protection-controller": (
        ("_", "persistentvolumeclaims", READ),
        ("_", "persistentvolumes", READ),
        ("storage.k8s.io", "volumeattributesclasses", "get list update watch"),
        EVENTS,
    ),
}
