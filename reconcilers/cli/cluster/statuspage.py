"""The page that `status` prints about a cluster, and the exit code of the command."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from reconcilers.addressmap.audit import Finding, build_finding_sort_key
from reconcilers.addressmap.objects import Objects
from reconcilers.cli.forms import Form
from reconcilers.cli.output import Cell, TableColumn, fit_table, join_tables
from reconcilers.cli.problems import EXIT_PROBLEM
from reconcilers.health.report import (
    AreaState,
    list_area_states,
    list_status_findings,
    select_findings,
)

EXIT_WARNING = 3
_COLOURS = {"error": "red", "warning": "yellow", "ok": "green", "unknown": "yellow"}
_AREAS: Sequence[TableColumn[AreaState]] = (
    TableColumn("AREA", lambda area: area.area),
    TableColumn("STATE", lambda area: Cell(area.state, _COLOURS[area.state])),
    TableColumn("SUMMARY", lambda area: area.summary, wraps=True),
)
_FINDINGS: Sequence[TableColumn[Finding]] = (
    TableColumn("SEVERITY", lambda finding: Cell(finding.severity, _COLOURS[finding.severity])),
    TableColumn("KIND", lambda finding: finding.kind),
    TableColumn("OBJECT", lambda finding: finding.subject.text),
    TableColumn("SINCE", lambda finding: finding.since, drop=1),
    TableColumn("WHAT", lambda finding: finding.sentence, wraps=True),
)


@dataclass(frozen=True, slots=True)
class StatusPage:
    """The page of `status`.

    Args:
        areas: the state of each area.
        findings: the objects that wait or fail, gravest first.
    """

    areas: Sequence[AreaState]
    findings: Sequence[Finding]

    def as_text(self, form: Form) -> str:
        """Return the page for people."""
        areas, findings = (
            fit_table(_AREAS, self.areas, form),
            fit_table(_FINDINGS, self.findings, form),
        )
        return join_tables(areas, findings)

    @property
    def exit_code(self) -> int:
        """The exit code: 1 for an error, EXIT_WARNING for warnings only, else 0."""
        if any(finding.severity == "error" for finding in self.findings):
            return EXIT_PROBLEM
        return EXIT_WARNING if self.findings else 0


def build_status_page(
    objects: Objects,
    namespace: str,
    controllers: AreaState | None = None,
    more: Sequence[Finding] = (),
) -> StatusPage:
    """Return the page that `status` prints about a namespace.

    Args:
        objects: all objects of a cluster.
        namespace: the namespace; empty for all.
        controllers: the state of the controllers; None to leave it out.
        more: findings about tenants and controllers, which are read live.
    """
    about_objects = select_findings(namespace, list_status_findings(objects, datetime.now(UTC)))
    findings = sorted([*about_objects, *more], key=build_finding_sort_key)
    # `within` keeps all TenantClusters, because allocations refer to them across namespaces. The
    # page shows only the TenantClusters of the namespace.
    selected = objects.select_namespace(namespace).select_tenants(namespace)
    return StatusPage(
        list_area_states(selected, findings, controllers=controllers, namespace=namespace),
        findings,
    )
