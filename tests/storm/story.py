"""A storm: every process is killed or frozen in its turn while people use three tenants.

    KUBEBUILDER_ASSETS=$PWD/.real/newest python -m tests.storm cilium 0 --to 20

A seed decides which process is struck when, whether it is killed or frozen, for how long, and
what people do. People create and delete Services, edit and delete the offers of the controllers,
create offers that the load balancer cannot use, delete allocations, and create allocations that
take whatever is free. A process that was killed in one round is frozen in the next. Real processes
differ in speed from run to run. So a seed repeats the choices but not their moments, and a finding
may need several runs of its seed.

The audit (tests/audit/) records everything. After the storm each Service has an address of its own
tenant, and the held and the free addresses of each pool add up to its size. Once all Services and
clusters are deleted, both pools are free.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from allocator import AddressRange
from controller.errors import ControllerError
from controller.loggers import get_logger
from controller.meta import Key
from reconcilers.addressing import statusranges
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL, PROVIDER_CONFIG, TENANT_CLUSTER
from reconcilers.api.services import SERVICE
from reconcilers.cli.local.objects import delete
from reconcilers.loadbalancers.corrections import LONGEST_PAUSE
from reconcilers.ui.watched import READ_EVENTS
from tests.polling import until
from tests.storm.balancers import TenantBalancer
from tests.storm.parts import StrikeTarget, run_programs
from tests.storm.people import TENANTS, RivalRequests, TenantUsers
from tests.tenants import HOME, POOL, TEAM, Site, TenantServer, tenant_servers

SPARE = Key(HOME, "spare")
POOL_CIDRS = {POOL: "10.40.0.0/28", SPARE: "10.41.0.0/28"}
POOL_SIZE = 16
LAST_LINES = 60
LAST_EVENTS = 8
CALM_SECONDS = LONGEST_PAUSE + 120.0
"""After so many seconds without faults all tenants have to be served.

People have edited our pools so often that the controllers may delay the last correction by the
longest pause. A MetalLB pool with `autoAssign: false` gives Services nothing until then.
"""

log = get_logger(__name__)


@dataclass
class StormReport:
    """The result of a storm.

    Args:
        faults: a description of each fault, in order.
        action_count: how many actions of people succeeded.
        refusals: the errors of the other actions.
        summary: how much the audit has recorded.
        findings: the violations that the audit has found.
    """

    faults: Sequence[str]
    action_count: int
    refusals: Sequence[str]
    summary: str
    findings: Sequence[str]


@dataclass(frozen=True)
class StormPlan:
    """The parameters of a storm.

    Args:
        seed: decides all choices.
        rounds: how often each process is struck.
        tenants: the number of tenants, three at most.
    """

    seed: int
    rounds: int = 1
    tenants: int = len(TENANTS)


async def play_storm(balancer: TenantBalancer, folder: Path, plan: StormPlan) -> StormReport:
    """Play a storm.

    Args:
        balancer: the load balancer in the tenants.
        folder: the folder for kubeconfigs and logs.
        plan: the parameters of the storm.

    Raises:
        AssertionError: the tenants or the pools did not reach the expected state afterwards.
    """
    choices, names = random.Random(plan.seed), TENANTS[: plan.tenants]
    faults: list[str] = []
    kinds, offers = await balancer.read_definitions(), balancer.offers
    async with (
        tenant_servers(
            folder, names, kinds=kinds, offers=offers, provider=balancer.provider
        ) as site,
        site.record_clusters() as recording,
    ):
        for tenant in site.tenants.values():
            await balancer.create_prerequisites(tenant)
        sizes = {"initialPoolSize": 1, "growthIncrement": 1}
        await site.offer(POOL_CIDRS[POOL], allocationMode="elastic", **sizes)
        await _add_spare_pool(site)
        rivals = RivalRequests(site, random.Random(choices.random()))
        users = [
            TenantUsers(site, tenant, balancer=balancer, choices=random.Random(choices.random()))
            for tenant in site.tenants.values()
        ]
        actors = [rivals.make_actor(), *(user.make_actor() for user in users)]
        # The group encloses the programs, because scopes have to end in reverse order.
        async with (
            anyio.create_task_group() as group,
            run_programs(site, balancer, folder) as targets,
        ):
            for name in names:
                await site.create_cluster(name)
            for name in names:
                await site.ready(name)
            for actor in actors:
                group.start_soon(actor.act_until_stopped)
            was_frozen = {target.name: choices.random() < 0.5 for target in targets}
            for _ in range(plan.rounds):
                for target in choices.sample(targets, len(targets)):
                    was_frozen[target.name] = not was_frozen[target.name]
                    faults.append(await target.strike(choices, freeze=was_frozen[target.name]))
                    log.info("fault", what=faults[-1])
            for actor in actors:
                actor.scope.cancel()
            try:
                await until(
                    partial(_has_deleted_disturbances, rivals, users), bool, seconds=CALM_SECONDS
                )
                await _wait_until_served(site, balancer)
                await _delete_all_and_wait_until_free(site, rivals)
            except AssertionError:
                await _log_state(site, balancer, targets)
                raise
            findings = await recording.findings()  # every server has to answer once more
        action_count = sum(actor.action_count for actor in actors)
        refusals = [error for actor in actors for error in actor.refusals]
        return StormReport(
            faults, action_count, refusals=refusals, summary=recording.summary(), findings=findings
        )


async def _log_state(
    site: Site[TenantServer], balancer: TenantBalancer, targets: Iterable[StrikeTarget]
) -> None:
    """Log the last lines of each program's log, and the objects of each tenant.

    The logs and the servers are deleted when the test ends.
    """
    for target in targets:
        if lines := target.read_log().splitlines()[-LAST_LINES:]:
            log.info("last lines", target=target.name, lines="\n".join(lines))
    for tenant in site.tenants.values():
        for report in await _describe_tenant_objects(site, tenant, balancer):
            log.info("state", tenant=tenant.key.name, report=report)


async def _has_deleted_disturbances(rivals: RivalRequests, users: Sequence[TenantUsers]) -> bool:
    """Delete the rivals and the unusable offers; return whether all servers accepted that.

    Servers that were struck last may not serve all kinds yet.
    """
    try:
        await rivals.delete_all_rivals()
        for user in users:
            await user.delete_unusable_offers()
    except ControllerError:
        return False
    return True


async def _add_spare_pool(site: Site[TenantServer]) -> None:
    """Create a second pool, and list it in the ProviderConfig after the first."""
    await site.create(NETWORK_POOL, SPARE.namespace, SPARE.name, spec={"cidr": POOL_CIDRS[SPARE]})
    refs = [
        {"name": key.name, "priority": number} for number, key in enumerate(POOL_CIDRS, start=1)
    ]
    change = {"spec": {"network": {"poolRefs": refs}}}
    await site.patch(PROVIDER_CONFIG, Key(HOME, "default"), change)


async def _wait_until_served(site: Site[TenantServer], balancer: TenantBalancer) -> None:
    """Wait until no tenant and no pool deviates from the expected state."""
    for tenant in site.tenants.values():
        await until(
            partial(_describe_tenant_problems, site, tenant, balancer),
            lambda remaining: not remaining,
            seconds=CALM_SECONDS,
        )
    await until(
        lambda: _describe_pool_problems(site),
        lambda pool_state: not pool_state,
        seconds=CALM_SECONDS,
    )


async def _describe_tenant_problems(
    site: Site[TenantServer], tenant: TenantServer, balancer: TenantBalancer
) -> list[str]:
    """Return the deviations from the expected state in a tenant, as sentences.

    Each of its Services shows an address that the tenant holds, and its offers are these ranges.
    The balancer is prompted about a Service that does not.
    """
    name = tenant.key.name
    held_ranges = await site.list_ranges(name)
    offers = await balancer.list_our_offers(tenant.client)
    offered = [span for offer in offers for span in balancer.offers.list_addresses(offer)]
    problems = []
    offered_texts, held_texts = _sort_range_texts(offered), _sort_range_texts(held_ranges)
    if offered_texts != held_texts:
        problems.append(f"{name}: it is offered {offered_texts}, it holds {held_texts}")
    addresses = await tenant.read_addresses()
    page = await tenant.client.list(SERVICE, namespace="default")
    for service in page.items:
        if not service.metadata.name.startswith("web-"):
            continue
        ip = addresses.get(service.metadata.name, "")
        if not any(ip and span.contains(ip) for span in held_ranges):
            problems.append(f"{name}: {service.metadata.name} shows {ip or 'nothing'}")
            await balancer.prompt_service(tenant.client, service.metadata.key)
    return problems


async def _describe_tenant_objects(
    site: Site[TenantServer], tenant: TenantServer, balancer: TenantBalancer
) -> list[str]:
    """Return the conditions of a tenant, its allocations, offers and last events, as texts."""
    allocations = (await site.client.list(IP_ALLOCATION)).items
    own = [entry for entry in allocations if entry.spec.tenantClusterRef.key == tenant.key]
    cluster = await site.client.get(TENANT_CLUSTER, tenant.key)
    events = (await tenant.client.list(READ_EVENTS, namespace="default")).items
    offers = await balancer.list_our_offers(tenant.client)
    targets = (cluster.status.conditions, *own, *offers, *events[-LAST_EVENTS:])
    return [str(target) for target in targets]


def _sort_range_texts(spans: Iterable[AddressRange]) -> list[str]:
    return sorted(span.text for span in spans)


async def _describe_pool_problems(site: Site[TenantServer]) -> list[str]:
    """Return a sentence for each pool whose counts differ from the ranges that are held."""
    page = await site.client.list(IP_ALLOCATION)
    problems = []
    for key in POOL_CIDRS:
        ranges = (
            statusranges.find_held_range(allocation)
            for allocation in page.items
            if allocation.pool_key == key
        )
        address_count = sum(span.size for span in ranges if span is not None)
        status = (await site.client.get(NETWORK_POOL, key)).status
        shown_counts = (status.allocatedIPs, status.availableIPs, status.totalIPs)
        expected_counts = (address_count, POOL_SIZE - address_count, POOL_SIZE)
        if shown_counts != expected_counts:
            problems.append(
                f"the pool {key.name} counts {shown_counts}, there are {expected_counts}"
            )
    return problems


async def _delete_all_and_wait_until_free(site: Site[TenantServer], rivals: RivalRequests) -> None:
    """Delete all Services, clusters and rivals; wait until both pools are free.

    The rivals are deleted once more, because a server may have stored a rival after the request
    that creates it was cancelled. No controller deletes an allocation whose cluster never existed.
    """
    for tenant in site.tenants.values():
        await tenant.stop_serving(*await tenant.read_addresses())
        await delete(site.client, TENANT_CLUSTER, tenant.key)
    for tenant in site.tenants.values():
        # The record of a creation whose replica was killed counts for two minutes.
        await site.wait_until_gone(
            TENANT_CLUSTER, TEAM, name=tenant.key.name, seconds=CALM_SECONDS
        )
    await rivals.delete_all_rivals()
    await until(
        partial(site.client.list, IP_ALLOCATION),
        lambda page: not page.items,
        seconds=CALM_SECONDS,
    )
    for key in POOL_CIDRS:
        await until(
            partial(site.client.get, NETWORK_POOL, key),
            lambda pool: pool.status.availableIPs == POOL_SIZE,
            seconds=CALM_SECONDS,
        )
