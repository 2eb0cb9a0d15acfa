"""Caches of other clusters, opened on demand and limited in number.

A controller may want to watch thousands of clusters, some of them unreachable. A cluster is opened
by its key, once for all callers. Each has its own connection, watches and backoff, so an
unreachable one delays no other. Each takes one of a limited number of slots. A caller that gets no
slot reads that cluster by polling instead.

    open(key) ─→ transport (opened when needed, again when refused) ─→ an informer for each kind
                                                                        │ Change
                            the queue of a controller here ←─ ClusterWatch

When all slots are used, a new cluster takes the slot of a cluster that has not been used, or has
been failing, for `idle_seconds`. Clusters that were used least recently lose their slots first.
For the next `longest_pause` seconds a failing cluster that lost its slot takes no slot of another.

Rejected: always closing the least recently used cluster. With one cluster more than there are
slots, every call of a reconciler would open a connection.
"""

import math
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

import anyio
from anyio.abc import TaskGroup

from controller.cache import Cache, Change
from controller.callbacks import check_callable, check_plain
from controller.client import Client
from controller.clock import Clock
from controller.discovery import AbsenceCounter
from controller.errors import ControllerError
from controller.indexes import IndexFunction
from controller.informer import Informer, Registration
from controller.informergroups import InformerGroup
from controller.loggers import get_logger
from controller.meta import Key, Object, Version
from controller.reflector import SILENCE_SECONDS
from controller.renewable import Connection, RenewableTransport
from controller.resource import Resource, Scope

T = TypeVar("T", bound=Object)

ClusterHandler = Callable[[Key, Change[T]], None]
OpenCluster = Callable[[Key], Awaitable[Connection]]

BURST = 10
"""So many clusters are opened at once before `opens_per_second` applies."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The limits of open clusters.

    Args:
        limit: how many clusters may be open.
        idle_seconds: how long a cluster that is not used, or that fails, keeps its slot.
        silence_seconds: how long a watch may send nothing before it counts as dead.
        longest_pause: seconds at which the delays between attempts for a cluster stop growing.
        opens_per_second: how fast clusters are opened when many are requested at once: with a
            thousand TLS handshakes at once this process would be too slow, and all would time
            out. Rejected: limiting how many are being opened, as unreachable ones would then
            delay the others.
        max_list_bytes: of a kind's list in one cluster, and of the events before the next list;
            None for no limit. A cluster that sends more counts as failing.
    """

    limit: int = 200
    idle_seconds: float = 300.0
    silence_seconds: float = SILENCE_SECONDS
    longest_pause: float = 300.0
    opens_per_second: float = 20.0
    max_list_bytes: int | None = None


class ClusterKind(Generic[T]):
    """One kind in all open clusters; made by `Clusters.watch_kind`.

    Args:
        resource: the kind.
        scope: which of its objects.
        indexes: the indexes of the caches.
        mark_used: called with the key of each cluster that is read.
    """

    def __init__(
        self,
        resource: Resource[T],
        scope: Scope,
        indexes: Mapping[str, IndexFunction[T]],
        mark_used: Callable[[Key], None],
    ) -> None:
        self.resource = resource
        self.scope = scope
        self.indexes = indexes
        self._mark_used = mark_used
        self._group: InformerGroup[Key, T] = InformerGroup()

    def get_cache(self, cluster: Key) -> Cache[T] | None:
        """Return the cache of `cluster`; None unless the cluster is open and was listed.

        This marks the cluster as used. The cache is current only while the cluster is open: get it
        again in each call of a reconciler.
        """
        self._mark_used(cluster)
        informer = self._group.informers.get(cluster)
        return informer.cache if informer is not None and informer.cache.is_synced else None

    def add_handler(self, handler: ClusterHandler[T], *, replayed: bool = True) -> Registration:
        """Call `handler` with the changes in all clusters, also in those opened later.

        The objects in the caches come first, as changes with `initial` set. The handler is
        synchronous. Closing a cluster delivers no changes: its objects were not deleted.

        Args:
            handler: is called with the cluster's key and the change.
            replayed: False to leave out the objects that are in the caches now.

        Returns:
            The registration; its `close` ends the calls of the handler for all clusters.

        Raises:
            TypeError: the handler is async or cannot be called.
        """
        check_plain(handler, "the handler of a ClusterKind", "cluster", "change")

        def register(cluster: Key, informer: Informer[T]) -> Registration:
            """Register the handler in one cluster; the group itself replays the objects."""
            return informer.add_handler(partial(handler, cluster), replayed=False)

        return self._group.subscribe(register, replayed=replayed)

    def attach(self, cluster: Key, informer: Informer[T]) -> None:
        """Use `informer` for `cluster`, which was opened."""
        self._group.attach(cluster, informer)

    def detach(self, cluster: Key) -> None:
        """Remove `cluster`, which was closed."""
        self._group.detach(cluster)


@dataclass(eq=False, slots=True)
class _Cluster:
    """An open cluster.

    `used_at` is when (monotonic seconds) it was used last. `Clusters.close` cancels `scope`, which
    ends `Clusters._run_cluster`.
    """

    key: Key
    transport: RenewableTransport
    informers: dict[ClusterKind[Any], Informer[Any]]
    client: Client
    used_at: float
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    @property
    def failing_since(self) -> float | None:
        """The earliest time (monotonic seconds) since which a kind fails; None if none fails."""
        since = [informer.failing_since for informer in self.informers.values()]
        return min((start for start in since if start is not None), default=None)


class Clusters:
    """Other clusters; `run` has to run as a service of the manager.

    Declare the kinds first; after that any reconciler may open clusters at any time. Clusters are
    named by keys of the caller's choice.

    Args:
        open_cluster: opens a connection with the present credentials; raises a ControllerError if
            that is not possible. Called again after refusals and failures to connect.
        clock: for delays and deadlines.
        settings: the limits.
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
        check_callable(open_cluster, "open_cluster of Clusters", "cluster")
        self._open_cluster = open_cluster
        self._clock = clock
        self._settings = settings or ClusterSettings()
        self._random = randomness or random.SystemRandom()
        self._kinds: list[ClusterKind[Any]] = []
        self._clusters: dict[Key, _Cluster] = {}
        # Failing clusters that lost their slot: until when (monotonic seconds) they take no other.
        self._excluded_until: dict[Key, float] = {}
        self._next_start = -math.inf
        self._group: TaskGroup | None = None

    def watch_kind(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, IndexFunction[T]] | None = None,
    ) -> ClusterKind[T]:
        """Watch a kind in every cluster.

        Args:
            resource: the kind.
            namespace: empty for all.
            labels: a label selector.
            fields: a field selector.
            indexes: by index name, a pure function from an object to its values.

        Raises:
            RuntimeError: a cluster is open already.
        """
        if self._clusters:
            raise RuntimeError("declare all kinds before the first cluster is opened")
        scope = Scope(namespace, labels, fields)
        kind = ClusterKind(resource, scope, indexes=dict(indexes or {}), mark_used=self._mark_used)
        self._kinds.append(kind)
        return kind

    def __len__(self) -> int:
        """Return how many clusters are open."""
        return len(self._clusters)

    def __contains__(self, key: object) -> bool:
        """Return whether a cluster is open, reachable or not."""
        return key in self._clusters

    def open(self, key: Key) -> bool:
        """Open the cluster `key`, or mark it as used if it is open; return whether it has a slot.

        This does not wait for the cluster: `is_synced` says when its caches can be read. Poll a
        cluster that has no slot, or that is not synced.
        """
        if key in self._clusters:
            self._mark_used(key)
            return True
        if len(self._clusters) >= self._settings.limit and not self._free_slot(key):
            return False
        self._excluded_until.pop(key, None)
        cluster = self._create_cluster(key)
        self._clusters[key] = cluster
        for kind, informer in cluster.informers.items():
            kind.attach(key, informer)
        if self._group is not None:  # else `run` starts the cluster
            self._group.start_soon(self._run_cluster, cluster)
        return True

    def close(self, key: Key) -> None:
        """Close the cluster `key` if it is open.

        It may then at once take a slot of another cluster again.
        """
        self._excluded_until.pop(key, None)
        cluster = self._clusters.pop(key, None)
        if cluster is not None:
            for kind in self._kinds:
                kind.detach(key)
            cluster.scope.cancel()

    async def renew(self, key: Key) -> None:
        """Connect to the cluster `key` again, because its credentials or address have changed.

        Does nothing if the cluster is not open.
        """
        cluster = self._clusters.get(key)
        if cluster is not None:
            await cluster.transport.renew()

    def is_synced(self, key: Key) -> bool:
        """Return whether the cluster `key` is open and all its kinds were listed.

        This marks the cluster as used.
        """
        cluster = self._clusters.get(key)
        self._mark_used(key)
        return cluster is not None and all(
            informer.cache.is_synced for informer in cluster.informers.values()
        )

    def get_last_error(self, key: Key) -> ControllerError | None:
        """Return why caches of the cluster `key` may be out of date.

        Return None if they are current, or if the cluster is not open.
        """
        cluster = self._clusters.get(key)
        errors = (
            (informer.last_error for informer in cluster.informers.values()) if cluster else ()
        )
        return next((error for error in errors if error is not None), None)

    def get_client(self, key: Key) -> Client | None:
        """Return a client for the cluster `key`; None if it is not open.

        This marks the cluster as used. Objects in the client's responses enter the caches. The
        client is closed with the cluster: get it again in each call of a reconciler.
        """
        self._mark_used(key)
        cluster = self._clusters.get(key)
        return cluster.client if cluster else None

    async def run(self) -> None:
        """Keep the caches of open clusters current until cancelled; then close all clusters."""
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                for cluster in self._clusters.values():
                    group.start_soon(self._run_cluster, cluster)
                await anyio.sleep_forever()
        finally:
            self._group = None
            for key in list(self._clusters):
                self.close(key)

    async def _run_cluster(self, cluster: _Cluster) -> None:
        """Run the informers of one cluster until it is closed, then close its transport."""
        try:
            with cluster.scope:
                await self._clock.sleep(self._reserve_start())
                async with anyio.create_task_group() as group:
                    for informer in cluster.informers.values():
                        group.start_soon(informer.run)
        finally:
            # Informers hold the transport, and the callbacks of transport and client hold this
            # dictionary. Emptying it breaks the cycle, so that Python frees all of them by their
            # reference counts. The garbage collector does not examine frozen objects (gc.freeze).
            cluster.informers.clear()
            with anyio.CancelScope(shield=True):
                await cluster.transport.aclose()

    def _reserve_start(self) -> float:
        """Take the next time to open a cluster; return the seconds until then, or 0.

        The times are 1 / opens_per_second apart. Up to BURST clusters may be opened ahead of their
        times, so that a few clusters need not wait.
        """
        now, rate = self._clock.monotonic(), self._settings.opens_per_second
        self._next_start = max(self._next_start + 1 / rate, now)
        return max(0.0, self._next_start - now - BURST / rate)

    def _create_cluster(self, key: Key) -> _Cluster:
        """Make the connection, the client and the informers of a cluster; nothing runs yet."""
        informers: dict[ClusterKind[Any], Informer[Any]] = {}

        def on_cluster_changed() -> None:
            """List all kinds again: their positions are from the other cluster."""
            log.info("the connection leads to another cluster than before", cluster=str(key))
            for informer in informers.values():
                informer.on_cluster_changed()

        def apply_own_write(resource: Resource[Any], obj: Object) -> None:
            """Show the response to a write of ours in the caches of its kind."""
            for kind, informer in informers.items():
                if kind.resource == resource:
                    informer.apply_own_write(obj)

        def mark_deleted(resource: Resource[Any], version: Version) -> None:
            """Hide an object that a request of ours deleted, in the caches of its kind."""
            for kind, informer in informers.items():
                if kind.resource == resource:
                    informer.mark_deleted(version)

        transport = RenewableTransport(
            partial(self._open_cluster, key), self._clock, on_cluster_changed=on_cluster_changed
        )
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
                max_list_bytes=self._settings.max_list_bytes,
                randomness=self._random,
            )
        client = Client(
            transport,
            on_object=apply_own_write,
            on_deleted=mark_deleted,
            absence_counter=AbsenceCounter(self._clock),
        )
        return _Cluster(
            key, transport, informers=informers, client=client, used_at=self._clock.monotonic()
        )

    def _free_slot(self, key: Key) -> bool:
        """Close an idle or failing cluster so that `key` can be opened.

        Of several such clusters the one that was used least recently is closed.

        Returns:
            Whether a cluster was closed.
        """
        now = self._clock.monotonic()
        if self._excluded_until.get(key, now) > now:
            return False  # this cluster failed and lost its slot: others use the slots meanwhile
        self._excluded_until = {
            excluded: until for excluded, until in self._excluded_until.items() if until > now
        }
        for cluster in sorted(self._clusters.values(), key=lambda candidate: candidate.used_at):
            failing_since = cluster.failing_since
            is_idle = now - cluster.used_at >= self._settings.idle_seconds
            is_failing = (
                failing_since is not None and now - failing_since >= self._settings.idle_seconds
            )
            if is_idle or is_failing:
                self.close(cluster.key)
                if is_failing:
                    self._excluded_until[cluster.key] = now + self._settings.longest_pause
                log.info("closed a cluster to free a slot", cluster=str(cluster.key), idle=is_idle)
                return True
        return False

    def _mark_used(self, key: Key) -> None:
        """Note that a cluster is used now, if it is open."""
        cluster = self._clusters.get(key)
        if cluster is not None:
            cluster.used_at = self._clock.monotonic()
