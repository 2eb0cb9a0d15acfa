"""The subjects of findings, and holders of addresses, as `kubectl get -o name` prints them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from controller.resource import Resource
from reconcilers.addressmap.audit import Finding
from reconcilers.integrations.poolkinds import POOL_KINDS
from reconcilers.integrations.registry import PLATFORMS

_RESOURCES: tuple[Resource[Any], ...] = (
    *(kind for platform in PLATFORMS for kind in platform.finding_kinds),
    *POOL_KINDS,
)
_GROUPS: Mapping[str, str] = {
    "Lease": "coordination.k8s.io",
    "Deployment": "apps",
    "ValidatingWebhookConfiguration": "admissionregistration.k8s.io",
    **{resource.kind: resource.group for resource in _RESOURCES},
}
"""The API groups of kinds that are not ours; findings name vitistack's kinds with theirs."""


def subject_names(findings: Iterable[Finding]) -> Iterator[tuple[str, str]]:
    """Yield the kind and the name of what each finding is about, as `show` takes them."""
    for finding in findings:
        yield full_kind(finding.subject.kind), finding.subject.name


def full_kind(kind: str) -> str:
    """Return a kind in small letters with its group; without a group if it is one of ours."""
    group = _GROUPS.get(kind)
    return f"{kind.lower()}.{group}" if group else kind.lower()
