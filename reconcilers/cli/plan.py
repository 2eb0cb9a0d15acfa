"""`butler-ipam plan`: what manifests would be allocated, without a cluster."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import click

from controller.cache import Cache
from controller.meta import Key
from reconcilers.addressing import statusranges
from reconcilers.api.fields import INT32_MAX
from reconcilers.api.ipallocation import POOL_INDEX, IPAllocation, index_by_pool
from reconcilers.api.names import DEFAULT_NAMESPACE
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import IP_ALLOCATION, PROVIDER_CONFIG
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.cli import problems
from reconcilers.cli.flags import option
from reconcilers.cli.forms import Form
from reconcilers.cli.output import (
    GAP,
    TableColumn,
    build_list,
    fit_table,
    join_tables,
    show,
    wrap_line,
)
from reconcilers.cli.planning.audit import Audit
from reconcilers.cli.planning.controllerrun import run_controllers
from reconcilers.cli.planning.outcome import PlannedObjects, collect_objects
from reconcilers.cli.planning.report import (
    BlockChange,
    PoolSupply,
    Size,
    build_document,
    list_changes,
    render_plan,
    was_served,
)
from reconcilers.cli.progress import show_progress_during
from reconcilers.cli.reading.findings import Findings
from reconcilers.cli.reading.manifests import Manifests, read_manifests
from reconcilers.cli.settingflags import setting_option
from reconcilers.cli.sharedflags import file_options, namespace_option, output_option
from reconcilers.configuration.settings import Settings
from reconcilers.integrations import views
from reconcilers.integrations.core.objects import fill_cache
from reconcilers.integrations.core.platforms import NetworkPools
from reconcilers.integrations.core.views import (
    HOST_BITS,
    PLAN_COLUMNS,
    POOLS_OVERLAP,
    UNREADABLE,
    Planned,
    Views,
)
from reconcilers.integrations.registry import describe_kinds
from reconcilers.networkpool.status import find_namespace_block
from reconcilers.networkpool.unreadable import UnreadableAllocations, find_unreadable_names
from reconcilers.promises.unreadable import UnreadableHolders, UnreadableHoldings
from reconcilers.reporting.wording import count_noun, name_with_count
from reconcilers.tenantcluster.provider import find_provider
from reconcilers.tenantcluster.providerreference import parse_reference

HELP = f"""Work out what the objects in manifests would get, and how full the pools would be then.

Without a cluster, the plan shows what the controllers would do: which ranges they hand out, which
allocations the clusters ask for, and which requests fail and why. Allocations that come with a
range keep it.

It reads NetworkPools, IPAllocations, TenantClusters and ProviderConfigs. Of other platforms it
reads {describe_kinds()}.

Requests are served oldest first: by the annotation requested-at, else creationTimestamp. Objects
without a creationTimestamp count as created in the order in which they are read, after all that
have one; what TenantClusters ask for comes last.
"""
EXIT_CODES = """
\b
Exit code:
  0  the input is sound; a request that fails because its pool is full is an outcome
  1  something in the input is wrong; everything else was planned all the same
  2  the options or arguments are wrong
"""


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """The outcome of a plan.

    Args:
        planned: all objects as the controllers would leave them.
        before: the allocations of the input, by key.
        changed: the change of each block of a pool with a valid spec.
        platform_requests: what each request of another platform's kind gets.
        unreadable: the objects that cannot be read, as `KIND KEY`; it is unknown which addresses
            they hold.
    """

    planned: PlannedObjects
    before: dict[Key, IPAllocation]
    changed: Sequence[BlockChange]
    platform_requests: Sequence[Planned]
    unreadable: Sequence[str] = ()

    def list_served_names(self) -> Iterator[tuple[str, str]]:
        """Yield kind and name of each request that has addresses only after the plan."""
        for allocation in self._list_served():
            yield "ipallocation", allocation.metadata.name
        for request in self.platform_requests:
            if request.gets:
                yield request.full_kind, request.key.name

    def _list_served(self) -> Iterator[IPAllocation]:
        """Yield the allocations that have a range after the plan and had none before."""
        for allocation in self.planned.allocations:
            has_range = statusranges.find_held_range(allocation) is not None
            if has_range and not was_served(allocation, self.before):
                yield allocation


def compute_outcome(
    manifests: Manifests,
    settings: Settings,
    now: datetime,
    findings: Findings,
    sizes: Sequence[Size] = (),
) -> PlanOutcome:
    """Return the outcome of a run of the controllers on manifests.

    Args:
        manifests: the input.
        settings: the settings of the controllers.
        now: the time at which the run begins.
        findings: takes the faults of the manifests.
        sizes: sizes of tenants; for each, the outcome counts how many more tenants fit.
    """
    namespace = settings.namespace
    input_pools = [manifest.object for manifest in manifests.pools]
    pools = NetworkPools(input_pools, manifests.find_unreadable("NetworkPool").keys())
    platform_views = views.from_manifests(manifests.others, namespace, pools=pools, now=now)
    audit = Audit(manifests, findings, settings=settings, spaces=platform_views.spaces)
    audit.run()
    audit.check_references(_make_provider_finder(manifests, namespace))
    for trouble in platform_views.troubles:
        # Only troubles of the input are findings: what requests get is in the outcome.
        if trouble.kind in {HOST_BITS, POOLS_OVERLAP, UNREADABLE}:
            name = f"{trouble.subject} {trouble.key}"
            # The sentence about an unreadable object goes on after its name: "... cannot be read".
            separator = " " if trouble.kind == UNREADABLE else ": "
            findings.add(trouble.severity, f"{name}{separator}{trouble.sentence}")
    server = run_controllers(manifests, settings, now)
    if not server.is_at_rest:
        findings.add("warning", "the plan is not complete: controllers still change objects")
    planned = collect_objects(server)
    after = views.from_manifests(
        planned.stored, namespace, pools=replace(pools, readable=planned.pools), now=now
    )
    changed = list_changes(
        manifests,
        planned,
        sizes=sizes,
        max_addresses=settings.pool.max_addresses,
        platform_held=(platform_views.held, after.held),
        find_supply=_make_supply_finder(manifests, platform_views, settings.pool.namespaces),
    )
    platform_requests = views.list_outcomes(
        manifests.others, planned.stored, namespace=namespace, pools=pools, now=now
    )
    unreadable = [
        *(f"{kind} {key}" for kind, key in manifests.unreadable),
        *(
            f"{trouble.subject} {trouble.key}"
            for trouble in platform_views.troubles
            if trouble.kind == UNREADABLE
        ),
    ]
    before = {manifest.key: manifest.object for manifest in manifests.allocations}
    return PlanOutcome(
        planned,
        before,
        changed=changed,
        platform_requests=platform_requests,
        unreadable=unreadable,
    )


def _make_provider_finder(
    manifests: Manifests, namespace: str
) -> Callable[[TenantCluster], ProviderConfig | None]:
    """Return a function that finds the ProviderConfig of a TenantCluster in the input."""
    failures = manifests.find_unreadable(PROVIDER_CONFIG.kind)
    unreadable = {(PROVIDER_CONFIG.kind, key): failure for key, failure in failures.items()}
    configs = [manifest.object for manifest in manifests.providers]
    cache = fill_cache(PROVIDER_CONFIG, configs, unreadable)
    default = parse_reference(manifests.platform_default, namespace)
    return lambda tenant: find_provider(
        tenant, cache, default_namespace=namespace, platform_default=default
    )


def _make_supply_finder(
    manifests: Manifests, platform_views: Views, namespaces: Sequence[str]
) -> Callable[[NetworkPool], PoolSupply]:
    """Return a function that returns the supply of a pool: whether it hands out addresses.

    A pool hands out nothing in three cases:

    1. It is being deleted.
    2. Its namespace may not have pools.
    3. An object that may hold its addresses cannot be read. Then the supply names such objects,
       because the figures of the pool are not known.
    """
    allocations = Cache(IP_ALLOCATION, indexes={POOL_INDEX: index_by_pool})
    allocations.replace([], 0, manifests.find_unreadable(IP_ALLOCATION.kind))

    def find_supply(pool: NetworkPool) -> PoolSupply:
        """Return the supply of a pool."""
        key = pool.metadata.key
        unreadable: UnreadableHoldings | None = None
        if names := find_unreadable_names(allocations.unreadable, key):
            unreadable = UnreadableAllocations(names)
        elif holders := platform_views.unreadable.get(key):
            unreadable = UnreadableHolders(holders)
        closed = pool.metadata.is_terminating or find_namespace_block(pool, namespaces) is not None
        return PoolSupply(not closed and unreadable is None, str(unreadable or ""))

    return find_supply


def parse_size(written_size: str) -> Size:
    """Return the size of a tenant that a user wrote as `NODES+LB`.

    Raises:
        BadParameter: the text is not of that form, or a number is too large.
    """
    nodes, plus, balancers = written_size.partition("+")
    counts = [int(part) for part in (nodes, balancers) if part.isascii() and part.isdecimal()]
    if not plus or len(counts) != 2 or not any(counts):
        raise click.BadParameter(
            f"{written_size!r} is not of the form NODES+LB: write 5+8, or 0+4"
        )
    if max(counts) > INT32_MAX:
        raise click.BadParameter(f"{written_size!r} asks for more addresses than spec.count can")
    return Size(*counts)


@click.command(help=HELP, epilog=EXIT_CODES)
@file_options("Read manifests in YAML or JSON from here", required=True)
@output_option(
    "Print in this format: wide shows also pools that stay as they are. json and yaml print the"
    " objects as a v1 List with the status they would get, or with --fit the figures of the pools."
    " name prints the requests that get a range."
)
@option(
    "--fit",
    type=parse_size,
    multiple=True,
    metavar="NODES+LB",
    help="Count how many more tenants of this size each pool has room for, before and after the"
    " plan: 5+8 is five node addresses and eight for the load balancer. May be repeated.",
)
@namespace_option(
    "Use this namespace for objects and references that name none.", DEFAULT_NAMESPACE
)
@setting_option("pool", "max_addresses")
@setting_option("pool", "namespaces")
@setting_option("tenant", "backfill_nodes")
@click.pass_context
def plan(
    ctx: click.Context,
    /,
    *,
    filename: tuple[str, ...],
    recursive: bool,
    output: Form,
    fit: tuple[Size, ...],
    **setting_values: Any,
) -> None:
    """Work out what the objects in manifests would get, and how full the pools would be then."""
    findings = Findings()
    now = datetime.now(UTC)
    settings = _build_settings(**setting_values)
    with show_progress_during("reading files"):
        manifests = read_manifests(
            filename, namespace=settings.namespace, now=now, findings=findings, recursive=recursive
        )
    with show_progress_during("working out who gets what"):
        outcome = compute_outcome(
            manifests, settings, now=now, findings=findings, sizes=tuple(dict.fromkeys(fit))
        )
    own_manifests = manifests.list_own()
    all_manifests = [*own_manifests, *manifests.others]
    if not all_manifests and not findings.has_errors:
        findings.add("error", "there is nothing to plan: no NetworkPool or IPAllocation was found")
    for finding in findings:
        problems.print_problem(finding.severity, finding.sentence)
    # Programs always get a document. Without objects, people get only the finding about that.
    if all_manifests or output not in {"table", "wide"}:
        planned, changed = outcome.planned, outcome.changed
        show(
            output,
            lambda: (
                build_document(changed)
                if fit
                else build_list([*planned.bodies, *planned.platform_bodies])
            ),
            object_names=outcome.list_served_names(),
            as_text=lambda: join_tables(
                render_plan(planned, outcome.before, changed=changed, form=output)
                if own_manifests
                else "",
                fit_table(_PLATFORM_COLUMNS, outcome.platform_requests, output),
                _describe_unreadable(outcome.unreadable),
            ),
        )
    ctx.exit(problems.EXIT_PROBLEM if findings.has_errors else 0)


def _describe_unreadable(names: Sequence[str]) -> str:
    """Return the line of the summary that names the unreadable objects; empty for none."""
    if not names:
        return ""
    objects = count_noun(len(names), "object")
    line = (
        f"{objects} cannot be read, and what depends on {'it' if len(names) == 1 else 'them'} is"
        f" not planned: {name_with_count(names)}"
    )
    return wrap_line(line, GAP)


_PLATFORM_COLUMNS: Sequence[TableColumn[Planned]] = [
    TableColumn(head, value, wraps=value is PLAN_COLUMNS[-1][1]) for head, value in PLAN_COLUMNS
]


def _build_settings(
    *,
    namespace: str,
    max_pool_addresses: int,
    pool_namespaces: tuple[str, ...],
    backfill_node_allocations: bool,
) -> Settings:
    """Return the controllers' settings: the options of `plan`, and else the defaults."""
    base = Settings(namespace=namespace)
    return replace(
        base,
        pool=replace(base.pool, max_addresses=max_pool_addresses, namespaces=pool_namespaces),
        tenant=replace(base.tenant, backfill_nodes=backfill_node_allocations),
    )
