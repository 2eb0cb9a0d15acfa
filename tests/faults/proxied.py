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
        direct: a client that connects to the plane without the proxy.
        client: a client that connects through the proxy.
        transport: the transport of `client`.
        clock: the clock for informers and managers.
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

    async def delete(self, gauge: Gauge) -> None:
        """Delete a gauge, not through the proxy."""
        await self.direct.delete(GAUGES, Version.from_object(gauge))

    def list_calls(self, verb: str) -> list[Call]:
        """Return the requests for gauges with a verb that went through the proxy, in order."""
        return [
            call for call in self.proxy.calls if (call.verb, call.resource) == (verb, "gauges")
        ]

    def list_revisions(self, verb: str) -> list[str | None]:
        """Return the resourceVersion in each request for gauges with a verb; None for none."""
        return [call.query.get("resourceVersion") for call in self.list_calls(verb)]


@asynccontextmanager
async def run_proxied_plane(
    seed: int = 0, *, streams: bool = False
) -> AsyncIterator[ProxiedPlane]:
    """Run a control plane with a proxy before it; fail if the test takes more than SECONDS.

    Args:
        seed: the seed by which the proxy chooses requests for faults.
        streams: whether to skip the test if the server does not stream lists.
    """
    with anyio.fail_after(SECONDS):
        async with ControlPlane.start() as plane, Proxy.run_before(plane, seed=seed) as proxy:
            await plane.install_crds([build_gauge_definition()])
            async with open_transport(plane) as direct, open_transport(proxy) as proxied_transport:
                if streams and not await _is_streaming_lists(direct):
                    pytest.skip("this kube-apiserver streams no lists: WatchList is off in it")
                yield ProxiedPlane(
                    plane,
                    proxy,
                    direct=Client(direct),
                    client=Client(proxied_transport),
                    transport=proxied_transport,
                )


async def _is_streaming_lists(transport: Transport) -> bool:
    """Return whether a server streams lists, which Kubernetes 1.31 does only by a feature gate."""
    query = {"watch": "1", "timeoutSeconds": "1"} | create_stream_query("")
    try:
        async with transport.stream(GAUGES.build_collection_path("default"), query=query):
            return True
    except Invalid:
        return False


@asynccontextmanager
async def open_transport(plane: Plane, user: str = "admin") -> AsyncIterator[Transport]:
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
        observer.set_gauge_functions(
            lambda: informer.silent_seconds,
            lambda: informer.lag_seconds,
            lambda: len(informer.cache),
        )
        self.changes: list[Change[Gauge]] = []
        self._has_changed = anyio.Event()
        self.informer.add_handler(self._record)

    def _record(self, change: Change[Gauge]) -> None:
        self.changes.append(change)
        self._has_changed.set()
        self._has_changed = anyio.Event()

    async def wait_for_changes(self, count: int) -> list[Change[Gauge]]:
        """Wait until the handler has received `count` changes; return all of them."""
        with anyio.fail_after(SECONDS):
            while len(self.changes) < count:
                await self._has_changed.wait()
        return self.changes

    def read_metric(self, name: str, **labels: str) -> float | None:
        """Return the value of a series of this informer."""
        return self.metrics.registry.get_sample_value(name, {"resource": "gauges", **labels})

    def count_restarts(self) -> dict[str, float]:
        """Return how often the watch was restarted, by reason, without counts of zero."""
        counts = {
            reason: self.read_metric("controller_watch_restarts_total", reason=reason)
            for reason in REASONS
        }
        return {reason: count for reason, count in counts.items() if count}

    @property
    def names(self) -> list[str]:
        """The names in the cache, sorted."""
        return sorted(gauge.metadata.name for gauge in self.informer.cache)


@asynccontextmanager
async def run_informer(
    proxied: ProxiedPlane, *, streams: bool = False
) -> AsyncIterator[ObservedInformer]:
    """Run an informer of gauges through the proxy; yield it once it is synced."""
    observed = ObservedInformer(proxied, streams=streams)
    async with anyio.create_task_group() as group:
        group.start_soon(observed.informer.run)
        with anyio.fail_after(SECONDS):
            await observed.informer.wait_synced()
        yield observed
        group.cancel_scope.cancel()
