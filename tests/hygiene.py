"""Fails the test that leaves something behind or keeps the event loop from turning.

    a callback that keeps the loop busy     its CPU time is above BUSY_SECONDS
    time.sleep on the loop                  it is called where a loop runs
    an orphan task                          it is not done when its loop is closed
    an unclosed session, socket, file       it is collected without having been closed
    a coroutine that was not awaited        it is collected without having run
    a child process                         it runs, or was not waited for, after the test; if a
                                            fixture of several tests started it, after that fixture

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
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests import forkserver

BUSY_SECONDS = 2.0
LOOK_SECONDS = 0.1
GENERATIONS = (50_000, 100, 10)
"""Thresholds of the garbage collector with which what a test makes does not get into the oldest
generation before the test is over, unless it makes millions of objects; the default is 700."""
YOUNG, OLDEST = 1, 2
"""Generations of the garbage collector: all but the oldest, and all."""

_problems: list[str] = []
_undo: list[Callable[[], None]] = []
_children_before = pytest.StashKey[set[int]]()
_shared: dict[pytest.FixtureDef[Any], set[int]] = {}
"""Child processes that fixtures of several tests have started, and end themselves."""


def pytest_configure() -> None:
    """Put the gauges in place; what is loaded and collected from now on is no garbage."""
    gc.disable()
    if not _undo:
        gc.callbacks.append(_collecting)
        _undo.append(lambda: gc.callbacks.remove(_collecting))
        _replace(events.Handle, "_run", _measure(events.Handle._run))
        _replace(runners.Runner, "close", _check(runners.Runner.close))
        _replace(time, "sleep", _awake(time.sleep))  # noqa: TID251 - to catch it


def pytest_unconfigure() -> None:
    """Take the gauges out again."""
    while _undo:
        _undo.pop()()


def pytest_collection_finish() -> None:
    """Take what is there now out of the garbage collector's sight."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GENERATIONS)
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Note what is there before the test."""
    _problems.clear()
    item.stash[_children_before] = children()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
    """Note what a fixture starts that lives longer than one test."""
    if fixturedef.scope == "function":
        return (yield)
    before = children()
    try:
        return (yield)
    finally:
        _shared[fixturedef] = children() - before


@pytest.hookimpl(trylast=True)
def pytest_fixture_post_finalizer(fixturedef: pytest.FixtureDef[Any]) -> None:
    """Look at what such a fixture has left when it is over."""
    for child in _shared.pop(fixturedef, set()) & children():
        _complain_of_child(child)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """Look at what is left when the test and its fixtures are over."""
    try:
        yield
    finally:
        last = nextitem is None or nextitem.path != item.path
        collect_garbage(OLDEST if last else YOUNG)
        before: set[int] = item.stash[_children_before]
        for child in children() - before.union(*_shared.values()):
            _complain_of_child(child)
        problems, _problems[:] = list(dict.fromkeys(_problems)), []
    if problems:
        pytest.fail(
            "this test leaves something behind:\n  " + "\n  ".join(problems), pytrace=False
        )


def collect_garbage(generation: int = OLDEST) -> None:
    """Collect garbage up to a generation, and note what complains about being thrown away."""
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


def children() -> set[int]:
    """Return the processes that tests have started and not waited for; only Linux tells."""
    while True:
        threads = Path("/proc/self/task").glob("*/children")
        try:
            children = {int(child) for thread in threads for child in thread.read_text().split()}
            return children - forkserver.processes()
        except (FileNotFoundError, ProcessLookupError):
            # A thread ended meanwhile, and its children are another one's now: look again.
            continue


def _complain_of_child(child: int) -> None:
    _problems.append(f"the child process {child} was left: {_command(child)}")


def _command(process: int) -> str:
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return "over by now"
    return command.replace(b"\0", b" ").decode(errors="replace").strip() or "a zombie"


def _replace(owner: Any, name: str, new: Any) -> None:
    old = getattr(owner, name)
    setattr(owner, name, new)
    _undo.append(lambda: setattr(owner, name, old))


class _Collecting:
    """The CPU time that the garbage collector took in this thread, for long collections only."""

    def __init__(self) -> None:
        self._thread = threading.local()

    @property
    def seconds(self) -> float:
        """CPU seconds in this thread so far."""
        return getattr(self._thread, "seconds", 0.0)

    def __call__(self, phase: str, details: dict[str, int]) -> None:
        """Take a callback of the garbage collector."""
        if details["generation"] < YOUNG:
            return
        if phase == "start":
            self._thread.begun = time.thread_time()
        else:
            self._thread.seconds = self.seconds + time.thread_time() - self._thread.begun


_collecting = _Collecting()


def _measure(run: Callable[[events.Handle], None]) -> Callable[[events.Handle], None]:
    clock = time.perf_counter
    looked = threading.local()
    """When this thread's CPU time was asked for, and what it was."""

    def read_used_seconds() -> float:
        return time.thread_time() - _collecting.seconds

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


def _check(close: Callable[[Any], None]) -> Callable[[Any], None]:
    def run_checked(runner: Any) -> None:
        loop = runner._loop
        if loop is not None and not loop.is_closed():
            for task in asyncio.all_tasks(loop):
                _problems.append(f"a task was left: {task!r}")
        close(runner)

    return run_checked


def _awake(sleep: Callable[[float], None]) -> Callable[[float], None]:
    def awake(seconds: float) -> None:
        if events._get_running_loop() is not None:
            frame = sys._getframe(1)
            where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            _problems.append(f"time.sleep({seconds:g}) on the event loop, at {where}")
        sleep(seconds)

    return awake
