"""Two API servers on one etcd, behind one address, one of which lags.

In one test each connection leads to one of them in turn, and all are cut now and then. So a LIST
may come from one and the watch after it from the other. In the other test a new leader watches the
pool on one and the allocations on the other, which is frozen.
"""

import random
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import pytest

from controller.cache import Change
from controller.clock import SystemClock
from controller.meta import Key
from envtest import ControlPlane
from envtest.plane import RunningControlPlane as Plane
from reconcilers.api.ipallocation import ALLOCATED, FAILED, IPAllocation
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.configuration.settings import PoolSettings
from tests.edits import edit
from tests.faults.estate import (
    HOME,
    LARGE,
    PACE,
    POOL,
    SETTINGS,
    Estate,
    SwiftClock,
    run_bare_estate,
)
from tests.faults.parts import PlaneAtUrl, access_processes, parse_address
from tests.faults.pipes import HOST, Pipe
from tests.faults.routes import connect_to_both
from tests.polling import SECONDS, make_awaitable, until

pytestmark = pytest.mark.slow

ALLOCATIONS, BATCH = 60, 6
"""How many allocations are created, and how many of them between two cuts of all connections."""
DELAY_SECONDS = 0.5
"""The delay of every byte from etcd to the second API server."""
HALF_POOL, WIDER_CIDR = 32, "10.40.0.0/25"
"""Half of the addresses in a pool of CIDR SMALL, and a CIDR of twice the size."""
PLURAL = IP_ALLOCATION.plural
SHORT_MEMORY = replace(SETTINGS, pool=PoolSettings(resync=0.5, quiet_period=0.5))
"""Pools drop settled promises from their journal after half a second."""


async def test_every_allocation_is_served_once_whichever_api_server_replicas_use() -> None:
    async with (
        ControlPlane.start() as plane,
        access_processes(plane) as parts,
        parts.run_second_apiserver() as second,
        Pipe.before(parse_address(plane.url), parse_address(second.plane.url)) as pipe,
        run_bare_estate(plane, PlaneAtUrl(plane, f"https://{HOST}:{pipe.port}"), LARGE) as estate,
    ):
        for _ in range(2):
            estate.start_process(clock=SwiftClock(speed=PACE))
        await estate.create_cluster()
        second.etcd.delay_seconds = DELAY_SECONDS
        await _create_and_delete(estate, pipe, range(ALLOCATIONS // 2))
        with second.freeze():
            await _create_and_delete(estate, pipe, range(ALLOCATIONS // 2, ALLOCATIONS))
        await estate.witness.wait_while(estate.witness.describe_unsettled)
        counts = {server: pipe.connections.count(server) for server in set(pipe.connections)}
        assert len(counts) == 2, "both API servers were used"
        assert estate.witness.overlaps == []


async def test_a_new_leader_with_a_lagging_cache_hands_out_no_held_range() -> None:
    """The former leader served requests that are not yet in the cache of the new leader."""
    async with (
        ControlPlane.start() as plane,
        access_processes(plane) as parts,
        parts.run_second_apiserver() as lagging_server,
        connect_to_both(IP_ALLOCATION, lagging_server.plane, plane) as split_transport,
        run_bare_estate(plane) as estate,
    ):
        estate.settings = SHORT_MEMORY
        estate.start_process(clock=SystemClock())
        estate.start_process(clock=SystemClock(), transport=split_transport)
        await estate.create_allocation("n0", count=HALF_POOL)
        await estate.create_allocation("n1", count=HALF_POOL + 8)
        await estate.witness.wait_while(
            lambda: _describe_other_phases(estate, n0=ALLOCATED, n1=FAILED)
        )
        await until(
            make_awaitable(partial(_list_positions, estate)),
            lambda counts: min(counts) >= _find_written_revision(estate, "n0", "n1"),
        )
        [_, lagging_cache] = estate.list_caches(IP_ALLOCATION)
        with lagging_server.freeze():
            voided = _record_voided(estate)
            for name in ("n2", "n3"):
                await estate.create_allocation(name, count=4)
            await estate.witness.wait_while(
                lambda: _describe_other_phases(estate, n2=ALLOCATED, n3=ALLOCATED)
            )
            await estate.witness.wait_while(estate.witness.describe_open_promises)
            estate.kill_process(0)
            lists = split_transport.live_list_count
            await edit(
                estate.client, NETWORK_POOL, key=POOL, change={"spec": {"cidr": WIDER_CIDR}}
            )
            await estate.witness.wait_while(lambda: _describe_other_phases(estate, n1=ALLOCATED))
            assert estate.witness.overlaps == []
            assert lagging_cache.position < _find_written_revision(estate, "n2", "n3"), (
                "its cache did not lag"
            )
            assert split_transport.live_list_count > lists, "no controller listed allocations live"
            assert voided == [], "the pool's journal was taken as lost"
        await estate.witness.wait_while(estate.witness.describe_unsettled)
        assert estate.witness.overlaps == []


def _describe_other_phases(estate: Estate[Plane], **phases: str) -> str:
    """Return the phases of all allocations unless these have the given ones."""
    phases_by_name = {
        allocation.metadata.name: allocation.status.phase
        for allocation in estate.witness.caches[PLURAL]
    }
    return "" if phases.items() <= phases_by_name.items() else f"{phases_by_name}"


def _find_written_revision(estate: Estate[Plane], *names: str) -> int:
    """Return the highest resourceVersion of these allocations."""
    caches = [estate.witness.caches[PLURAL].get(Key(HOME, name)) for name in names]
    return max(
        [int(allocation.metadata.revision) for allocation in caches if allocation is not None]
    )


def _record_voided(estate: Estate[Plane]) -> list[str]:
    """Return a list that gets the names of allocations whose promises are voided from now on."""
    voided_names: list[str] = []

    def record(change: Change[Any]) -> None:
        if isinstance(change.new, IPAllocation):
            reasons = {condition.reason for condition in change.new.status.conditions}
            voided_names.extend({change.new.metadata.name} if "PoolNotReady" in reasons else ())

    for informer in estate.witness.informers:
        informer.add_handler(record)
    return voided_names


def _list_positions(estate: Estate[Plane]) -> list[int]:
    """Return the position of the allocations' cache in both processes; 0 before it exists."""
    return [*(cache.position for cache in estate.list_caches(IP_ALLOCATION)), 0, 0][:2]


async def _create_and_delete(estate: Estate[Plane], pipe: Pipe, numbers: range) -> None:
    """Create allocations of these numbers and delete about a third of them.

    After each BATCH all connections are cut; the next ones may lead to the other server.
    """
    choices = random.Random(numbers.start)
    for number in numbers:
        await estate.create_allocation(f"n{number}", count=1 + number % 3)
        if number % 3 == 2:
            await estate.delete(IP_ALLOCATION, Key(HOME, f"n{number - choices.choice((1, 2))}"))
        if number % BATCH == 0:
            before = len(pipe.connections)
            pipe.cut_connections()
            with anyio.fail_after(SECONDS):
                await pipe.connections.wait(before + 4)
