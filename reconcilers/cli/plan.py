"""`butler-ipam plan`: what manifests would be allocated, without a cluster."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import click
from structlog.testing import capture_logs

from controller.meta import Key
from reconcilers.addressing import statusranges
from reconcilers.api.fields import INT32_MAX
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.names import DEFAULT_NAMESPACE
from reconcilers.cli import problems
from reconcilers.cli.flags import option, setting_option
from reconcilers.cli.output import (
    FORMS,
    GAP,
    Column,
    Form,
    as_list,
    fitted,
    show,
    tables,
    wrapped,
)
from reconcilers.cli.planning.audit import Audit
from reconcilers.cli.planning.forecast import Forecast
from reconcilers.cli.planning.ledger import Ledger
from reconcilers.cli.planning.report import Change, Size, changes, document, render, was_served
from reconcilers.cli.progress import progress
from reconcilers.cli.reading.findings import Findings
from reconcilers.cli.reading.manifests import Manifests, read
from reconcilers.configuration.settings import Settings
from reconcilers.integrations import views
from reconcilers.integrations.core.views import (
    HOST_BITS,
    PLAN_COLUMNS,
    POOLS_OVERLAP,
    UNREADABLE,
    Planned,
    Views,
)
from reconcilers.reporting.wording import count_noun, name_with_count
from reconcilers.tenantcluster.provider import parse_reference

EXIT_CODES = """
\b
Exit code:
  0  the input is sound; a request that fails because its pool is full is an outcome
  1  something in the input is wrong; everything else was planned all the same
  2  the command was called in a way that makes no sense
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """The outcome: all objects as they would be, and the allocations `before`, as they were.

    `others` is what requests of other platforms' kinds get, and `unreadable` names the objects of
    which it is not known what they hold.
    """

    ledger: Ledger
    before: dict[Key, IPAllocation]
    changed: Sequence[Change]
    others: Views
    unreadable: Sequence[str] = ()

    def served(self) -> Iterator[IPAllocation]:
        """Yield the allocations that get a range by this plan."""
        for one in self.ledger.allocations:
            if statusranges.find_held_range(one) is not None and not was_served(one, self.before):
                yield one


def work_out(
    manifests: Manifests,
    settings: Settings,
    now: datetime,
    findings: Findings,
    sizes: Sequence[Size] = (),
) -> Plan:
    """Return what controllers with these settings would make of manifests, at the time `now`.

    What is wrong among the manifests is added to `findings`. For each of `sizes`, it is counted
    how many more tenants of that size fit.
    """
    ledger = Ledger.from_manifests(manifests)
    default = parse_reference(manifests.platform_default, settings.namespace)
    unreadable_pools = manifests.unreadable_of("NetworkPool").keys()
    pools = views.NetworkPools(list(ledger.pools), unreadable_pools)
    others = partial(
        views.from_manifests,
        manifests.others,
        settings.namespace,
        pools,
        now,
        namespaces=settings.pool.namespaces,
    )
    shown = others()
    forecast = Forecast(
        ledger,
        settings,
        default,
        now,
        shown.spaces,
        also_held=shown.held,
        unreadable_holders=shown.unreadable,
    )
    audit = Audit(manifests, findings, settings, shown.spaces)
    audit.run()
    audit.references(forecast.provider_of)
    for trouble in shown.troubles:
        if trouble.kind in {HOST_BITS, POOLS_OVERLAP, UNREADABLE}:
            name = f"{trouble.subject} {trouble.key}"
            separator = " " if trouble.kind == UNREADABLE else ": "
            findings.add(trouble.severity, f"{name}{separator}{trouble.sentence}")
    before = {manifest.key: manifest.object for manifest in manifests.allocations}
    with capture_logs():  # of what reconcilers log: standard output belongs to the plan
        forecast.run()
        claimed = others(held=ledger.held_of)
        forecast.also_held = claimed.held
        forecast.write_pool_statuses()
    changed = changes(
        manifests,
        ledger,
        sizes,
        settings.pool.max_addresses,
        also_held=(shown.held, claimed.held),
        find_supply=forecast.supply,
    )
    unreadable = [
        *(f"{kind} {key}" for kind, key in manifests.unreadable),
        *(
            f"{trouble.subject} {trouble.key}"
            for trouble in shown.troubles
            if trouble.kind == UNREADABLE
        ),
    ]
    return Plan(ledger, before, changed, claimed, unreadable)


def size(text: str) -> Size:
    """Return the size that `NODES+LB` means.

    Raises:
        BadParameter: it means none.
    """
    nodes, plus, balancers = text.partition("+")
    counts = [int(part) for part in (nodes, balancers) if part.isascii() and part.isdecimal()]
    if not plus or len(counts) != 2 or not any(counts):
        raise click.BadParameter(f"{text!r} is not of the form NODES+LB: write 5+8, or 0+4")
    if max(counts) > INT32_MAX:
        raise click.BadParameter(f"{text!r} asks for more addresses than spec.count can")
    return Size(*counts)


@click.command(epilog=EXIT_CODES)
@option(
    *("-f", "--filename"),
    multiple=True,
    required=True,
    metavar="FILE|FOLDER|-",
    help="Manifests in YAML or JSON; - is standard input. May be given several times.",
)
@option("-R", "--recursive", is_flag=True, help="Look into the folders inside folders too.")
@option(
    *("-o", "--output"),
    type=click.Choice(FORMS),
    default="table",
    help="wide tells of pools too that stay as they are; json and yaml print the objects as a v1"
    " List, with the status they would get, or with --fit the pools' figures; name prints the"
    " allocations that get a range.",
)
@option(
    "--fit",
    type=size,
    multiple=True,
    metavar="NODES+LB",
    help="Count how many more tenants of this size each pool has room for, before and after; may"
    " be repeated.",
)
@option(
    *("-n", "--namespace"),
    default=DEFAULT_NAMESPACE,
    help="Namespace of objects and references that name none.",
)
@option(
    "--max-pool-addresses",
    type=click.IntRange(min=1),
    default=Settings().pool.max_addresses,
    help="The largest pool of IPv4, in addresses.",
)
@setting_option("pool", "namespaces")
@option(
    "--backfill-node-allocations",
    is_flag=True,
    help="Clusters that are Ready without node addresses get some.",
)
@click.pass_context
def plan(
    ctx: click.Context,
    /,
    *,
    filename: tuple[str, ...],
    recursive: bool,
    output: Form,
    fit: tuple[Size, ...],
    **limits: Any,
) -> None:
    """Show what manifests would be allocated, the pools' status and fragmentation after it.

    Reads NetworkPools, IPAllocations, TenantClusters and ProviderConfigs, Cluster API's pools and
    IPAddressClaims, KKP's IPAMPools and Clusters, and vitistack's NetworkNamespaces and
    IPAllocations, and works out, without a cluster, what the controllers would do with them:
    which ranges are handed out, which allocations the clusters ask for, which requests fail and
    why. Allocations that come with a range keep it.

    Requests are served oldest first: by the annotation requested-at, else creationTimestamp.
    Objects without a creationTimestamp count as created in the order in which they are read,
    after all that have one; what TenantClusters ask for comes last.
    """
    findings = Findings()
    now = datetime.now(UTC)
    settings = _settings(**limits)
    with progress("reading files"):
        manifests = read(
            filename, namespace=settings.namespace, now=now, findings=findings, recursive=recursive
        )
    with progress("working out who gets what"):
        outcome = work_out(manifests, settings, now, findings, tuple(dict.fromkeys(fit)))
    ours = manifests.every()
    every = [*ours, *manifests.others]
    if not every and not findings.wrong:
        findings.add("error", "there is nothing to plan: no NetworkPool or IPAllocation was found")
    for finding in findings:
        problems.say(finding.severity, finding.sentence)
    if every or output not in {"table", "wide"}:
        ledger, before, changed = outcome.ledger, outcome.before, outcome.changed
        others = outcome.others
        show(
            output,
            lambda: (
                document(changed) if fit else as_list([*ledger.bodies(), *outcome.others.bodies])
            ),
            [
                *(("ipallocation", one.metadata.name) for one in outcome.served()),
                *((one.full_kind, one.key.name) for one in others.planned if one.gets),
            ],
            lambda: tables(
                render(ledger, before, changed, output) if manifests.every() else "",
                fitted(_OTHERS, others.planned, output),
                _describe_unreadable(outcome.unreadable),
            ),
        )
    ctx.exit(problems.EXIT_PROBLEM if findings.wrong else 0)


def _describe_unreadable(names: Sequence[str]) -> str:
    """Return the line of the summary that names the unreadable objects; empty for none."""
    if not names:
        return ""
    objects = count_noun(len(names), "object")
    line = (
        f"{objects} cannot be read, and what depends on {'it' if len(names) == 1 else 'them'} is"
        f" not planned: {name_with_count(names)}"
    )
    return wrapped(line, GAP)


_OTHERS: Sequence[Column[Planned]] = [
    Column(head, value, wraps=value is PLAN_COLUMNS[-1][1]) for head, value in PLAN_COLUMNS
]


def _settings(
    *,
    namespace: str,
    max_pool_addresses: int,
    pool_namespaces: tuple[str, ...],
    backfill_node_allocations: bool,
) -> Settings:
    base = Settings(namespace=namespace)
    return replace(
        base,
        pool=replace(base.pool, max_addresses=max_pool_addresses, namespaces=pool_namespaces),
        tenant=replace(base.tenant, backfill_nodes=backfill_node_allocations),
    )
