"""Objects that vanish though a finalizer of ours was added to them, and the server said so.

An API server promises nothing by its answer to that: a deletion that had read the object before
takes it away, finalizer and all. People can do the same by taking finalizers off by hand. Nothing
may be left of what went: no range without a holder, nothing in a cache, nothing in a tenant.
"""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import httpx
import pytest

from controller.clock import SystemClock
from controller.errors import NotFound
from controller.meta import Key
from controller.resource import Resource
from envtest import ControlPlane
from envtest.plane import RunningControlPlane as Plane
from reconcilers.addressing import statusranges
from reconcilers.api.ipallocation import FAILED
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    OWN_KINDS,
    PROVIDER_CONFIG,
    TENANT_CLUSTER,
)
from reconcilers.api.services import SERVICE
from reconcilers.cli.local.objects import delete
from reconcilers.configuration.settings import OrphanSettings, PoolSettings
from reconcilers.loadbalancers.metallb.kinds import IP_ADDRESS_POOL
from tests.faults.estate import (
    CLUSTER,
    HOME,
    LARGE,
    POOL,
    PROJECTED,
    SETTINGS,
    SMALL,
    Estate,
    bare_estate,
)
from tests.faults.slowdeletions import people
from tests.faults.vanishing import HOW, Json, Vanished, Vanishing, create
from tests.polling import make_awaitable, until

pytestmark = pytest.mark.slow

PAIRS = 80
# The embedded server applies one write after another: nothing vanishes there, and each pair costs
# it the CPU time of all the writes of two controllers.
PAIRS_EMBEDDED = 20
# The longest of the pauses between creation and deletion, in seconds, round by round.
PAUSES = (0.03, 0.1, 0.3, 1.0)
AT_ONCE = 12
WHOLE_POOL = 64
LOOKS = 8
"""So many passes that both processes have looked again at each allocation of a cluster."""
# So many orphans at once would not be collected, so no pass is to look for any.
STORM = replace(
    SETTINGS,
    orphans=OrphanSettings(resync=1e9),
    pool=PoolSettings(resync=1.0, quiet_period=1.0),
)


@asynccontextmanager
async def _proxied_plane(cidr: str = SMALL) -> AsyncIterator[Estate[Plane]]:
    async with ControlPlane.start() as plane, bare_estate(plane, cidr=cidr) as here:
        yield here


def _allocation(pool: str = POOL.name, **more: Any) -> Json:
    owner = {"name": "elsewhere", "namespace": CLUSTER.namespace}
    base = {"poolRef": {"name": pool}, "tenantClusterRef": owner, "type": "nodes", "count": 2}
    return base | more


_SPECS: dict[str, Callable[[int], tuple[Resource[Any], Key, Json]]] = {
    "IPAllocation": lambda n: (IP_ALLOCATION, Key(HOME, f"v{n}"), _allocation()),
    "NetworkPool": lambda n: (NETWORK_POOL, Key(HOME, f"v{n}"), {"cidr": f"10.{n}.0.0/28"}),
    "TenantCluster": lambda n: (
        TENANT_CLUSTER,
        Key(CLUSTER.namespace, f"v{n}"),
        {"kubernetesVersion": "v1.33.1", "workers": {"replicas": 1}},
    ),
    "ProviderConfig": lambda n: (PROVIDER_CONFIG, Key(HOME, f"v{n}"), {"provider": "local"}),
}


async def _storm(here: Estate[Plane], pairs: int, longest: float) -> None:
    """Create and delete objects so that deletions meet the moment in which they are adopted.

    Args:
        here: the clusters and the controllers.
        pairs: of a creation and a deletion, of each kind.
        longest: of the random pauses between creation and deletion, in seconds.
    """
    dice = random.Random(0)
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def pair(http: httpx.AsyncClient, kind: str, number: int, pause: float) -> None:
        resource, key, spec = _SPECS[kind](number)
        async with limit:
            await create(http, resource, key=key, spec=spec)
            await anyio.sleep(pause)
            gone = await http.delete(resource.path(key))
            assert gone.status_code == 200, gone.text

    async with people(here.management) as http, anyio.create_task_group() as group:
        for number in range(pairs):
            for kind in _SPECS:
                group.start_soon(pair, http, kind, number, dice.uniform(0, longest))


def _describe_left_over(here: Estate[Plane]) -> str:
    """Return the objects of the storm left in the cluster or in the controllers' caches."""
    for resource in OWN_KINDS.values():
        for cache in here.caches(resource):
            remaining = [obj.metadata.name for obj in cache if _is_of_the_storm(obj)]
            if remaining:
                return f"{resource.kind}: {remaining}"
    return here.witness.describe_unsettled() or here.witness.promises_left()


def _is_of_the_storm(obj: Any) -> bool:
    of = obj.spec.tenantClusterRef.name if hasattr(obj.spec, "tenantClusterRef") else ""
    return obj.metadata.name.startswith("v") or of.startswith("v")


async def test_nothing_is_left_of_objects_that_vanish_while_they_are_adopted(
    record_property: Callable[[str, object], None],
) -> None:
    async with _proxied_plane(LARGE) as here:
        vanished = Vanished(here)
        here.settings = STORM
        here.start(clock=SystemClock())
        here.start(clock=SystemClock())
        await here.create_allocation("n0")
        await here.witness.until(here.witness.describe_unsettled)
        # When an object is adopted depends on the machine: the pauses grow until it was met.
        embedded = here.management.kind == "embedded"
        seeds, pairs = PAIRS_EMBEDDED if embedded else PAIRS, 0
        for longest in PAUSES[:1] if embedded else PAUSES:
            await _storm(here, seeds, longest)
            await here.witness.until(lambda: _describe_left_over(here))
            pairs += seeds * len(_SPECS)
            if vanished.keys:
                break
        record_property("vanished with a finalizer", f"{len(vanished.keys)} of {pairs}")
        assert vanished.keys or embedded, "nothing vanished at all"
        assert here.witness.clashes == []


@HOW
async def test_a_request_that_vanishes_leaves_its_range_to_others(vanishing: Vanishing) -> None:
    async with _proxied_plane() as here:
        key = Key(HOME, "n0")
        await here.create_allocation(key.name, count=WHOLE_POOL)
        async with vanishing(here, IP_ALLOCATION, key):
            await here.witness.until(here.witness.describe_unsettled)
            here.witness.expected.clear()
        await here.create_allocation("n1", count=WHOLE_POOL)
        await here.witness.until(here.witness.describe_unsettled)
        assert [key in cache for cache in here.caches(IP_ALLOCATION)] == [False, False]


def _describe_unprojected(here: Estate[Plane], key: Key) -> str:
    """Return whether a tenant does not hold the range of an allocation of its yet."""
    allocation = here.witness.caches["ipallocations"].get(key)
    held_range = statusranges.find_held_range(allocation) if allocation is not None else None
    pool = here.witness.caches["ipaddresspools"].get(PROJECTED)
    if held_range is None or pool is None:
        return f"{key} holds {held_range}, the tenant has {pool}"
    entry = f"{held_range.start_text}-{held_range.end_text}"
    return "" if entry in pool.spec.addresses else f"the tenant has {pool.spec.addresses}"


@HOW
async def test_a_pool_that_vanishes_leaves_its_ranges_to_those_who_hold_them(
    vanishing: Vanishing,
) -> None:
    async with _proxied_plane() as here:
        for number in range(4):
            await here.create_allocation(f"n{number}", count=5)
        async with vanishing(here, NETWORK_POOL, POOL):
            await here.witness.until(here.witness.describe_unsettled)
        held_range = _read_held_ranges(here)
        assert len(held_range) == 4
        await here.create_allocation("n4", count=5)
        await here.delete(IP_ALLOCATION, Key(HOME, "n2"))
        await here.witness.until(lambda: _waits(here, "n4"))
        await here.witness.until(lambda: "not gone yet" if "n2" in _read_held_ranges(here) else "")
        rest = WHOLE_POOL - 4 * 5
        async with people(here.management) as http:
            await create(http, NETWORK_POOL, key=POOL, spec={"cidr": "10.40.0.0/26"})
        for number in range(rest):
            await here.create_allocation(f"nn{number}")
        await here.witness.until(here.witness.describe_unsettled)
        now = _read_held_ranges(here)
        assert {name: now[name] for name in ("n0", "n1", "n3")} == {
            name: held_range[name] for name in ("n0", "n1", "n3")
        }
        pool = here.witness.caches["networkpools"].get(POOL)
        assert pool is not None
        assert pool.status.availableIPs == 0
        assert here.witness.clashes == []


def _read_held_ranges(here: Estate[Plane]) -> dict[str, str]:
    allocations = here.witness.caches["ipallocations"]
    return {
        allocation.metadata.name: held_range.text
        for allocation in allocations
        if (held_range := statusranges.find_held_range(allocation)) is not None
    }


def _waits(here: Estate[Plane], name: str) -> str:
    allocation = here.witness.caches["ipallocations"].get(Key(HOME, name))
    conditions = allocation.status.conditions if allocation is not None else ()
    return "" if any(c.reason == "PoolNotFound" for c in conditions) else f"{name}: {conditions}"


@HOW
async def test_the_ranges_of_a_vanished_cluster_are_free_once_its_services_do_not_use_them(
    vanishing: Vanishing,
) -> None:
    async with _proxied_plane() as here:
        await here.create_cluster()
        async with vanishing(here, TENANT_CLUSTER, CLUSTER):
            await here.witness.until(here.witness.describe_unsettled)
            here.witness.expected.clear()
            service = await _service_with_an_address(here)
            await _rival(here, WHOLE_POOL)
        await here.witness.until(lambda: _describe_unasked(here))
        await here.witness.until(lambda: _describe_projected(here))
        # What it says may be from before it vanished, so that more looks have to find the same.
        seen = _looks(here)
        await until(make_awaitable(lambda: _looks(here)), lambda now: now >= seen + LOOKS)
        assert "n0" not in _read_held_ranges(here)
        await delete(here.witness.tenant, SERVICE, service)
        await here.witness.until(here.witness.describe_unsettled)
        assert list(_read_held_ranges(here)) == ["n0"], "nothing else is taken"
        with pytest.raises(NotFound):
            await here.witness.tenant.get(IP_ADDRESS_POOL, PROJECTED)


@HOW
async def test_a_request_for_a_tenant_that_vanishes_leaves_nothing_and_is_not_waited_for(
    vanishing: Vanishing,
) -> None:
    """No object records its range, as its runbook says; the tenant loses it all the same."""
    async with _proxied_plane() as here:
        await here.create_cluster()
        key = Key(HOME, "extra")
        owner = {"name": CLUSTER.name, "namespace": CLUSTER.namespace}
        spec = _allocation(tenantClusterRef=owner, type="loadbalancer", count=WHOLE_POOL // 2)
        async with people(here.management) as http:
            await create(http, IP_ALLOCATION, key=key, spec=spec)
        async with vanishing(here, IP_ALLOCATION, key):
            await here.witness.until(lambda: _describe_unprojected(here, key))
            was = _read_held_ranges(here)["extra"]
            await _service_with_an_address(here, key.name)
            await _rival(here, WHOLE_POOL // 2)
        await here.witness.until(here.witness.describe_unsettled)
        assert _read_held_ranges(here)["n0"] == was, (
            "though a Service in the tenant still shows an address"
        )


async def _service_with_an_address(here: Estate[Plane], of: str = "team-a-lb") -> Key:
    """Create a Service in the tenant that shows an address of an allocation."""
    allocation = here.witness.caches["ipallocations"].get(Key(HOME, of))
    held_range = statusranges.find_held_range(allocation) if allocation is not None else None
    assert held_range is not None
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
    body = {"metadata": {"name": "web"}, "spec": spec}
    service = await here.witness.tenant.create(SERVICE, "default", body)
    service_status = {"loadBalancer": {"ingress": [{"ip": held_range.start_text}]}}
    await here.witness.tenant.patch_status(SERVICE, service, service_status)
    return service.metadata.key


async def _rival(here: Estate[Plane], count: int) -> None:
    """Ask for more addresses than are free; wait until the allocation is Failed."""
    await here.create_allocation("n0", count=count)

    def describe_unserved() -> str:
        allocation = here.witness.caches["ipallocations"].get(Key(HOME, "n0"))
        return (
            "" if allocation is not None and allocation.status.phase == FAILED else f"{allocation}"
        )

    await here.witness.until(describe_unserved)


def _looks(here: Estate[Plane]) -> float:
    """Return how many passes over allocations ended with another one due, in all processes."""
    labels = {"controller": "ipallocation", "result": "requeue_after"}
    registries = [manager.metrics.registry for manager in here.managers.values()]
    name = "controller_runtime_reconcile_total"
    return sum(registry.get_sample_value(name, labels) or 0 for registry in registries)


def _describe_projected(here: Estate[Plane]) -> str:
    """Return the addresses that the tenant's MetalLB may still assign; empty if there are none."""
    pool = here.witness.caches["ipaddresspools"].get(PROJECTED)
    return f"{pool.spec.addresses}" if pool is not None and pool.spec.addresses else ""


def _describe_unasked(here: Estate[Plane]) -> str:
    """Return whether no allocation says yet that it waits for a Service of its tenant."""
    allocations = here.witness.caches["ipallocations"]
    said = [
        condition.message for cluster in allocations for condition in cluster.status.conditions
    ]
    return "" if any("still shows an address" in message for message in said) else f"{said}"


@HOW
async def test_a_provider_that_vanishes_is_reported_missing_and_nothing_else_happens(
    vanishing: Vanishing,
) -> None:
    async with _proxied_plane() as here:
        await here.create_cluster()
        key = Key(HOME, "default")
        async with vanishing(here, PROVIDER_CONFIG, key):
            await here.witness.until(here.witness.describe_unsettled)
        held_range = _read_held_ranges(here)
        await here.create_allocation("n0")
        await here.witness.until(here.witness.describe_unsettled)
        assert held_range.items() <= _read_held_ranges(here).items()
