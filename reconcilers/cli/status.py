"""`butler-ipam status`: one page on what waits or fails, red if something does."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import click
from click.core import ParameterSource

from reconcilers.addressmap.audit import Finding
from reconcilers.addressmap.objects import Objects, read_objects
from reconcilers.api import names
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.cli.cluster.findingnames import list_subject_names
from reconcilers.cli.cluster.follow import follow
from reconcilers.cli.cluster.objects import (
    ReadingScope,
    build_scope,
    note_empty_namespace,
    read_all,
    report_not_read,
    run_in_cluster,
)
from reconcilers.cli.cluster.statuspage import EXIT_WARNING, build_status_page
from reconcilers.cli.flags import option
from reconcilers.cli.forms import Form
from reconcilers.cli.output import NOT_READ, build_report, show
from reconcilers.cli.sharedflags import (
    output_option,
    scope_options,
    tenants_option,
    watch_option,
)
from reconcilers.health.report import AreaState

EXIT_CODES = """
\b
Exit code:
  0  nothing waits or fails
  1  something is wrong: an error, or the cluster cannot be read
  2  the options or arguments are wrong
  3  warnings alone
"""


@click.command(epilog=EXIT_CODES)
@scope_options
@output_option()
@watch_option()
@option(
    "--controller-namespace",
    default=names.DEFAULT_NAMESPACE,
    metavar="NAME",
    help="Look in this namespace for the Lease and the Deployment of the controllers.",
)
@tenants_option()
@click.pass_context
def status(
    ctx: click.Context,
    /,
    *,
    output: Form,
    watch: bool,
    controller_namespace: str,
    tenants: bool,
    **values: Any,
) -> None:
    """Show what waits or fails: tenants, Services, requests, releases, pools, controllers.

    Everything is read from the objects of the management cluster. With -n, only what concerns that
    namespace is shown, and the rights of a user of one namespace suffice.
    """
    where = build_scope(values)
    namespace_source = ctx.get_parameter_source("controller_namespace")
    names_controllers = namespace_source is ParameterSource.COMMANDLINE
    if watch:
        # With --watch, only watched objects are shown: controllers and tenants are not read live.
        if tenants or names_controllers:
            raise click.UsageError(
                "--watch reads neither tenants nor controllers: leave out --tenants and"
                " --controller-namespace, or --watch"
            )
        follow(
            where,
            output,
            lambda objects: build_status_page(objects, where.namespace).as_text(output),
            required=(TENANT_CLUSTER,),
        )
        return
    if tenants and where.files:
        raise click.UsageError("--tenants asks the tenants: it needs a cluster, not files")
    if names_controllers and where.files:
        raise click.UsageError(
            "--controller-namespace is where the controllers run: it needs a cluster, not files"
        )
    controllers: AreaState | None = None
    live_findings: list[Finding] = []
    if where.files:
        objects = read_all(where)
    else:
        objects, controllers, live_findings = run_in_cluster(
            where,
            "reading the cluster's objects",
            lambda client: _read_live(client, where, controller_namespace, tenants=tenants),
        )
        report_not_read(objects)
    note_empty_namespace(objects, where.namespace)
    status_page = build_status_page(
        objects, where.namespace, controllers=controllers, more=live_findings
    )
    show(
        output,
        lambda: build_report(
            "Status",
            areas=map(asdict, status_page.areas),
            findings=(_build_document(finding) for finding in status_page.findings),
        ),
        object_names=list_subject_names(status_page.findings),
        as_text=lambda: status_page.as_text(output),
    )
    # Objects that the user may not read count as a warning: they may have problems.
    is_partial = ctx.meta.get(NOT_READ) or any(
        area.state == "unknown" for area in status_page.areas
    )
    ctx.exit(status_page.exit_code or (EXIT_WARNING if is_partial else 0))


async def _read_live(
    client: Any, where: ReadingScope, controller_namespace: str, *, tenants: bool
) -> tuple[Objects, AreaState, list[Finding]]:
    """Return the objects, the state of the controllers, and the findings about controllers.

    With `tenants`, the findings about tenants are among them.

    Args:
        tenants: whether the API servers and load balancers of tenants are read, too.
    """
    # Imported here, because `status` on files does not need it.
    from reconcilers.health.controllers import read_controllers

    objects = await read_objects(client, where.namespace, required=(TENANT_CLUSTER,))
    now = datetime.now(UTC)
    state, findings = await read_controllers(
        client, controller_namespace, lease_name=names.LEASE_NAME, now=now
    )
    if tenants:
        from reconcilers.cli.cluster.tenantdrift import find_tenant_drift

        findings += await find_tenant_drift(client, objects, where.namespace)
    return objects, state, findings


def _build_document(finding: Finding) -> dict[str, Any]:
    """Return a finding for programs, without `since` if that time is not known."""
    document = {
        "severity": finding.severity,
        "kind": finding.kind,
        "subject": asdict(finding.subject),
        "sentence": finding.sentence,
    }
    return document | ({"since": finding.since} if finding.since else {})
