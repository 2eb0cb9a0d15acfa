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
from reconcilers.health.report import AreaState, find_gravest_state
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
    """Return the state of the area `controllers`, and its findings.

    The state names the kinds that the user may not read. It is unknown if there are such kinds and
    the other kinds have no findings.

    Args:
        client: for the requests.
        namespace: the namespace of the Lease and the Deployment.
        lease_name: the name of the Lease; the names of shards' Leases begin with it.
        now: the time.

    Raises:
        ControllerError: the cluster did not answer.
    """
    parts: list[str] = []
    findings: list[Finding] = []
    unreadable: list[str] = []
    for resource, read_part in _READERS:
        try:
            summary, kind_findings = await read_part(client, namespace, lease_name, now)
        except Forbidden:
            unreadable.append(resource.full_name)
            continue
        parts.append(summary)
        findings += kind_findings
    state = find_gravest_state(findings)
    if unreadable:
        kinds = ", ".join(unreadable)
        parts.append(f"you may not read {kinds}; ClusterRole {READER_ROLE} allows it")
        state = state if findings else "unknown"
    return AreaState("controllers", state, "; ".join(parts)), findings


async def _read_leases(
    client: Client, namespace: str, lease_name: str, now: datetime
) -> tuple[str, list[Finding]]:
    """Return a text that names the leaders, and findings about the Leases.

    There is a warning if no Lease exists, and an error for each Lease without a living holder.
    """
    page = await client.list(LEASES, namespace=namespace)
    # Each shard has a Lease of its own: the common name, a dash, and the shard.
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
    return summary, list(_find_leases_without_holder(leases, now))


def _find_leases_without_holder(leases: Sequence[Lease], now: datetime) -> Iterator[Finding]:
    """Yield a finding for each Lease without a holder, or not renewed within its duration."""
    for lease in leases:
        renewed = _parse_time(lease.spec.renewTime)
        limit = lease.spec.leaseDurationSeconds or 0
        age = (now - renewed).total_seconds() if renewed is not None else None
        if lease.spec.holderIdentity and age is not None and age <= limit:
            continue
        subject = Subject("Lease", lease.metadata.namespace, lease.metadata.name)
        renewal = f"last renewed {int(age)} s ago" if age is not None else "never renewed"
        sentence = f"has no living holder ({renewal}): no controller works; see the pods' logs"
        since = lease.spec.renewTime
        yield Finding("NoLeader", "error", subject=subject, sentence=sentence, since=since)


async def _read_deployments(
    client: Client, namespace: str, _lease_name: str, _now: datetime
) -> tuple[str, list[Finding]]:
    """Return a text with replicas and images of our Deployments, and findings.

    There is a finding for each Deployment with fewer ready replicas than desired.
    """
    page = await client.list(DEPLOYMENTS, namespace=namespace)
    deployments = [item for item in page.items if item.metadata.labels.get(APP_LABEL) in APP_NAMES]
    findings: list[Finding] = []
    parts: list[str] = []
    for deployment in deployments:
        ready, desired = deployment.status.readyReplicas, deployment.spec.replicas
        images = _describe_images(deployment)
        parts.append(f"{deployment.metadata.name} {ready}/{desired} ready, {images}")
        if ready < desired:
            subject = Subject.from_object(DEPLOYMENTS, deployment)
            sentence = f"{ready} of {count_noun(desired, 'replica is', 'replicas are')} ready"
            severity: Severity = "warning" if ready else "error"
            findings.append(
                Finding("ControllersNotReady", severity, subject=subject, sentence=sentence)
            )
    return "; ".join(parts) or "no Deployment", findings


def _describe_images(deployment: ControllerDeployment) -> str:
    """Return the container images of a Deployment, whose tags are the running versions."""
    containers = deployment.spec.template.get("spec", {}).get("containers", [])
    return ", ".join(str(container.get("image", "")) for container in containers)


async def _read_webhooks(
    client: Client, _namespace: str, _lease_name: str, _now: datetime
) -> tuple[str, list[Finding]]:
    """Return a text about the registered webhooks, and a finding if they cannot be called.

    The API server can call a webhook only if the configuration has the CA of its certificate.
    """
    configuration = await client.find(WEBHOOKS, Key("", WEBHOOK_CONFIGURATION))
    if configuration is None:
        return "no webhooks", []  # they are optional
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
"""The kinds to read, each with its function."""


def _parse_time(timestamp: str | None) -> datetime | None:
    """Return the time of a Lease's field; None if it is absent or cannot be parsed."""
    try:
        return datetime.fromisoformat(timestamp or "")
    except ValueError:
        return None
