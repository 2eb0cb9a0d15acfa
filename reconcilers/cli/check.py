"""`butler-ipam check`: what is wrong among a cluster's addresses, and mending it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import click

from controller.errors import ConfigurationError, ControllerError
from reconcilers.api import names
from reconcilers.cli.columns import Cell, table
from reconcilers.cli.documents import as_json, as_yaml
from reconcilers.cli.options import option
from reconcilers.cli.problems import EXIT_PROBLEM, Problem, say
from reconcilers.cli.survey.audit import Finding, audit
from reconcilers.cli.survey.forms import FORMS, output_option, scope, scope_options
from reconcilers.cli.survey.objects import (
    Objects,
    Scope,
    connected,
    read_objects,
    survey,
    why_not,
)
from reconcilers.cli.survey.progress import progress
from reconcilers.cli.survey.repair import Outcome, repair
from reconcilers.cli.survey.reports import Report, read_report, report

_COLOURS = {"error": "red", "warning": "yellow"}

EXIT_CODES = """
\b
Exit code:
  0  nothing is wrong; with --repair, everything that was asked for was done
  1  something is wrong, or could not be mended; warnings alone do not count, unless --strict
  2  the command was called in a way that makes no sense
"""


@click.command(epilog=EXIT_CODES)
@scope_options
@output_option(*FORMS)
@option("--tenants", is_flag=True, help="Compare with MetalLB in every tenant, too.")
@option("--strict", is_flag=True, help="Warnings count.")
@option(
    "--repair",
    "reviewed",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="REPORT",
    help="Carry out the actions of a report that was made with -o json or yaml, and reviewed.",
)
@click.pass_context
def check(
    ctx: click.Context,
    /,
    *,
    output: str,
    tenants: bool,
    strict: bool,
    reviewed: Path | None,
    **values: Any,
) -> None:
    """Look for what is wrong: overlaps, orphans, ranges outside their pool, drift.

    To mend something, write a report, read it, set the `action` of each finding to what you want
    (`none` leaves it alone), and give it back: check -o yaml > report.yaml; check --repair
    report.yaml. Only what is still wrong is mended, and only at the version that you reviewed.
    """
    where = scope(values)
    if reviewed is not None:
        if where.files:
            raise click.UsageError("--repair works on a cluster, not on files")
        outcomes = _in_cluster(_repaired, where, read_report(reviewed))
        for outcome in outcomes:
            _say(outcome)
        if not outcomes:
            say("note", "the report asks for nothing: every action is `none`")
        ctx.exit(EXIT_PROBLEM if any(one.failed for one in outcomes) else 0)
    if tenants and where.files:
        raise click.UsageError("--tenants asks the tenants: it needs a cluster, not files")
    found: list[Finding] = (
        _in_cluster(_with_tenants, where) if tenants else audit(survey(where), datetime.now(UTC))
    )
    click.echo(_rendered(found, output), nl=False)
    wrong = [one for one in found if strict or one.severity == "error"]
    ctx.exit(EXIT_PROBLEM if wrong else 0)


def _in_cluster(work: Any, where: Scope, *arguments: Any) -> Any:
    try:
        with progress("checking the cluster"):
            return anyio.run(work, where, *arguments)
    except (ConfigurationError, ControllerError) as error:
        raise Problem(why_not(error, where)) from error


async def _repaired(where: Scope, wanted: Report) -> list[Outcome]:
    async with connected(where) as client:
        objects = await read_objects(client, where.namespace)
        found = audit(objects, datetime.now(UTC))
        return [outcome async for outcome in repair(client, wanted, found)]


async def _with_tenants(where: Scope) -> list[Finding]:
    from reconcilers.cli.survey.tenantdrift import tenant_drift

    async with connected(where) as client:
        objects: Objects = await read_objects(client, where.namespace)
        return [*audit(objects, datetime.now(UTC)), *await tenant_drift(client, objects)]


def _say(outcome: Outcome) -> None:
    name = f"{outcome.subject.kind} {outcome.subject.namespace}/{outcome.subject.name}"
    say("error" if outcome.failed else "note", f"{name}: {outcome.sentence}")


def _rendered(found: Sequence[Finding], form: str) -> str:
    if form in {"json", "yaml"}:
        whole = report(found)
        return as_json(whole) if form == "json" else as_yaml([whole])
    if form == "name":
        unique = dict.fromkeys(
            f"{f.subject.kind.lower()}.{names.GROUP}/{f.subject.name}" for f in found
        )
        return "".join(f"{name}\n" for name in unique)
    if not found:
        return "nothing is wrong\n"
    rows = [
        [
            Cell(one.severity, _COLOURS[one.severity]),
            Cell(one.kind),
            Cell(f"{one.subject.kind} {one.subject.namespace}/{one.subject.name}"),
            *([Cell(one.action), Cell(", ".join(one.choices))] if form == "wide" else []),
            Cell(one.sentence),
        ]
        for one in found
    ]
    more = ("ACTION", "CHOICES") if form == "wide" else ()
    return table(("SEVERITY", "KIND", "OBJECT", *more, "WHAT"), rows)
