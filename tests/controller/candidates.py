"""Candidates of a leader election over a store in memory."""

from collections.abc import Callable
from typing import Any

import anyio

from controller.client import Client
from controller.leases import Elector, LeaderLost, LeaseSettings
from controller.meta import Key
from tests.clock import VirtualClock
from tests.controller.store import Store, StoreTransport

PATH = "/apis/coordination.k8s.io/v1/namespaces/system/leases/leader"
KEY = Key("system", "leader")


class Candidate:
    """An elector with a connection of its own, run in a task of its own."""

    def __init__(self, name: str, store: Store, clock: VirtualClock) -> None:
        self.clock = clock
        self.transport = StoreTransport(store)
        self.elector = Elector(
            Client(self.transport), clock, LeaseSettings(KEY, name), jitter=lambda: 0.5
        )
        self.led: list[tuple[float, float | None]] = []
        self.lost: LeaderLost | None = None
        self.scope = anyio.CancelScope()

    @property
    def leads(self) -> bool:
        return bool(self.led) and self.led[-1][1] is None

    async def run(self) -> None:
        """Lead once; note from when to when the work ran."""
        with self.scope:
            await self.elector.acquire()
            begun = self.clock.monotonic()
            self.led.append((begun, None))
            try:
                await self.elector.hold()
            except LeaderLost as error:
                self.lost = error
            finally:
                self.led[-1] = (begun, self.clock.monotonic())


class Election:
    """A store, a clock and two candidates, `a` of which leads."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = Store()
        self.a, self.b = (Candidate(name, self.store, self.clock) for name in "ab")

    @property
    def record(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.store.objects[PATH]["spec"]
        return spec


async def play_election(play: Callable[[Election], Any]) -> Election:
    """Return an election in which `a` leads and `b` is a candidate, after `play` has run on it."""
    election = Election()
    async with anyio.create_task_group() as group:
        group.start_soon(election.a.run)
        await election.clock.advance(0)
        assert election.a.leads
        group.start_soon(election.b.run)
        await election.clock.advance(0)
        await play(election)
        group.cancel_scope.cancel()
    return election


def build_old_record() -> dict[str, Any]:
    """Return a record of a holder whose clock is a year behind ours."""
    return {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "2025-01-01T00:00:00.000000Z",
        "renewTime": "2025-01-01T00:00:00.000000Z",
        "leaseTransitions": 3,
    }
