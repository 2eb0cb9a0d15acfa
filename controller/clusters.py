"""Caches of other clusters, opened when somebody asks for one and never more than so many.

A controller of tenants wants to hear from each of them, and there may be thousands, some behind
links that are down. So a cluster is opened by its key, once for all who ask; each has watches,
connections and pauses of its own, so one that is out of order costs nobody else anything;
and the number is bounded: whoever finds no place polls instead.

    open(key) ─→ transport (opened when needed, anew when refused) ─→ an informer for each kind
                                                                       │ Change
                          the queue of a controller here ←─ ClusterWatch

Who makes room for a newcomer, if it is full: the cluster that nobody asked about for longest, if
that is `idle_seconds` ago; else one that has not been seen for as long, and which may not come
back at the cost of others until the longest pause is over. Making room for every newcomer was
rejected: one cluster more than there are places, and every look would open a connection.
"""

import math
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import anyio
import structlog
from anyio.abc import TaskGroup

from controller.client import Client
from controller.clock import Clock
from controller.clusterkinds import ClusterKind
from controller.errors import ControllerError
from controller.indexes import IndexFunction
from controller.informer import Informer
from controller.meta import Key, Object, Version
from controller.reflector import SILENCE_SECONDS
from controller.renewable import RenewableTransport, Way
from controller.resource import Resource
from controller.sources import Scope

T = TypeVar("T", bound=Object)

OpenCluster = Callable[[Key], Awaitable[Way]]

BURST = 10

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The bounds of what is open.

    Args:
        limit: how many clusters may be open.
        idle_seconds: how long one keeps its place though nobody asks for it, or though it
            cannot be seen.
        silence_seconds: how long a watch may say nothing before it counts as dead.
        longest_pause: seconds at which the pauses between tries of a cluster stop growing.
        opens_per_second: how fast clusters are opened when many are asked for at once; handshakes
            by the thousand would keep this process from answering in time, and all would fail.
            Bounding how many are being opened was rejected: those that do not answer would hold
            up the others.
    """

    limit: int = 200
    idle_seconds: float = 300.0
    silence_seconds: float = SILENCE_SECONDS
    longest_pause: float = 300.0
    opens_per_second: float = 20.0


@dataclass(eq=False, slots=True)
class _Cluster:
    """A cluster that is open: how it is reached, what is watched there, when it was asked for."""

    key: Key
    transport: RenewableTransport
    informers: Mapping[ClusterKind[Any], Informer[Any]]
    client: Client
    used: float
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    @property
    def failing_since(self) -> float | None:
        """Since when any of its kinds cannot be seen; None while all can."""
        since = [informer.failing_since for informer in self.informers.values()]
        return min((one for one in since if one is not None), default=None)


class Clusters:
    """The other clusters; `run` it as a service of the manager.

    Declare the kinds first; then open clusters at any time, from any reconciler.

    Args:
        open_cluster: opens a way into a cluster, with credentials as they are now; raises a
            ControllerError if there is none. Asked again after refusals and failures to connect.
        clock: for pauses and deadlines.
        settings: the bounds.
        randomness: for jitter.
    """

    def __init__(
        self,
        open_cluster: OpenCluster,
        clock: Clock,
        settings: ClusterSettings | None = None,
        *,
        randomness: random.Random | None = None,
    ) -> None:
        self._open_cluster = open_cluster
        self._clock = clock
        self._settings = settings or ClusterSettings()
        self._random = randomness or random.SystemRandom()
        self._kinds: list[ClusterKind[Any]] = []
        self._clusters: dict[Key, _Cluster] = {}
        self._barred: dict[Key, float] = {}
        self._next_start = -math.inf
        self._group: TaskGroup | None = None

    def kind(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, IndexFunction[T]] | None = None,
    ) -> ClusterKind[T]:
        """Have a kind watched in every cluster; arguments as for Informer.

        Args:
            resource: the kind.
            namespace: empty for all.
            labels: a label selector.
            fields: a field selector.
            indexes: by name, a pure function from an object to its values there.

        Raises:
            RuntimeError: a cluster is open already.
        """
        if self._clusters:
            raise RuntimeError("declare all kinds before the first cluster is opened")
        scope = Scope(namespace, labels, fields)
        kind = ClusterKind(resource, scope, dict(indexes or {}), self._touch)
        self._kinds.append(kind)
        return kind

    def __len__(self) -> int:
        """Return how many clusters are open."""
        return len(self._clusters)

    def __contains__(self, key: object) -> bool:
        """Whether a cluster is open, seen or not."""
        return key in self._clusters

    def open(self, key: Key) -> bool:
        """Open a cluster, or note that it is still wanted; returns whether it has a place.

        Nothing is waited for: `synced` tells when it can be read. Without a place, and until it
        is synced, poll it.

        Args:
            key: what the cluster is called here.
        """
        if key in self._clusters:
            self._touch(key)
            return True
        if len(self._clusters) >= self._settings.limit and not self._make_room(key):
            return False
        self._barred.pop(key, None)
        cluster = self._make(key)
        self._clusters[key] = cluster
        for kind, informer in cluster.informers.items():
            kind.attach(key, informer)
        if self._group is not None:
            self._group.start_soon(self._keep, cluster)
        return True

    def close(self, key: Key) -> None:
        """Close a cluster that nobody will ask about again; unknown ones are ignored.

        Args:
            key: which one, by the key it was opened under.
        """
        self._barred.pop(key, None)
        cluster = self._clusters.pop(key, None)
        if cluster is not None:
            self._part(cluster)

    async def renew(self, key: Key) -> None:
        """Take the way into a cluster anew: its credentials or its address have changed.

        Args:
            key: which one, by the key it was opened under.
        """
        cluster = self._clusters.get(key)
        if cluster is not None:
            await cluster.transport.renew()

    def synced(self, key: Key) -> bool:
        """Whether a cluster is open and all its kinds were listed: what is read of it is true.

        Args:
            key: which one, by the key it was opened under.
        """
        cluster = self._clusters.get(key)
        self._touch(key)
        return cluster is not None and all(
            informer.cache.synced for informer in cluster.informers.values()
        )

    def last_error(self, key: Key) -> ControllerError | None:
        """Return why a cluster cannot be seen; None while it can, or if it is not open.

        Args:
            key: which one, by the key it was opened under.
        """
        cluster = self._clusters.get(key)
        errors = (one.last_error for one in cluster.informers.values()) if cluster else ()
        return next((error for error in errors if error is not None), None)

    def client(self, key: Key) -> Client | None:
        """Return a client over a cluster's own connection; None if it is not open.

        Its answers enter the caches, and it closes with the cluster: ask again at each pass.

        Args:
            key: which one, by the key it was opened under.
        """
        self._touch(key)
        cluster = self._clusters.get(key)
        return cluster.client if cluster else None

    async def run(self) -> None:
        """Keep the open clusters current until cancelled; then close them all."""
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                for cluster in self._clusters.values():
                    group.start_soon(self._keep, cluster)
                await anyio.sleep_forever()
        finally:
            self._group = None
            for key in list(self._clusters):
                self.close(key)

    async def _keep(self, cluster: _Cluster) -> None:
        try:
            with cluster.scope:
                await self._clock.sleep(self._turn())
                async with anyio.create_task_group() as group:
                    for informer in cluster.informers.values():
                        group.start_soon(informer.run)
        finally:
            with anyio.CancelScope(shield=True):
                await cluster.transport.aclose()

    def _turn(self) -> float:
        """Return in how many seconds another may be opened; a few at a time may at once."""
        now, rate = self._clock.monotonic(), self._settings.opens_per_second
        self._next_start = max(self._next_start + 1 / rate, now)
        return max(0.0, self._next_start - now - BURST / rate)

    def _make(self, key: Key) -> _Cluster:
        informers: dict[ClusterKind[Any], Informer[Any]] = {}

        def moved() -> None:
            log.info("The way leads to another cluster than before", cluster=str(key))
            for informer in informers.values():
                informer.moved()

        def answered(resource: Resource[Any], obj: Object) -> None:
            for kind, informer in informers.items():
                if kind.resource == resource:
                    informer.own(obj)

        def gone(resource: Resource[Any], at: Version) -> None:
            for kind, informer in informers.items():
                if kind.resource == resource:
                    informer.gone(at)

        open_way = partial(self._open_cluster, key)
        transport = RenewableTransport(open_way, self._clock, moved=moved)
        for kind in self._kinds:
            informers[kind] = Informer(
                kind.resource,
                transport,
                self._clock,
                namespace=kind.scope.namespace,
                labels=kind.scope.labels,
                fields=kind.scope.fields,
                indexes=kind.indexes,
                deadline_seconds=self._settings.silence_seconds,
                longest_pause=self._settings.longest_pause,
                randomness=self._random,
            )
        client = Client(transport, on_answer=answered, on_gone=gone)
        return _Cluster(key, transport, informers, client, self._clock.monotonic())

    def _make_room(self, newcomer: Key) -> bool:
        """Whether somebody could be closed for `newcomer`, and was."""
        now = self._clock.monotonic()
        if self._barred.get(newcomer, now) > now:
            return False
        self._barred = {key: until for key, until in self._barred.items() if until > now}
        for cluster in sorted(self._clusters.values(), key=lambda one: one.used):
            since = cluster.failing_since
            idle = now - cluster.used >= self._settings.idle_seconds
            unseen = since is not None and now - since >= self._settings.idle_seconds
            if idle or unseen:
                self.close(cluster.key)
                if unseen:
                    self._barred[cluster.key] = now + self._settings.longest_pause
                log.info("Closed to make room", cluster=str(cluster.key), idle=idle)
                return True
        return False

    def _part(self, cluster: _Cluster) -> None:
        for kind in self._kinds:
            kind.detach(cluster.key)
        cluster.scope.cancel()

    def _touch(self, key: Key) -> None:
        cluster = self._clusters.get(key)
        if cluster is not None:
            cluster.used = self._clock.monotonic()
