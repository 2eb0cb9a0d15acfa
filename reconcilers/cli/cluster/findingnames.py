"""Names of the subjects of findings and of holders, as `kubectl get -o name` prints them."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from reconcilers.addressmap.audit import Finding
from reconcilers.integrations.poolkinds import list_pool_kinds
from reconcilers.integrations.registry import list_platforms


@cache
def _list_groups() -> Mapping[str, str]:
    """Return the API groups of kinds that are not ours, by kind.

    Kinds of vitistack are absent: findings name them with their group.
    """
    of_platforms = (kind for platform in list_platforms() for kind in platform.finding_kinds)
    return {
        "Lease": "coordination.k8s.io",
        "Deployment": "apps",
        "ValidatingWebhookConfiguration": "admissionregistration.k8s.io",
        **{resource.kind: resource.group for resource in (*of_platforms, *list_pool_kinds())},
    }


def list_subject_names(findings: Iterable[Finding]) -> Iterator[tuple[str, str]]:
    """Yield the kind, with its group, and the name of the subject of each finding."""
    for finding in findings:
        yield format_full_kind(finding.subject.kind), finding.subject.name


def format_full_kind(kind: str) -> str:
    """Return a kind in lower case with its group; without a group if it is one of ours."""
    group = _list_groups().get(kind)
    return f"{kind.lower()}.{group}" if group else kind.lower()
