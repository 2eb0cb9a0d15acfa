"""Two API servers on one etcd, behind one address: what one of them tells is late.

Either each connection leads to one of them in turn, and is cut now and then, so that a list comes
from one and the watch after it from the other. Or nothing is cut, and a replica that takes over
watches the pool on the one and the allocations on the other, which has told nothing for a while.
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
from tests.faults.estate import HOME, LARGE, PACE, POOL, SETTINGS, Estate, SwiftClock, bare_estate
from tests.faults.parts import Elsewhere, place, taken_apart
from tests.faults.pipes import HOST, Pipe
from tests.faults.routes import connect_to_both
from tests.polling import SECONDS, make_awaitable, until

pytestmark = pytest.mark.slow

ASKED, BETWEEN = 60, 6
BEHIND = 0.5
HALF, WIDER = 32, "10.40.0.0/25"
PLURAL = IP_ALLOCATION.plural
FORGETFUL = replace(SETTINGS, pool=PoolSettings(resync=0.5, quiet_period=0.5))
"""Pools list promises that are kept no longer than this: whom they were made to has to be read."""


async def test_every_allocation_is_served_once_whichever_api_server_replicas_use() -> None:
    async with (
        ControlPlane.start() as plane,
        taken_apart(plane) as parts,
        parts.second_apiserver() as second,
        Pipe.before(place(plane.url), place(second.plane.url)) as pipe,
        bare_estate(plane, Elsewhere(plane, f"https://{HOST}:{pipe.port}"), LARGE) as here,
    ):
        for _ in range(2):
            here.start(clock=SwiftClock(speed=PACE))
        await here.create_cluster()
        second.etcd.late = BEHIND
        await _come_and_go(here, pipe, range(ASKED // 2))
        with second.frozen():
            await _come_and_go(here, pipe, range(ASKED // 2, ASKED))
        await here.witness.until(here.witness.describe_unsettled)
        met = {target: pipe.carried.count(target) for target in set(pipe.carried)}
        assert len(met) == 2, met
        assert here.witness.clashes == []


async def test_a_new_leader_with_a_lagging_cache_hands_out_no_range_that_is_taken() -> None:
    """The one before served smaller requests meanwhile; one that found no room comes next."""
    async with (
        ControlPlane.start() as plane,
        taken_apart(plane) as parts,
        parts.second_apiserver() as late,
        connect_to_both(IP_ALLOCATION, late.plane, plane) as way,
        bare_estate(plane) as here,
    ):
        here.settings = FORGETFUL
        here.start(clock=SystemClock())
        here.start(clock=SystemClock(), transport=way)
        await here.create_allocation("n0", count=HALF)
        await here.create_allocation("n1", count=HALF + 8)
        await here.witness.until(lambda: _differs(here, n0=ALLOCATED, n1=FAILED))
        await until(
            make_awaitable(partial(_positions, here)),
            lambda counts: min(counts) >= _find_written_revision(here, "n0", "n1"),
        )
        [_, behind] = here.caches(IP_ALLOCATION)
        with late.frozen():
            voided = _list_voided(here)
            for name in ("n2", "n3"):
                await here.create_allocation(name, count=4)
            await here.witness.until(lambda: _differs(here, n2=ALLOCATED, n3=ALLOCATED))
            await here.witness.until(here.witness.promises_left)
            here.kill(0)
            lists = way.live_lists
            await edit(here.client, NETWORK_POOL, key=POOL, change={"spec": {"cidr": WIDER}})
            await here.witness.until(lambda: _differs(here, n1=ALLOCATED))
            assert here.witness.clashes == []
            assert behind.position < _find_written_revision(here, "n2", "n3"), "it was not behind"
            assert way.live_lists > lists, "no controller looked past the cache"
            assert voided == [], "the pool was taken for one without memory"
        await here.witness.until(here.witness.describe_unsettled)
        assert here.witness.clashes == []


def _differs(here: Estate[Plane], **phases: str) -> str:
    """Return the allocations that are not in these phases; empty if all are."""
    phase = {
        allocation.metadata.name: allocation.status.phase
        for allocation in here.witness.caches[PLURAL]
    }
    return "" if phases.items() <= phase.items() else f"{phase}"


def _find_written_revision(here: Estate[Plane], *names: str) -> int:
    """Return the resourceVersion of the latest write to one of these allocations."""
    caches = [here.witness.caches[PLURAL].get(Key(HOME, name)) for name in names]
    return max(
        [int(allocation.metadata.revision) for allocation in caches if allocation is not None]
    )


def _list_voided(here: Estate[Plane]) -> list[str]:
    """Return a list that gets the names of allocations whose promises are voided from now on."""
    problems: list[str] = []

    def see(change: Change[Any]) -> None:
        if isinstance(change.new, IPAllocation):
            reasons = {condition.reason for condition in change.new.status.conditions}
            problems.extend({change.new.metadata.name} if "PoolNotReady" in reasons else ())

    for informer in here.witness.informers:
        informer.add_handler(see)
    return problems


def _positions(here: Estate[Plane]) -> list[int]:
    """Return up to where both replicas have read the allocations; 0 as long as they start."""
    return [*(cache.position for cache in here.caches(IP_ALLOCATION)), 0, 0][:2]


async def _come_and_go(here: Estate[Plane], pipe: Pipe, numbers: range) -> None:
    """Ask, and delete about every third of those who asked before.

    Now and then all clients have to connect anew, to the other server perhaps.
    """
    dice = random.Random(numbers.start)
    for number in numbers:
        await here.create_allocation(f"n{number}", count=1 + number % 3)
        if number % 3 == 2:
            await here.delete(IP_ALLOCATION, Key(HOME, f"n{number - dice.choice((1, 2))}"))
        if number % BETWEEN == 0:
            before = len(pipe.carried)
            pipe.cut_connections()
            with anyio.fail_after(SECONDS):
                await pipe.carried.wait(before + 4)
