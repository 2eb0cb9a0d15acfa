"""A management cluster that is restored from a backup while the controllers run.

etcd counts revisions from the backup on again. Objects that were created since are gone, deleted
ones exist again, and the same revisions mean other writes. The backup is a copy of the data folder
of a stopped etcd, which is to an API server the same as a snapshot.
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
from tests.faults.estate import HOME, LARGE, Estate, run_bare_estate
from tests.faults.parts import PlaneAtUrl, access_processes, parse_address
from tests.faults.pipes import HOST, Pipe
from tests.polling import SECONDS

pytestmark = pytest.mark.slow

BACKED_UP, AFTER_BACKUP, AFTER_RESTORE, AFTER_RECONNECT = (
    range(8),
    range(8, 24),
    range(24, 40),
    range(40, 56),
)
"""Numbers of the allocations that are created before and after the backup, and so on."""
BURST = "burst-"
"""The prefix of allocations that are created while the servers are being restored."""


async def _create_allocations(estate: Estate[Plane], numbers: range) -> None:
    """Create an allocation of one to three addresses for each number."""
    for number in numbers:
        await estate.create_allocation(f"n{number}", count=1 + number % 3)


async def _change_after_backup(estate: Estate[Plane]) -> None:
    """Create and delete allocations after the backup; the restore will undo that."""
    await _create_allocations(estate, AFTER_BACKUP)
    for number in (0, 3):
        await estate.delete(IP_ALLOCATION, Key(HOME, f"n{number}"))
    await estate.witness.wait_while(estate.witness.describe_unsettled)


async def test_controllers_at_work_go_on_in_the_history_that_was_restored(tmp_path: Path) -> None:
    async with (
        ControlPlane.start() as plane,
        access_processes(plane) as parts,
        run_bare_estate(plane, cidr=LARGE) as estate,
    ):
        for _ in range(2):
            estate.start_process(clock=SystemClock())
        await estate.create_cluster()
        await _create_allocations(estate, BACKED_UP)
        await estate.witness.wait_while(estate.witness.describe_unsettled)
        expected = set(estate.witness.expected_objects)
        await parts.back_up(tmp_path / "backup")
        await _change_after_backup(estate)
        async with anyio.create_task_group() as group:
            group.start_soon(_keep_creating_allocations, estate)
            await parts.restore(tmp_path / "backup", estate.is_outage_noticed)
            group.cancel_scope.cancel()
        estate.witness.expected_objects = expected
        await _expect_burst_allocations_that_exist(estate)
        await _create_allocations(estate, AFTER_RESTORE)
        await estate.witness.wait_while(estate.witness.describe_unsettled)
        assert estate.witness.overlaps == []


async def _keep_creating_allocations(estate: Estate[Plane]) -> None:
    """Create allocations until cancelled, so that the servers stop during writes."""
    number = 0
    while True:
        number += 1
        try:
            await estate.create_allocation(f"{BURST}{number}")
        except ControllerError:
            await anyio.sleep(0.1)


async def _expect_burst_allocations_that_exist(estate: Estate[Plane]) -> None:
    """Expect the allocations of `_keep_creating_allocations` that exist after the restore.

    The server may execute the last, cancelled request later. So the witness may find one more
    allocation; the prefix BURST is neither expected nor forbidden.
    """
    listed = await estate.client.list(IP_ALLOCATION, namespace=HOME)
    names = [
        allocation.metadata.key
        for allocation in listed.items
        if allocation.metadata.name.startswith(BURST)
    ]
    estate.witness.expected_objects |= {(IP_ALLOCATION.plural, key) for key in names}


async def test_controllers_notice_a_restore_after_revisions_exceed_theirs(
    tmp_path: Path,
) -> None:
    async with (
        ControlPlane.start() as plane,
        access_processes(plane) as parts,
        Pipe.before(parse_address(plane.url)) as pipe,
        run_bare_estate(plane, PlaneAtUrl(plane, f"https://{HOST}:{pipe.port}"), LARGE) as estate,
    ):
        for _ in range(2):
            estate.start_process()
        await _create_allocations(estate, BACKED_UP)
        await estate.witness.wait_while(estate.witness.describe_unsettled)
        expected = set(estate.witness.expected_objects)
        await parts.back_up(tmp_path / "backup")
        await _change_after_backup(estate)
        revision_before = await parts.read_revision()
        pipe.refuses_connections = True
        pipe.cut_connections()
        await parts.restore(tmp_path / "backup", estate.is_outage_noticed)
        estate.witness.expected_objects = expected
        await _create_allocations(estate, AFTER_RESTORE)
        while await parts.read_revision() <= revision_before + 100:
            await estate.client.create(NAMESPACE, "", {"metadata": {"generateName": "x"}})
        pipe.refuses_connections = False
        with anyio.fail_after(SECONDS):
            await pipe.connections.wait(len(pipe.connections) + 8)
        await _create_allocations(estate, AFTER_RECONNECT)
        await estate.witness.wait_while(estate.witness.describe_unsettled)
        assert estate.witness.overlaps == []
