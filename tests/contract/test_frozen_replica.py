"""Two live processes, one of them frozen and resumed: no address is ever assigned twice.

The processes are real, the freezing is SIGSTOP, the server is the one the environment asks for.
"""

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
from reconcilers.api.crd import crds
from reconcilers.api.ipallocation import ALLOCATED, IPAllocation
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.cli.local.objects import NAMESPACE
from tests.freezing import freeze, thaw
from tests.polling import SECONDS
from tests.reconcilers.cli.commands import Running, start

HOME = names.DEFAULT_NAMESPACE
QUICK_LEASE = (
    "--leader-elect=true",
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=5s",
    "--leader-elect-retry-period=400ms",
)


class Witness:
    """Watches every allocation from the first to the last, and remembers who held what."""

    def __init__(self, plane_client: Client, informer: Informer[IPAllocation]) -> None:
        self.client = plane_client
        self.cache: Cache[IPAllocation] = informer.cache
        self.clashes: list[str] = []
        self._changed = anyio.Event()
        informer.add_handler(self._see)

    def _see(self, change: Change[IPAllocation]) -> None:
        if change.new is not None and statusranges.find_held_range(change.new) is not None:
            self._compare(change.new)
        self._changed.set()

    def _compare(self, allocation: IPAllocation) -> None:
        its = statusranges.find_held_range(allocation)
        for other in self.cache:
            others = statusranges.find_held_range(other)
            if other.metadata.uid == allocation.metadata.uid or its is None or others is None:
                continue
            if its.overlaps(others):
                self.clashes.append(
                    f"{allocation.metadata.name} and {other.metadata.name}: {its.text}"
                )

    async def ask(self, first: int, last: int) -> None:
        """Create allocations, one after the other, so that they meet every moment of a pass."""
        for number in range(first, last):
            await self._ask(number)

    @asynccontextmanager
    async def burst(self, first: int, last: int) -> AsyncIterator[None]:
        """Create allocations all at once; go on when the first of them are served."""
        async with anyio.create_task_group() as group:
            for number in range(first, last):
                group.start_soon(self._ask, number)
            await self.wait_until_served(first + 5)
            yield

    async def _ask(self, number: int) -> None:
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
async def _witness(path: Path) -> AsyncIterator[Witness]:
    transport = await connect(path)
    informer = Informer(IP_ALLOCATION, transport, SystemClock())
    witness = Witness(Client(transport), informer)
    async with anyio.create_task_group() as group:
        group.start_soon(informer.run)
        await informer.wait_synced()
        yield witness
        group.cancel_scope.cancel()
    await transport.aclose()


@pytest.fixture
async def kubeconfig(plane: Plane, tmp_path: Path) -> Path:
    """A cluster with our kinds and a pool in it."""
    await plane.install_crds(crds())
    path = plane.write_kubeconfig(tmp_path / "kubeconfig")
    transport = await connect(path)
    client = Client(transport)
    await client.create(NAMESPACE, "", {"metadata": {"name": HOME}})
    pool = {"metadata": {"name": "lab"}, "spec": {"cidr": "10.40.0.0/21"}}
    await client.create(NETWORK_POOL, HOME, pool)
    await transport.aclose()
    return path


def _run(path: Path, *flags: str) -> Any:
    return start(
        "run",
        f"--kubeconfig={path}",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
        "--log-format=console",
        *flags,
    )


def _freeze(running: Running) -> None:
    freeze(running.process.pid)


def _resume(running: Running) -> None:
    thaw(running.process.pid)


@pytest.mark.slow
async def test_two_that_both_lead_never_assign_one_address_twice_though_one_is_frozen(
    kubeconfig: Path,
) -> None:
    async with (
        _run(kubeconfig) as first,
        _run(kubeconfig) as other,
        _witness(kubeconfig) as witness,
    ):
        await first.until("Starting workers")
        await other.until("Starting workers")
        async with witness.burst(0, 60):
            _freeze(first)  # wherever it is: between choosing, promising, and writing
        await witness.ask(60, 90)
        await witness.wait_until_served(90)
        async with witness.burst(90, 140):
            _freeze(other)  # in the middle of its writes, too
            _resume(first)  # with all that it had decided before the others were served
        await witness.wait_until_served(140)
        _resume(other)
        await witness.ask(140, 160)
        await witness.wait_until_served(160)
        assert witness.clashes == []
        assert (first.process.returncode, other.process.returncode) == (None, None)
        cache = [
            span for a in witness.cache if (span := statusranges.find_held_range(a)) is not None
        ]
        assert not any(a.overlaps(b) for a, b in combinations(cache, 2))


@pytest.mark.long
@pytest.mark.slow
async def test_a_leader_frozen_beyond_its_lease_ends_when_it_wakes_and_no_ranges_overlap(
    kubeconfig: Path,
) -> None:
    async with (
        _run(kubeconfig, *QUICK_LEASE) as leader,
        _witness(kubeconfig) as witness,
    ):
        await leader.until("Starting workers")
        async with _run(kubeconfig, *QUICK_LEASE) as heir:
            async with witness.burst(0, 60):
                _freeze(leader)
            await heir.until("Starting workers")
            await witness.wait_until_served(60)
            await witness.ask(60, 80)
            await witness.wait_until_served(80)
            _resume(leader)
            with anyio.fail_after(SECONDS):
                assert await leader.process.wait() != 0, (
                    "who lost the lease says so by its exit code"
                )
            await witness.ask(80, 90)
            await witness.wait_until_served(90)
        assert witness.clashes == []
