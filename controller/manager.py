"""Everything of one process that talks to one API server: started in order, stopped in reverse.

    started   stopped
       1         6      the election's task; the lease is given back after all else has ended
       2         5      HTTP: /metrics, /healthz, /readyz
       3         4      webhooks, in every replica: the API server may ask before caches are filled
       4         3      informers (a standby keeps its caches warm), services for every replica
       5         2      winning the election
       6         1      controllers and leader-only services

A controller begins when the kinds it watches are synced, whatever the others wait for: a missing
CRD or a missing role stops the controllers that need that kind and shows in /readyz.

Stopping lets running reconciliations end within a grace period and then cancels them. Losing
the lease cancels them at once: `run` raises LeaderLost, and the process has to exit.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import anyio

from controller.client import Client
from controller.clock import Clock, SystemClock
from controller.clusters import Clusters, ClusterSettings, OpenCluster
from controller.election import Won, contested, one_failure, unopposed
from controller.health import PING, Check
from controller.indexes import IndexFunction
from controller.informer import Informer
from controller.informers import Informers
from controller.jobs import ControllerJob, Task, running
from controller.leases import Elector, LeaderLost
from controller.meta import Key, Object
from controller.metrics import Metrics
from controller.mutations import MutationDetector
from controller.options import ManagerOptions
from controller.probes import informer_check, leader_check
from controller.resource import Resource
from controller.runner import Controller, Reconcile
from controller.services import Job, Services
from controller.serving import Serving
from controller.transport import HttpTransport, Transport
from controller.triggers import Trigger, Watch
from controller.webhooks.webhook import Webhook
from controller.workqueue import WorkQueue

__all__ = ["LeaderLost", "Manager", "ManagerOptions", "Watch"]

T = TypeVar("T", bound=Object)


class Manager:
    """Informers, controllers and services over one transport.

    The transport is the caller's to close, after `run`.

    Args:
        transport: the API server.
        clock: for everything that waits.
        options: the election, the ports, the grace.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock | None = None,
        options: ManagerOptions | None = None,
    ) -> None:
        self.options = options or ManagerOptions()
        self.metrics = Metrics()
        """The series of this manager, on a registry of its own."""
        if isinstance(transport, HttpTransport):
            transport.observe = self.metrics.requests(transport.server)
        self._clock = clock or SystemClock()
        self._informers = Informers(
            transport,
            self._clock,
            streams=self.options.stream_lists,
            metrics=self.metrics.informer,
        )
        self.client = Client(
            transport, on_answer=self._informers.answered, on_gone=self._informers.gone
        )
        """Live requests; objects in the answers enter the caches of this manager."""
        self._http = Serving(self.options, self.metrics, self._clock, transport)
        self._jobs: dict[str, ControllerJob] = {}
        self._services = Services(self._clock, self.metrics.service_restarts)
        self.lost = anyio.Event()
        """Set in the moment in which the lease is lost: what runs is being cancelled."""
        self._stopping = anyio.Event()
        self._started = False
        self._serving = anyio.Event()

    def informer(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        indexes: Mapping[str, IndexFunction[T]] | None = None,
    ) -> Informer[T]:
        """Return the informer of a kind; there is one per kind, made when first asked for.

        Args:
            resource: the kind.
            namespace: empty for all.
            indexes: by name, a pure function from an object to its values there.

        Raises:
            ValueError: it was asked for before with another namespace or other indexes.
            RuntimeError: the manager runs already.
        """
        self._only_before_start()
        return self._informers.of(resource, namespace, indexes)

    def controller(
        self,
        name: str,
        reconcile: Reconcile,
        *,
        watches: Sequence[Trigger],
        concurrency: int = 1,
        group: Callable[[Key], Hashable] | None = None,
        timeout_seconds: float | None = None,
    ) -> Controller:
        """Add a controller; the kind of its first watch is the one its log lines name.

        Args:
            name: unique in the process; the label of metrics and the `controller` of log lines.
            reconcile: brings the world of one key to what it should be.
            watches: what puts keys into its queue.
            concurrency: how many keys are worked on at once.
            timeout_seconds: how long one reconciliation may take; None for as long as it likes.
            group: from a key to those it shares its turns with: a thousand keys of one namespace,
                say, then delay another's first by no more than one. It may read caches and must
                not raise. None for first in, first out.

        Raises:
            ValueError: the name is taken, or there is nothing to watch.
            RuntimeError: the manager runs already.
        """
        self._only_before_start()
        if name in self._jobs:
            raise ValueError(f"there is a controller called {name} already")
        if not watches:
            raise ValueError(f"controller {name} watches nothing, so it would never run")
        observer = self.metrics.queue(name)
        controller = Controller(
            name,
            reconcile,
            queue=WorkQueue(self._clock, observer=observer, group=group),
            concurrency=concurrency,
            metrics=self.metrics.controller(name, concurrency),
            kind=watches[0].resource,
            timeout_seconds=timeout_seconds,
        )
        observer.watch(controller.queue.statistics)
        self._jobs[name] = ControllerJob(controller, watches)
        return controller

    def add_service(self, name: str, run: Job, *, leader_only: bool = True) -> None:
        """Add something that runs beside the controllers, a periodic job say.

        If it fails it is logged and started again; it ends by returning, or when cancelled.

        Args:
            name: for logs and metrics.
            run: the job.
            leader_only: run only while holding the lease, else in every replica.

        Raises:
            ValueError: the name is taken.
            RuntimeError: the manager runs already.
        """
        self._only_before_start()
        self._services.add(name, run, leader_only=leader_only)

    def add_check(self, check: Check) -> None:
        """Add a condition of readiness: one more line of /readyz.

        Args:
            check: asked at each probe, so it must answer at once.

        Raises:
            ValueError: there is one of that name already.
            RuntimeError: the manager runs already.
        """
        self._only_before_start()
        if any(check.name == known.name for known in (PING, *self._http.checks)):
            raise ValueError(f"there is a check called {check.name} already")
        self._http.checks.append(check)

    def add_webhook(self, webhook: Webhook[Any]) -> None:
        """Serve a webhook, in every replica, if the options say where.

        Args:
            webhook: where, and what judges.

        Raises:
            ValueError: there is one at its path already.
            RuntimeError: the manager runs already.
        """
        self._only_before_start()
        self._http.add(webhook)

    @property
    def metrics_port(self) -> int | None:
        """Where /metrics listens while running; None if it does not."""
        return self._http.ports.metrics

    @property
    def health_port(self) -> int | None:
        """Where the probes listen while running; None if they do not."""
        return self._http.ports.health

    @property
    def webhook_port(self) -> int | None:
        """Where webhooks listen while running; None if they do not."""
        return self._http.ports.webhooks

    def clusters(
        self,
        open_cluster: OpenCluster,
        settings: ClusterSettings | None = None,
        *,
        name: str = "clusters",
        leader_only: bool = True,
    ) -> Clusters:
        """Return caches of other clusters, kept by this manager as long as it runs.

        Args:
            open_cluster: opens a way into one.
            settings: how many, and for how long.
            name: of the service that keeps them, for logs and metrics.
            leader_only: close them all while not leading; those who wait need not watch.

        Raises:
            ValueError: the name is taken.
            RuntimeError: the manager runs already.
        """
        clusters = Clusters(open_cluster, self._clock, settings)
        self.add_service(name, clusters.run, leader_only=leader_only)
        return clusters

    async def wait_serving(self) -> None:
        """Return once `run` listens on its ports and its informers have begun."""
        await self._serving.wait()

    def stop(self) -> None:
        """Ask `run` to end: no new work, what runs may finish within the grace period."""
        self._stopping.set()

    async def run(self) -> None:
        """Run everything until `stop`, or until cancelled.

        Raises:
            LeaderLost: the lease was lost; the process must exit.
            ConfigurationError: a port cannot be listened on, a certificate is missing, or the
                lease is not configured.
            ObjectMutated: an object of a cache was changed in place, if the options ask for that.
        """
        self._only_before_start()
        self._started = True
        with one_failure():
            await self._run()

    async def _run(self) -> None:
        everybody: list[Task] = [informer.run for informer in self._informers]
        if self.options.detect_mutations:
            everybody += [MutationDetector(one, self._clock).run for one in self._informers]
        everybody += self._services.tasks(leader_only=False)
        async with (
            self._election() as won,
            self._http.pages(self._readiness),
            self._http.webhooks(),
            running(everybody),
        ):
            self._serving.set()
            if await won(self._stopping):
                await self._work()

    async def _work(self) -> None:
        jobs = self._jobs.values()
        async with (
            running([*self._services.tasks(leader_only=True), *self._http.leader_tasks()]),
            running([job.run for job in jobs]),
        ):
            await self._stopping.wait()
            for job in jobs:
                job.stop()
            with self._clock.move_on_after(self.options.grace_seconds):
                for job in jobs:
                    await job.ended.wait()

    def _election(self) -> AbstractAsyncContextManager[Won]:
        if not self.options.leader_elect:
            return unopposed()
        elector = Elector(self.client, self._clock, self.options.lease_settings())
        self._http.vitals.append(leader_check(elector))
        status = self.metrics.leader_status.labels(self.options.lease_name)
        return contested(elector, status.set, self.lost)

    def _readiness(self) -> list[Check]:
        informers = map(informer_check, self._informers)
        return [PING, *self._http.checks, *informers]

    def _only_before_start(self) -> None:
        if self._started:
            raise RuntimeError("the manager runs already: add everything first, and run it once")
