"""The child processes of a control plane: their start, readiness and end.

When the control plane stops, each process gets SIGTERM, and SIGKILL if it does not end. On Linux
the kernel kills them when their parent dies, so even `kill -9` leaves no orphans. Elsewhere a
killed parent leaves them running.
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

# Loaded here, because code between fork and exec must not wait for a lock, as loading may.
_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_STDERR = 2
_PAUSE_SECONDS = 0.1
_REQUEST_SECONDS = 2.0
_POLL_SECONDS = 0.5
_ANYTHING = re.compile("")
_LOG_LINES = 15
# Some programs log a whole stack trace in one line.
_LOG_WIDTH = 300


class PortTakenError(Exception):
    """Another process listens on the port."""


@dataclass(frozen=True, slots=True)
class Child:
    """A process and its log file.

    Attributes:
        process: the process.
        log: the log file.
        copy_thread: the thread that copies its output to stderr and the log; None if its output
            goes to the log directly. It ends with the process.
    """

    process: subprocess.Popen[bytes]
    log: Path
    copy_thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        """The name of the process in messages."""
        return self.log.stem


class Children:
    """Starts the processes of one control plane.

    Args:
        settings: the timeouts for start and stop, and whether output is shown.
        folder: the folder for their logs.
        stack: the processes are stopped when this stack is closed.
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
            arguments: the arguments of its command line.
            environment: its environment variables; None for those of this process.

        Raises:
            PlaneError: this machine cannot run it.
        """
        log = self._folder / f"{program.name}.log"
        die_with_parent = (
            partial(_die_with_parent, os.getpid()) if sys.platform == "linux" else None
        )
        with log.open("wb") as sink:
            output = subprocess.PIPE if self._settings.show_output else sink
            try:
                process = subprocess.Popen(  # noqa: S603  # anyio has no preexec_fn
                    [str(program), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    preexec_fn=die_with_parent,  # noqa: PLW1509
                    start_new_session=True,
                    env=environment,
                )
            except OSError as error:
                raise PlaneError(f"{program} cannot be run: {error.strerror}") from error
        child = Child(process, log, _start_copying(process, log))
        self.started.append(child)
        self._stack.push_async_callback(self._stop, child)
        return child

    async def wait_until_ready(
        self,
        child: Child,
        session: ClientSession,
        path: str,
        content: re.Pattern[str] = _ANYTHING,
    ) -> None:
        """Send GET requests until the answer is 200.

        Args:
            child: the process.
            session: a session with the URL of the process.
            path: the path of the request.
            content: a pattern that the answer must contain.

        Raises:
            PlaneError: the process ended or takes too long; the message ends with its last lines.
            PortTakenError: another process has its port.
        """
        with anyio.move_on_after(self._settings.start_seconds):
            while child.process.poll() is None:
                is_answered = await _is_answer_ready(session, path, content)
                if await _is_port_taken(child):
                    # The process may run on without its port, and the answer may be that of the
                    # other process.
                    break
                if is_answered and child.process.poll() is None:
                    return
                await anyio.sleep(_PAUSE_SECONDS)
        raise await self._explain_failure(child)

    async def raise_when_ended(self, child: Child) -> None:
        """Wait for the end of a process, which is always an error.

        Raises:
            PlaneError: the process ended; the message ends with its last lines.
        """
        # Only Linux has an event for the end of a process (a pidfd).
        while child.process.poll() is None:  # noqa: ASYNC110
            await anyio.sleep(_POLL_SECONDS)
        raise await self._explain_failure(child)

    async def _explain_failure(self, child: Child) -> PlaneError | PortTakenError:
        """Return the error for a process that is not ready in time, or has ended."""
        if child.process.returncode is not None and child.copy_thread is not None:
            # The last lines of an ended process are still on their way to the log.
            await to_thread.run_sync(child.copy_thread.join, self._settings.stop_seconds)
        output = await _read_log(child)
        if await _is_port_taken(child):
            return PortTakenError(f"{child.name} found its port taken; choose another one")
        if child.process.returncode is not None:
            problem = f"ended with code {child.process.returncode}"
        else:
            problem = f"is not ready after {self._settings.start_seconds:g} seconds"
        if self._settings.show_output:
            return PlaneError(f"{child.name} {problem}; its output is shown above")
        last_lines = "\n".join(line[:_LOG_WIDTH] for line in output.splitlines()[-_LOG_LINES:])
        return PlaneError(f"{child.name} {problem}; its last lines:\n{last_lines}")

    async def _stop(self, child: Child) -> None:
        """Stop a process: SIGTERM, then SIGKILL."""
        with anyio.CancelScope(shield=True):
            child.process.terminate()
            await to_thread.run_sync(self._wait_for_end, child)

    def _wait_for_end(self, child: Child) -> None:
        """Wait for the end of a process after SIGTERM; kill it if it takes too long.

        This blocks, so it runs in a thread.
        """
        try:
            child.process.wait(self._settings.stop_seconds)
        except subprocess.TimeoutExpired:
            child.process.kill()
            child.process.wait()
        if child.copy_thread is not None:
            child.copy_thread.join(self._settings.stop_seconds)


async def _is_answer_ready(session: ClientSession, path: str, content: re.Pattern[str]) -> bool:
    """Send one GET request; return whether the answer is 200 and contains the pattern."""
    try:
        # Another process that has the port may never answer.
        with anyio.move_on_after(_REQUEST_SECONDS):
            async with session.get(path) as answer:
                return answer.status == 200 and content.search(await answer.text()) is not None
    except ClientError:
        # The process does not listen yet.
        return False
    return False


async def _is_port_taken(child: Child) -> bool:
    """Return whether the log of a process says that another process has its port."""
    return "address already in use" in await _read_log(child)


async def _read_log(child: Child) -> str:
    """Return the log of a process so far; invalid UTF-8 becomes U+FFFD."""
    return await anyio.Path(child.log).read_text(encoding="utf-8", errors="replace")


def _start_copying(process: subprocess.Popen[bytes], log: Path) -> threading.Thread | None:
    """Start a thread that copies a process's output to its log and to stderr.

    None if the output is no pipe, because it goes to the log directly. The log is needed in any
    case, because it says whether the port was taken.
    """
    if process.stdout is None:
        return None
    copy_thread = threading.Thread(
        target=_copy_lines, args=(process.stdout, log), name=f"show {log.stem}", daemon=True
    )
    copy_thread.start()
    return copy_thread


def _copy_lines(output_pipe: IO[bytes], log: Path) -> None:
    """Copy all lines of a pipe to a log and to stderr."""
    with output_pipe, log.open("wb", buffering=0) as sink:
        for line in output_pipe:
            sink.write(line)
            os.write(_STDERR, line)


def _die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent dies; called between fork and exec."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # The parent died before the call above.
        os.kill(os.getpid(), signal.SIGKILL)
