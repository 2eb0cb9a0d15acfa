"""Fails the test that leaves something behind, keeps the event loop busy, or hides a bug.

    a callback that keeps the loop busy     its CPU time is above BUSY_SECONDS
    time.sleep on the loop                  it is called where a loop runs
    an orphan task                          it is not done when its loop is closed
    an unclosed session, socket, file       it is collected without having been closed
    a coroutine that was not awaited        it is collected without having run
    a child process                         it runs, or was not waited for, after the test; if a
                                            fixture of several tests started it, after that fixture
    a bug that a controller survives        a handler, mapping, index function or reconciler raises
                                            a TypeError or the like (`is_bug`). The controller logs
                                            the error and tries again, so the test might pass.
                                            Tests of such errors are marked `survives_bugs`

The first is measured in CPU time of the thread, not in time that passed, so that a busy machine
fails no test; to within LOOK_SECONDS, as asking for the CPU time is a system call, and callbacks
are many. The garbage collector's work is left out: what it goes through was made by other tests,
too. For the two that only the garbage collector can tell, it runs after each test, over what
the test has made: what was there when the tests began is frozen, and what outlived an earlier test
is looked at when its module ends. To go through all of that each time took a fifth of the suite's
CPU time, as what hypothesis and the modules keep grows to tens of megabytes.

The hooks are loaded by conftest.py.
"""

import asyncio
import gc
import sys
import threading
import time
from asyncio import events, runners
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from controller.callbacks import safe_repr
from controller.indexes import IndexFailure
from controller.loggers import Logger
from controller.supervisor import is_bug
from tests import forkserver

BUSY_SECONDS = 2.0
LOOK_SECONDS = 0.1
GENERATIONS = (50_000, 100, 10)
"""Thresholds of the garbage collector with which what a test makes does not get into the oldest
generation before the test is over, unless it makes millions of objects; the default is 700."""
YOUNG, OLDEST = 1, 2
"""Generations of the garbage collector: all but the oldest, and all."""

SURVIVES_BUGS = "survives_bugs"
"""The marker of tests in which functions that a controller calls raise errors of bugs."""

_problems: list[str] = []
_bugs: list[str] = []
"""What was logged of errors of bugs in the present test."""
_undo: list[Callable[[], None]] = []
_children_before = pytest.StashKey[set[int]]()
_shared: dict[pytest.FixtureDef[Any], set[int]] = {}
"""Child processes that fixtures of several tests have started, and end themselves."""


def pytest_configure() -> None:
    """Patch the event loop and time.sleep; stop garbage collection until tests are collected."""
    gc.disable()
    if not _undo:
        gc.callbacks.append(_collector_time)
        _undo.append(lambda: gc.callbacks.remove(_collector_time))
        _patch(events.Handle, "_run", _report_busy_callbacks(events.Handle._run))
        _patch(runners.Runner, "close", _report_tasks(runners.Runner.close))
        _patch(time, "sleep", _report_sleep(time.sleep))  # noqa: TID251 - to catch it
        _patch(Logger, "error", _report_bugs(Logger.error, lambda line: line.get("exc_info")))
        handled = _report_bugs(Logger.exception, lambda _: sys.exc_info()[1])
        _patch(Logger, "exception", handled)
        _patch(IndexFailure, "__init__", _report_index_failures(IndexFailure.__init__))


def pytest_unconfigure() -> None:
    """Undo the patches."""
    while _undo:
        _undo.pop()()


def pytest_collection_finish() -> None:
    """Exclude all present objects from garbage collection, and start that again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GENERATIONS)
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Note the child processes that run before the test."""
    _problems.clear()
    _bugs.clear()
    item.stash[_children_before] = list_children()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
    """Note the child processes that a fixture of several tests starts."""
    if fixturedef.scope == "function":
        return (yield)
    before = list_children()
    try:
        return (yield)
    finally:
        _shared[fixturedef] = list_children() - before


@pytest.hookimpl(trylast=True)
def pytest_fixture_post_finalizer(fixturedef: pytest.FixtureDef[Any]) -> None:
    """Report child processes of such a fixture that still run after it."""
    for child in _shared.pop(fixturedef, set()) & list_children():
        _report_child(child)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """Fail the test for everything that it and its fixtures have left behind."""
    try:
        yield
    finally:
        last = nextitem is None or nextitem.path != item.path
        collect_garbage(OLDEST if last else YOUNG)
        before: set[int] = item.stash[_children_before]
        for child in list_children() - before.union(*_shared.values()):
            _report_child(child)
        problems, _problems[:] = list(dict.fromkeys(_problems)), []
        bugs, _bugs[:] = list(dict.fromkeys(_bugs)), []
    if problems:
        pytest.fail(
            "this test leaves something behind:\n  " + "\n  ".join(problems), pytrace=False
        )
    if bugs and item.get_closest_marker(SURVIVES_BUGS) is None:
        pytest.fail("a controller survived bugs:\n  " + "\n  ".join(bugs), pytrace=False)


def collect_garbage(generation: int = OLDEST) -> None:
    """Collect garbage up to a generation, and note warnings of objects that were not closed."""
    before = sys.unraisablehook

    def note(complaint: Any) -> None:
        if isinstance(complaint.exc_value, ResourceWarning | RuntimeWarning):
            _problems.append(f"{type(complaint.exc_value).__name__}: {complaint.exc_value}")
        else:
            before(complaint)

    sys.unraisablehook = note
    try:
        gc.collect(generation)
    finally:
        sys.unraisablehook = before


def list_children() -> set[int]:
    """Return the ids of child processes that were not waited for; only Linux lists them."""
    while True:
        threads = Path("/proc/self/task").glob("*/children")
        try:
            children = {int(child) for thread in threads for child in thread.read_text().split()}
            return children - forkserver.processes()
        except (FileNotFoundError, ProcessLookupError):
            # A thread ended meanwhile, and another one has its children now: read again.
            continue


def _report_child(child: int) -> None:
    """Note that a test has left a child process."""
    _problems.append(f"the child process {child} was left: {_command(child)}")


def _command(process: int) -> str:
    """Return the command line of a process, or a word about its state."""
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return "it has ended by now"
    return command.replace(b"\0", b" ").decode(errors="replace").strip() or "a zombie"


def _patch(owner: Any, name: str, new: Any) -> None:
    """Replace an attribute until `pytest_unconfigure`."""
    old = getattr(owner, name)
    setattr(owner, name, new)
    _undo.append(lambda: setattr(owner, name, old))


class _CollectorTime:
    """A callback of the garbage collector that sums its CPU time in each thread."""

    def __init__(self) -> None:
        self._thread = threading.local()

    @property
    def seconds(self) -> float:
        """CPU seconds in this thread so far."""
        return getattr(self._thread, "seconds", 0.0)

    def __call__(self, phase: str, details: dict[str, int]) -> None:
        """Note begin or end of a collection; those of the youngest generation are short."""
        if details["generation"] < YOUNG:
            return
        if phase == "start":
            self._thread.begun = time.thread_time()
        else:
            self._thread.seconds = self.seconds + time.thread_time() - self._thread.begun


_collector_time = _CollectorTime()


def _report_busy_callbacks(
    run: Callable[[events.Handle], None],
) -> Callable[[events.Handle], None]:
    """Return Handle._run with a report of callbacks that keep the loop busy."""
    clock = time.perf_counter
    looked = threading.local()
    """When this thread's CPU time was asked for, and what it was."""

    def read_used_seconds() -> float:
        return time.thread_time() - _collector_time.seconds

    def run_measured(handle: events.Handle) -> None:
        begun = clock()
        if begun - getattr(looked, "at", -LOOK_SECONDS) >= LOOK_SECONDS:
            looked.at, looked.used = begun, read_used_seconds()
        run(handle)
        if clock() - begun > BUSY_SECONDS:
            seconds = read_used_seconds() - looked.used
            if seconds > BUSY_SECONDS:
                _problems.append(f"the event loop was kept busy for {seconds:.1f} s by {handle!r}")

    return run_measured


def _report_tasks(close: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return Runner.close with a report of tasks that are not done."""

    def run_checked(runner: Any) -> None:
        loop = runner._loop
        if loop is not None and not loop.is_closed():
            for task in asyncio.all_tasks(loop):
                _problems.append(f"a task was left: {task!r}")
        close(runner)

    return run_checked


def _report_bugs(
    log_line: Callable[..., None], find_error: Callable[[Mapping[str, Any]], object]
) -> Callable[..., None]:
    """Return Logger.error or Logger.exception with a report of a bug whose traceback is logged.

    Args:
        log_line: the method.
        find_error: returns the error of a line, by the line's fields.
    """

    def log_and_report(logger: Logger, event: str, *values: Any, **fields: Any) -> None:
        error = find_error(fields)
        if isinstance(error, Exception) and is_bug(error):
            _bugs.append(f"{event}: {safe_repr(error)}")
        log_line(logger, event, *values, **fields)

    return log_and_report


def _report_index_failures(initialize: Callable[..., None]) -> Callable[..., None]:
    """Return IndexFailure.__init__ with a report of the failure."""

    def initialize_and_report(failure: IndexFailure, message: str) -> None:
        _bugs.append(message)
        initialize(failure, message)

    return initialize_and_report


def _report_sleep(sleep: Callable[[float], None]) -> Callable[[float], None]:
    """Return time.sleep with a report of calls on the event loop."""

    def awake(seconds: float) -> None:
        if events._get_running_loop() is not None:
            frame = sys._getframe(1)
            where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            _problems.append(f"time.sleep({seconds:g}) on the event loop, at {where}")
        sleep(seconds)

    return awake
