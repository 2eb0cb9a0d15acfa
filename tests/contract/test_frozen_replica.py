"""Two replicas, one of which is frozen by SIGSTOP and resumed, never allocate an address twice."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import anyio
import pytest

from controller.cache import Cache, Change
from controller.client import Client
from controller.clock import SystemClock
from controller.config import connect
from controller.informer import Informer
from envtest.plane import RunningControlPlane as Plane
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.crd import build_crds
from reconcilers.api.ipallocation import ALLOCATED, IPAllocation
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.cli.local.objects import NAMESPACE
from tests.freezing import freeze, thaw
from tests.polling import SECONDS
from tests.reconcilers.cli.commands import RunningCommand, start

HOME = names.DEFAULT_NAMESPACE
SHORT_LEASE = (
    "--leader-elect=true",
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=5s",
    "--leader-elect-retry-period=400ms",
)


class OverlapWitness:
    """Watches all allocations, and records each overlap of the ranges that they hold.

    Args:
        plane_client: the client that creates allocations.
        informer: the watch of allocations.
    """

    def __init__(self, plane_client: Client, informer: Informer[IPAllocation]) -> None:
        self.client = plane_client
        self.cache: Cache[IPAllocation] = informer.cache
        self.overlaps: list[str] = []
        self._changed = anyio.Event()
        informer.add_handler(self._handle_change)

    def _handle_change(self, change: Change[IPAllocation]) -> None:
        if change.new is not None and statusranges.find_held_range(change.new) is not None:
            self._compare(change.new)
        self._changed.set()

    def _compare(self, allocation: IPAllocation) -> None:
        own_range = statusranges.find_held_range(allocation)
        for other in self.cache:
            other_range = statusranges.find_held_range(other)
            if (
                other.metadata.uid == allocation.metadata.uid
                or own_range is None
                or other_range is None
            ):
                continue
            if own_range.overlaps(other_range):
                self.overlaps.append(
                    f"{allocation.metadata.name} and {other.metadata.name}: {own_range.text}"
                )

    async def create_allocations(self, first: int, last: int) -> None:
        """Create the allocations a`first` to a`last - 1` one after another."""
        for number in range(first, last):
            await self._create_allocation(number)

    @asynccontextmanager
    async def create_burst(self, first: int, last: int) -> AsyncIterator[None]:
        """Create the allocations a`first` to a`last - 1` at once.

        The context begins when `first + 5` allocations are served, and ends when all exist.
        """
        async with anyio.create_task_group() as group:
            for number in range(first, last):
                group.start_soon(self._create_allocation, number)
            await self.wait_until_served(first + 5)
            yield

    async def _create_allocation(self, number: int) -> None:
        body: dict[str, Any] = {
            "metadata": {"name": f"a{number}", "finalizers": [names.FINALIZER_ALLOCATION]},
            "spec": {
                "poolRef": {"name": "lab"},
                "tenantClusterRef": {"name": "a", "namespace": "team"},
                "type": "nodes",
                "count": 1 + number % 5,
            },
        }
        await self.client.create(IP_ALLOCATION, HOME, body)

    async def wait_until_served(self, count: int) -> None:
        """Wait until that many allocations are Allocated."""
        with anyio.fail_after(SECONDS):
            while sum(a.status.phase == ALLOCATED for a in self.cache) < count:
                self._changed = anyio.Event()
                await self._changed.wait()


@asynccontextmanager
async def _run_witness(path: Path) -> AsyncIterator[OverlapWitness]:
    transport = await connect(path)
    informer = Informer(IP_ALLOCATION, transport, SystemClock())
    witness = OverlapWitness(Client(transport), informer)
    async with anyio.create_task_group() as group:
        group.start_soon(informer.run)
        await informer.wait_synced()
        yield witness
        group.cancel_scope.cancel()
    await transport.aclose()


@pytest.fixture
async def kubeconfig(plane: Plane, tmp_path: Path) -> Path:
    """The kubeconfig of a cluster with our kinds and the pool `lab`."""
    await plane.install_crds(build_crds())
    path = plane.write_kubeconfig(tmp_path / "kubeconfig")
    transport = await connect(path)
    client = Client(transport)
    await client.create(NAMESPACE, "", {"metadata": {"name": HOME}})
    pool = {"metadata": {"name": "lab"}, "spec": {"cidr": "10.40.0.0/21"}}
    await client.create(NETWORK_POOL, HOME, pool)
    await transport.aclose()
    return path


def _run_controllers(path: Path, *flags: str) -> Any:
    return start(
        "run",
        f"--kubeconfig={path}",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
        "--log-format=console",
        *flags,
    )


def _freeze_process(running: RunningCommand) -> None:
    freeze(running.process.pid)


def _resume_process(running: RunningCommand) -> None:
    thaw(running.process.pid)


@pytest.mark.slow
async def test_two_replicas_that_both_lead_never_allocate_an_address_twice_if_frozen_in_turn(
    kubeconfig: Path,
) -> None:
    async with (
        _run_controllers(kubeconfig) as first,
        _run_controllers(kubeconfig) as other,
        _run_witness(kubeconfig) as witness,
    ):
        await first.wait_for_output("Starting workers")
        await other.wait_for_output("Starting workers")
        async with witness.create_burst(0, 60):
            _freeze_process(
                first
            )  # at any point between choosing ranges, promising and writing them
        await witness.create_allocations(60, 90)
        await witness.wait_until_served(90)
        async with witness.create_burst(90, 140):
            _freeze_process(other)  # also in the middle of its writes
            _resume_process(
                first
            )  # with decisions from before the other replica served allocations
        await witness.wait_until_served(140)
        _resume_process(other)
        await witness.create_allocations(140, 160)
        await witness.wait_until_served(160)
        assert witness.overlaps == []
        assert (first.process.returncode, other.process.returncode) == (None, None)
        cache = [
            span for a in witness.cache if (span := statusranges.find_held_range(a)) is not None
        ]
        assert not any(a.overlaps(b) for a, b in combinations(cache, 2))


@pytest.mark.long
@pytest.mark.slow
async def test_a_leader_frozen_beyond_its_lease_exits_when_it_resumes_and_no_ranges_overlap(
    kubeconfig: Path,
) -> None:
    async with (
        _run_controllers(kubeconfig, *SHORT_LEASE) as leader,
        _run_witness(kubeconfig) as witness,
    ):
        await leader.wait_for_output("Starting workers")
        async with _run_controllers(kubeconfig, *SHORT_LEASE) as successor:
            async with witness.create_burst(0, 60):
                _freeze_process(leader)
            await successor.wait_for_output("Starting workers")
            await witness.wait_until_served(60)
            await witness.create_allocations(60, 80)
            await witness.wait_until_served(80)
            _resume_process(leader)
            with anyio.fail_after(SECONDS):
                assert await leader.process.wait() != 0, (
                    "a replica that lost its lease exits with an error"
                )
            await witness.create_allocations(80, 90)
            await witness.wait_until_served(90)
        assert witness.overlaps == []
