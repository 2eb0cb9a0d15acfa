"""The kinds that manifests may hold beside ours, and the nearest name of one that is unknown.

Kinds of Kubernetes itself, and those of Butler that others look after, say nothing about
addresses: they are passed over. Anything else is more likely a slip than meant.
"""

from collections.abc import Mapping
from difflib import get_close_matches

from reconcilers.api import crd, names

OURS: Mapping[str, crd.Kind] = {kind.kind: kind for kind in crd.KINDS}

_OTHERS_OF_BUTLER = (
    *("ButlerConfig", "ClusterCreationPolicy", "IdentityProvider", "ImageSync"),
    *("ManagementAddon", "Team", "TenantAddon", "User", "Workspace"),
)

_BUILT_IN: Mapping[str, tuple[str, ...]] = {
    "": (
        *("ConfigMap", "Endpoints", "Event", "LimitRange", "Namespace", "Node"),
        *("PersistentVolume", "PersistentVolumeClaim", "Pod", "PodTemplate"),
        *("ReplicationController", "ResourceQuota", "Secret", "Service", "ServiceAccount"),
    ),
    "admissionregistration.k8s.io": (
        *("MutatingWebhookConfiguration", "ValidatingAdmissionPolicy"),
        *("ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration"),
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
    names.GROUP: _OTHERS_OF_BUTLER,
}


def is_ours(api_version: str, kind: str) -> bool:
    """Return whether this is one of the four kinds, in the version that is served."""
    return api_version == names.API_VERSION and kind in OURS


def is_passed_over(api_version: str, kind: str) -> bool:
    """Return whether this is a known kind that has nothing to do with addresses."""
    group, _, _ = api_version.rpartition("/")
    return kind in _BUILT_IN.get(group, ())


def why_unknown(api_version: str, kind: str) -> str:
    """Return what is wrong with an apiVersion and kind that are neither ours nor passed over."""
    group, _, _ = api_version.rpartition("/")
    if kind in OURS:
        other = "another version" if group == names.GROUP else "of another group"
        return (
            f"{kind} of apiVersion {api_version!r} is {other}; write apiVersion:"
            f" {names.API_VERSION}"
        )
    known = [*OURS, *_BUILT_IN[names.GROUP]] if group == names.GROUP else _all_kinds()
    near = _nearest(kind, known)
    hint = f"; did you mean {near}?" if near else f"; the kinds known are {', '.join(OURS)}"
    return f"there is no kind {kind!r} in {api_version}, as far as is known here{hint}"


def _all_kinds() -> list[str]:
    return [*OURS, *(kind for kinds in _BUILT_IN.values() for kind in kinds)]


def _nearest(kind: str, known: list[str]) -> str | None:
    lowered = {name.lower(): name for name in reversed(known)}
    for kind_of_ours in crd.KINDS:
        lowered |= {kind_of_ours.plural: kind_of_ours.kind, kind_of_ours.short: kind_of_ours.kind}
    exact = lowered.get(kind.lower())
    near = get_close_matches(kind.lower(), lowered, n=1, cutoff=0.7)
    return exact or (lowered[near[0]] if near else None)
