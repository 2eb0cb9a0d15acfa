"""Processes of a control plane: started, waited for, stopped, and never left behind.

Each is asked to end when the control plane stops, and made to end if it does not. The kernel
kills them when their parent dies, so that not even `kill -9` leaves orphans (on Linux; elsewhere
a killed parent leaves them running).
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
from aiohttp import ClientError, ClientSession
from anyio import to_thread

from envtest.settings import PlaneError, Settings

# Loaded now: between fork and exec nothing should be that can wait for a lock.
_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_PAUSE_SECONDS = 0.1
_ASK_SECONDS = 2.0
_LOG_LINES = 15


class PortTakenError(Exception):
    """Somebody else listens where a process wanted to."""


@dataclass(frozen=True, slots=True)
class Child:
    """A process and where it writes what it has to say."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def name(self) -> str:
        """Return what messages call it."""
        return self.log.stem


class Children:
    """Starts the processes of one control plane.

    Args:
        settings: how long to wait for them, and whether their output is shown.
        folder: where their logs go.
        stack: with which they end.
    """

    def __init__(self, settings: Settings, folder: Path, stack: AsyncExitStack) -> None:
        self._settings = settings
        self._folder = folder
        self._stack = stack

    def start(self, program: Path, arguments: Sequence[str]) -> Child:
        """Start a program.

        Raises:
            PlaneError: it is none that this machine runs.
        """
        log = self._folder / f"{program.name}.log"
        bound = partial(_die_with_parent, os.getpid()) if sys.platform == "linux" else None
        with log.open("wb") as sink:
            output = None if self._settings.show_output else sink
            try:
                process = subprocess.Popen(  # noqa: S603  # anyio has no preexec_fn
                    [str(program), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    preexec_fn=bound,  # noqa: PLW1509
                    start_new_session=True,
                )
            except OSError as error:
                raise PlaneError(f"{program} cannot be run: {error.strerror}") from error
        self._stack.push_async_callback(self._stop, process)
        return Child(process, log)

    async def ready(self, child: Child, session: ClientSession, path: str) -> None:
        """Ask until the answer is 200.

        Raises:
            PlaneError: the process ended or takes too long; the message ends with its last lines.
            PortTakenError: it found its port taken.
        """
        with anyio.move_on_after(self._settings.start_seconds):
            while child.process.poll() is None:
                try:
                    # Where another process has the port, it may never answer.
                    with anyio.move_on_after(_ASK_SECONDS):
                        async with session.get(path) as answer:
                            if answer.status == 200 and child.process.poll() is None:
                                return
                except ClientError:
                    # Not listening yet.
                    pass
                await anyio.sleep(_PAUSE_SECONDS)
        raise await self._failure(child)

    async def _failure(self, child: Child) -> PlaneError | PortTakenError:
        """Return why a process is not ready."""
        text = await anyio.Path(child.log).read_text(encoding="utf-8", errors="replace")
        if "address already in use" in text:
            return PortTakenError(f"{child.name} found its port taken; choose another one")
        if child.process.returncode is not None:
            how = f"ended with code {child.process.returncode}"
        else:
            how = f"is not ready after {self._settings.start_seconds:g} seconds"
        if self._settings.show_output:
            return PlaneError(f"{child.name} {how}; what it said is shown above")
        last = "\n".join(text.splitlines()[-_LOG_LINES:])
        return PlaneError(f"{child.name} {how}; its last lines:\n{last}")

    async def _stop(self, process: subprocess.Popen[bytes]) -> None:
        """Ask a process to end, and make it."""
        with anyio.CancelScope(shield=True):
            process.terminate()
            await to_thread.run_sync(self._reap, process)

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for a process that was asked to end, in a thread of its own."""
        try:
            process.wait(self._settings.stop_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent is gone; runs between fork and exec."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It was gone before the kernel was asked.
        os.kill(os.getpid(), signal.SIGKILL)
