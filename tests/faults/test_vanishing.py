"""Objects that vanish although the API server has confirmed that they have our finalizer.

A deletion that the API server began before the finalizer was added removes the object all the
same. People can cause the same when they remove finalizers by hand. No range, no cached object and
no pool in a tenant may be left of such an object.
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
    SETTINGS,
    SMALL,
    TENANT_POOL,
    Estate,
    run_bare_estate,
)
from tests.faults.slowdeletions import connect_admin
from tests.faults.vanishing import BOTH_WAYS, Json, Vanish, VanishedObjects, create_object
from tests.polling import make_awaitable, until

pytestmark = pytest.mark.slow

PAIRS = 80
# The embedded server applies one write after another: nothing vanishes there, and each pair costs
# it the CPU time of all the writes of two controllers.
PAIRS_EMBEDDED = 20
# The longest pause between a creation and its deletion, in seconds, of each round.
PAUSES = (0.03, 0.1, 0.3, 1.0)
CONCURRENT_PAIRS = 12
"""How many pairs of a creation and a deletion run at the same time."""
WHOLE_POOL = 64
"""The number of addresses in a pool of CIDR SMALL."""
PASSES = 8
"""After so many passes over allocations both processes have reconciled each of a cluster's."""
# The orphan collector does not delete that many at once, so it is switched off.
STORM = replace(
    SETTINGS,
    orphans=OrphanSettings(resync=1e9),
    pool=PoolSettings(resync=1.0, quiet_period=1.0),
)


@asynccontextmanager
async def _run_clusters(cidr: str = SMALL) -> AsyncIterator[Estate[Plane]]:
    """Run a management cluster and a tenant; the pool has this CIDR."""
    async with ControlPlane.start() as plane, run_bare_estate(plane, cidr=cidr) as estate:
        yield estate


def _make_allocation_spec(pool: str = POOL.name, **more: Any) -> Json:
    """Return the spec of an allocation of two addresses, with other fields on request."""
    owner = {"name": "elsewhere", "namespace": CLUSTER.namespace}
    base = {"poolRef": {"name": pool}, "tenantClusterRef": owner, "type": "nodes", "count": 2}
    return base | more


_MAKE_OBJECTS: dict[str, Callable[[int], tuple[Resource[Any], Key, Json]]] = {
    "IPAllocation": lambda n: (IP_ALLOCATION, Key(HOME, f"v{n}"), _make_allocation_spec()),
    "NetworkPool": lambda n: (NETWORK_POOL, Key(HOME, f"v{n}"), {"cidr": f"10.{n}.0.0/28"}),
    "TenantCluster": lambda n: (
        TENANT_CLUSTER,
        Key(CLUSTER.namespace, f"v{n}"),
        {"kubernetesVersion": "v1.33.1", "workers": {"replicas": 1}},
    ),
    "ProviderConfig": lambda n: (PROVIDER_CONFIG, Key(HOME, f"v{n}"), {"provider": "local"}),
}
"""By kind: returns the resource, the key and the spec of the object of a number."""


async def _create_and_delete(estate: Estate[Plane], pairs: int, longest_pause: float) -> None:
    """Create and delete objects, so that some deletions meet the addition of the finalizer.

    Args:
        estate: the clusters and the controllers.
        pairs: how many pairs of a creation and a deletion for each kind.
        longest_pause: between creation and deletion, in seconds; the pauses are random.
    """
    choices = random.Random(0)
    limit = anyio.CapacityLimiter(CONCURRENT_PAIRS)

    async def create_and_delete(
        http: httpx.AsyncClient, kind: str, number: int, pause: float
    ) -> None:
        resource, key, spec = _MAKE_OBJECTS[kind](number)
        async with limit:
            await create_object(http, resource, key=key, spec=spec)
            await anyio.sleep(pause)
            response = await http.delete(resource.build_path(key))
            assert response.status_code == 200, response.text

    async with connect_admin(estate.management) as http, anyio.create_task_group() as group:
        for number in range(pairs):
            for kind in _MAKE_OBJECTS:
                group.start_soon(
                    create_and_delete, http, kind, number, choices.uniform(0, longest_pause)
                )


def _describe_remaining(estate: Estate[Plane]) -> str:
    """Return objects of the storm that remain in the cluster or in the controllers' caches."""
    for resource in OWN_KINDS.values():
        for cache in estate.list_caches(resource):
            remaining = [obj.metadata.name for obj in cache if _is_created_by_storm(obj)]
            if remaining:
                return f"{resource.kind}: {remaining}"
    return estate.witness.describe_unsettled() or estate.witness.describe_open_promises()


def _is_created_by_storm(obj: Any) -> bool:
    """Return whether an object, or its TenantCluster, was created by `_create_and_delete`."""
    tenant = obj.spec.tenantClusterRef.name if hasattr(obj.spec, "tenantClusterRef") else ""
    return obj.metadata.name.startswith("v") or tenant.startswith("v")


async def test_nothing_is_left_of_objects_that_vanish_while_they_get_their_finalizer(
    record_property: Callable[[str, object], None],
) -> None:
    async with _run_clusters(LARGE) as estate:
        vanished = VanishedObjects(estate)
        estate.settings = STORM
        estate.start_process(clock=SystemClock())
        estate.start_process(clock=SystemClock())
        await estate.create_allocation("n0")
        await estate.witness.wait_while(estate.witness.describe_unsettled)
        # The moment at which a finalizer is added depends on the machine: pauses grow until a
        # deletion has met it.
        is_embedded = estate.management.kind == "embedded"
        pairs_per_kind, pairs = PAIRS_EMBEDDED if is_embedded else PAIRS, 0
        for longest in PAUSES[:1] if is_embedded else PAUSES:
            await _create_and_delete(estate, pairs_per_kind, longest)
            await estate.witness.wait_while(lambda: _describe_remaining(estate))
            pairs += pairs_per_kind * len(_MAKE_OBJECTS)
            if vanished.keys:
                break
        record_property("vanished with a finalizer", f"{len(vanished.keys)} of {pairs}")
        assert vanished.keys or is_embedded, "nothing vanished at all"
        assert estate.witness.overlaps == []


@BOTH_WAYS
async def test_a_request_that_vanishes_leaves_its_range_to_others(vanish: Vanish) -> None:
    async with _run_clusters() as estate:
        key = Key(HOME, "n0")
        await estate.create_allocation(key.name, count=WHOLE_POOL)
        async with vanish(estate, IP_ALLOCATION, key):
            await estate.witness.wait_while(estate.witness.describe_unsettled)
            estate.witness.expected_objects.clear()
        await estate.create_allocation("n1", count=WHOLE_POOL)
        await estate.witness.wait_while(estate.witness.describe_unsettled)
        assert [key in cache for cache in estate.list_caches(IP_ALLOCATION)] == [False, False]


def _describe_unprojected(estate: Estate[Plane], key: Key) -> str:
    """Return how an allocation's range is missing in the tenant's pool; empty if it is there."""
    allocation = estate.witness.caches["ipallocations"].get(key)
    held_range = statusranges.find_held_range(allocation) if allocation is not None else None
    pool = estate.witness.caches["ipaddresspools"].get(TENANT_POOL)
    if held_range is None or pool is None:
        return f"{key} holds {held_range}, the tenant has {pool}"
    entry = f"{held_range.start_text}-{held_range.end_text}"
    return "" if entry in pool.spec.addresses else f"the tenant has {pool.spec.addresses}"


@BOTH_WAYS
async def test_a_recreated_pool_keeps_the_ranges_that_allocations_of_the_vanished_one_hold(
    vanish: Vanish,
) -> None:
    async with _run_clusters() as estate:
        for number in range(4):
            await estate.create_allocation(f"n{number}", count=5)
        async with vanish(estate, NETWORK_POOL, POOL):
            await estate.witness.wait_while(estate.witness.describe_unsettled)
        held_range = _read_held_ranges(estate)
        assert len(held_range) == 4
        await estate.create_allocation("n4", count=5)
        await estate.delete(IP_ALLOCATION, Key(HOME, "n2"))
        await estate.witness.wait_while(lambda: _describe_not_waiting(estate, "n4"))
        await estate.witness.wait_while(
            lambda: "not gone yet" if "n2" in _read_held_ranges(estate) else ""
        )
        rest = WHOLE_POOL - 4 * 5
        async with connect_admin(estate.management) as http:
            await create_object(http, NETWORK_POOL, key=POOL, spec={"cidr": "10.40.0.0/26"})
        for number in range(rest):
            await estate.create_allocation(f"nn{number}")
        await estate.witness.wait_while(estate.witness.describe_unsettled)
        ranges_now = _read_held_ranges(estate)
        assert {name: ranges_now[name] for name in ("n0", "n1", "n3")} == {
            name: held_range[name] for name in ("n0", "n1", "n3")
        }
        pool = estate.witness.caches["networkpools"].get(POOL)
        assert pool is not None
        assert pool.status.availableIPs == 0
        assert estate.witness.overlaps == []


def _read_held_ranges(estate: Estate[Plane]) -> dict[str, str]:
    """Return the range that each allocation holds, by name."""
    allocations = estate.witness.caches["ipallocations"]
    return {
        allocation.metadata.name: held_range.text
        for allocation in allocations
        if (held_range := statusranges.find_held_range(allocation)) is not None
    }


def _describe_not_waiting(estate: Estate[Plane], name: str) -> str:
    """Return the conditions of an allocation unless one has the reason PoolNotFound."""
    allocation = estate.witness.caches["ipallocations"].get(Key(HOME, name))
    conditions = allocation.status.conditions if allocation is not None else ()
    return "" if any(c.reason == "PoolNotFound" for c in conditions) else f"{name}: {conditions}"


@BOTH_WAYS
async def test_the_ranges_of_a_vanished_cluster_are_free_once_no_service_uses_them(
    vanish: Vanish,
) -> None:
    async with _run_clusters() as estate:
        await estate.create_cluster()
        async with vanish(estate, TENANT_CLUSTER, CLUSTER):
            await estate.witness.wait_while(estate.witness.describe_unsettled)
            estate.witness.expected_objects.clear()
            service = await _create_service(estate)
            await _create_unserved_allocation(estate, WHOLE_POOL)
        await estate.witness.wait_while(lambda: _describe_missing_wait(estate))
        await estate.witness.wait_while(lambda: _describe_tenant_pool(estate))
        # The status may be older than the deletion, so later passes have to decide the same.
        count = _count_passes(estate)
        await until(
            make_awaitable(lambda: _count_passes(estate)),
            lambda ranges_now: ranges_now >= count + PASSES,
        )
        assert "n0" not in _read_held_ranges(estate)
        await delete(estate.witness.tenant, SERVICE, service)
        await estate.witness.wait_while(estate.witness.describe_unsettled)
        assert list(_read_held_ranges(estate)) == ["n0"], "nothing else is taken"
        with pytest.raises(NotFound):
            await estate.witness.tenant.get(IP_ADDRESS_POOL, TENANT_POOL)


@BOTH_WAYS
async def test_the_range_of_a_vanished_request_is_free_though_a_service_uses_it(
    vanish: Vanish,
) -> None:
    """No object records the range any more, so no controller can wait for the Service."""
    async with _run_clusters() as estate:
        await estate.create_cluster()
        key = Key(HOME, "extra")
        owner = {"name": CLUSTER.name, "namespace": CLUSTER.namespace}
        spec = _make_allocation_spec(
            tenantClusterRef=owner, type="loadbalancer", count=WHOLE_POOL // 2
        )
        async with connect_admin(estate.management) as http:
            await create_object(http, IP_ALLOCATION, key=key, spec=spec)
        async with vanish(estate, IP_ALLOCATION, key):
            await estate.witness.wait_while(lambda: _describe_unprojected(estate, key))
            former_range = _read_held_ranges(estate)["extra"]
            await _create_service(estate, key.name)
            await _create_unserved_allocation(estate, WHOLE_POOL // 2)
        await estate.witness.wait_while(estate.witness.describe_unsettled)
        assert _read_held_ranges(estate)["n0"] == former_range, (
            "though a Service in the tenant still shows an address"
        )


async def _create_service(estate: Estate[Plane], allocation_name: str = "team-a-lb") -> Key:
    """Create a Service in the tenant that shows the first address of an allocation."""
    allocation = estate.witness.caches["ipallocations"].get(Key(HOME, allocation_name))
    held_range = statusranges.find_held_range(allocation) if allocation is not None else None
    assert held_range is not None
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
    body = {"metadata": {"name": "web"}, "spec": spec}
    service = await estate.witness.tenant.create(SERVICE, "default", body)
    service_status = {"loadBalancer": {"ingress": [{"ip": held_range.start_text}]}}
    await estate.witness.tenant.patch_status(SERVICE, service, service_status)
    return service.metadata.key


async def _create_unserved_allocation(estate: Estate[Plane], count: int) -> None:
    """Create allocation `n0` for more addresses than are free; wait until it is Failed."""
    await estate.create_allocation("n0", count=count)

    def describe_unserved() -> str:
        allocation = estate.witness.caches["ipallocations"].get(Key(HOME, "n0"))
        return (
            "" if allocation is not None and allocation.status.phase == FAILED else f"{allocation}"
        )

    await estate.witness.wait_while(describe_unserved)


def _count_passes(estate: Estate[Plane]) -> float:
    """Return how many passes over allocations of all processes asked to be requeued later."""
    labels = {"controller": "ipallocation", "result": "requeue_after"}
    registries = [manager.metrics.registry for manager in estate.managers.values()]
    name = "controller_runtime_reconcile_total"
    return sum(registry.get_sample_value(name, labels) or 0 for registry in registries)


def _describe_tenant_pool(estate: Estate[Plane]) -> str:
    """Return the addresses that the tenant's MetalLB may still assign; empty if there are none."""
    pool = estate.witness.caches["ipaddresspools"].get(TENANT_POOL)
    return f"{pool.spec.addresses}" if pool is not None and pool.spec.addresses else ""


def _describe_missing_wait(estate: Estate[Plane]) -> str:
    """Return that no allocation reports yet that it waits for a Service; empty if one does."""
    allocations = estate.witness.caches["ipallocations"]
    messages = [
        condition.message for cluster in allocations for condition in cluster.status.conditions
    ]
    return (
        "" if any("still shows an address" in message for message in messages) else f"{messages}"
    )


@BOTH_WAYS
async def test_a_vanished_provider_stops_no_allocation_and_takes_no_range_away(
    vanish: Vanish,
) -> None:
    async with _run_clusters() as estate:
        await estate.create_cluster()
        key = Key(HOME, "default")
        async with vanish(estate, PROVIDER_CONFIG, key):
            await estate.witness.wait_while(estate.witness.describe_unsettled)
        held_range = _read_held_ranges(estate)
        await estate.create_allocation("n0")
        await estate.witness.wait_while(estate.witness.describe_unsettled)
        assert held_range.items() <= _read_held_ranges(estate).items()
