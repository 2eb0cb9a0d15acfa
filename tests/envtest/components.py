"""Kinds that components of a cluster serve: where they are, and the least that makes one."""

import base64
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Body = dict[str, Any]

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
REGISTRATION = "/apis/apiregistration.k8s.io/v1"
CERTIFICATES = "/apis/certificates.k8s.io/v1"
DEVICES = "/apis/resource.k8s.io/v1"
FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
NETWORKS = "/apis/networking.k8s.io/v1"
STORAGE = "/apis/storage.k8s.io/v1"

RULE = {
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["deployments"],
    # Said, because it is a default in a list that is compared as a whole.
    "scope": "*",
}
MATCH = {"resourceRules": [RULE]}


def signing_request(*groups: str, name: str = "ann") -> str:
    """Return a request for a certificate, in PEM inside base64."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    names += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    request = builder.sign(key, hashes.SHA256())
    return base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()


REQUEST = signing_request()

# Path of the collection -> the least of a spec, or of the object where it has none.
LEAST: dict[str, Body] = {
    f"{ADMISSION}/mutatingadmissionpolicies": {
        "spec": {
            "matchConstraints": MATCH,
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}],
        }
    },
    f"{ADMISSION}/mutatingadmissionpolicybindings": {"spec": {"policyName": "a"}},
    f"{ADMISSION}/validatingadmissionpolicies": {
        "spec": {"matchConstraints": MATCH, "validations": [{"expression": "true"}]}
    },
    f"{ADMISSION}/validatingadmissionpolicybindings": {
        "spec": {"policyName": "a", "validationActions": ["Deny"]}
    },
    f"{CERTIFICATES}/certificatesigningrequests": {
        "spec": {"request": REQUEST, "signerName": "example.com/me", "usages": ["client auth"]}
    },
    f"{FLOWS}/flowschemas": {"spec": {"priorityLevelConfiguration": {"name": "exempt"}}},
    f"{FLOWS}/prioritylevelconfigurations": {
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
    },
    f"{NETWORKS}/ingressclasses": {"spec": {"controller": "example.com/c"}},
    f"{NETWORKS}/servicecidrs": {"spec": {"cidrs": ["10.97.0.0/16"]}},
    "/apis/node.k8s.io/v1/runtimeclasses": {"handler": "runc"},
    f"{DEVICES}/deviceclasses": {},
    f"{DEVICES}/namespaces/default/resourceclaims": {},
    f"{DEVICES}/namespaces/default/resourceclaimtemplates": {},
    f"{DEVICES}/resourceslices": {
        "spec": {
            "driver": "d.example.com",
            "nodeName": "worker",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        }
    },
    f"{STORAGE}/csidrivers": {},
    f"{STORAGE}/csinodes": {"spec": {"drivers": [{"name": "d.example.com", "nodeID": "worker"}]}},
    f"{STORAGE}/namespaces/default/csistoragecapacities": {"storageClassName": "fast"},
    f"{STORAGE}/storageclasses": {"provisioner": "example.com/p"},
    f"{STORAGE}/volumeattachments": {
        "spec": {
            "attacher": "d.example.com",
            "nodeName": "worker",
            "source": {"persistentVolumeName": "v"},
        }
    },
    f"{STORAGE}/volumeattributesclasses": {
        "driverName": "d.example.com",
        "parameters": {"iops": "1"},
    },
}


def named(name: str, body: Body) -> Body:
    """Return an object of a name."""
    return {"metadata": {"name": name}, **body}
