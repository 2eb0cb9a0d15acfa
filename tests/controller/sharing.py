"""Managers that share the keys of one fake API by shards, each with a clock of its own.

A manager whose clock stands still is frozen, and more than that: it goes on with what needs no
time, and believes for ever that it holds its leases. So it is the worst that a process can do that
is frozen for a while, again and again. One that is dead also has its link cut.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup
from typing_extensions import override

from controller.client import Client
from controller.errors import ControllerError, Forbidden, NoAnswer
from controller.leases import LEASES
from controller.manager import Manager
from controller.meta import Key
from controller.options import ManagerOptions
from controller.outcome import SETTLED, Outcome
from controller.shards import shard_of
from controller.testing.api import FakeApi
from controller.transport import NO_QUERY, Transport
from controller.triggers import Watch, to_self
from tests.clock import VirtualClock
from tests.controller.widgets import WIDGETS, Widget

SHARDS = 6
STEP = 0.5


class ProcessClock(VirtualClock):
    """The clock of a process that can be frozen."""

    async def thaw(self, seconds: float) -> None:
        """Let a frozen process go on: it finds that much time has passed at once."""
        self.skip(seconds)
        await self.advance(0)


class Link(Transport):
    """One manager's connection to the fake API; while `cut` is set, its requests never return.

    `failing` returns the error with which requests to a path fail; None for paths that succeed.
    """

    def __init__(self, api: FakeApi) -> None:
        self._api = api
        self.cut = False
        self.failing: Callable[[str], ControllerError | None] = lambda _: None
        self.sent: list[tuple[str, str]] = []
        """The method and the path of each request so far."""
        self.forbidden: set[str] = set()
        """The plurals of kinds that may not be listed or watched."""
        self._watches: dict[str, set[anyio.CancelScope]] = {}
        self.hidden: set[str] = set()
        """The groups that discovery lacks."""

    @override
    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = NO_QUERY,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float | None = 30.0,
    ) -> bytes:
        if self.cut:
            await anyio.sleep_forever()
        self._fail(path)
        self.sent.append((method, path))
        self._check_allowed(method, path)
        answer = await self._api.request(
            method, path, query=query, body=body, content_type=content_type
        )
        return self._without_hidden(answer) if path == "/apis" and self.hidden else answer

    def _check_allowed(self, method: str, path: str) -> None:
        plural = path.rpartition("/")[2]
        if method == "GET" and plural in self.forbidden:
            raise Forbidden(403, "Forbidden", f"{plural} is forbidden")

    def _without_hidden(self, answer: bytes) -> bytes:
        document = msgspec.json.decode(answer)
        groups = [group for group in document["groups"] if group["name"] not in self.hidden]
        return msgspec.json.encode({**document, "groups": groups})

    @override
    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self._fail(path)
        self._check_allowed("GET", path)
        with anyio.CancelScope() as scope:
            self._watches.setdefault(path.rpartition("/")[2], set()).add(scope)
            async with self._api.stream(path, query=query) as chunks:
                yield chunks
        if scope.cancelled_caught:
            raise NoAnswer("the watch was ended")

    def forbid(self, plural: str) -> None:
        """Let a kind no longer be read: running watches end, and lists are refused."""
        self.forbidden.add(plural)
        for scope in self._watches.pop(plural, set()):
            scope.cancel()

    def _fail(self, path: str) -> None:
        error = self.failing(path)
        if error is not None:
            raise error

    @override
    async def aclose(self) -> None:
        """Do nothing: no connection is open."""


class Worker:
    """A replica: a manager with one controller, whose reconciler takes `seconds` for each key.

    `frozen` stops its clock. A `stubborn` reconciler does not end when it is cancelled. `done` has
    the names of the reconciled keys, and `services` the number of running leader's services.
    """

    def __init__(self, room: "Room", name: str, shards: int, **options: Any) -> None:
        self.name = name
        self.room = room
        self.clock = ProcessClock()
        self.frozen = False
        self.link = Link(room.api)
        self.seconds = 0.1
        self.stubborn = False
        self.mapping: Callable[[Widget], Iterable[Key]] = to_self
        self.done: list[str] = []
        self.services = 0
        self.failure: ControllerError | None = None
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()
        chosen = ManagerOptions(
            leader_elect=True,
            lease_namespace="system",
            lease_name="widgets",
            identity=name,
            shards=shards,
            **options,
        )
        self.manager = Manager(self.link, clock=self.clock, options=chosen)
        widgets = self.manager.get_informer(WIDGETS)
        self.controller = self.manager.add_controller(
            "widget",
            self.reconcile,
            watches=[Watch(widgets, self.keys)],
            concurrency=100,
        )
        self.manager.add_service("leader", self.lead)

    async def thaw(self) -> None:
        """Let the replica continue after it was frozen: its clock catches up at once."""
        self.frozen = False
        await self.clock.thaw(self.room.clock.monotonic() - self.clock.monotonic())

    @property
    def held(self) -> set[int]:
        """The shards that the replica holds."""
        assert self.manager.shards is not None
        return set(self.manager.shards.held)

    def keys(self, widget: Widget) -> Iterable[Key]:
        """Map a widget to keys as `mapping` does now."""
        return self.mapping(widget)

    async def lead(self) -> None:
        """Count as a running service of the leader until cancelled."""
        self.services += 1
        try:
            await anyio.sleep_forever()
        finally:
            self.services -= 1

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile a key for `seconds`; the room notes which replicas do so at the same time."""
        self.room.begin(self, key)
        try:
            await self.clock.sleep(self.seconds)
            if self.stubborn:
                with anyio.CancelScope(shield=True):
                    await self.clock.sleep(1000)
            self.done.append(key.name)
        finally:
            self.room.end(self, key)
        return SETTLED

    async def run(self) -> None:
        """Run the manager until it ends, or until it is killed."""
        try:
            with self.scope:
                await self.manager.run()
        except ControllerError as error:
            self.failure = error
        finally:
            self.ended.set()


class Room:
    """Replicas that share the shards of one fake API, and the keys that each reconciles now."""

    def __init__(self, group: TaskGroup, shards: int = SHARDS) -> None:
        self.clock = VirtualClock()
        self.api = FakeApi(self.clock)
        self.api.serve(WIDGETS)
        self.api.serve(LEASES, status=False, generation=False)
        self.client = Client(self.api)
        self.workers: list[Worker] = []
        """The replicas, in the order of their starts."""
        self.together: list[tuple[str, ...]] = []
        """The names of the replicas that reconciled one key at the same time, for each time."""
        self._shards = shards
        self._group = group
        self._at_work: dict[Key, list[Worker]] = {}

    def begin(self, worker: Worker, key: Key) -> None:
        """Note that a worker begins with a key."""
        workers = self._at_work.setdefault(key, [])
        workers.append(worker)
        if len(workers) > 1:
            self.together.append(tuple(worker.name for worker in workers))

    def end(self, worker: Worker, key: Key) -> None:
        """Note that a worker has ended with a key."""
        self._at_work[key].remove(worker)

    def start(self, name: str, **options: Any) -> Worker:
        """Start a manager."""
        worker = Worker(self, name, self._shards, **options)
        self.workers.append(worker)
        self._group.start_soon(worker.run)
        return worker

    async def create_widget(self, name: str) -> int:
        """Create a widget; return its shard."""
        await self.client.create(WIDGETS, "default", {"metadata": {"name": name}, "spec": {}})
        return shard_of(Key("default", name), self._shards)

    async def let_time_pass(self, seconds: float) -> None:
        """Advance the clocks of the API and of all replicas that are not frozen."""
        for _ in range(round(seconds / STEP)):
            await self.clock.advance(STEP)
            for worker in self.workers:
                if not worker.frozen:
                    behind = self.clock.monotonic() - worker.clock.monotonic()
                    await worker.clock.advance(behind)

    @property
    def holders(self) -> dict[int, list[str]]:
        """The names of the replicas that believe they hold each shard."""
        return {
            shard: [worker.name for worker in self.workers if shard in worker.held]
            for shard in range(self._shards)
        }

    def read_holders(self) -> dict[str, str]:
        """Return the holder of each Lease, by its name."""
        names = [f"widgets-{self._shards}-{shard}" for shard in range(self._shards)]
        leases = {name: self.api.get_stored(LEASES, Key("system", name)) for name in names}
        return {name: lease["spec"]["holderIdentity"] for name, lease in leases.items() if lease}


@asynccontextmanager
async def open_room(shards: int = SHARDS) -> AsyncIterator[Room]:
    """Yield a room; all that runs in it is cancelled when the context ends."""
    async with anyio.create_task_group() as group:
        room = Room(group, shards)
        yield room
        for worker in room.workers:
            worker.link.cut = False  # or one whose clock stands still never gives up its leases
        group.cancel_scope.cancel()
