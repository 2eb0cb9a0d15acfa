"""Two managers on one API server: the lease goes from one to the other when the work has ended."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from controller import SETTLED, Key, Manager, ManagerOptions, Outcome, Watch, to_self
from controller.leases import LEASES
from tests.faults.proxied import GAUGES, ProxiedPlane, open_transport, run_proxied_plane
from tests.polling import SECONDS

LEASE = Key("default", "leader")
HOURS = 3600.0


class BlockingReplica:
    """A manager whose reconcile runs until the test sets `may_end`."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.started, self.may_end, self.ended = anyio.Event(), anyio.Event(), anyio.Event()
        self.is_interrupted = False
        gauges = manager.get_informer(GAUGES)
        manager.add_controller("gauges", self.reconcile, watches=[Watch(gauges, to_self)])

    async def reconcile(self, key: Key) -> Outcome:
        """Wait for `may_end`; note whether the wait was cancelled."""
        self.started.set()
        try:
            await self.may_end.wait()
        except anyio.get_cancelled_exc_class():
            self.is_interrupted = True
            raise
        return SETTLED

    async def run(self) -> None:
        """Run the manager to its end."""
        await self.manager.run()
        self.ended.set()


@asynccontextmanager
async def run_replica(proxied: ProxiedPlane, name: str) -> AsyncIterator[BlockingReplica]:
    """Run a replica with a lease that does not expire within a test."""
    options = ManagerOptions(
        leader_elect=True,
        lease_namespace=LEASE.namespace,
        lease_name=LEASE.name,
        identity=name,
        lease_duration=HOURS,
        renew_deadline=HOURS / 2,
        retry_period=0.2,
    )
    async with open_transport(proxied.plane) as transport, anyio.create_task_group() as group:
        new_replica = BlockingReplica(Manager(transport, options=options))
        group.start_soon(new_replica.run)
        await new_replica.manager.wait_serving()
        yield new_replica
        group.cancel_scope.cancel()


async def test_a_stopped_leader_gives_its_lease_to_the_next_when_its_work_has_ended() -> None:
    async def read_holder() -> str:
        return (await proxied.direct.get(LEASES, LEASE)).spec.holderIdentity or ""

    async with run_proxied_plane() as proxied:
        await proxied.create("a")
        async with run_replica(proxied, "first") as first:
            await first.started.wait()
            async with run_replica(proxied, "second") as second:
                first.manager.stop()
                await proxied.create("b")  # work for the next leader, and not before
                assert await read_holder() == "first"
                assert not first.ended.is_set()
                assert not second.started.is_set()
                first.may_end.set()
                with anyio.fail_after(SECONDS):
                    await first.ended.wait()
                    # It leads only because the first one released its lease of an hour.
                    await second.started.wait()
                assert await read_holder() == "second"
                assert not first.is_interrupted
                lease = await proxied.direct.get(LEASES, LEASE)
                assert lease.spec.leaseTransitions == 1
                second.may_end.set()
