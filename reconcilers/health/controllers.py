"""The processes of butler-ipam: leader, replicas, versions, webhooks; read live from a cluster."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from controller.client import Client
from controller.errors import Forbidden
from controller.leases import LEASES, Lease
from controller.meta import Key, ObjectMeta
from controller.resource import Resource
from reconcilers.addressmap.audit import Finding, Severity, Subject
from reconcilers.api.names import WEBHOOK_CONFIGURATION
from reconcilers.health.report import AreaState, state_of
from reconcilers.reporting.wording import count_noun

APP_LABEL = "app.kubernetes.io/name"
APP_NAMES = {"butler-controller", "butler-ipam"}
"""The values of the label that our Deployments carry: by kustomize and by the chart."""


@dataclass(frozen=True, slots=True)
class ControllerDeploymentSpec:
    """What a Deployment asks for."""

    replicas: int = 1
    template: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeploymentStatus:
    """How many replicas are ready."""

    readyReplicas: int = 0


@dataclass(frozen=True, slots=True)
class ControllerDeployment:
    """A Deployment of apps/v1, as far as it says which version runs."""

    metadata: ObjectMeta
    spec: ControllerDeploymentSpec = field(default_factory=ControllerDeploymentSpec)
    status: DeploymentStatus = field(default_factory=DeploymentStatus)


@dataclass(frozen=True, slots=True)
class ValidatingWebhooks:
    """A ValidatingWebhookConfiguration, as far as it says whether webhooks can be called."""

    metadata: ObjectMeta
    webhooks: Sequence[Mapping[str, Any]] = ()


DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", ControllerDeployment)
WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    ValidatingWebhooks,
    namespaced=False,
)


READER_ROLE = "butler-ipam-status-viewer"
"""The ClusterRole that allows to read all of this; a test compares it with the shipped one."""


async def read_controllers(
    client: Client, namespace: str, lease_name: str, now: datetime
) -> tuple[AreaState, list[Finding]]:
    """Return the state of the controllers, and what is wrong with them.

    Args:
        client: for the requests.
        namespace: where the Lease and the Deployment are.
        lease_name: the name of the Lease; those of shards begin with it.
        now: the time.

    Raises:
        ControllerError: the cluster did not answer.
    """
    parts: list[str] = []
    findings: list[Finding] = []
    unreadable: list[str] = []
    for resource, read in _READERS:
        try:
            summary, kind_findings = await read(client, namespace, lease_name, now)
        except Forbidden:
            unreadable.append(resource.full_name)
            continue
        parts.append(summary)
        findings += kind_findings
    state = state_of(findings)
    if unreadable:
        kinds = ", ".join(unreadable)
        parts.append(f"you may not read {kinds}; ClusterRole {READER_ROLE} allows it")
        state = state if findings else "unknown"
    return AreaState("controllers", state, "; ".join(parts)), findings


async def _read_leases(
    client: Client, namespace: str, lease_name: str, now: datetime
) -> tuple[str, list[Finding]]:
    """Return the leader, and a finding for each Lease without a living holder."""
    page = await client.list(LEASES, namespace=namespace)
    leases = [
        lease
        for lease in page.items
        if lease.metadata.name == lease_name or lease.metadata.name.startswith(f"{lease_name}-")
    ]
    if not leases:
        subject = Subject("Lease", namespace, lease_name)
        sentence = (
            "does not exist: no controller has led in this namespace, or it runs without"
            " --leader-elect"
        )
        return "no Lease", [Finding("NoLeader", "warning", subject=subject, sentence=sentence)]
    holders = sorted({lease.spec.holderIdentity for lease in leases if lease.spec.holderIdentity})
    summary = f"leader {', '.join(holders)}" if holders else "no leader"
    return summary, list(_leases_without_holder(leases, now))


def _leases_without_holder(leases: Sequence[Lease], now: datetime) -> Iterator[Finding]:
    for lease in leases:
        renewed = _time(lease.spec.renewTime)
        limit = lease.spec.leaseDurationSeconds or 0
        age = (now - renewed).total_seconds() if renewed is not None else None
        if lease.spec.holderIdentity and age is not None and age <= limit:
            continue
        subject = Subject("Lease", lease.metadata.namespace, lease.metadata.name)
        last = f"last renewed {int(age)} s ago" if age is not None else "never renewed"
        sentence = f"has no living holder ({last}): no controller works; see the pods' logs"
        since = lease.spec.renewTime
        yield Finding("NoLeader", "error", subject=subject, sentence=sentence, since=since)


async def _read_deployments(
    client: Client, namespace: str, _lease_name: str, _now: datetime
) -> tuple[str, list[Finding]]:
    """Return replicas and versions of our Deployments; a finding for each with too few."""
    page = await client.list(DEPLOYMENTS, namespace=namespace)
    ours = [item for item in page.items if item.metadata.labels.get(APP_LABEL) in APP_NAMES]
    findings: list[Finding] = []
    parts: list[str] = []
    for item in ours:
        ready, desired = item.status.readyReplicas, item.spec.replicas
        parts.append(f"{item.metadata.name} {ready}/{desired} ready, {_images(item)}")
        if ready < desired:
            subject = Subject.from_object(DEPLOYMENTS, item)
            sentence = f"{ready} of {count_noun(desired, 'replica is', 'replicas are')} ready"
            severity: Severity = "warning" if ready else "error"
            findings.append(
                Finding("ControllersNotReady", severity, subject=subject, sentence=sentence)
            )
    return "; ".join(parts) or "no Deployment", findings


def _images(deployment: ControllerDeployment) -> str:
    """Return the images of a Deployment."""
    containers = deployment.spec.template.get("spec", {}).get("containers", [])
    return ", ".join(str(container.get("image", "")) for container in containers)


async def _read_webhooks(
    client: Client, _namespace: str, _lease_name: str, _now: datetime
) -> tuple[str, list[Finding]]:
    """Return whether the webhooks are registered; a finding if they cannot be called."""
    configuration = await client.find(WEBHOOKS, Key("", WEBHOOK_CONFIGURATION))
    if configuration is None:
        return "no webhooks", []
    untrusted = [
        str(webhook.get("name"))
        for webhook in configuration.webhooks
        if not webhook.get("clientConfig", {}).get("caBundle")
    ]
    if not untrusted:
        return f"{len(configuration.webhooks)} webhooks", []
    subject = Subject.from_object(WEBHOOKS, configuration)
    sentence = (
        f"has no caBundle for {', '.join(untrusted)}: the API server cannot call them; the leader,"
        " or cert-manager, writes it"
    )
    return "webhooks not ready", [
        Finding("WebhooksNotReady", "error", subject=subject, sentence=sentence)
    ]


_Reader = Callable[[Client, str, str, datetime], Awaitable[tuple[str, list[Finding]]]]
_READERS: Sequence[tuple[Resource[Any], _Reader]] = (
    (LEASES, _read_leases),
    (DEPLOYMENTS, _read_deployments),
    (WEBHOOKS, _read_webhooks),
)
"""What reads the objects of each kind."""


def _time(timestamp: str | None) -> datetime | None:
    """Return the time that a Lease has; None if it has none."""
    try:
        return datetime.fromisoformat(timestamp or "")
    except ValueError:
        return None
