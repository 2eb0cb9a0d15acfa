"""The informers, controllers, services and servers of one process and one API server.

    started   stopped
       1         6      the election's task; the lease is released when all else has ended
       2         5      HTTP: /metrics, /healthz, /readyz
       3         4      webhooks of every replica; the API server may call before caches are filled
       4         3      informers, so that a standby has current caches; services of every replica
       5         2      waiting for the lease
       6         1      controllers, services of the leader

A controller starts when the kinds it watches are listed. If a CRD or a role is missing, only the
controllers that need that kind wait for it, and /readyz fails.

With `shards` there is a lease for each shard, and nothing waits: controllers run in every replica,
each for the keys of its shards, and the services of the leader run where shard 0 is held.

When the manager stops, running reconciliations may end within a grace period and are then
cancelled. When the lease is lost they are cancelled at once: `run` raises LeaderLost, and the
process must exit.
"""

from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar, overload

import anyio

from controller.arguments import check_resource, check_scope
from controller.argumenttypes import check_type
from controller.callbacks import check_callable
from controller.client import Client
from controller.clock import Clock, SystemClock
from controller.discovery import AbsenceCounter
from controller.election import (
    WaitToLead,
    join_election,
    skip_election,
    unwrap_failure,
)
from controller.endpoint import MeasuredTransport
from controller.errors import UnexpectedEnd
from controller.events import Recorder
from controller.extension import Extension
from controller.health import PING, Check
from controller.indexes import IndexFunction
from controller.informer import Informer
from controller.informers import AnyInformer, Informers
from controller.jobs import (
    LEADING_SHARD,
    ControllerJob,
    LeaderServices,
    Service,
    Services,
    ShardWork,
    run_in_background,
)
from controller.leases import Elector
from controller.meta import Key, Object
from controller.metrics import Metrics
from controller.mutations import MutationDetector
from controller.namespaces import NamespaceSet, NamespacesInformer
from controller.options import ManagerOptions
from controller.queueorder import KeyBackoff, Retries
from controller.resource import Resource, Scope
from controller.runner import Controller, Reconcile, check_settings
from controller.serving import Serving
from controller.shardleases import ShardLeases, hold_shards
from controller.shards import Partition, ShardBy, Shards
from controller.supervisor import Supervisor, Task
from controller.transport import Transport, check_transport
from controller.triggers import Trigger, check_triggers
from controller.webhooks.conversion import Conversion
from controller.webhooks.webhook import Webhook
from controller.workqueue import WorkQueue

T = TypeVar("T", bound=Object)


class Manager:
    """Informers, controllers and services over one transport.

    The transport is the caller's to close after `run`, with `aclose`; run_until_signal does that.

    Args:
        transport: the API server.
        clock: for all delays and deadlines.
        options: the election, the addresses, the grace period.

    Raises:
        TypeError: the `await` before the transport is missing, or an argument has another type.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock | None = None,
        options: ManagerOptions | None = None,
    ) -> None:
        check_transport(transport, "Manager")
        check_type(
            options,
            (ManagerOptions, type(None)),
            argument="Manager: options",
            expected="a ManagerOptions or None",
        )
        self.options = options or ManagerOptions()
        self.metrics = Metrics()
        """The metrics of this manager, in a registry of its own."""
        if isinstance(transport, MeasuredTransport):  # others cannot report their requests
            transport.observe = self.metrics.create_request_observer(transport.server)
        self.clock = clock or SystemClock()
        """The clock of everything in this manager; for reconcilers, too."""
        self._transport = transport
        self._informers = Informers(
            transport,
            self.clock,
            streams=self.options.stream_lists,
            metrics=self.metrics.create_informer_metrics,
        )
        self._running_informers = [self._informers]
        self.client = Client(
            transport,
            on_object=self._informers.apply_own_write,
            on_deleted=self._informers.mark_deleted,
            absence_counter=AbsenceCounter(self.clock),
        )
        """A client for the API server; objects in its responses enter the manager's caches."""
        self.lost = anyio.Event()
        """Set as soon as the lease is lost and the running work is cancelled."""
        self.shards = Shards(self.options.shards) if self.options.shards else None
        """The shards of keys that are held here; None if this process works on all keys."""
        self._stopping = anyio.Event()
        restarts = self.metrics.service_restarts
        self._supervisor = Supervisor(self.clock, restarts, self._stopping.is_set)
        self._serving = Serving(
            self.options,
            self.metrics,
            clock=self.clock,
            transport=transport,
            supervisor=self._supervisor,
        )
        self._jobs: dict[str, ControllerJob] = {}
        self._sharded_jobs: list[ControllerJob] = []
        """The controllers of the manager, and of its extensions while these run."""
        self._services = Services(self._supervisor)
        self._leader_services = LeaderServices(self._create_leader_tasks)
        self._started = False
        self._has_recorders = False
        self._listening = anyio.Event()

    @overload
    def get_informer(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        namespaces: None = None,
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, IndexFunction[T]] | None = None,
    ) -> Informer[T]: ...

    @overload
    def get_informer(
        self,
        resource: Resource[T],
        *,
        namespaces: NamespaceSet,
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, IndexFunction[T]] | None = None,
    ) -> NamespacesInformer[T]: ...

    def get_informer(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        namespaces: NamespaceSet | None = None,
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, IndexFunction[T]] | None = None,
    ) -> Informer[T] | NamespacesInformer[T]:
        """Return the informer of a kind and scope; it is created at the first call, then shared.

        The cache keeps the fields that the type of `resource` has. For MetadataOnly the server
        sends only metadata.

        Args:
            resource: the kind.
            namespace: the one namespace that is watched; empty for all.
            namespaces: the namespaces that are watched, which may change while the manager runs;
                None to go by `namespace`.
            labels: a label selector, for example `app=web`.
            fields: a field selector, for example `spec.nodeName=a`.
            indexes: by index name, a pure function from an object to its values.

        Raises:
            TypeError: `resource` is no Resource, `namespaces` is no NamespaceSet, or another
                argument is no text.
            ValueError: the kind is watched as another type, this informer exists with other
                indexes, or a cluster-scoped kind is to be watched in namespaces.
            RuntimeError: the manager runs already.
        """
        self._check_not_started()
        check_resource(resource, "Manager.get_informer")
        texts = {"namespace": namespace, "labels": labels, "fields": fields}
        check_scope(resource, texts, "Manager.get_informer")
        check_type(
            indexes,
            (Mapping, type(None)),
            argument=f"Manager.get_informer of {resource.full_name}: indexes",
            expected="a dictionary of functions by index name",
        )
        scope = Scope(namespace, labels, fields)
        if namespaces is None:
            return self._informers.get_or_create(resource, scope, indexes)
        return self._informers.get_or_create_in(resource, namespaces, scope=scope, indexes=indexes)

    @property
    def informers(self) -> tuple[AnyInformer, ...]:
        """The informers of this manager, in the order of their creation."""
        return tuple(self._informers)

    @property
    def has_recorders(self) -> bool:
        """Whether events are recorded through this manager."""
        return self._has_recorders

    def add_controller(  # noqa: PLR0913 - what a controller is made of
        self,
        name: str,
        reconcile: Reconcile,
        *,
        watches: Sequence[Trigger],
        concurrency: int = 1,
        group: Callable[[Key], Hashable] | None = None,
        timeout_seconds: float | None = None,
        retries: Retries | None = None,
        shard_by: ShardBy | None = None,
        forget: Callable[[Key], None] | None = None,
    ) -> Controller:
        """Add a controller. Its log lines have the kind of its first watch.

        Args:
            name: unique in the process; the label of metrics and the `controller` of log lines.
            reconcile: reconciles one key.
            watches: the Watches and ClusterWatches that put keys into its queue.
            concurrency: how many keys are reconciled at once.
            timeout_seconds: how long one reconciliation may take; None for no limit.
            retries: the back-off after errors, and how often a key is tried; by default 5 ms,
                doubled up to 1000 s, for ever.
            group: from a key to its group; groups take turns, so that a thousand keys of one
                namespace, for example, delay the first key of another by at most one key. It may
                read caches and must not raise. None for first in, first out.
            shard_by: from a key to the key whose shard it belongs to, if there are shards. It may
                read caches and must not raise; it returns None for a key that every replica may
                reconcile. By default each key belongs to its own shard.
            forget: called when this process no longer holds a shard, with each key of it that was
                reconciled here. Drop what you remember of the key: it may be out of date later.

        Raises:
            ValueError: there is a controller of that name, or `watches` is empty.
            TypeError: `group`, `shard_by` or `forget` is async, a function does not take the
                arguments that it gets, an entry of `watches` is no Watch, or `retries` is no
                Retries.
            RuntimeError: the manager runs already.
        """
        self._check_not_started()
        if name in self._jobs:
            raise ValueError(f"there is a controller called {name} already")
        check_triggers(name, watches)
        check_settings(name, group=group, retries=retries, shard_by=shard_by, forget=forget)
        retries = retries or Retries()
        observer = self.metrics.create_queue_metrics(name)
        partition = Partition(self.shards, shard_by, forget) if self.shards is not None else None
        controller = Controller(
            name,
            reconcile,
            queue=WorkQueue(
                self.clock, backoff=KeyBackoff(retries), observer=observer, group=group
            ),
            concurrency=concurrency,
            metrics=self.metrics.create_reconcile_metrics(name, concurrency),
            kind=watches[0].resource,
            timeout_seconds=timeout_seconds,
            partition=partition,
            most_tries=retries.most_tries,
        )
        observer.set_gauge_functions(controller.queue.get_statistics)
        self._jobs[name] = ControllerJob(controller, watches, partition)
        self._sharded_jobs.append(self._jobs[name])
        return controller

    def add_service(self, name: str, run: Service, *, leader_only: bool = True) -> None:
        """Add a coroutine function to run next to the controllers, a periodic job for example.

        If the function raises, the error is logged and the function is started again. It must run
        until it is cancelled: if it returns before the manager was stopped, `run` raises
        UnexpectedEnd.

        Args:
            name: for logs and metrics.
            run: the coroutine function.
            leader_only: run it only while holding the lease, else in every replica.

        Raises:
            ValueError: there is a service of that name.
            TypeError: `run` cannot be called.
            RuntimeError: the manager runs already.
        """
        self._check_not_started()
        check_callable(run, f"service {name}")
        self._services.add(name, run, leader_only=leader_only)

    @property
    def is_leading(self) -> bool:
        """Whether this process, if it leads at all, is the replica for the leader's services.

        With shards several replicas lead, and the holder of shard 0 runs these services. Without
        shards it is always True, even in a standby: ask only in code that runs in the leader.
        """
        return self.shards is None or LEADING_SHARD in self.shards.held

    def create_extension(self, *, sharded: bool = False, measured: bool = True) -> Extension:
        """Return an empty set of further informers and controllers, to run inside a service.

        Args:
            sharded: reconcile only keys of the shards that this process holds, if there are
                shards. The service must run in every replica then (`leader_only` of
                `add_service`).
            measured: whether its informers have metrics; False if other informers of the same
                kinds have them.
        """
        return Extension(
            self._transport,
            self.clock,
            metrics=self.metrics,
            supervisor=self._supervisor,
            informers=self._informers,
            jobs=self._sharded_jobs,
            shards=self.shards if sharded else None,
            streams=self.options.stream_lists,
            measured=measured,
            readiness=self._serving.readiness,
            running_informers=self._running_informers,
        )

    def retry_informers(self, full_name: str) -> None:
        """Retry the failed lists and watches of a kind without further delay, in extensions, too.

        For a caller that knows that they may succeed now, because the kind's
        CustomResourceDefinition has changed, for example. Otherwise an informer that has failed
        for long waits half a minute.

        Args:
            full_name: plural and group of the kind.
        """
        for informers in self._running_informers:
            informers.retry_now(full_name)

    def add_recorder(self, component: str, *, client: Client | None = None) -> Recorder:
        """Return a recorder of events, which runs in every replica with this manager.

        Args:
            component: the reporting controller, a qualified name such as `example.com/widgets`.
            client: for the recorder's requests; the manager's client by default.

        Raises:
            ValueError: there is a recorder of that component, or the component is no qualified
                name.
            RuntimeError: the manager runs already.
        """
        recorder = Recorder(
            client or self.client, self.clock, component, dropped=self.metrics.events_dropped
        )
        self.add_service(f"events/{component}", recorder.run, leader_only=False)
        self._has_recorders = True
        return recorder

    def add_readiness_check(self, check: Check) -> None:
        """Add a check behind /readyz, which fails until the process can do its work.

        Args:
            check: called at each probe, so it has to be quick.

        Raises:
            TypeError: `check` is no Check.
            RuntimeError: the manager runs already.
        """
        self._check_not_started()
        check_type(
            check,
            Check,
            argument="Manager.add_readiness_check: check",
            expected='Check("name", function)',
        )
        self._serving.readiness.append(check)

    def add_liveness_check(self, check: Check) -> None:
        """Add a check behind /healthz, which fails for a fault that only a new process repairs.

        kubelet restarts the container when the check fails. So a check of another system, whose
        faults a restart does not repair, does not belong here.

        Args:
            check: called at each probe, so it has to be quick.

        Raises:
            TypeError: `check` is no Check.
            RuntimeError: the manager runs already.
        """
        self._check_not_started()
        check_type(
            check,
            Check,
            argument="Manager.add_liveness_check: check",
            expected='Check("name", function)',
        )
        self._serving.liveness.append(check)

    def add_webhook(self, webhook: Webhook[Any] | Conversion[Any]) -> None:
        """Serve `webhook` in every replica, at the options' `webhook_bind`.

        With `0` as the address webhooks are not served.

        Raises:
            ValueError: there is a webhook at its path.
            ConfigurationError: the options have no address to serve it.
            RuntimeError: the manager runs already.
        """
        self._check_not_started()
        self._serving.add(webhook)

    @property
    def webhooks(self) -> tuple[Webhook[Any] | Conversion[Any], ...]:
        """The webhooks that were added."""
        return self._serving.added_webhooks

    @property
    def metrics_port(self) -> int | None:
        """The port of /metrics while running; None if it is not served."""
        return self._serving.ports.metrics

    @property
    def health_port(self) -> int | None:
        """The port of /healthz and /readyz while running; None if they are not served."""
        return self._serving.ports.health

    @property
    def webhook_port(self) -> int | None:
        """The port of the webhooks while running; None if they are not served."""
        return self._serving.ports.webhooks

    async def wait_serving(self) -> None:
        """Return once `run` listens on its ports and its informers are started."""
        await self._listening.wait()

    def stop(self) -> None:
        """Make `run` end: start no new work, let running work end within the grace period."""
        self._stopping.set()

    async def aclose(self) -> None:
        """Close the connections to the API server, after `run`."""
        await self._transport.aclose()

    async def run(self) -> None:
        """Run everything until `stop`, or until cancelled.

        Raises:
            LeaderLost: the lease was lost; the process must exit.
            UnexpectedEnd: a controller or a service ended by itself; the process must exit.
            ConfigurationError: an address cannot be listened on, a certificate is missing, or the
                lease is not configured.
            ObjectMutated: a cached object was changed in place, if `detect_mutations` is set.
        """
        self._check_not_started()
        self._started = True
        with unwrap_failure():
            await self._run()
        if not self._stopping.is_set():
            raise UnexpectedEnd("the manager has ended although it was not stopped")

    async def _run(self) -> None:
        """Run informers, services and pages, and the controllers while this replica leads."""
        tasks: list[Task] = [informer.run for informer in self._informers]
        if self.options.detect_mutations:
            detector = MutationDetector(list(self._informers), self.clock)
            tasks.append(self._supervisor.create_lasting_task("mutation detector", detector.run))
        tasks += self._services.create_tasks(leader_only=False)
        async with (
            self._join_election() as wait_to_lead,
            self._serving.serve_pages(self._list_readiness_checks),
            self._serving.serve_webhooks(),
            run_in_background(tasks),
        ):
            self._listening.set()
            # A standby that is stopped before it leads has no work to end.
            if await wait_to_lead(self._stopping):
                await self._lead()

    async def _lead(self) -> None:
        """Run controllers and the leader's services until `stop`, then wait for work to end."""
        jobs = self._jobs.values()
        # With shards, the holder of shard 0 runs the leader's services, and it may change.
        leader_tasks = (
            [self._leader_services.run] if self.shards is not None else self._create_leader_tasks()
        )
        async with (
            run_in_background(leader_tasks),
            run_in_background(
                [
                    self._supervisor.create_lasting_task(f"controller/{name}", job.run)
                    for name, job in self._jobs.items()
                ]
            ),
        ):
            await self._stopping.wait()
            for job in jobs:
                job.stop()
            with self.clock.move_on_after(self.options.grace_seconds):
                for job in jobs:
                    await job.ended.wait()

    def _create_leader_tasks(self) -> list[Task]:
        """Return the tasks of the services that only the leader runs."""
        return [
            *self._services.create_tasks(leader_only=True),
            *self._serving.create_leader_tasks(),
        ]

    @asynccontextmanager
    async def _join_shard_elections(self, shards: Shards) -> AsyncIterator[WaitToLead]:
        """Take part in the elections for shards inside the context.

        It yields a WaitToLead that leads at once, because every replica runs the controllers.
        """
        settings = self.options.create_lease_settings()
        leases = ShardLeases(
            self.client,
            self.clock,
            settings=settings,
            work=ShardWork(
                shards, self._sharded_jobs, services=self._leader_services, clock=self.clock
            ),
            grace_seconds=self.options.grace_seconds,
            report=lambda name, count: self.metrics.leader_status.labels(name).set(count),
            count_failure=self._create_failure_counter(),
        )
        self._serving.liveness.append(leases.create_check())
        self._serving.readiness.append(leases.create_reading_check())
        async with hold_shards(leases, self.lost), skip_election() as wait_to_lead:
            yield wait_to_lead

    def _join_election(self) -> AbstractAsyncContextManager[WaitToLead]:
        """Return a context that takes part in the election that the options ask for.

        That is an election for each shard, an election for one lease, or none. Without an election
        this process leads at once.
        """
        if self.shards is not None:
            return self._join_shard_elections(self.shards)
        if not self.options.leader_elect:
            return skip_election()
        elector = Elector(
            self.client,
            self.clock,
            self.options.create_lease_settings(),
            count_failure=self._create_failure_counter(),
        )
        self._serving.liveness.append(elector.create_check())
        self._serving.readiness.append(elector.create_holder_check())
        status = self.metrics.leader_status.labels(self.options.lease_name)
        return join_election(elector, status.set, self.lost)

    def _create_failure_counter(self) -> Callable[[], None]:
        """Return the function that counts a failed attempt at the process's lease or shards."""
        return self.metrics.election_failures.labels(self.options.lease_name).inc

    def _list_readiness_checks(self) -> list[Check]:
        """Return the checks behind /readyz, without informers of kinds that we convert.

        The API server converts such a kind through a Service, which leads only to ready replicas.
        So the kind cannot be listed before a replica is ready, and no replica may wait for that.
        """
        informers = [
            informer.create_check()
            for informer in self._informers
            if not self._serving.converts(informer.resource)
        ]
        return [PING, *self._serving.readiness, *informers]

    def _check_not_started(self) -> None:
        """Raise RuntimeError if `run` was called: the parts that run are fixed by then."""
        if self._started:
            raise RuntimeError("the manager runs already: add everything first, and run it once")
