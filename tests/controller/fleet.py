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
    """A connection to a store; closing it also breaks its open watches."""

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
            yield self._yield_until_cut(chunks)

    async def _yield_until_cut(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the chunks of a watch; raise NoAnswer when the connection is closed."""
        while True:
            chunk = b""
            async with anyio.create_task_group() as race:

                async def stop_reading_when_cut() -> None:
                    await self._cut.wait()
                    race.cancel_scope.cancel()

                race.start_soon(stop_reading_when_cut)
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
    """Clusters, each a store of its own, and the framework's Clusters with caches of them.

    Attributes:
        transports: all connections to each cluster so far, the newest last.
        open_errors: the errors with which opening a cluster fails.
        open_attempts: the second and the cluster's name of each attempt to open a cluster.
        widgets: the caches of the clusters' widgets, which have an index `color`.
    """

    def __init__(self, settings: ClusterSettings | None = None) -> None:
        self.clock = VirtualClock()
        self.stores: dict[Key, Store] = {}
        self.transports: dict[Key, list[ClusterTransport]] = {}
        self.open_errors: dict[Key, ControllerError] = {}
        self.open_attempts: list[tuple[float, str]] = []
        self.clusters = Clusters(self.connect, self.clock, settings)
        self.widgets = self.clusters.watch_kind(
            WIDGETS, indexes={"color": lambda cached: (cached.spec.color,)}
        )

    def add_cluster(self, name: str, *widgets: str) -> Key:
        """Add a cluster with widgets of these names, or replace it; return its key."""
        key = Key("tenants", name)
        self.stores[key] = Store()
        for widget in widgets:
            self.put_widget(key, widget)
        return key

    def put_widget(self, key: Key, name: str, color: str = "red") -> None:
        """Create or overwrite a widget in a cluster."""
        body = {"metadata": {"name": name, "namespace": "default"}, "spec": {"color": color}}
        self.stores[key].put(f"/apis/example.com/v1/namespaces/default/widgets/{name}", body)

    async def connect(self, key: Key) -> Connection:
        """Connect to a cluster, or fail with its entry in `open_errors`."""
        self.open_attempts.append((self.clock.monotonic(), key.name))
        if key in self.open_errors:
            raise self.open_errors[key]
        transport = ClusterTransport(self.stores[key])
        self.transports.setdefault(key, []).append(transport)
        return Connection(transport, identity=str(id(self.stores[key])))

    def get_transport(self, key: Key) -> ClusterTransport:
        """Return the newest transport to a cluster."""
        return self.transports[key][-1]

    def list_cached_names(self, key: Key) -> list[str] | None:
        """Return the names of the cached widgets of a cluster; None if it has no synced cache."""
        cache = self.widgets.get_cache(key)
        return None if cache is None else sorted(cached.metadata.name for cached in cache)

    def get_cached_widget(self, key: Key, name: str) -> Widget | None:
        """Return a cached widget of a cluster; None if it, or the cache, does not exist."""
        cache = self.widgets.get_cache(key)
        return cache.get(Key("default", name)) if cache else None

    @property
    def open_connection_count(self) -> int:
        """The number of connections to all clusters that are not closed."""
        return sum(
            not transport.closed
            for transports in self.transports.values()
            for transport in transports
        )


@asynccontextmanager
async def run_fleet(fleet: Fleet) -> AsyncIterator[None]:
    """Run the Clusters of a fleet while the context lasts."""
    async with anyio.create_task_group() as group:
        group.start_soon(fleet.clusters.run)
        await fleet.clock.advance(0)
        yield
        group.cancel_scope.cancel()
