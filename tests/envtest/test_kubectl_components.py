"""The real kubectl on the kinds that components of a cluster serve."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from envtest import ControlPlane
from tests.envtest.components import LEAST, named
from tests.envtest.kube import Kubectl, skip_reason

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(skip_reason()), reason=skip_reason() or "kubectl is there"),
]

# What `kubectl api-resources` says: short names, group version, whether in namespaces, kind.
RESOURCES = """
apiservices - apiregistration.k8s.io/v1 false APIService
certificatesigningrequests csr certificates.k8s.io/v1 false CertificateSigningRequest
csidrivers - storage.k8s.io/v1 false CSIDriver
csinodes - storage.k8s.io/v1 false CSINode
csistoragecapacities - storage.k8s.io/v1 true CSIStorageCapacity
deviceclasses - resource.k8s.io/v1 false DeviceClass
flowschemas - flowcontrol.apiserver.k8s.io/v1 false FlowSchema
ingressclasses - networking.k8s.io/v1 false IngressClass
ipaddresses ip networking.k8s.io/v1 false IPAddress
mutatingadmissionpolicies - admissionregistration.k8s.io/v1 false MutatingAdmissionPolicy
mutatingadmissionpolicybindings - admissionregistration.k8s.io/v1 false \
MutatingAdmissionPolicyBinding
priorityclasses pc scheduling.k8s.io/v1 false PriorityClass
prioritylevelconfigurations - flowcontrol.apiserver.k8s.io/v1 false PriorityLevelConfiguration
resourceclaims - resource.k8s.io/v1 true ResourceClaim
resourceclaimtemplates - resource.k8s.io/v1 true ResourceClaimTemplate
resourceslices - resource.k8s.io/v1 false ResourceSlice
runtimeclasses - node.k8s.io/v1 false RuntimeClass
servicecidrs - networking.k8s.io/v1 false ServiceCIDR
storageclasses sc storage.k8s.io/v1 false StorageClass
validatingadmissionpolicies - admissionregistration.k8s.io/v1 false ValidatingAdmissionPolicy
validatingadmissionpolicybindings - admissionregistration.k8s.io/v1 false \
ValidatingAdmissionPolicyBinding
volumeattachments - storage.k8s.io/v1 false VolumeAttachment
volumeattributesclasses vac storage.k8s.io/v1 false VolumeAttributesClass
"""
HEADERS = {
    "apiservices": "NAME SERVICE AVAILABLE AGE",
    "csr": "NAME AGE SIGNERNAME REQUESTOR REQUESTEDDURATION CONDITION",
    "csidrivers": (
        "NAME ATTACHREQUIRED PODINFOONMOUNT STORAGECAPACITY TOKENREQUESTS REQUIRESREPUBLISH "
        "MODES AGE"
    ),
    "csinodes": "NAME DRIVERS AGE",
    "csistoragecapacities": "NAME STORAGECLASSNAME CAPACITY",
    "deviceclasses": "NAME AGE",
    "flowschemas": "NAME PRIORITYLEVEL MATCHINGPRECEDENCE DISTINGUISHERMETHOD AGE MISSINGPL",
    "ingressclasses": "NAME CONTROLLER PARAMETERS AGE",
    "ipaddresses": "NAME PARENTREF",
    "mutatingadmissionpolicies": "NAME MUTATIONS PARAMKIND AGE",
    "mutatingadmissionpolicybindings": "NAME POLICYNAME PARAMREF AGE",
    "prioritylevelconfigurations": (
        "NAME TYPE NOMINALCONCURRENCYSHARES QUEUES HANDSIZE QUEUELENGTHLIMIT AGE"
    ),
    "resourceclaims": "NAME STATE AGE",
    "resourceclaimtemplates": "NAME AGE",
    "resourceslices": "NAME NODE DRIVER POOL AGE",
    "runtimeclasses": "NAME HANDLER AGE",
    "servicecidrs": "NAME CIDRS AGE",
    "sc": "NAME PROVISIONER RECLAIMPOLICY VOLUMEBINDINGMODE ALLOWVOLUMEEXPANSION AGE",
    "validatingadmissionpolicies": "NAME VALIDATIONS PARAMKIND AGE",
    "validatingadmissionpolicybindings": "NAME POLICYNAME PARAMREF AGE",
    "volumeattachments": "NAME ATTACHER PV NODE ATTACHED AGE",
    "vac": "NAME DRIVERNAME AGE",
}
KINDS = {line.split()[0]: line.split()[-1] for line in RESOURCES.splitlines() if line}
ADDRESS = {"spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "s"}}}


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with ControlPlane.start() as plane:
        yield Kubectl(plane.write_kubeconfig(tmp_path / "kubeconfig"))


def manifest(path: str, name: str) -> str:
    """Return an object of the kind that a path is for, as YAML."""
    group, version, *_, plural = path.removeprefix("/apis/").split("/")
    body = {"apiVersion": f"{group}/{version}", "kind": KINDS[plural], **named(name, LEAST[path])}
    return yaml.safe_dump(body)


async def test_all_kinds_are_listed_as_the_real_server_lists_them(kubectl: Kubectl) -> None:
    listed = [
        line.split() for line in (await kubectl("api-resources", "--no-headers")).splitlines()
    ]

    for line in RESOURCES.splitlines():
        if line:
            plural, short, *rest = line.split()
            assert [plural, *([] if short == "-" else [short]), *rest] in listed


async def test_each_kind_is_applied_and_shown_in_its_columns(kubectl: Kubectl) -> None:
    text = "---\n".join(manifest(path, "a") for path in LEAST)
    address = {"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress"}
    text += "---\n" + yaml.safe_dump({**address, **named("10.97.0.9", ADDRESS)})

    applied = await kubectl("apply", "-f", "-", text=text)
    again = await kubectl("apply", "-f", "-", text=text)

    assert applied.count(" created\n") == len(LEAST) + 1
    assert again.count(" unchanged\n") == len(LEAST) + 1
    shown = (await kubectl("get", ",".join(HEADERS))).strip().split("\n\n")
    for table, header in zip(shown, HEADERS.values(), strict=True):
        first, *rows = table.splitlines()
        assert first.split() == header.split()
        assert rows


async def test_each_kind_can_be_applied_by_the_server(kubectl: Kubectl) -> None:
    text = "---\n".join(manifest(path, "a") for path in LEAST)

    applied = await kubectl("apply", "--server-side", "-f", "-", text=text)
    again = await kubectl("diff", "--server-side", "-f", "-", text=text)

    assert applied.count(" serverside-applied\n") == len(LEAST)
    assert again == ""


async def test_each_kind_is_explained_from_its_schema(kubectl: Kubectl) -> None:
    for plural, kind in KINDS.items():
        explained = await kubectl("explain", plural)
        assert f"KIND:       {kind}\n" in explained
    field = await kubectl("explain", "flowschemas.spec.rules.subjects.serviceAccount.name")
    assert "FIELD: name <string>" in field


async def test_a_request_is_approved_and_denied(kubectl: Kubectl) -> None:
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    await kubectl("apply", "-f", "-", text=manifest(path, "a") + "---\n" + manifest(path, "b"))

    await kubectl("certificate", "approve", "a")
    await kubectl("certificate", "deny", "b")

    shown = await kubectl("get", "csr", "--no-headers")
    assert [line.split()[-1] for line in shown.splitlines()] == ["Approved", "Denied"]
    described = await kubectl("describe", "csr", "a")
    assert "Approved" in described


async def test_flows_are_shown_by_precedence_and_described(kubectl: Kubectl) -> None:
    shown = (await kubectl("get", "flowschemas", "--no-headers")).splitlines()
    described = await kubectl("describe", "flowschema", "probes")

    precedences = [int(line.split()[2]) for line in shown]
    assert precedences == sorted(precedences)
    assert "Priority Level Configuration" in described


async def test_categories_and_raw_paths(kubectl: Kubectl) -> None:
    extensions = await kubectl("get", "api-extensions", "-o", "name")
    raw = json.loads(await kubectl("get", "--raw", "/apis/storage.k8s.io/v1/csidrivers"))

    assert "apiservice.apiregistration.k8s.io/v1.apps" in extensions
    assert raw["kind"] == "CSIDriverList"
