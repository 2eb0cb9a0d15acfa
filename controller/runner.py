"""Runs a reconciler for the keys of a queue, and decides on retries, metrics and log lines.

    WorkQueue.get → reconcile(key) → outcome or exception → WorkQueue.done

Nothing that a reconciler returns or raises ends a worker; SystemExit ends the process.

| outcome or exception          | the key is queued again          | result        | log     |
|-------------------------------|----------------------------------|---------------|---------|
| Settled                       | when something changes           | success       | debug   |
| Again(after)                  | after that many seconds; paced   | requeue_after | debug   |
| Blocked(reason)               | when something changes           | success       | info *  |
| Blocked(reason, after)        | after that many seconds          | requeue_after | info *  |
| Conflict (AlreadyExists too)  | with back-off                    | requeue       | info    |
| … the fifth in a row, and on  | with back-off                    | error         | error   |
| FieldManagerConflict          | with back-off                    | error         | error   |
| TooManyRequests(retry_after)  | after that many seconds          | requeue_after | warning |
| TerminalError                 | when something changes           | error         | error   |
| any other ControllerError     | with back-off; 400 and 422 too   | error         | error   |
| a mistake in code: TypeError, | with back-off; counts as panic   | error         | error   |
| KeyError (supervisor.is_bug)  |                                  |               |         |
| any other Exception           | with back-off                    | error         | error   |
| … the last of `most_tries`    | when something changes           | error         | error   |

* Info when the reason is new; the passes that follow with the same reason log at debug. The first
pass that ends with Settled or Again logs the end of the wait.

A shard_by that fails is an error of its key, like a reconciler that raises.

The first four reset the key's failures. A TerminalError does not (controller-runtime's rule): if
another error follows, the back-off continues. An exception that is no ControllerError is logged
with its traceback.

A key whose passes return Again(0) time after time is paced: the starts of its passes are 5 ms
apart, then 10, 20 and so on up to 100 ms. So a pass that works through a long list in parts is
hardly delayed, and a pass that returns Again(0) by mistake does not take all of the process' time.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, assert_never

import anyio

from controller.argumenttypes import check_type
from controller.callbacks import (
    check_callable,
    check_plain,
    discard_result,
    is_key,
    name_function,
    safe_repr,
)
from controller.deadlines import Deadline, DeadlinePassed
from controller.errors import (
    LONGEST_RETRY_SECONDS,
    AlreadyExists,
    Conflict,
    ControllerError,
    TerminalError,
    TooManyRequests,
)
from controller.loggers import bind_fields, get_logger
from controller.meta import Key
from controller.metrics import Metrics, ReconcileMetrics
from controller.outcome import Again, Blocked, Outcome, Settled
from controller.queueorder import KEY_BASE_SECONDS, Retries
from controller.resource import Resource
from controller.shards import Partition
from controller.statelog import StateLog
from controller.supervisor import is_bug, is_cancellation_requested, wrap_in_exception
from controller.workqueue import QueueShutDown, WorkQueue

Reconcile = Callable[[Key], Awaitable[Outcome]]
Attempt = Callable[[Key], Awaitable[Outcome | Exception]]

LONGEST_PACE_SECONDS = 0.1
"""A key whose passes return Again(0) is reconciled at most once in so many seconds."""


TRIES_EXHAUSTED = "TriesExhausted"
"""The reason for which a key is blocked after `Retries.most_tries` failed passes."""
_BLOCKED = "Blocked"
"""The topic of the states that the runner logs."""

CONFLICTS_IN_A_ROW = 5
"""So many conflicts of one key in a row are an error: no retry has solved them."""


def check_settings(
    name: str,
    *,
    group: object | None,
    retries: object | None,
    shard_by: object | None,
    forget: object | None,
) -> None:
    """Raise TypeError for settings of a controller that cannot be used.

    The settings for shards are checked even without shards, so that a mistake in them shows.

    Args:
        name: the name of the controller, for the message.
        group: the function from a key to its group; None if there is none.
        retries: the back-off and the number of tries; None for the defaults.
        shard_by: the function from a key to the key that decides its shard; None if there is none.
        forget: the function that is called with a key of a lost shard; None if there is none.

    Raises:
        TypeError: a function is async or cannot be called with a key, or `retries` is no Retries.
    """
    functions = {"group": group, "shard_by": shard_by, "forget": forget}
    for setting, function in functions.items():
        if function is not None:
            check_plain(function, f"{setting} of controller {name}", "key")
    check_type(
        retries,
        (Retries, type(None)),
        argument=f"controller {name}: retries",
        expected="a Retries, such as Retries(most_tries=5), or None",
    )


class NotAsync(TypeError):
    """The reconciler is a plain function. Logged once only, because it is so for every key."""


class Controller:
    """Reconciles the keys of a queue, never one key twice at the same time.

    Args:
        name: unique in a process; the label of metrics and the `controller` of log lines.
        reconcile: reconciles one key.
        queue: has the keys; its clock is used for durations.
        concurrency: how many keys are reconciled at once.
        metrics: the metrics of this controller; by default new ones.
        kind: the kind of the keys' objects, for log lines.
        timeout_seconds: how long a reconciliation may take; None for no limit. A reconciliation
            that takes longer is cancelled, and retried with back-off.
        partition: which keys are reconciled in this process; None for all.
        most_tries: how many failed passes in a row block a key; None for no limit.

    Raises:
        ValueError: `concurrency` is less than 1.
        TypeError: `reconcile` cannot be called with a key.
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
        most_tries: int | None = None,
    ) -> None:
        check_callable(reconcile, f"the reconciler of {name}", "key")
        if concurrency < 1:
            raise ValueError(f"controller {name}: concurrency must be at least 1")
        self.name = name
        self.queue = queue
        self.concurrency = concurrency
        self._reconcile = reconcile
        self._timeout = timeout_seconds
        self._partition = partition
        self._metrics = metrics or Metrics().create_reconcile_metrics(name, concurrency)
        self._log_context = {"controller": name} | (
            {"controllerGroup": kind.group, "controllerKind": kind.kind} if kind else {}
        )
        self._immediate_repeats: dict[Key, int] = {}
        """By key, how many passes in a row returned Again with a delay below the longest pace."""
        self._conflicts: dict[Key, int] = {}
        """By key, how many passes in a row ended with a Conflict."""
        self._most_tries = most_tries
        self._tries: dict[Key, int] = {}
        """By key, how many passes in a row failed; a Conflict that is no error does not count."""
        self._logged_not_async = False
        self._state_log = StateLog()
        self._log = get_logger(__name__)

    async def run(self) -> None:
        """Reconcile keys until `stop` was called and running reconciliations have ended."""
        async with anyio.create_task_group() as workers:
            for _ in range(self.concurrency):
                workers.start_soon(self._process_keys)

    def stop(self) -> None:
        """Start no more reconciliations: drop the queued keys, and let `run` end.

        The caller limits how long that may take by cancelling `run`.
        """
        self.queue.shut_down(drain=False)

    async def _process_keys(self) -> None:
        """Take keys from the queue and reconcile them until the queue is shut down."""
        while True:
            try:
                key = await self.queue.get()
            except QueueShutDown:
                return
            except asyncio.CancelledError:
                if is_cancellation_requested():
                    raise
                # Other code cancelled this task by mistake; the worker must not end by that.
                self._log.exception("Worker cancelled while it waited", controller=self.name)
                continue
            await self._process_key(key)

    async def _process_key(self, key: Key) -> None:
        """Reconcile a key, unless its shard has gone to another replica since it was queued.

        A value that is no key is dropped: the framework takes keys from users' code.
        """
        if not is_key(key):
            self._drop_key(key)
            self._log.error(
                "Dropped a queued value that is not a key", controller=self.name, value=repr(key)
            )
            return
        if self._partition is None:
            await self._reconcile_once(key, self._attempt)
            return
        try:
            is_owned = self._partition.owns(key)
            pass_context = self._partition.open_pass(key)
        except Exception as error:  # noqa: BLE001 - logged and retried like an error of the pass
            await self._reconcile_once(key, partial(_return_error, error))
            return
        if not is_owned:
            self._drop_key(key)
            return
        with pass_context as scope:
            await self._reconcile_once(key, self._attempt)
        if scope.cancelled_caught:
            self._log.info("Cancelled, the shard is lost", namespace=key.namespace, name=key.name)

    def _drop_key(self, key: Key) -> None:
        """Remove a key that is not reconciled here from the queue, and forget its failures."""
        self._immediate_repeats.pop(key, None)
        self._conflicts.pop(key, None)
        self._tries.pop(key, None)
        self._state_log.forget(key)
        self.queue.forget(key)
        self.queue.done(key)

    async def _reconcile_once(self, key: Key, attempt: Attempt) -> None:
        """Run a pass over one key, with log fields and metrics; requeue the key by its outcome.

        Args:
            attempt: runs the pass; returns the outcome, or the error that ended it.
        """
        clock, metrics = self.queue.clock, self._metrics
        begun_at = clock.monotonic()
        metrics.active.inc()
        try:
            with bind_fields(
                **self._log_context,
                namespace=key.namespace,
                name=key.name,
                reconcileID=str(uuid.uuid4()),
            ):
                outcome = await attempt(key)
                result = self._requeue(key, self._delay_repeats(key, outcome, begun_at))
                metrics.count_reconciliation(result, clock.monotonic() - begun_at)
        finally:
            metrics.active.dec()
            self.queue.done(key)

    async def _attempt(self, key: Key) -> Outcome | Exception:
        """Call the reconciler; return its outcome, or its error for `_requeue` to log and retry.

        Only a requested cancellation, SystemExit and KeyboardInterrupt are raised.
        """
        try:
            return await self._call_reconciler(key)
        except BaseException as error:  # noqa: BLE001 - logged and retried by _requeue, or raised
            return wrap_in_exception(error)

    async def _call_reconciler(self, key: Key) -> Outcome:
        """Await the reconciler within its timeout; return its outcome.

        Raises:
            NotAsync: the reconciler is a plain function.
            TypeError: the reconciler returned no Outcome.
            ControllerError: the reconciler took longer than its timeout.
        """
        pass_awaitable = self._reconcile(key)
        if not isinstance(pass_awaitable, Awaitable):
            raise NotAsync(
                f"the reconciler of {self.name}, {name_function(self._reconcile)}, must be an"
                f" `async def`: it returned {safe_repr(pass_awaitable)}, which cannot be awaited"
            )
        if self._timeout is None:
            outcome = await pass_awaitable
        else:
            outcome = await self._run_within(self._timeout, pass_awaitable)
        if not isinstance(outcome, Outcome):  # a forgotten return, for example
            raise TypeError(
                f"reconciler {self.name}, {name_function(self._reconcile)}, returned"
                f" {discard_result(outcome)}, which is not an Outcome: return SETTLED,"
                " Again(seconds) or Blocked(reason)"
            )
        return outcome

    async def _run_within(self, seconds: float, pass_awaitable: Awaitable[Outcome]) -> Outcome:
        """Await a pass; cancel it when its time is over, and raise ControllerError."""

        def report_ignored() -> None:
            """Log that the pass goes on after its cancellation, which a user has to correct."""
            self._log.error(
                "The reconciler goes on after its timeout: it catches CancelledError. Let the"
                " error out",
                reconciler=name_function(self._reconcile),
                timeout_seconds=seconds,
            )

        deadline = Deadline(
            self.queue.clock,
            seconds,
            on_passed=self._metrics.timeouts.inc,
            on_ignored=report_ignored,
        )
        try:
            return await deadline.run(pass_awaitable)
        except DeadlinePassed as error:
            raise ControllerError(f"not reconciled within {seconds:g} s, and cancelled") from error

    def _delay_repeats(
        self, key: Key, outcome: Outcome | Exception, begun_at: float
    ) -> Outcome | Exception:
        """Return `outcome`, with a longer delay if the key's passes return Again(0) repeatedly.

        An Again with less than LONGEST_PACE_SECONDS counts like Again(0). The passes in a row are
        counted for this.
        """
        if not isinstance(outcome, Again) or outcome.after >= LONGEST_PACE_SECONDS:
            self._immediate_repeats.pop(key, None)
            return outcome
        repeats = self._immediate_repeats.get(key, 0)
        self._immediate_repeats[key] = repeats + 1
        if repeats == 0:
            return outcome  # the first time is not delayed
        # The exponent is limited because 2.0**1024 raises OverflowError.
        pace = min(LONGEST_PACE_SECONDS, KEY_BASE_SECONDS * 2.0 ** min(repeats - 1, 64))
        elapsed = self.queue.clock.monotonic() - begun_at
        return Again(max(outcome.after, pace - elapsed))

    def _requeue(self, key: Key, outcome: Outcome | Exception) -> str:
        """Log an outcome, and queue `key` again by it, as the table of the module says.

        Returns:
            The result for metrics, one of RESULTS.
        """
        outcome = find_most_severe(outcome) if isinstance(outcome, ExceptionGroup) else outcome
        # Only conflicts, and failed tries, in a row are counted.
        if not isinstance(outcome, Conflict):
            self._conflicts.pop(key, None)
        if not isinstance(outcome, Exception):
            self._tries.pop(key, None)
        match outcome:
            case Settled():
                self.queue.forget(key)
                self._log_unblocked(key)
                self._log.debug("Reconciled")
                return "success"
            case Again(after=seconds):
                self._log_unblocked(key)
                self._log.debug("Reconciled, requeued", after=seconds)
                return self._requeue_after(key, seconds)
            case Blocked(reason=reason, after=seconds):
                is_new = self._state_log.begin(key, _BLOCKED, reason)
                log = self._log.info if is_new else self._log.debug
                log("Blocked", reason=reason, after=seconds)
                return self._requeue_after(key, seconds)
            case Exception() as error:
                return self._requeue_error(key, error)
            case unreachable:
                assert_never(unreachable)

    def _log_unblocked(self, key: Key) -> None:
        """Log that a key is no longer blocked, if it was."""
        reason = self._state_log.end(key, _BLOCKED)
        if reason is not None:
            self._log.info("No longer blocked", reason=reason)

    def _requeue_error(self, key: Key, error: Exception) -> str:
        """Log an error, and queue the key again unless a retry cannot help.

        Returns:
            The result for metrics, one of RESULTS.
        """
        priority = self.queue.get_priority(key)
        match error:
            case Conflict():
                result = self._count_conflict(key, error)
                # Only a conflict that is an error counts as a failed try.
                if result == "error":
                    self._retry(key, priority)
                else:
                    self.queue.add_rate_limited(key, priority=priority)
                return result
            case TooManyRequests(retry_after=float() | int() as seconds) if seconds > 0:
                seconds = min(seconds, LONGEST_RETRY_SECONDS)
                self._log.warning("Throttled by the API server", after=seconds)
                self.queue.add_after(key, seconds, priority=priority)
                return "requeue_after"
            case TerminalError():
                # The failures of the key stay counted, as in controller-runtime.
                self._log.error("Reconciler error, not retried", error=_get_message(error))
                self._metrics.terminal_errors.inc()
                return "error"
            case NotAsync():
                if not self._logged_not_async:
                    self._logged_not_async = True
                    self._log.error("The reconciler must be async", error=_get_message(error))
                self._metrics.panics.inc()
            case ControllerError():
                name = type(error).__name__
                self._log.error(
                    "Reconciler error",
                    error=_get_message(error),
                    kind=name,
                    **_describe_request(error),
                )
            case _:
                is_panic = is_bug(error)
                event = "Reconciler panic" if is_panic else "Reconciler error"
                self._log.error(event, error=safe_repr(error), exc_info=error)
                if is_panic:
                    self._metrics.panics.inc()
        self._retry(key, priority)
        return "error"

    def _retry(self, key: Key, priority: int) -> None:
        """Queue a failed key after its back-off, or block it if it has failed too often."""
        tries = self._tries[key] = self._tries.get(key, 0) + 1
        if self._most_tries is None or tries < self._most_tries:
            self.queue.add_rate_limited(key, priority=priority)
            return
        del self._tries[key]
        self.queue.forget(key)
        self._state_log.begin(key, _BLOCKED, TRIES_EXHAUSTED)
        self._log.error("Blocked until something changes", reason=TRIES_EXHAUSTED, tries=tries)
        self._metrics.terminal_errors.inc()

    def _count_conflict(self, key: Key, error: Conflict) -> str:
        """Count and log a conflict; return the result for metrics.

        The result is `requeue` for the first conflicts in a row, then `error`.
        """
        in_a_row = self._conflicts[key] = self._conflicts.get(key, 0) + 1
        reason = error.reason
        if in_a_row < CONFLICTS_IN_A_ROW:
            self._log.info(
                "Conflict, starting over",
                reason=reason,
                error=_get_message(error),
                **_describe_request(error),
            )
            return "requeue"
        hint = "another writer changes the object at the same time as each pass"
        if isinstance(error, AlreadyExists):
            hint = (
                "the object exists, and the pass does not see it: compare the labels and the"
                " namespace of the object with what the informer selects"
            )
        self._log.error(
            "Conflict again, retries do not help",
            reason=reason,
            error=_get_message(error),
            in_a_row=in_a_row,
            hint=hint,
            **_describe_request(error),
        )
        return "error"

    def _requeue_after(self, key: Key, seconds: float | None) -> str:
        """Reset the key's failures, and queue it after `seconds`; None does not queue it.

        Returns:
            The result for metrics, one of RESULTS.
        """
        self.queue.forget(key)
        if seconds is None:
            return "success"
        self.queue.add_after(key, seconds, priority=self.queue.get_priority(key))
        return "requeue_after"


def find_most_severe(group: ExceptionGroup[Exception]) -> Exception:
    """Return the exception that decides how a pass that raised a group is retried.

    If an exception in the group is no ControllerError, the group itself is returned, so that the
    log has the whole traceback. Otherwise the error with the lowest rank is (see `_get_rank`).
    """
    errors = list(_list_errors(group))
    if not all(isinstance(error, ControllerError) for error in errors):
        return group
    return min(errors, key=_get_rank)


async def _return_error(error: Exception, _: Key) -> Exception:
    """Return the error that ended a pass before the reconciler was called."""
    return error


def _describe_request(error: ControllerError) -> dict[str, str]:
    """Return the log fields `request` and `hint` of an error; empty if no request failed."""
    fields = {"request": error.request, "hint": error.hint}
    return {name: value for name, value in fields.items() if value}


def _get_message(error: Exception) -> str:
    """Return the text of an error; the name of its type if `str` raises for it."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the error of the pass matters, not that of its text
        return type(error).__name__


def _list_errors(error: Exception) -> Iterator[Exception]:
    """Yield the exceptions in a group and in the groups inside it; else the exception itself."""
    if isinstance(error, ExceptionGroup):
        for inner in error.exceptions:
            yield from _list_errors(inner)
    else:
        yield error


def _get_rank(error: Exception) -> int:
    """Return the rank of a ControllerError in a group; the error with the lowest rank decides.

    The order is: other errors, because a retry may help; TerminalError; TooManyRequests; Conflict.
    """
    for rank, error_class in enumerate((TerminalError, TooManyRequests, Conflict), start=1):
        if isinstance(error, error_class):
            return rank
    return 0
