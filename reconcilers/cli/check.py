"""`butler-ipam check`: audit a cluster's addresses: report problems or apply a reviewed report."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from reconcilers.addressmap.audit import Finding
from reconcilers.addressmap.objects import Objects, read_objects
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL, TENANT_CLUSTER
from reconcilers.cli.cluster.findingnames import list_subject_names
from reconcilers.cli.cluster.objects import (
    ReadingScope,
    build_scope,
    note_empty_namespace,
    read_all,
    report_not_read,
    run_in_cluster,
)
from reconcilers.cli.cluster.repair import Outcome, RepairReport, build_report, read_report, repair
from reconcilers.cli.flags import option
from reconcilers.cli.forms import Form
from reconcilers.cli.output import NOT_READ, Cell, TableColumn, fit_table, show
from reconcilers.cli.problems import EXIT_PROBLEM, print_problem
from reconcilers.cli.progress import show_progress, show_progress_during
from reconcilers.cli.sharedflags import output_option, scope_options, tenants_option
from reconcilers.health.report import list_check_findings, select_findings
from reconcilers.integrations.poolkinds import list_pool_kinds

_COLOURS = {"error": "red", "warning": "yellow"}
_COLUMNS: Sequence[TableColumn[Finding]] = (
    TableColumn("SEVERITY", lambda finding: Cell(finding.severity, _COLOURS[finding.severity])),
    TableColumn("KIND", lambda finding: finding.kind),
    TableColumn("OBJECT", lambda finding: finding.subject.text),
    TableColumn("ACTION", lambda finding: finding.action, wide=True),
    TableColumn("CHOICES", lambda finding: ", ".join(finding.choices), wide=True),
    TableColumn("WHAT", lambda finding: finding.sentence, wraps=True),
)

_WHAT = "checking the cluster"

EXIT_CODES = """
\b
Exit code:
  0  nothing is wrong; with --repair, every action of the report was carried out
  1  something is wrong, or could not be repaired; warnings, and objects that you may not read,
     count only with --strict
  2  the options or arguments are wrong
"""


@click.command(epilog=EXIT_CODES)
@scope_options
@output_option()
@tenants_option()
@option(
    "--strict",
    is_flag=True,
    help="Exit with 1 also for warnings, and for objects that you may not read.",
)
@option(
    "--repair",
    "reviewed",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="REPORT",
    help="Carry out the actions in this report, which -o json or yaml wrote and you reviewed.",
)
@click.pass_context
def check(
    ctx: click.Context,
    /,
    *,
    output: Form,
    tenants: bool,
    strict: bool,
    reviewed: Path | None,
    **values: Any,
) -> None:
    """Look for what is wrong: overlaps, orphans, ranges outside their pool, drift.

    An orphan is an object whose owner is gone. Drift is a difference between what a tenant holds
    and what its load balancer has; --tenants looks for it in the tenants themselves.

    To repair something, write a report: check -o yaml > report.yaml. In it, set the `action` of
    each finding to one of its `choices`; `none` leaves it alone. Then: check --repair report.yaml.
    Only what is still wrong is repaired, and only at the version that you reviewed.
    """
    where = build_scope(values)
    if reviewed is not None:
        if where.files:
            raise click.UsageError(
                "--repair changes a cluster; it cannot be combined with --filename"
            )
        wanted_report = read_report(reviewed)
        outcomes = run_in_cluster(where, _WHAT, partial(_repair, where, wanted_report))
        for outcome in outcomes:
            kind = "error" if outcome.failed else "note"
            print_problem(kind, f"{outcome.subject.text}: {outcome.sentence}")
        if not outcomes:
            print_problem("note", "the report has nothing to do: every action is `none`")
        ctx.exit(EXIT_PROBLEM if any(outcome.failed for outcome in outcomes) else 0)
    if tenants and where.files:
        raise click.UsageError("--tenants asks the tenants: it needs a cluster, not files")
    findings = (
        run_in_cluster(where, _WHAT, partial(_audit_with_tenants, where))
        if tenants
        else _audit(where)
    )
    is_all_read = not ctx.meta.get(NOT_READ)
    clean = "nothing is wrong" if is_all_read else "nothing is wrong in what was read"
    table = fit_table(_COLUMNS, findings, output) or f"{clean}\n"
    show(
        output,
        lambda: build_report(findings),
        object_names=list_subject_names(findings),
        as_text=lambda: table,
    )
    wrong = [finding for finding in findings if strict or finding.severity == "error"]
    ctx.exit(EXIT_PROBLEM if wrong or (strict and not is_all_read) else 0)


def _audit(where: ReadingScope) -> list[Finding]:
    """Return the findings about a cluster's objects or about files, without asking tenants.

    The user must have the right to list TenantClusters: without them, every allocation would look
    like an orphan.
    """
    objects = read_all(where, required=(TENANT_CLUSTER,))
    _report_not_checked(objects, where.namespace)
    note_empty_namespace(objects, where.namespace)
    with show_progress_during("looking for what is wrong"):
        return _list_findings(objects, where)


def _list_findings(objects: Objects, where: ReadingScope) -> list[Finding]:
    """Return the findings about the selected namespace.

    They are computed from the objects of all namespaces, because objects refer to each other.
    """
    return select_findings(where.namespace, list_check_findings(objects, datetime.now(UTC)))


def _report_not_checked(objects: Objects, namespace: str, *, tenants: bool = False) -> None:
    """Warn about checks that are left out because the user may not read the objects for them.

    Args:
        objects: the objects that were read.
        namespace: the namespace that is checked; empty for all.
        tenants: whether --tenants asks to compare the load balancers of tenants.
    """
    checks = {
        "NetworkPools": objects.find_unread_lists(NETWORK_POOL, namespace),
        "overlaps and labels of IPAllocations, and the figures of NetworkPools": (
            objects.find_unread_lists(IP_ALLOCATION, namespace)
        ),
        "IPAllocations whose TenantCluster is gone": objects.find_unread_lists(TENANT_CLUSTER)
        or objects.find_unread_lists(IP_ALLOCATION, namespace),
        "references to ProviderConfigs and NetworkPools": objects.not_read,
        "what refers to objects of other platforms that you may not read, and the figures of their"
        " pools": objects.integrations.not_read,
        "overlaps with pools that you may not read": [
            limit
            for kind in (list_pool_kinds() if objects.all_not_read else ())
            for limit in objects.find_unread_lists(kind)
        ],
        "load balancers of tenants without an IPAllocation that you may read": (
            objects.not_read if tenants else ()
        ),
    }
    left_out = [check for check, limits in checks.items() if limits]
    if left_out:
        print_problem(
            "warning", f"not checked, because you may not read all of it: {'; '.join(left_out)}"
        )


async def _repair(where: ReadingScope, wanted_report: RepairReport, client: Any) -> list[Outcome]:
    """Carry out a reviewed report; return the outcome of each action.

    All kinds must be readable: a finding could be wrong if objects were not read.
    """
    objects = await read_objects(client, where.namespace)
    findings = _list_findings(objects, where)
    show_progress("carrying out the report")
    return [outcome async for outcome in repair(client, wanted_report, findings)]


async def _audit_with_tenants(where: ReadingScope, client: Any) -> list[Finding]:
    """Return the findings about a cluster's objects and about the load balancers of tenants."""
    from reconcilers.cli.cluster.tenantdrift import find_tenant_drift

    objects = await read_objects(client, where.namespace, required=(TENANT_CLUSTER,))
    report_not_read(objects)
    _report_not_checked(objects, where.namespace, tenants=True)
    note_empty_namespace(objects, where.namespace)
    findings = _list_findings(objects, where)
    show_progress("asking the tenants")
    tenant_findings = await find_tenant_drift(client, objects, where.namespace)
    # A finding from the tenant itself replaces a finding of the same kind that repeats a condition
    # of its TenantCluster, because the condition is older.
    replaced = {(finding.kind, finding.subject) for finding in tenant_findings}
    others = [finding for finding in findings if (finding.kind, finding.subject) not in replaced]
    return [*others, *tenant_findings]
