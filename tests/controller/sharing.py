"""Managers that share the keys of one fake API by shards, each with a clock of its own.

A replica is frozen by stopping its clock. It still does everything that needs no time, and
believes that it holds its leases: the worst case of a process that is stopped again and again.
A replica is dead if its link is cut as well.
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
from controller.shards import compute_shard
from controller.testing.api import FakeApi
from controller.transport import NO_QUERY, Transport
from controller.triggers import Watch, to_self
from tests.clock import VirtualClock
from tests.controller.widgets import WIDGETS, Widget

SHARDS = 6
"""The number of shards, unless a test chooses another."""
STEP = 0.5
"""Seconds by which the clocks of all replicas advance in turn."""


class ProcessClock(VirtualClock):
    """The clock of a process that can be frozen."""

    async def thaw(self, seconds: float) -> None:
        """Let a frozen process continue; to it `seconds` pass at once."""
        self.skip(seconds)
        await self.advance(0)


class Link(Transport):
    """One manager's connection to the fake API; while `cut` is set, its requests never return.

    `find_error` returns the error with which a request to a path fails; None lets it succeed.
    """

    def __init__(self, api: FakeApi) -> None:
        self._api = api
        self.cut = False
        self.find_error: Callable[[str], ControllerError | None] = lambda _: None
        self.sent: list[tuple[str, str]] = []
        """The method and the path of each request so far."""
        self.forbidden_plurals: set[str] = set()
        """The plurals of kinds that may not be listed or watched."""
        self._watches: dict[str, set[anyio.CancelScope]] = {}
        self.hidden_groups: set[str] = set()
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
        self._raise_error_for(path)
        self.sent.append((method, path))
        self._raise_if_forbidden(method, path)
        answer = await self._api.request(
            method, path, query=query, body=body, content_type=content_type
        )
        return (
            self._remove_hidden_groups(answer)
            if path == "/apis" and self.hidden_groups
            else answer
        )

    def _raise_if_forbidden(self, method: str, path: str) -> None:
        plural = path.rpartition("/")[2]
        if method == "GET" and plural in self.forbidden_plurals:
            raise Forbidden(403, "Forbidden", f"{plural} is forbidden")

    def _remove_hidden_groups(self, answer: bytes) -> bytes:
        document = msgspec.json.decode(answer)
        groups = [group for group in document["groups"] if group["name"] not in self.hidden_groups]
        return msgspec.json.encode({**document, "groups": groups})

    @override
    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self._raise_error_for(path)
        self._raise_if_forbidden("GET", path)
        with anyio.CancelScope() as scope:
            self._watches.setdefault(path.rpartition("/")[2], set()).add(scope)
            async with self._api.stream(path, query=query) as chunks:
                yield chunks
        if scope.cancelled_caught:
            raise NoAnswer("the watch was ended")

    def forbid(self, plural: str) -> None:
        """Forbid a kind to be read: end its watches, and reject lists and watches from now on."""
        self.forbidden_plurals.add(plural)
        for scope in self._watches.pop(plural, set()):
            scope.cancel()

    def _raise_error_for(self, path: str) -> None:
        error = self.find_error(path)
        if error is not None:
            raise error

    @override
    async def aclose(self) -> None:
        """Do nothing: no connection is open."""


class Replica:
    """A manager with a clock of its own, and with one controller of widgets.

    Attributes:
        is_frozen: `advance_clocks` leaves the replica's clock as it is.
        reconcile_seconds: how long the reconciler takes for each key.
        ignores_cancellation: a cancelled reconciler goes on for 1000 seconds.
        mapping: the keys of a widget.
        reconciled_names: the names of the reconciled keys, in order.
        running_services: the number of running services of the leader: 0 or 1.
        failure: the error with which the manager ended.
        scope: kills the replica when it is cancelled.
    """

    def __init__(self, replicas: "ReplicaGroup", name: str, shards: int, **options: Any) -> None:
        self.name = name
        self.replicas = replicas
        self.clock = ProcessClock()
        self.is_frozen = False
        self.link = Link(replicas.api)
        self.reconcile_seconds = 0.1
        self.ignores_cancellation = False
        self.mapping: Callable[[Widget], Iterable[Key]] = to_self
        self.reconciled_names: list[str] = []
        self.running_services = 0
        self.failure: ControllerError | None = None
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()
        manager_options = ManagerOptions(
            leader_elect=True,
            lease_namespace="system",
            lease_name="widgets",
            identity=name,
            shards=shards,
            **options,
        )
        self.manager = Manager(self.link, clock=self.clock, options=manager_options)
        widgets = self.manager.get_informer(WIDGETS)
        self.controller = self.manager.add_controller(
            "widget",
            self.reconcile,
            watches=[Watch(widgets, self.map_widget)],
            concurrency=100,
        )
        self.manager.add_service("leader", self.run_leader_service)

    async def thaw(self) -> None:
        """Let the replica continue after it was frozen: its clock catches up at once."""
        self.is_frozen = False
        await self.clock.thaw(self.replicas.clock.monotonic() - self.clock.monotonic())

    @property
    def held_shards(self) -> set[int]:
        """The shards that the replica holds."""
        assert self.manager.shards is not None
        return set(self.manager.shards.held)

    def map_widget(self, widget: Widget) -> Iterable[Key]:
        """Return the keys of a widget, by the present `mapping`."""
        return self.mapping(widget)

    async def run_leader_service(self) -> None:
        """Count as a running service of the leader until cancelled."""
        self.running_services += 1
        try:
            await anyio.sleep_forever()
        finally:
            self.running_services -= 1

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile a key for `reconcile_seconds`, and note when that begins and ends."""
        self.replicas.note_begin(self, key)
        try:
            await self.clock.sleep(self.reconcile_seconds)
            if self.ignores_cancellation:
                with anyio.CancelScope(shield=True):
                    await self.clock.sleep(1000)
            self.reconciled_names.append(key.name)
        finally:
            self.replicas.note_end(self, key)
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


class ReplicaGroup:
    """Replicas that share the shards of one fake API, and the keys that each reconciles now."""

    def __init__(self, group: TaskGroup, shards: int = SHARDS) -> None:
        self.clock = VirtualClock()
        self.api = FakeApi(self.clock)
        self.api.serve(WIDGETS)
        self.api.serve(LEASES, status=False, generation=False)
        self.client = Client(self.api)
        self.members: list[Replica] = []
        """The replicas, in the order of their starts."""
        self.simultaneous_reconciles: list[tuple[str, ...]] = []
        """The names of the replicas that reconciled one key at the same time, for each time."""
        self._shards = shards
        self._group = group
        self._reconciling: dict[Key, list[Replica]] = {}

    def note_begin(self, replica: Replica, key: Key) -> None:
        """Note that a replica begins to reconcile a key."""
        members = self._reconciling.setdefault(key, [])
        members.append(replica)
        if len(members) > 1:
            self.simultaneous_reconciles.append(tuple(replica.name for replica in members))

    def note_end(self, replica: Replica, key: Key) -> None:
        """Note that a replica no longer reconciles a key."""
        self._reconciling[key].remove(replica)

    def start(self, name: str, **options: Any) -> Replica:
        """Start a replica, with further ManagerOptions."""
        replica = Replica(self, name, self._shards, **options)
        self.members.append(replica)
        self._group.start_soon(replica.run)
        return replica

    async def create_widget(self, name: str) -> int:
        """Create a widget; return its shard."""
        await self.client.create(WIDGETS, "default", {"metadata": {"name": name}, "spec": {}})
        return compute_shard(Key("default", name), self._shards)

    async def advance_clocks(self, seconds: float) -> None:
        """Advance the clocks of the API and of all replicas that are not frozen."""
        for _ in range(round(seconds / STEP)):
            await self.clock.advance(STEP)
            for replica in self.members:
                if not replica.is_frozen:
                    behind = self.clock.monotonic() - replica.clock.monotonic()
                    await replica.clock.advance(behind)

    @property
    def believed_holders(self) -> dict[int, list[str]]:
        """The names of the replicas that believe they hold each shard."""
        return {
            shard: [replica.name for replica in self.members if shard in replica.held_shards]
            for shard in range(self._shards)
        }

    def read_lease_holders(self) -> dict[str, str]:
        """Return the holder of each Lease, by its name."""
        names = [f"widgets-{self._shards}-{shard}" for shard in range(self._shards)]
        leases = {name: self.api.get_stored(LEASES, Key("system", name)) for name in names}
        return {name: lease["spec"]["holderIdentity"] for name, lease in leases.items() if lease}


@asynccontextmanager
async def run_replica_group(shards: int = SHARDS) -> AsyncIterator[ReplicaGroup]:
    """Yield a group without replicas; cancel its replicas when the context ends."""
    async with anyio.create_task_group() as group:
        replicas = ReplicaGroup(group, shards)
        yield replicas
        for replica in replicas.members:
            replica.link.cut = False  # a frozen replica could not release its leases otherwise
        group.cancel_scope.cancel()
