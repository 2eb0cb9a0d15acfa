"""Which rules the kinds have by which components of a cluster find, limit and serve each other."""

from collections.abc import Mapping
from typing import Final

from envtest.builtins import devices, networks, storages
from envtest.builtins.apiservices import ApiServiceRules
from envtest.builtins.certificates import SigningRequestRules
from envtest.builtins.flowcontrol import FLOW_GROUP, PriorityLevelRules
from envtest.builtins.policies import PolicyBindingRules, PolicyRules
from envtest.builtins.runtimeclasses import RuntimeClassRules
from envtest.builtins.shaped import ShapedRules

_ADMISSION: Final = "admissionregistration.k8s.io"

COMPONENTS: Final[Mapping[tuple[str, str], type[ShapedRules]]] = {
    (_ADMISSION, "MutatingAdmissionPolicy"): PolicyRules,
    (_ADMISSION, "MutatingAdmissionPolicyBinding"): PolicyBindingRules,
    (_ADMISSION, "ValidatingAdmissionPolicy"): PolicyRules,
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): PolicyBindingRules,
    ("apiregistration.k8s.io", "APIService"): ApiServiceRules,
    ("certificates.k8s.io", "CertificateSigningRequest"): SigningRequestRules,
    (FLOW_GROUP, "PriorityLevelConfiguration"): PriorityLevelRules,
    ("networking.k8s.io", "IPAddress"): networks.AddressRules,
    ("networking.k8s.io", "IngressClass"): networks.IngressClassRules,
    ("networking.k8s.io", "ServiceCIDR"): networks.RangeRules,
    ("node.k8s.io", "RuntimeClass"): RuntimeClassRules,
    ("resource.k8s.io", "DeviceClass"): devices.DeviceClassRules,
    ("resource.k8s.io", "ResourceClaim"): devices.ClaimRules,
    ("resource.k8s.io", "ResourceClaimTemplate"): devices.ClaimTemplateRules,
    ("resource.k8s.io", "ResourceSlice"): devices.SliceRules,
    ("storage.k8s.io", "CSIDriver"): storages.DriverRules,
    ("storage.k8s.io", "CSINode"): storages.NodeDriversRules,
    ("storage.k8s.io", "CSIStorageCapacity"): storages.CapacityRules,
    ("storage.k8s.io", "StorageClass"): storages.StorageClassRules,
    ("storage.k8s.io", "VolumeAttachment"): storages.AttachmentRules,
    ("storage.k8s.io", "VolumeAttributesClass"): storages.AttributesClassRules,
}
