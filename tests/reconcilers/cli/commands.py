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
_VARIABLES_NAMING_CLUSTERS = ("KUBECONFIG", "USE_EXISTING_CLUSTER")


def make_environment(**variables: str) -> dict[str, str]:
    """Return the environment for a command, which no setting of the developer's shell changes.

    It is this process's environment without the variables that name clusters or set our flags.

    Args:
        variables: variables to add.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in _VARIABLES_NAMING_CLUSTERS and not name.startswith("BUTLER_IPAM_")
    }
    return inherited | {"PYTHONPATH": str(ROOT)} | variables


def make_command_line(*arguments: str) -> list[str]:
    """Return a command line that runs `butler-ipam` from this repository.

    A fork starts it (tests/forkserver.py), so that it need not import its modules again.
    """
    return [sys.executable, "-m", "reconcilers", *arguments]


def find_installed_command(*arguments: str) -> list[str]:
    """Return a command line that runs `butler-ipam` as it is installed, with all its imports."""
    return [str(Path(sys.executable).with_name("butler-ipam")), *arguments]


async def run_to_end(
    *arguments: str,
    seconds: float = SECONDS,
    program: Callable[..., list[str]] = make_command_line,
    **variables: str,
) -> subprocess.CompletedProcess[bytes]:
    """Run `butler-ipam` to its end; raise TimeoutError if it does not end in time.

    Args:
        arguments: the arguments of `butler-ipam`.
        seconds: how long it may run, in real time.
        program: makes the command line from the arguments.
        variables: variables to add to its environment.
    """
    with anyio.fail_after(seconds):
        return await anyio.run_process(
            program(*arguments), check=False, env=make_environment(**variables), cwd="/"
        )


@dataclass
class RunningCommand:
    """A running `butler-ipam`.

    Args:
        stdout: its standard output so far.
        stderr: its standard error so far.
    """

    process: Process
    stdout: str = ""
    stderr: str = ""
    _has_changed: anyio.Event = field(default_factory=anyio.Event)
    """Set when there is more output, or when the process has ended; then it is replaced."""

    async def wait_for_output(self, pattern: str) -> re.Match[str]:
        """Wait until standard output or error matches a pattern; return the first match."""
        with anyio.fail_after(SECONDS):
            while True:
                has_changed = self._has_changed
                if match := re.search(pattern, self.stdout + self.stderr):
                    return match
                if self.process.returncode is not None:
                    raise AssertionError(f"it ended:\n{self.stdout}{self.stderr}")
                await has_changed.wait()

    async def stop(self, number: int = signal.SIGINT) -> int:
        """Send a signal, wait for the end of the process, and return its exit code."""
        self.process.send_signal(signal.Signals(number))
        with anyio.fail_after(SECONDS):
            return await self.process.wait()

    async def collect_output(self) -> None:
        """Collect both outputs until the process ends."""
        async with anyio.create_task_group() as readers:
            readers.start_soon(self._append_stream, "stdout", self.process.stdout)
            readers.start_soon(self._append_stream, "stderr", self.process.stderr)
        await self.process.wait()
        self._announce_change()

    async def _append_stream(self, name: str, stream: Any) -> None:
        """Append the text of a stream to the field `name`."""
        async for chunk in stream:
            setattr(self, name, getattr(self, name) + chunk.decode())
            self._announce_change()

    def _announce_change(self) -> None:
        self._has_changed.set()
        self._has_changed = anyio.Event()


@asynccontextmanager
async def start(
    *arguments: str, program: Callable[..., list[str]] = make_command_line, **variables: str
) -> AsyncIterator[RunningCommand]:
    """Run `butler-ipam` during the context; kill it at the end of the context if it still runs.

    Args:
        arguments: the arguments of `butler-ipam`.
        program: makes the command line from the arguments.
        variables: variables to add to its environment.

    Raises:
        AssertionError: its log shows the traceback of a bug that it survived.
    """
    process = await anyio.open_process(
        program(*arguments),
        env=make_environment(**variables),
        cwd="/",
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    running = RunningCommand(process)
    async with anyio.create_task_group() as group:
        group.start_soon(running.collect_output)
        try:
            yield running
        finally:
            if process.returncode is None:
                process.kill()
            with anyio.CancelScope(shield=True):
                await process.wait()
    await process.aclose()
    traceback = find_traceback(running.stderr)
    assert not traceback, f"it survived a bug:\n{traceback}"


@lru_cache(maxsize=1)
def _find_kubectl() -> tuple[str, str]:
    """Return the path of a usable kubectl, and the reason why there is none; one is empty."""
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
        return "", f"{path} does not print its version"
    if version_numbers < LEAST_KUBECTL:
        return (
            "",
            f"kubectl is {version_numbers[0]}.{version_numbers[1]}, and tests need 1.28 or newer",
        )
    return path, ""


class Kubectl:
    """The real kubectl with one kubeconfig; the test is skipped if kubectl is not installed.

    Args:
        cache: the folder for its discovery cache.
    """

    def __init__(self, kubeconfig: Path, cache: Path) -> None:
        path, why = _find_kubectl()
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
                env=make_environment(),
            )
        assert not check or done.returncode == 0, done.stderr.decode()
        return done

    async def read_output(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl and return its standard output."""
        return (await self.run(*arguments, stdin=stdin)).stdout.decode()

    async def apply(self, *manifests: Mapping[str, Any]) -> None:
        """Apply manifests."""
        documents = "\n---\n".join(json.dumps(manifest) for manifest in manifests)
        await self.run("apply", "-f", "-", stdin=documents)

    async def wait(self, *arguments: str) -> None:
        """Wait for a condition, a phase or a deletion, by `kubectl wait` with these arguments."""
        await self.run("wait", "--timeout=30s", *arguments)
