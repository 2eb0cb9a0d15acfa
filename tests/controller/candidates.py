"""Candidates of a leader election over a store in memory."""

from collections.abc import Callable
from typing import Any

import anyio

from controller.client import Client
from controller.leases import Elector, LeaderLost, LeaseSettings
from controller.meta import Key
from tests.clock import VirtualClock
from tests.controller.store import Store, StoreTransport

LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/system/leases/leader"
KEY = Key("system", "leader")


class Candidate:
    """A candidate of an election: an elector with a connection of its own.

    Attributes:
        terms: when each time as leader began and ended, in seconds of the clock; an end of None
            means that the candidate leads now.
        lost_error: the error with which the last term ended; None if none was lost.
        scope: ends the candidate when it is cancelled.
    """

    def __init__(self, name: str, store: Store, clock: VirtualClock) -> None:
        self.clock = clock
        self.transport = StoreTransport(store)
        self.elector = Elector(
            Client(self.transport), clock, LeaseSettings(KEY, name), jitter=lambda: 0.5
        )
        self.terms: list[tuple[float, float | None]] = []
        self.lost_error: LeaderLost | None = None
        self.scope = anyio.CancelScope()

    @property
    def is_leading(self) -> bool:
        """Whether the candidate leads now."""
        return bool(self.terms) and self.terms[-1][1] is None

    async def run(self) -> None:
        """Acquire the Lease once, and hold it until it is lost; record the term."""
        with self.scope:
            await self.elector.acquire()
            start = self.clock.monotonic()
            self.terms.append((start, None))
            try:
                await self.elector.hold()
            except LeaderLost as error:
                self.lost_error = error
            finally:
                self.terms[-1] = (start, self.clock.monotonic())


class Election:
    """Two candidates, `a` and `b`, for a Lease in a store."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = Store()
        self.a, self.b = (Candidate(name, self.store, self.clock) for name in "ab")

    @property
    def lease_spec(self) -> dict[str, Any]:
        """The stored spec of the Lease."""
        spec: dict[str, Any] = self.store.objects[LEASE_PATH]["spec"]
        return spec


async def play_election(play: Callable[[Election], Any]) -> Election:
    """Call `play` while `a` leads and `b` waits; return the election afterwards."""
    election = Election()
    async with anyio.create_task_group() as group:
        group.start_soon(election.a.run)
        await election.clock.advance(0)
        assert election.a.is_leading
        group.start_soon(election.b.run)
        await election.clock.advance(0)
        await play(election)
        group.cancel_scope.cancel()
    return election


def build_old_lease_spec() -> dict[str, Any]:
    """Return the spec of a Lease of holder `a`, whose clock is a year behind the virtual clock."""
    return {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "2025-01-01T00:00:00.000000Z",
        "renewTime": "2025-01-01T00:00:00.000000Z",
        "leaseTransitions": 3,
    }
