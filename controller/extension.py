"""Informers and controllers that come and go while their manager runs.

An extension is for kinds that may not be served yet, or no longer. An informer of the manager
itself would fail until they are served, and `/readyz` would fail with it. A new extension is
created each time the kinds it needs are served. It shares the connection, the clock and the
metrics of its manager, and may use informers of the manager besides its own.

Its informers begin with the newest state of the server. While no extension ran, others may have
worked on its kinds, and a state of the server's watch cache could lack their last writes.

Its controllers can be divided by shards like the manager's controllers. The service that runs the
extension must then run in every replica.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import anyio

from controller.client import Client
from controller.clock import Clock
from controller.discovery import AbsenceCounter
from controller.health import Check
from controller.indexes import IndexFunction
from controller.informer import Informer
from controller.informers import Informers
from controller.jobs import ControllerJob, run_in_background
from controller.meta import Key, Object, Version
from controller.metrics import InformerMetrics, Metrics, UnmeasuredInformer
from controller.queuemetrics import QueueMetrics
from controller.queueorder import KeyBackoff, Retries
from controller.resource import Resource, Scope
from controller.runner import Controller, Reconcile, check_settings
from controller.shards import Partition, ShardBy, Shards
from controller.supervisor import Supervisor, Task
from controller.transport import Transport
from controller.triggers import Trigger, check_triggers
from controller.workqueue import WorkQueue

T = TypeVar("T", bound=Object)


class Extension:
    """Further informers and controllers of a running manager.

    Args:
        transport: the API server.
        clock: the manager's clock.
        metrics: the manager's metrics.
        supervisor: the manager's supervisor.
        informers: the manager's informers; they get the responses to this extension's writes, too.
        jobs: the controllers whose keys are divided by shards; the extension's are added while it
            runs.
        shards: the shards that this process holds; None if this process works on all keys.
        streams: whether lists may be read as initial events of watches.
        measured: whether the informers have metrics and readiness checks; False if other
            informers of the same kinds have them.
        readiness: the checks behind the manager's /readyz; the checks of the extension's
            informers are added while it runs.
        running_informers: the informers of the manager and of its extensions; the extension's
            are added while it runs.
    """

    def __init__(  # noqa: PLR0913 - what its manager shares with it
        self,
        transport: Transport,
        clock: Clock,
        metrics: Metrics,
        supervisor: Supervisor,
        informers: Informers,
        *,
        jobs: list[ControllerJob],
        shards: Shards | None,
        streams: bool,
        readiness: list[Check],
        running_informers: list[Informers],
        measured: bool = True,
    ) -> None:
        self._clock = clock
        self._metrics = metrics
        self._supervisor = supervisor
        # The metrics that read gauges from informers and queues, until `run` ends.
        self._gauge_metrics: list[InformerMetrics | QueueMetrics] = []
        create_metrics = self._create_informer_metrics if measured else UnmeasuredInformer
        own_informers = Informers(
            transport, clock, streams=streams, metrics=create_metrics, begins_newest=True
        )
        self._informers = own_informers
        self._jobs: dict[str, ControllerJob] = {}
        self._sharded_jobs = jobs
        self._shards = shards
        self._readiness = readiness
        self._running_informers = running_informers
        self._is_measured = measured

        def apply_own_write(resource: Resource[Any], obj: Object) -> None:
            """Show the response to a write in the caches of the manager and of the extension."""
            informers.apply_own_write(resource, obj)
            own_informers.apply_own_write(resource, obj)

        def mark_deleted(resource: Resource[Any], version: Version) -> None:
            """Hide a deleted object in the caches of the manager and of the extension."""
            informers.mark_deleted(resource, version)
            own_informers.mark_deleted(resource, version)

        self.client = Client(
            transport,
            on_object=apply_own_write,
            on_deleted=mark_deleted,
            absence_counter=AbsenceCounter(clock),
        )
        """A client whose responses enter the caches of the extension and of the manager."""

    def get_informer(
        self, resource: Resource[T], *, indexes: Mapping[str, IndexFunction[T]] | None = None
    ) -> Informer[T]:
        """Return the informer of a kind in all namespaces; it runs with the extension.

        Args:
            resource: the kind; the manager has no informer of it.
            indexes: by index name, a pure function from an object to its values.
        """
        return self._informers.get_or_create(resource, Scope(), indexes)

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
        """Add a controller, which runs while the extension runs; return it.

        The arguments are those of `Manager.add_controller`. Log lines of the controller have the
        kind of its first watch.
        """
        check_triggers(name, watches)
        check_settings(name, group=group, retries=retries, shard_by=shard_by, forget=forget)
        retries = retries or Retries()
        observer = self._metrics.create_queue_metrics(name)
        self._gauge_metrics.append(observer)
        partition = Partition(self._shards, shard_by, forget) if self._shards is not None else None
        controller = Controller(
            name,
            reconcile,
            queue=WorkQueue(
                self._clock, backoff=KeyBackoff(retries), observer=observer, group=group
            ),
            concurrency=concurrency,
            metrics=self._metrics.create_reconcile_metrics(name, concurrency),
            kind=watches[0].resource,
            timeout_seconds=timeout_seconds,
            partition=partition,
            most_tries=retries.most_tries,
        )
        observer.set_gauge_functions(controller.queue.get_statistics)
        self._jobs[name] = ControllerJob(controller, watches, partition)
        return controller

    async def run(self) -> None:
        """Run the informers and controllers until cancelled.

        Their gauges and readiness checks are there only while they run.
        """
        checks = (
            [informer.create_check() for informer in self._informers] if self._is_measured else []
        )
        informer_tasks: list[Task] = [informer.run for informer in self._informers]
        controller_tasks = [
            self._supervisor.create_lasting_task(f"controller/{name}", job.run)
            for name, job in self._jobs.items()
        ]
        jobs = list(self._jobs.values())
        # The manager has these lists, too; the entries are removed below.
        self._sharded_jobs += jobs
        self._readiness += checks
        self._running_informers.append(self._informers)
        try:
            async with run_in_background(informer_tasks), run_in_background(controller_tasks):
                await anyio.sleep_forever()
        finally:
            self._running_informers.remove(self._informers)
            for job in jobs:
                self._sharded_jobs.remove(job)
            for check in checks:
                self._readiness.remove(check)
            for metrics in self._gauge_metrics:
                metrics.remove_gauges()

    def _create_informer_metrics(self, name: str) -> InformerMetrics:
        """Return metrics for the informers of a kind, which `run` removes at its end."""
        metrics = self._metrics.create_informer_metrics(name)
        self._gauge_metrics.append(metrics)
        return metrics
