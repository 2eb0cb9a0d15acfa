"""Running `butler-ipam` as users do, in a process of its own, and the real kubectl beside it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import Process

from tests.polling import SECONDS
from tests.tracebacks import find_traceback

ROOT = Path(__file__).parents[3]
LEAST_KUBECTL = (1, 28)
_FROM_OUTSIDE = ("KUBECONFIG", "USE_EXISTING_CLUSTER")


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment without variables that name clusters or set our flags.

    Args:
        more: further variables.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _FROM_OUTSIDE and not name.startswith("BUTLER_IPAM_")
    }
    return kept | {"PYTHONPATH": str(ROOT)} | more


def butler_ipam(*arguments: str) -> list[str]:
    """Return a command line of `butler-ipam`; its start is a fork (tests/forkserver.py)."""
    return [sys.executable, "-m", "reconcilers", *arguments]


def find_installed_command(*arguments: str) -> list[str]:
    """Return the command line of `butler-ipam` as it is installed: it imports all it needs."""
    return [str(Path(sys.executable).with_name("butler-ipam")), *arguments]


async def call(
    *arguments: str,
    seconds: float = SECONDS,
    program: Callable[..., list[str]] = butler_ipam,
    **variables: str,
) -> subprocess.CompletedProcess[bytes]:
    """Run `butler-ipam` to its end; raise TimeoutError if it does not end in time.

    Args:
        arguments: of the program.
        seconds: how long it may run, in real time.
        program: returns the command line.
        variables: further variables of its environment.
    """
    with anyio.fail_after(seconds):
        return await anyio.run_process(
            program(*arguments), check=False, env=environment(**variables), cwd="/"
        )


@dataclass
class Running:
    """A running `butler-ipam`.

    Args:
        printed: its standard output so far.
        complained: its standard error so far.
    """

    process: Process
    printed: str = ""
    complained: str = ""
    _moved: anyio.Event = field(default_factory=anyio.Event)

    async def until(self, pattern: str) -> re.Match[str]:
        """Wait until its output so far matches a pattern, and return the first match."""
        with anyio.fail_after(SECONDS):
            while True:
                moved = self._moved
                if match := re.search(pattern, self.printed + self.complained):
                    return match
                if self.process.returncode is not None:
                    raise AssertionError(f"it ended:\n{self.printed}{self.complained}")
                await moved.wait()

    async def stop(self, number: int = signal.SIGINT) -> int:
        """Send a signal, wait for the end of the process, and return its exit code."""
        self.process.send_signal(signal.Signals(number))
        with anyio.fail_after(SECONDS):
            return await self.process.wait()

    async def read(self) -> None:
        """Read both outputs to their ends."""
        async with anyio.create_task_group() as readers:
            readers.start_soon(self._read, "printed", self.process.stdout)
            readers.start_soon(self._read, "complained", self.process.stderr)
        await self.process.wait()
        self._move()

    async def _read(self, name: str, stream: Any) -> None:
        async for chunk in stream:
            setattr(self, name, getattr(self, name) + chunk.decode())
            self._move()

    def _move(self) -> None:
        self._moved.set()
        self._moved = anyio.Event()


@asynccontextmanager
async def start(
    *arguments: str, program: Callable[..., list[str]] = butler_ipam, **variables: str
) -> AsyncIterator[Running]:
    """Run `butler-ipam` during the context; kill it at the end of the context if it still runs.

    Args:
        arguments: of the program.
        program: returns the command line.
        variables: further variables of its environment.

    Raises:
        AssertionError: its log shows the traceback of a bug that it survived.
    """
    process = await anyio.open_process(
        program(*arguments),
        env=environment(**variables),
        cwd="/",
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    running = Running(process)
    async with anyio.create_task_group() as group:
        group.start_soon(running.read)
        try:
            yield running
        finally:
            if process.returncode is None:
                process.kill()
            with anyio.CancelScope(shield=True):
                await process.wait()
    await process.aclose()
    traceback = find_traceback(running.complained)
    assert not traceback, f"it survived a bug:\n{traceback}"


@lru_cache(maxsize=1)
def _kubectl() -> tuple[str, str]:
    """Return the path of a usable kubectl and "", or "" and why there is none."""
    path = shutil.which("kubectl")
    if path is None:
        return "", "there is no kubectl on the PATH"
    done = subprocess.run(
        [path, "version", "--client", "-o", "json"], capture_output=True, check=False
    )
    try:
        version = json.loads(done.stdout)["clientVersion"]
        version_numbers = (int(version["major"]), int(re.sub(r"\D", "", version["minor"])))
    except (ValueError, KeyError):
        return "", f"{path} does not tell its version"
    if version_numbers < LEAST_KUBECTL:
        return (
            "",
            f"kubectl is {version_numbers[0]}.{version_numbers[1]}, and tests need 1.28 or newer",
        )
    return path, ""


class Kubectl:
    """The real kubectl with one kubeconfig; the test is skipped if kubectl is not installed.

    Args:
        cache: a folder for its cache of discovery.
    """

    def __init__(self, kubeconfig: Path, cache: Path) -> None:
        path, why = _kubectl()
        if not path:
            pytest.skip(why)
        self._command = [path, f"--kubeconfig={kubeconfig}", f"--cache-dir={cache}"]

    async def run(
        self, *arguments: str, stdin: str = "", check: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        """Run kubectl; unless `check` is False, fail the test if its exit code is not 0."""
        with anyio.fail_after(SECONDS):
            done = await anyio.run_process(
                [*self._command, *arguments],
                input=stdin.encode(),
                check=False,
                env=environment(),
            )
        assert not check or done.returncode == 0, done.stderr.decode()
        return done

    async def text(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl and return its standard output."""
        return (await self.run(*arguments, stdin=stdin)).stdout.decode()

    async def apply(self, *manifests: Mapping[str, Any]) -> None:
        """Apply manifests."""
        documents = "\n---\n".join(json.dumps(manifest) for manifest in manifests)
        await self.run("apply", "-f", "-", stdin=documents)

    async def wait(self, *words: str) -> None:
        """Wait for a condition, a phase or a deletion: `kubectl wait` watches."""
        await self.run("wait", "--timeout=30s", *words)
