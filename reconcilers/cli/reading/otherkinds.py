"""Kinds that say nothing about addresses: manifests of them are passed over.

This is Python and not YAML: each start of a command that reads files would parse it, for 12 ms.
"""

from collections.abc import Mapping, Sequence

OTHER_KINDS: Mapping[str, Sequence[str]] = {
    "": (
        "ConfigMap",
        "Endpoints",
        "Event",
        "LimitRange",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Pod",
        "PodTemplate",
        "ReplicationController",
        "ResourceQuota",
        "Secret",
        "Service",
        "ServiceAccount",
    ),
    "admissionregistration.k8s.io": (
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    ),
    "apiextensions.k8s.io": ("CustomResourceDefinition",),
    "apiregistration.k8s.io": ("APIService",),
    "apps": ("ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
    "autoscaling": ("HorizontalPodAutoscaler",),
    "batch": ("CronJob", "Job"),
    "certificates.k8s.io": ("CertificateSigningRequest",),
    "coordination.k8s.io": ("Lease",),
    "discovery.k8s.io": ("EndpointSlice",),
    "events.k8s.io": ("Event",),
    "flowcontrol.apiserver.k8s.io": ("FlowSchema", "PriorityLevelConfiguration"),
    "networking.k8s.io": ("Ingress", "IngressClass", "NetworkPolicy"),
    "node.k8s.io": ("RuntimeClass",),
    "policy": ("PodDisruptionBudget",),
    "rbac.authorization.k8s.io": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "scheduling.k8s.io": ("PriorityClass",),
    "storage.k8s.io": ("CSIDriver", "StorageClass", "VolumeAttachment"),
    "butler.butlerlabs.dev": (
        "ButlerConfig",
        "ClusterCreationPolicy",
        "IdentityProvider",
        "ImageSync",
        "ManagementAddon",
        "Team",
        "TenantAddon",
        "User",
        "Workspace",
    ),
}
"""Kinds of Kubernetes, and of Butler, by API group."""
