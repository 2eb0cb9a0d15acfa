"""Processes of a control plane: started, waited for, stopped, and never left behind.

Each is asked to end when the control plane stops, and made to end if it does not. The kernel
kills them when their parent dies, so that not even `kill -9` leaves orphans (on Linux; elsewhere
a killed parent leaves them running).
"""

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

import anyio
from aiohttp import ClientError, ClientSession
from anyio import to_thread

from envtest.settings import EnvironmentSettings, PlaneError

# Loaded now: between fork and exec nothing should be that can wait for a lock.
_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_STDERR = 2
_PAUSE_SECONDS = 0.1
_ASK_SECONDS = 2.0
_WATCH_SECONDS = 0.5
_ANYTHING = re.compile("")
_LOG_LINES = 15
# Some log a whole stack in one line.
_LOG_WIDTH = 300


class PortTakenError(Exception):
    """Another process listens on the port."""


@dataclass(frozen=True, slots=True)
class Child:
    """A process and its log file.

    Attributes:
        process: the process.
        log: the file.
        showing: what shows its output as well, if it is to be shown; it ends with the process.
    """

    process: subprocess.Popen[bytes]
    log: Path
    showing: threading.Thread | None = None

    @property
    def name(self) -> str:
        """Return the name for messages."""
        return self.log.stem


class Children:
    """Starts the processes of one control plane.

    Args:
        settings: how long to wait for them, and whether their output is shown.
        folder: where their logs go.
        stack: with which they end.
    """

    def __init__(self, settings: EnvironmentSettings, folder: Path, stack: AsyncExitStack) -> None:
        self._settings = settings
        self._folder = folder
        self._stack = stack
        self.started: list[Child] = []
        """Every process that was started, in order."""

    def start(
        self,
        program: Path,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
    ) -> Child:
        """Start a program.

        Args:
            arguments: of its command line.
            environment: its variables; those of this process if not given.

        Raises:
            PlaneError: it is none that this machine runs.
        """
        log = self._folder / f"{program.name}.log"
        bound = partial(_die_with_parent, os.getpid()) if sys.platform == "linux" else None
        with log.open("wb") as sink:
            output = subprocess.PIPE if self._settings.show_output else sink
            try:
                process = subprocess.Popen(  # noqa: S603  # anyio has no preexec_fn
                    [str(program), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    preexec_fn=bound,  # noqa: PLW1509
                    start_new_session=True,
                    env=environment,
                )
            except OSError as error:
                raise PlaneError(f"{program} cannot be run: {error.strerror}") from error
        child = Child(process, log, _start_copying(process, log))
        self.started.append(child)
        self._stack.push_async_callback(self._stop, child)
        return child

    async def ready(
        self,
        child: Child,
        session: ClientSession,
        path: str,
        content: re.Pattern[str] = _ANYTHING,
    ) -> None:
        """Ask until the answer is 200.

        Args:
            child: the process.
            session: the way to ask it.
            path: what is asked for.
            content: what has to be in the answer.

        Raises:
            PlaneError: the process ended or takes too long; the message ends with its last lines.
            PortTakenError: it found its port taken.
        """
        with anyio.move_on_after(self._settings.start_seconds):
            while child.process.poll() is None:
                answered = await _answers(session, path, content)
                if await _port_is_taken(child):
                    # Then it may go on without, and the port's holder may have answered.
                    break
                if answered and child.process.poll() is None:
                    return
                await anyio.sleep(_PAUSE_SECONDS)
        raise await self._failure(child)

    async def watch(self, child: Child) -> None:
        """Wait until a process ends that should have gone on.

        Raises:
            PlaneError: it ended; the message ends with its last lines.
        """
        # Only Linux has an event for the end of a process (a pidfd).
        while child.process.poll() is None:  # noqa: ASYNC110
            await anyio.sleep(_WATCH_SECONDS)
        raise await self._failure(child)

    async def _failure(self, child: Child) -> PlaneError | PortTakenError:
        """Return why a process is not ready, or no longer."""
        if child.process.returncode is not None and child.showing is not None:
            await to_thread.run_sync(child.showing.join, self._settings.stop_seconds)
        output = await _log(child)
        if await _port_is_taken(child):
            return PortTakenError(f"{child.name} found its port taken; choose another one")
        if child.process.returncode is not None:
            how = f"ended with code {child.process.returncode}"
        else:
            how = f"is not ready after {self._settings.start_seconds:g} seconds"
        if self._settings.show_output:
            return PlaneError(f"{child.name} {how}; what it said is shown above")
        last = "\n".join(line[:_LOG_WIDTH] for line in output.splitlines()[-_LOG_LINES:])
        return PlaneError(f"{child.name} {how}; its last lines:\n{last}")

    async def _stop(self, child: Child) -> None:
        """Stop a process: SIGTERM, then SIGKILL."""
        with anyio.CancelScope(shield=True):
            child.process.terminate()
            await to_thread.run_sync(self._reap, child)

    def _reap(self, child: Child) -> None:
        """Wait for a process that was asked to end, in a thread of its own."""
        try:
            child.process.wait(self._settings.stop_seconds)
        except subprocess.TimeoutExpired:
            child.process.kill()
            child.process.wait()
        if child.showing is not None:
            child.showing.join(self._settings.stop_seconds)


async def _answers(session: ClientSession, path: str, content: re.Pattern[str]) -> bool:
    """Ask once; tell whether the answer is 200 and holds the content."""
    try:
        # Where another process has the port, it may never answer.
        with anyio.move_on_after(_ASK_SECONDS):
            async with session.get(path) as answer:
                return answer.status == 200 and content.search(await answer.text()) is not None
    except ClientError:
        # Not listening yet.
        return False
    return False


async def _port_is_taken(child: Child) -> bool:
    return "address already in use" in await _log(child)


async def _log(child: Child) -> str:
    return await anyio.Path(child.log).read_text(encoding="utf-8", errors="replace")


def _start_copying(process: subprocess.Popen[bytes], log: Path) -> threading.Thread | None:
    """Copy a process's output to its log and to stderr, if the output is a pipe to us.

    The log is needed all the same: whether a port was taken stands there.
    """
    if process.stdout is None:
        return None
    showing = threading.Thread(
        target=_copy, args=(process.stdout, log), name=f"show {log.stem}", daemon=True
    )
    showing.start()
    return showing


def _copy(said: IO[bytes], log: Path) -> None:
    """Copy lines until there are no more."""
    with said, log.open("wb", buffering=0) as sink:
        for line in said:
            sink.write(line)
            os.write(_STDERR, line)


def _die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent is gone; runs between fork and exec."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It was gone before the kernel was asked.
        os.kill(os.getpid(), signal.SIGKILL)
