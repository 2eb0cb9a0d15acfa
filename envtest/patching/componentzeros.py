"""As `zeros`, for the kinds by which components of a cluster find, limit and serve each other."""

from collections.abc import Mapping
from typing import Any

from envtest.patching.fieldset import Fields

_POOL: Mapping[str, Any] = {"name": "", "generation": 0, "resourceSliceCount": 0}

COMPONENT_ZERO: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): {"metadata": {}, "spec": {}},
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): {
        "metadata": {},
        "spec": {},
    },
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): {
        "metadata": {},
        "spec": {},
        "status": {},
    },
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): {
        "metadata": {},
        "spec": {},
    },
    ("apiregistration.k8s.io", "APIService"): {
        "metadata": {},
        "spec": {"groupPriorityMinimum": 0, "versionPriority": 0},
        "status": {},
    },
    ("certificates.k8s.io", "CertificateSigningRequest"): {
        "metadata": {},
        "spec": {"request": None, "signerName": ""},
        "status": {},
    },
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): {
        "metadata": {},
        "spec": {"priorityLevelConfiguration": {"name": ""}, "matchingPrecedence": 0},
        "status": {},
    },
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): {
        "metadata": {},
        "spec": {"type": ""},
        "status": {},
    },
    ("networking.k8s.io", "IPAddress"): {"metadata": {}, "spec": {}},
    ("networking.k8s.io", "ServiceCIDR"): {"metadata": {}, "spec": {}, "status": {}},
    ("node.k8s.io", "RuntimeClass"): {"metadata": {}, "handler": ""},
    ("resource.k8s.io", "DeviceClass"): {"metadata": {}, "spec": {}},
    ("resource.k8s.io", "ResourceClaim"): {
        "metadata": {},
        "spec": {"devices": {"requests": None}},
        "status": {},
    },
    ("resource.k8s.io", "ResourceClaimTemplate"): {
        "metadata": {},
        "spec": {"metadata": {}, "spec": {"devices": {"requests": None}}},
    },
    ("resource.k8s.io", "ResourceSlice"): {
        "metadata": {},
        "spec": {"driver": "", "pool": _POOL},
    },
    ("storage.k8s.io", "CSIDriver"): {"metadata": {}, "spec": {}},
    ("storage.k8s.io", "CSINode"): {"metadata": {}, "spec": {"drivers": None}},
    ("storage.k8s.io", "CSIStorageCapacity"): {"metadata": {}, "storageClassName": ""},
    ("storage.k8s.io", "VolumeAttachment"): {
        "metadata": {},
        "spec": {"attacher": "", "source": {}, "nodeName": ""},
        "status": {"attached": False},
    },
    ("storage.k8s.io", "VolumeAttributesClass"): {"metadata": {}, "driverName": ""},
}

_MAIN: Fields = {"f:status": {}}
_WHOLE: Mapping[str, Fields] = {"": _MAIN, "status": {"f:spec": {}, "f:metadata": {}}}
_BOTH: Mapping[str, Fields] = {"": _MAIN, "status": {"f:spec": {}}}

COMPONENT_RESET: Mapping[tuple[str, str], Mapping[str, Fields]] = {
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): _BOTH,
    ("apiregistration.k8s.io", "APIService"): _WHOLE,
    ("certificates.k8s.io", "CertificateSigningRequest"): {
        "": {"f:spec": {}, "f:status": {}},
        "approval": {"f:spec": {}, "f:status": {"f:certificate": {}}},
        "status": {"f:spec": {}, "f:status": {"f:conditions": {}}},
    },
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): _WHOLE,
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): _WHOLE,
    ("networking.k8s.io", "ServiceCIDR"): _BOTH,
    ("resource.k8s.io", "ResourceClaim"): _WHOLE,
    ("storage.k8s.io", "VolumeAttachment"): _WHOLE,
}
