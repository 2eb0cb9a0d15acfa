"""A management cluster that is taken back in time while the controllers run.

etcd counts from where the backup was made: what happened since has never happened, what was
deleted since is there again, and the same numbers come to mean something else. The backup is a
copy of the data folder of a stopped etcd: to the API server that is what a snapshot is, too.
"""

from pathlib import Path

import anyio
import pytest

from controller.clock import SystemClock
from controller.errors import ControllerError
from controller.meta import Key
from envtest import ControlPlane
from envtest.plane import RunningControlPlane as Plane
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.cli.local.objects import NAMESPACE
from tests.faults.estate import HOME, LARGE, Estate, bare_estate
from tests.faults.parts import Elsewhere, place, taken_apart
from tests.faults.pipes import HOST, Pipe
from tests.polling import SECONDS

pytestmark = pytest.mark.slow

KEPT, LOST, NEW, NEWER = range(8), range(8, 24), range(24, 40), range(40, 56)
BURST = "burst-"
"""How the names of those start that are created while the servers are being restored."""


async def _create_allocations(here: Estate[Plane], numbers: range) -> None:
    for number in numbers:
        await here.create_allocation(f"n{number}", count=1 + number % 3)


async def _live_on(here: Estate[Plane]) -> None:
    """Let happen what will never have happened."""
    await _create_allocations(here, LOST)
    for number in (0, 3):
        await here.delete(IP_ALLOCATION, Key(HOME, f"n{number}"))
    await here.witness.until(here.witness.describe_unsettled)


async def test_controllers_at_work_go_on_in_the_history_that_was_restored(tmp_path: Path) -> None:
    async with (
        ControlPlane.start() as plane,
        taken_apart(plane) as parts,
        bare_estate(plane, cidr=LARGE) as here,
    ):
        for _ in range(2):
            here.start(clock=SystemClock())
        await here.create_cluster()
        await _create_allocations(here, KEPT)
        await here.witness.until(here.witness.describe_unsettled)
        kept = set(here.witness.expected)
        await parts.back_up(tmp_path / "backup")
        await _live_on(here)
        async with anyio.create_task_group() as group:
            group.start_soon(_keep_creating_allocations, here)
            await parts.restore(tmp_path / "backup", here.found_away)
            group.cancel_scope.cancel()
        here.witness.expected = kept
        await _expect_those_created_after_the_restore(here)
        await _create_allocations(here, NEW)
        await here.witness.until(here.witness.describe_unsettled)
        assert here.witness.clashes == []


async def _keep_creating_allocations(here: Estate[Plane]) -> None:
    """Create allocations until cancelled, so that the servers' end meets all kinds of writes."""
    number = 0
    while True:
        number += 1
        try:
            await here.create_allocation(f"{BURST}{number}")
        except ControllerError:
            await anyio.sleep(0.1)


async def _expect_those_created_after_the_restore(here: Estate[Plane]) -> None:
    """Expect the allocations that were created after the restore to stay, and to be served.

    The last request, which was cancelled, may be served after this list was. So the witness may
    find one more: with a name that starts with BURST it is not required, and not forbidden.
    """
    listed = await here.client.list(IP_ALLOCATION, namespace=HOME)
    names = [
        allocation.metadata.key
        for allocation in listed.items
        if allocation.metadata.name.startswith(BURST)
    ]
    here.witness.expected |= {(IP_ALLOCATION.plural, key) for key in names}


async def test_controllers_notice_a_restore_after_revisions_exceed_theirs(
    tmp_path: Path,
) -> None:
    async with (
        ControlPlane.start() as plane,
        taken_apart(plane) as parts,
        Pipe.before(place(plane.url)) as pipe,
        bare_estate(plane, Elsewhere(plane, f"https://{HOST}:{pipe.port}"), LARGE) as here,
    ):
        for _ in range(2):
            here.start()
        await _create_allocations(here, KEPT)
        await here.witness.until(here.witness.describe_unsettled)
        kept = set(here.witness.expected)
        await parts.back_up(tmp_path / "backup")
        await _live_on(here)
        reached = await parts.revision()
        pipe.shut = True
        pipe.cut_connections()
        await parts.restore(tmp_path / "backup", here.found_away)
        here.witness.expected = kept
        await _create_allocations(here, NEW)
        while await parts.revision() <= reached + 100:
            await here.client.create(NAMESPACE, "", {"metadata": {"generateName": "x"}})
        pipe.shut = False
        with anyio.fail_after(SECONDS):
            await pipe.carried.wait(len(pipe.carried) + 8)
        await _create_allocations(here, NEWER)
        await here.witness.until(here.witness.describe_unsettled)
        assert here.witness.clashes == []
