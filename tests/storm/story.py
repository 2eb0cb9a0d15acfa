"""A storm: every process is killed or frozen in its turn while people use three tenants.

    KUBEBUILDER_ASSETS=$PWD/.real/newest python -m tests.storm cilium 0 --to 20

A seed decides who is struck when, with which signal and for how long, and what people do. They
make and delete Services, edit and delete what the controllers offer in their tenants, make offers
that the load balancer cannot use, delete allocations, and ask in the management cluster for
whatever is free. What was
killed in one round is frozen in the next. Real processes keep no time, so a seed repeats the
choices and not the moments: a finding may need several runs of its seed.

Before, during and after it everything is recorded (tests/audit/). Afterwards all Services have
addresses of their own tenants, what is held and what is free make up each pool, and when all
have left both pools are free.
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
from tests.storm.balancers import Balancer
from tests.storm.parts import Part, started_parts
from tests.storm.people import TENANTS, Rivals, Users
from tests.tenants import HOME, POOL, TEAM, Site, TenantServer, tenant_servers

SPARE = Key(HOME, "spare")
BLOCKS = {POOL: "10.40.0.0/28", SPARE: "10.41.0.0/28"}
SIZE = 16
LAST_LINES = 60
LAST_EVENTS = 8
CALM_SECONDS = LONGEST_PAUSE + 120.0
"""Within which all is well after the last fault.

People have edited our pools so often that the controllers may delay the last correction by the
longest pause. A MetalLB pool with `autoAssign: false` gives Services nothing until then.
"""

log = get_logger(__name__)


@dataclass
class Report:
    """What came of a storm.

    Args:
        faults: what was done to whom, in order.
        done: what people did.
        refused: what servers refused them.
        summary: how closely it was watched.
        findings: what must not be; empty if all was well.
    """

    faults: Sequence[str]
    done: int
    refused: Sequence[str]
    summary: str
    findings: Sequence[str]


@dataclass(frozen=True)
class Asked:
    """A storm to be played.

    Args:
        seed: decides everything that is chosen.
        rounds: how often every part is struck.
        tenants: how many tenants there are, three at most.
    """

    seed: int
    rounds: int = 1
    tenants: int = len(TENANTS)


async def storm(balancer: Balancer, folder: Path, asked: Asked) -> Report:
    """Play a storm.

    Args:
        balancer: in the tenants.
        folder: for kubeconfigs and logs.
        asked: the storm.

    Raises:
        AssertionError: afterwards the tenants or the pool did not come to what they should be.
    """
    choices, names = random.Random(asked.seed), TENANTS[: asked.tenants]
    faults: list[str] = []
    kinds, offers = await balancer.definitions(), balancer.offers
    async with (
        tenant_servers(
            folder, names, kinds=kinds, offers=offers, provider=balancer.provider
        ) as here,
        here.record_clusters() as recording,
    ):
        for tenant in here.tenants.values():
            await balancer.prepare(tenant)
        sizes = {"initialPoolSize": 1, "growthIncrement": 1}
        await here.offer(BLOCKS[POOL], allocationMode="elastic", **sizes)
        await _offer_spare(here)
        rivals = Rivals(here, random.Random(choices.random()))
        users = [
            Users(here, tenant, balancer=balancer, choices=random.Random(choices.random()))
            for tenant in here.tenants.values()
        ]
        crowd = [rivals.people(), *(user.people() for user in users)]
        # The group is outside of what is started anew within it, as scopes end in order.
        async with (
            anyio.create_task_group() as group,
            started_parts(here, balancer, folder) as parts,
        ):
            for name in names:
                await here.create_cluster(name)
            for name in names:
                await here.ready(name)
            for people in crowd:
                group.start_soon(people.act)
            frozen = {part.name: choices.random() < 0.5 for part in parts}
            for _ in range(asked.rounds):
                for part in choices.sample(parts, len(parts)):
                    frozen[part.name] = not frozen[part.name]
                    faults.append(await part.strike(choices, freeze=frozen[part.name]))
                    log.info("fault", what=faults[-1])
            for people in crowd:
                people.until.cancel()
            try:
                await until(partial(_is_left, rivals, users), bool, seconds=CALM_SECONDS)
                await _all_is_well(here, balancer)
                await _all_is_given_back(here, rivals)
            except AssertionError:
                await _log_state(here, balancer, parts)
                raise
            findings = await recording.findings()  # every server has to answer once more
        done = sum(people.done for people in crowd)
        refused = [error for people in crowd for error in people.refused]
        return Report(
            faults, done, refused=refused, summary=recording.summary(), findings=findings
        )


async def _log_state(here: Site[TenantServer], balancer: Balancer, parts: Iterable[Part]) -> None:
    """Log what the programs have logged last, then the state of each tenant.

    Afterwards their logs and their servers are deleted.
    """
    for part in parts:
        if lines := part.read_log().splitlines()[-LAST_LINES:]:
            log.info("last lines", part=part.name, lines="\n".join(lines))
    for tenant in here.tenants.values():
        for report in await _report_parts(here, tenant, balancer):
            log.info("state", tenant=tenant.key.name, report=report)


async def _is_left(rivals: Rivals, users: Sequence[Users]) -> bool:
    """Return whether the pool is left to the tenants, without offers that cannot be used.

    Servers that were struck last may not serve all kinds yet.
    """
    try:
        await rivals.leave()
        for user in users:
            await user.mend()
    except ControllerError:
        return False
    return True


async def _offer_spare(here: Site[TenantServer]) -> None:
    """Make a second pool, for what does not fit into the first."""
    await here.create(NETWORK_POOL, SPARE.namespace, SPARE.name, spec={"cidr": BLOCKS[SPARE]})
    refs = [{"name": key.name, "priority": number} for number, key in enumerate(BLOCKS, start=1)]
    change = {"spec": {"network": {"poolRefs": refs}}}
    await here.patch(PROVIDER_CONFIG, Key(HOME, "default"), change)


async def _all_is_well(here: Site[TenantServer], balancer: Balancer) -> None:
    """Wait until every tenant and the pool are as they should be without faults."""
    for tenant in here.tenants.values():
        await until(
            partial(_tenant_state, here, tenant, balancer),
            lambda remaining: not remaining,
            seconds=CALM_SECONDS,
        )
    await until(lambda: _pool_state(here), lambda pool_state: not pool_state, seconds=CALM_SECONDS)


async def _tenant_state(
    here: Site[TenantServer], tenant: TenantServer, balancer: Balancer
) -> list[str]:
    """Return the deviations from the expected state in a tenant, as sentences."""
    name = tenant.key.name
    held_ranges = await here.ranges_of(name)
    offers = await balancer.list_own(tenant.client)
    offered = [span for offer in offers for span in balancer.offers.list_addresses(offer)]
    wrong = []
    if _texts(offered) != _texts(held_ranges):
        wrong.append(f"{name}: it is offered {_texts(offered)}, it holds {_texts(held_ranges)}")
    addresses = await tenant.addresses()
    page = await tenant.client.list(SERVICE, namespace="default")
    for service in page.items:
        if not service.metadata.name.startswith("web-"):
            continue
        ip = addresses.get(service.metadata.name, "")
        if not any(ip and span.contains(ip) for span in held_ranges):
            wrong.append(f"{name}: {service.metadata.name} shows {ip or 'nothing'}")
            await balancer.remind(tenant.client, service.metadata.key)
    return wrong


async def _report_parts(
    here: Site[TenantServer], tenant: TenantServer, balancer: Balancer
) -> list[str]:
    """Return the conditions of a tenant, its allocations, offers and last events, as texts."""
    allocations = (await here.client.list(IP_ALLOCATION)).items
    own = [entry for entry in allocations if entry.spec.tenantClusterRef.key == tenant.key]
    cluster = await here.client.get(TENANT_CLUSTER, tenant.key)
    events = (await tenant.client.list(READ_EVENTS, namespace="default")).items
    offers = await balancer.list_own(tenant.client)
    parts = (cluster.status.conditions, *own, *offers, *events[-LAST_EVENTS:])
    return [str(part) for part in parts]


def _texts(spans: Iterable[AddressRange]) -> list[str]:
    return sorted(span.text for span in spans)


async def _pool_state(here: Site[TenantServer]) -> list[str]:
    """Return where held and free addresses do not make up a pool, as sentences."""
    page = await here.client.list(IP_ALLOCATION)
    wrong = []
    for key in BLOCKS:
        ranges = (
            statusranges.find_held_range(allocation)
            for allocation in page.items
            if allocation.pool_key == key
        )
        address_count = sum(span.size for span in ranges if span is not None)
        status = (await here.client.get(NETWORK_POOL, key)).status
        counted = (status.allocatedIPs, status.availableIPs, status.totalIPs)
        right = (address_count, SIZE - address_count, SIZE)
        if counted != right:
            wrong.append(f"the pool {key.name} counts {counted}, there are {right}")
    return wrong


async def _all_is_given_back(here: Site[TenantServer], rivals: Rivals) -> None:
    """Delete all Services and clusters; wait until both pools are free.

    A request of a rival that was under way when it was cancelled may be stored after the rivals
    have left. Nothing deletes an allocation whose cluster was never seen.
    """
    for tenant in here.tenants.values():
        await tenant.stop_serving(*await tenant.addresses())
        await delete(here.client, TENANT_CLUSTER, tenant.key)
    for tenant in here.tenants.values():
        # The record of a creation whose replica was killed counts for two minutes.
        await here.wait_until_gone(
            TENANT_CLUSTER, TEAM, name=tenant.key.name, seconds=CALM_SECONDS
        )
    await rivals.leave()
    await until(
        partial(here.client.list, IP_ALLOCATION),
        lambda page: not page.items,
        seconds=CALM_SECONDS,
    )
    for key in BLOCKS:
        await until(
            partial(here.client.get, NETWORK_POOL, key),
            lambda pool: pool.status.availableIPs == SIZE,
            seconds=CALM_SECONDS,
        )
