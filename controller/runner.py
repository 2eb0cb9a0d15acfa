"""From a key to a verdict: the one place that decides retry, delay, back-off, metrics and logs.

    WorkQueue.get → reconcile(key) → outcome or exception → judge → WorkQueue.done

| answer of the reconciler      | the key                          | result        | log     |
|-------------------------------|----------------------------------|---------------|---------|
| Settled                       | rests until something changes    | success       | debug   |
| Again(after)                  | after that many seconds          | requeue_after | debug   |
| Blocked(reason)               | rests until something changes    | success       | info    |
| Blocked(reason, after)        | after that many seconds          | requeue_after | info    |
| Conflict (AlreadyExists too)  | with back-off                    | requeue       | info    |
| TooManyRequests(retry_after)  | when the server said             | requeue_after | warning |
| TerminalError                 | rests until something changes    | error         | error   |
| any other ControllerError     | with back-off                    | error         | error   |
| any other Exception: a bug    | with back-off, a "panic"         | error         | error   |

The first four end a series of failures; a TerminalError does not (controller-runtime's rule: if
it turns into another error, the back-off goes on from where it was). Bugs are logged with their
traceback.
"""

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
from controller.resource import Resource
from controller.workqueue import QueueShutDown, WorkQueue

Reconcile = Callable[[Key], Awaitable[Outcome]]
Log = structlog.typing.FilteringBoundLogger


class Controller:
    """Takes keys from a queue and has them reconciled, never one key twice at once.

    Args:
        name: unique in a process; the label of metrics and the `controller` of log lines.
        reconcile: brings the world of one key to what it should be.
        queue: where the keys come from; its clock measures.
        concurrency: how many keys are worked on at once.
        metrics: the series of this controller; own ones by default.
        kind: what the keys are names of, for log lines.
        timeout_seconds: how long a reconciliation may take; None for as long as it likes. One
            that takes longer is cancelled where it waits, and tried again with back-off.
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
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"controller {name}: concurrency must be at least 1")
        self.name = name
        self.queue = queue
        self.concurrency = concurrency
        self._reconcile = reconcile
        self._timeout = timeout_seconds
        self._metrics = metrics or Metrics().controller(name, concurrency)
        self._about = {"controller": name} | (
            {"controllerGroup": kind.group, "controllerKind": kind.kind} if kind else {}
        )
        self._log: Log = structlog.get_logger(__name__)

    async def run(self) -> None:
        """Work until `stop`, then until what is running has ended; or until cancelled."""
        async with anyio.create_task_group() as workers:
            for _ in range(self.concurrency):
                workers.start_soon(self._work)

    def stop(self) -> None:
        """Begin no more work: queued keys are dropped, and `run` returns when workers end.

        How long that may take is the caller's to bound, by cancelling `run`.
        """
        self.queue.shut_down(drain=False)

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueShutDown:
                return
            await self._process(key)

    async def _process(self, key: Key) -> None:
        clock, metrics = self.queue.clock, self._metrics
        begun = clock.monotonic()
        metrics.active.inc()
        try:
            with bound_contextvars(
                **self._about,
                namespace=key.namespace,
                name=key.name,
                reconcileID=str(uuid.uuid4()),
            ):
                answer = await self._attempt(key)
                metrics.ended(self._judge(key, answer), clock.monotonic() - begun)
        finally:
            metrics.active.dec()
            self.queue.done(key)

    async def _attempt(self, key: Key) -> Outcome | Exception:
        try:
            return self._checked(await self._bounded(key))
        except Exception as error:  # noqa: BLE001 - becomes a value that _judge logs and retries
            return error

    async def _bounded(self, key: Key) -> Outcome:
        if self._timeout is None:
            return await self._reconcile(key)
        with self.queue.clock.move_on_after(self._timeout) as scope:
            outcome = await self._reconcile(key)
        if scope.cancelled_caught:
            self._metrics.timeouts.inc()
            raise ControllerError(f"not reconciled within {self._timeout:g} s, and cancelled")
        return outcome

    def _checked(self, outcome: Outcome) -> Outcome:
        """Refuse what the type checker would have refused, a forgotten return above all."""
        if not isinstance(outcome, Outcome):
            raise TypeError(f"reconciler {self.name} returned {outcome!r}, which is no Outcome")
        return outcome

    def _judge(self, key: Key, answer: Outcome | Exception) -> str:
        """Decide what becomes of `key`; returns the result as metrics name it."""
        match gravest(answer) if isinstance(answer, ExceptionGroup) else answer:
            case Settled():
                self.queue.forget(key)
                self._log.debug("Reconciled")
                return "success"
            case Again(after=seconds):
                self._log.debug("Reconciled, looking again later", after=seconds)
                return self._later(key, seconds)
            case Blocked(reason=reason, after=seconds):
                self._log.info("Blocked", reason=reason, after=seconds)
                return self._later(key, seconds)
            case Exception() as error:
                return self._judge_error(key, error)
            case unreachable:
                assert_never(unreachable)

    def _judge_error(self, key: Key, error: Exception) -> str:
        match error:
            case Conflict():
                self._log.info("Conflict, starting over", reason=error.reason, error=str(error))
                return self._back_off(key, "requeue")
            case TooManyRequests(retry_after=float() | int() as seconds) if seconds > 0:
                self._log.warning("Throttled by the API server", after=seconds)
                self.queue.add_after(key, seconds, priority=self.queue.priority(key))
                return "requeue_after"
            case TerminalError():
                self._log.error("Reconciler error, not retried", error=str(error))
                self._metrics.terminal_errors.inc()
                return "error"
            case ControllerError():
                self._log.error("Reconciler error", error=str(error), kind=type(error).__name__)
                return self._back_off(key, "error")
            case _:
                self._log.error("Reconciler panic", error=repr(error), exc_info=error)
                self._metrics.panics.inc()
                return self._back_off(key, "error")

    def _later(self, key: Key, seconds: float | None) -> str:
        self.queue.forget(key)
        if seconds is None:
            return "success"
        self.queue.add_after(key, seconds, priority=self.queue.priority(key))
        return "requeue_after"

    def _back_off(self, key: Key, result: str) -> str:
        self.queue.add_rate_limited(key, priority=self.queue.priority(key))
        return result


def gravest(group: ExceptionGroup[Exception]) -> Exception:
    """Return what a group of failures comes down to; task groups of reconcilers raise them.

    One bug makes the whole group a bug, and it is returned whole, for its traceback. Otherwise
    an error outweighs a TerminalError (something can still be retried), that outweighs being
    throttled, and a conflict counts only if nothing but conflicts happened.
    """
    leaves = list(_leaves(group))
    if not all(isinstance(leaf, ControllerError) for leaf in leaves):
        return group
    return min(leaves, key=_lightness)


def _leaves(error: Exception) -> Iterator[Exception]:
    if isinstance(error, ExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _lightness(error: Exception) -> int:
    for weight, kind in enumerate((TerminalError, TooManyRequests, Conflict), start=1):
        if isinstance(error, kind):
            return weight
    return 0
