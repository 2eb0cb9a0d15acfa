"""Other clusters in memory, with connections that a test can make fail."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import anyio
from typing_extensions import override

from controller.clusters import Clusters, ClusterSettings
from controller.errors import ControllerError, NoAnswer
from controller.meta import Key
from controller.renewable import Connection
from controller.transport import NO_QUERY
from tests.clock import VirtualClock
from tests.controller.store import Store, StoreTransport
from tests.controller.widgets import WIDGETS, Widget


class ClusterTransport(StoreTransport):
    """A connection that is cut when it is closed."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.closed = False
        self._cut = anyio.Event()

    @override
    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        async with super().stream(path, query=query, accept=accept) as chunks:
            yield self._until_cut(chunks)

    async def _until_cut(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        while True:
            chunk = b""
            async with anyio.create_task_group() as race:

                async def cut_short() -> None:
                    await self._cut.wait()
                    race.cancel_scope.cancel()

                race.start_soon(cut_short)
                chunk = await anext(chunks)
                race.cancel_scope.cancel()
            if not chunk:
                raise NoAnswer("the connection was closed")
            yield chunk

    @override
    async def aclose(self) -> None:
        self.closed = True
        self._cut.set()


class Fleet:
    """Clusters, each a store of its own, and the framework's view of them."""

    def __init__(self, settings: ClusterSettings | None = None) -> None:
        self.clock = VirtualClock()
        self.stores: dict[Key, Store] = {}
        self.transports: dict[Key, list[ClusterTransport]] = {}
        self.down: dict[Key, ControllerError] = {}
        self.opened: list[tuple[float, str]] = []
        self.clusters = Clusters(self.open, self.clock, settings)
        self.widgets = self.clusters.watch_kind(
            WIDGETS, indexes={"color": lambda cached: (cached.spec.color,)}
        )

    def add_cluster(self, name: str, *widgets: str) -> Key:
        """Return the key of a new cluster with some widgets in it."""
        key = Key("tenants", name)
        self.stores[key] = Store()
        for widget in widgets:
            self.put(key, widget)
        return key

    def put(self, key: Key, name: str, color: str = "red") -> None:
        """Create or change a widget in a cluster."""
        body = {"metadata": {"name": name, "namespace": "default"}, "spec": {"color": color}}
        self.stores[key].put(f"/apis/example.com/v1/namespaces/default/widgets/{name}", body)

    async def open(self, key: Key) -> Connection:
        """Connect to a cluster, as its Secret and its network are now."""
        self.opened.append((self.clock.monotonic(), key.name))
        if key in self.down:
            raise self.down[key]
        transport = ClusterTransport(self.stores[key])
        self.transports.setdefault(key, []).append(transport)
        return Connection(transport, identity=str(id(self.stores[key])))

    def get_transport(self, key: Key) -> ClusterTransport:
        """Return the newest transport to a cluster."""
        return self.transports[key][-1]

    def list_names(self, key: Key) -> list[str] | None:
        """Return the names of the cached widgets of a cluster; None if it has no synced cache."""
        cache = self.widgets.get_cache(key)
        return None if cache is None else sorted(cached.metadata.name for cached in cache)

    def get(self, key: Key, name: str) -> Widget | None:
        """Return a cached widget of a cluster."""
        cache = self.widgets.get_cache(key)
        return cache.get(Key("default", name)) if cache else None

    @property
    def open_connections(self) -> int:
        """How many connections are open, to any cluster."""
        return sum(
            not transport.closed
            for transports in self.transports.values()
            for transport in transports
        )


@asynccontextmanager
async def run_fleet(fleet: Fleet) -> AsyncIterator[None]:
    """Run the view of a fleet."""
    async with anyio.create_task_group() as group:
        group.start_soon(fleet.clusters.run)
        await fleet.clock.advance(0)
        yield
        group.cancel_scope.cancel()
