"""A control plane behind a proxy, with clients and informers of the test kind Gauge."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint
from typing_extensions import override

from controller import Change, Client, Informer, ObjectMeta, Resource, Transport, Version, connect
from controller.errors import Invalid
from controller.lists import create_stream_query
from controller.metrics import Metrics
from controller.watch import REASONS
from envtest import ControlPlane
from envtest.faults import Call, Match, Proxy, Record
from envtest.plane import RunningControlPlane as Plane
from tests.clock import VirtualClock
from tests.envtest.samples import GROUP, build_gauge, build_gauge_definition
from tests.polling import SECONDS

WATCH = Match(verb="watch", resource="gauges")
LIST = Match(verb="list", resource="gauges")


@dataclass(frozen=True, slots=True)
class GaugeSpec:
    """The spec of a gauge."""

    count: int = 1
    place: str = ""


@dataclass(frozen=True, slots=True)
class Gauge:
    """A kind that exists only in tests."""

    metadata: ObjectMeta
    spec: GaugeSpec = field(default_factory=GaugeSpec)


GAUGES = Resource(GROUP, "v1", "Gauge", "gauges", Gauge)


class HastyClock(VirtualClock):
    """A virtual clock whose sleeps end at once and advance it by their length.

    A timeout expires only if a test calls `advance`, so real connections have all the time that
    they need.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sleeps: Record[float] = Record()
        """The length of each sleep, in seconds, in order."""
        self.timeouts: Record[float] = Record()
        """The length of each timeout, in seconds, in order; each read of a watch has one."""

    @override
    async def sleep(self, seconds: float) -> None:
        self.sleeps.add(seconds)
        self.skip(seconds)
        await checkpoint()

    @override
    def move_on_after(self, seconds: float) -> AbstractContextManager[anyio.CancelScope]:
        bound = super().move_on_after(seconds)
        self.timeouts.add(seconds)
        return bound


@dataclass
class ProxiedPlane:
    """A control plane and the proxy before it.

    Args:
        plane: the control plane.
        proxy: injects faults.
        direct: a client of the plane, without the proxy.
        client: a client of the proxy.
        transport: to the proxy.
        clock: for informers and managers.
    """

    plane: Plane
    proxy: Proxy
    direct: Client
    client: Client
    transport: Transport
    clock: HastyClock = field(default_factory=HastyClock)

    async def create(self, name: str, **spec: object) -> Gauge:
        """Create a gauge, not through the proxy."""
        return await self.direct.create(GAUGES, "default", build_gauge(name, **spec))

    async def delete(self, gone: Gauge) -> None:
        """Delete a gauge, not through the proxy."""
        await self.direct.delete(GAUGES, Version.from_object(gone))

    def list_calls(self, verb: str) -> list[Call]:
        """Return the requests for gauges with a verb that went through the proxy, in order."""
        return [
            call for call in self.proxy.calls if (call.verb, call.resource) == (verb, "gauges")
        ]

    def revisions(self, verb: str) -> list[str | None]:
        """Return the resourceVersion in each request for gauges with a verb; None for none."""
        return [call.query.get("resourceVersion") for call in self.list_calls(verb)]


@asynccontextmanager
async def run_proxied_plane(
    seed: int = 0, *, streams: bool = False
) -> AsyncIterator[ProxiedPlane]:
    """Run a control plane with a proxy before it; fail if the test takes more than SECONDS.

    Args:
        seed: of the proxy.
        streams: whether the test needs a server that streams lists; with others it is skipped.
    """
    with anyio.fail_after(SECONDS):
        async with ControlPlane.start() as plane, Proxy.before(plane, seed=seed) as proxy:
            await plane.install_crds([build_gauge_definition()])
            async with transport_to(plane) as direct, transport_to(proxy) as through:
                if streams and not await _streams_lists(direct):
                    pytest.skip("this kube-apiserver streams no lists: WatchList is off in it")
                yield ProxiedPlane(
                    plane, proxy, direct=Client(direct), client=Client(through), transport=through
                )


async def _streams_lists(transport: Transport) -> bool:
    """Return whether a server streams lists: Kubernetes 1.31 does not unless it is asked to."""
    query = {"watch": "1", "timeoutSeconds": "1"} | create_stream_query("")
    try:
        async with transport.stream(GAUGES.build_collection_path("default"), query=query):
            return True
    except Invalid:
        return False


@asynccontextmanager
async def transport_to(plane: Plane, user: str = "admin") -> AsyncIterator[Transport]:
    """Connect to a control plane as a user."""
    with tempfile.TemporaryDirectory() as folder:
        transport = await connect(plane.write_kubeconfig(Path(folder) / "config", user))
    try:
        yield transport
    finally:
        with anyio.CancelScope(shield=True):
            await transport.aclose()


class ObservedInformer:
    """An informer of gauges through the proxy, and the changes that its handler received."""

    def __init__(self, proxied: ProxiedPlane, *, streams: bool = False) -> None:
        self.metrics = Metrics()
        observer = self.metrics.create_informer_metrics("gauges")
        self.informer = Informer(
            GAUGES,
            proxied.transport,
            proxied.clock,
            indexes={"uid": lambda gauge: (gauge.metadata.uid,)},
            streams=streams,
            observer=observer,
        )
        informer = self.informer
        observer.watch(
            lambda: informer.silent_seconds,
            lambda: informer.lag_seconds,
            lambda: len(informer.cache),
        )
        self.changes: list[Change[Gauge]] = []
        self._reported = anyio.Event()
        self.informer.add_handler(self._note)

    def _note(self, change: Change[Gauge]) -> None:
        self.changes.append(change)
        self._reported.set()
        self._reported = anyio.Event()

    async def wait(self, count: int) -> list[Change[Gauge]]:
        """Wait until the handler has received `count` changes; return all of them."""
        with anyio.fail_after(SECONDS):
            while len(self.changes) < count:
                await self._reported.wait()
        return self.changes

    def metric(self, name: str, **labels: str) -> float | None:
        """Return the value of a series of this informer."""
        return self.metrics.registry.get_sample_value(name, {"resource": "gauges", **labels})

    def restarts(self) -> dict[str, float]:
        """Return how often the watch was restarted, by reason, without counts of zero."""
        counted = {
            reason: self.metric("controller_watch_restarts_total", reason=reason)
            for reason in REASONS
        }
        return {reason: count for reason, count in counted.items() if count}

    @property
    def names(self) -> list[str]:
        """The names in the cache, sorted."""
        return sorted(gauge.metadata.name for gauge in self.informer.cache)


@asynccontextmanager
async def observe(
    proxied: ProxiedPlane, *, streams: bool = False
) -> AsyncIterator[ObservedInformer]:
    """Run an informer of gauges through the proxy; yield it once it is synced."""
    watcher = ObservedInformer(proxied, streams=streams)
    async with anyio.create_task_group() as group:
        group.start_soon(watcher.informer.run)
        with anyio.fail_after(SECONDS):
            await watcher.informer.wait_synced()
        yield watcher
        group.cancel_scope.cancel()
