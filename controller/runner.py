"""Runs a reconciler for the keys of a queue, and decides on retries, metrics and log lines.

    WorkQueue.get → reconcile(key) → outcome or exception → WorkQueue.done

Nothing that a reconciler returns or raises ends a worker; SystemExit ends the process.

| outcome or exception          | the key is queued again          | result        | log     |
|-------------------------------|----------------------------------|---------------|---------|
| Settled                       | when something changes           | success       | debug   |
| Again(after)                  | after that many seconds; paced   | requeue_after | debug   |
| Blocked(reason)               | when something changes           | success       | info    |
| Blocked(reason, after)        | after that many seconds          | requeue_after | info    |
| Conflict (AlreadyExists too)  | with back-off                    | requeue       | info    |
| TooManyRequests(retry_after)  | after that many seconds          | requeue_after | warning |
| TerminalError                 | when something changes           | error         | error   |
| any other ControllerError     | with back-off; 400 and 422 too   | error         | error   |
| a mistake in code: TypeError, | with back-off; counts as panic   | error         | error   |
| KeyError (supervisor.is_bug)  |                                  |               |         |
| any other Exception           | with back-off                    | error         | error   |

The first four reset the key's failures. A TerminalError does not (controller-runtime's rule): if
another error follows, the back-off continues. What is no ControllerError is logged with its
traceback.

A key that wants to come back at once, time after time, is paced: the starts of its passes are
5 ms apart, 10, 20 and so on up to 100 ms. So a pass that works through a long list in parts is not
delayed, and one that asks again by mistake does not take all of the process' time.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, assert_never

import anyio
import structlog
from structlog.contextvars import bound_contextvars

from controller.errors import Conflict, ControllerError, TerminalError, TooManyRequests
from controller.meta import Key
from controller.metrics import Metrics, ReconcileMetrics
from controller.outcome import Again, Blocked, Outcome, Settled
from controller.queueorder import KEY_BASE_SECONDS
from controller.resource import Resource
from controller.shards import Partition
from controller.supervisor import as_exception, cancellation_requested, is_bug
from controller.workqueue import QueueShutDown, WorkQueue

Reconcile = Callable[[Key], Awaitable[Outcome]]
Log = structlog.typing.FilteringBoundLogger

LONGEST_PACE_SECONDS = 0.1
"""A key that keeps coming back at once is reconciled so often at most."""


class NotAsync(TypeError):
    """The reconciler is a plain function; said once, as it is so for every key."""


class Controller:
    """Reconciles the keys of a queue, never one key twice at the same time.

    Args:
        name: unique in a process; the label of metrics and the `controller` of log lines.
        reconcile: reconciles one key.
        queue: has the keys; its clock is used for durations.
        concurrency: how many keys are reconciled at once.
        metrics: the metrics of this controller; by default new ones.
        kind: the kind of the keys' objects, for log lines.
        timeout_seconds: how long a reconciliation may take; None for no limit. One that takes
            longer is cancelled, and retried with back-off.
        partition: which keys are reconciled in this process; None for all.
    """

    def __init__(  # noqa: PLR0913 - what a controller is made of
        self,
        name: str,
        reconcile: Reconcile,
        *,
        queue: WorkQueue[Key],
        concurrency: int = 1,
        metrics: ReconcileMetrics | None = None,
        kind: Resource[Any] | None = None,
        timeout_seconds: float | None = None,
        partition: Partition | None = None,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"controller {name}: concurrency must be at least 1")
        self.name = name
        self.queue = queue
        self.concurrency = concurrency
        self._reconcile = reconcile
        self._timeout = timeout_seconds
        self._partition = partition
        self._metrics = metrics or Metrics().controller(name, concurrency)
        self._log_context = {"controller": name} | (
            {"controllerGroup": kind.group, "controllerKind": kind.kind} if kind else {}
        )
        self._hurries: dict[Key, int] = {}
        """How often in a row a key asked to come back at once."""
        self._logged_not_async = False
        self._log: Log = structlog.get_logger(__name__)

    async def run(self) -> None:
        """Reconcile keys until `stop` was called and running reconciliations have ended."""
        async with anyio.create_task_group() as workers:
            for _ in range(self.concurrency):
                workers.start_soon(self._work)

    def stop(self) -> None:
        """Start no more reconciliations: drop the queued keys, and let `run` end.

        The caller limits how long that may take by cancelling `run`.
        """
        self.queue.shut_down(drain=False)

    async def _work(self) -> None:
        """Take keys from the queue and reconcile them until the queue is shut down."""
        while True:
            try:
                key = await self.queue.get()
            except QueueShutDown:
                return
            except asyncio.CancelledError:
                if cancellation_requested():
                    raise
                self._log.exception("Worker cancelled while it waited", controller=self.name)
                continue
            await self._process(key)

    async def _process(self, key: Key) -> None:
        """Reconcile a key, unless its shard has gone to another replica since it was queued."""
        if self._partition is None:
            await self._reconcile_once(key)
        elif self._partition.owns(key):
            with self._partition.running(key) as scope:
                await self._reconcile_once(key)
            if scope.cancelled_caught:
                self._log.info(
                    "Cancelled, the shard is lost", namespace=key.namespace, name=key.name
                )
        else:
            self._hurries.pop(key, None)
            self.queue.forget(key)
            self.queue.done(key)

    async def _reconcile_once(self, key: Key) -> None:
        """Reconcile one key, with log context and metrics; queue it again if it asks for it."""
        clock, metrics = self.queue.clock, self._metrics
        begun = clock.monotonic()
        metrics.active.inc()
        try:
            with bound_contextvars(
                **self._log_context,
                namespace=key.namespace,
                name=key.name,
                reconcileID=str(uuid.uuid4()),
            ):
                outcome = await self._attempt(key)
                result = self._requeue(key, self._paced(key, outcome, begun))
                metrics.ended(result, clock.monotonic() - begun)
        finally:
            metrics.active.dec()
            self.queue.done(key)

    async def _attempt(self, key: Key) -> Outcome | Exception:
        try:
            return await self._call_reconciler(key)
        except BaseException as error:  # noqa: BLE001 - logged and retried by _requeue, or raised
            return as_exception(error)

    async def _call_reconciler(self, key: Key) -> Outcome:
        """Await the reconciler within its timeout; raise if what it returns is no Outcome."""
        running = self._reconcile(key)
        if not isinstance(running, Awaitable):
            raise NotAsync(
                f"the reconciler of {self.name} must be an `async def`: it returned {running!r},"
                " which cannot be awaited"
            )
        if self._timeout is None:
            outcome = await running
        else:
            with self.queue.clock.move_on_after(self._timeout) as scope:
                outcome = await running
            if scope.cancelled_caught:
                self._metrics.timeouts.inc()
                raise ControllerError(f"not reconciled within {self._timeout:g} s, and cancelled")
        if not isinstance(outcome, Outcome):  # a forgotten return, for example
            raise TypeError(f"reconciler {self.name} returned {outcome!r}, which is no Outcome")
        return outcome

    def _paced(self, key: Key, outcome: Outcome | Exception, begun: float) -> Outcome | Exception:
        """Return `outcome`, with a longer delay if the key keeps coming back at once."""
        if not isinstance(outcome, Again) or outcome.after >= LONGEST_PACE_SECONDS:
            self._hurries.pop(key, None)
            return outcome
        before = self._hurries.get(key, 0)
        self._hurries[key] = before + 1
        if before == 0:
            return outcome
        pace = min(LONGEST_PACE_SECONDS, KEY_BASE_SECONDS * 2.0 ** min(before - 1, 64))
        passed = self.queue.clock.monotonic() - begun
        return Again(max(outcome.after, pace - passed))

    def _requeue(self, key: Key, outcome: Outcome | Exception) -> str:
        """Queue `key` again if need be; return the result for metrics."""
        match most_severe(outcome) if isinstance(outcome, ExceptionGroup) else outcome:
            case Settled():
                self.queue.forget(key)
                self._log.debug("Reconciled")
                return "success"
            case Again(after=seconds):
                self._log.debug("Reconciled, requeued", after=seconds)
                return self._requeue_after(key, seconds)
            case Blocked(reason=reason, after=seconds):
                self._log.info("Blocked", reason=reason, after=seconds)
                return self._requeue_after(key, seconds)
            case Exception() as error:
                return self._requeue_error(key, error)
            case unreachable:
                assert_never(unreachable)

    def _requeue_error(self, key: Key, error: Exception) -> str:
        """Put a key back after an error: at once, after a delay or not at all, by its kind."""
        priority = self.queue.priority(key)
        match error:
            case Conflict():
                self._log.info("Conflict, starting over", reason=error.reason, error=str(error))
                self.queue.add_rate_limited(key, priority=priority)
                return "requeue"
            case TooManyRequests(retry_after=float() | int() as seconds) if seconds > 0:
                self._log.warning("Throttled by the API server", after=seconds)
                self.queue.add_after(key, seconds, priority=priority)
                return "requeue_after"
            case TerminalError():
                self._log.error("Reconciler error, not retried", error=str(error))
                self._metrics.terminal_errors.inc()
                return "error"
            case NotAsync():
                if not self._logged_not_async:
                    self._logged_not_async = True
                    self._log.error("The reconciler must be async", error=str(error))
                self._metrics.panics.inc()
            case ControllerError():
                self._log.error("Reconciler error", error=str(error), kind=type(error).__name__)
            case _:
                bug = is_bug(error)
                event = "Reconciler panic" if bug else "Reconciler error"
                self._log.error(event, error=_described(error), exc_info=error)
                self._metrics.panics.inc(bug)
        self.queue.add_rate_limited(key, priority=priority)
        return "error"

    def _requeue_after(self, key: Key, seconds: float | None) -> str:
        self.queue.forget(key)
        if seconds is None:
            return "success"
        self.queue.add_after(key, seconds, priority=self.queue.priority(key))
        return "requeue_after"


def most_severe(group: ExceptionGroup[Exception]) -> Exception:
    """Return the exception that decides for a group, as task groups of reconcilers raise them.

    If one is a bug, the group itself is returned, for its traceback. Otherwise errors come before
    TerminalErrors (there is something to retry), then TooManyRequests, then conflicts.
    """
    errors = list(_flatten(group))
    if not all(isinstance(error, ControllerError) for error in errors):
        return group
    return min(errors, key=_severity)


def _described(error: Exception) -> str:
    try:
        return repr(error)
    except Exception:  # noqa: BLE001 - the traceback is logged in any case
        return type(error).__name__


def _flatten(error: Exception) -> Iterator[Exception]:
    if isinstance(error, ExceptionGroup):
        for inner in error.exceptions:
            yield from _flatten(inner)
    else:
        yield error


def _severity(error: Exception) -> int:
    """Return the rank of an error; the most severe has rank 0."""
    for rank, kind in enumerate((TerminalError, TooManyRequests, Conflict), start=1):
        if isinstance(error, kind):
            return rank
    return 0
