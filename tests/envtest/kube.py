"""The real kubectl, where there is one of version 1.28 or newer."""

import functools
import json
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

_OLDEST = (1, 28)


@functools.cache
def skip_reason() -> str:
    """Return why kubectl cannot be driven here; nothing if it can."""
    program = shutil.which("kubectl")
    if program is None:
        return "no kubectl on PATH"
    output = subprocess.run(
        [program, "version", "--client", "-o", "json"], capture_output=True, check=False, text=True
    ).stdout
    try:
        version = json.loads(output)["clientVersion"]
    except (ValueError, KeyError):
        return f"{program} does not tell its version"
    version_numbers = (int(version["major"]), int(re.sub(r"\D", "", version["minor"])))
    if version_numbers < _OLDEST:
        return f"{program} is {version_numbers[0]}.{version_numbers[1]}; 1.28 or newer is needed"
    return ""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with the kubeconfig of one user; its caches go into a folder of the test."""

    kubeconfig: Path

    @property
    def _cache(self) -> str:
        return f"--cache-dir={self.kubeconfig.parent / 'cache'}"

    def _env(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    async def __call__(self, *arguments: str, content: str = "", **env: str) -> str:
        """Run a command that must succeed; return what it prints."""
        code, output = await self.run(*arguments, content=content, **env)
        assert code == 0, f"kubectl {' '.join(arguments)}: {output}"
        return output

    @asynccontextmanager
    async def stream_lines(self, *arguments: str) -> AsyncIterator[Callable[[], Awaitable[str]]]:
        """Run a command in the context; yield a function that waits for its next line."""
        process = await anyio.open_process(
            ["kubectl", self._cache, *arguments], stderr=None, env=self._env()
        )
        async with process:
            assert process.stdout is not None
            output = BufferedByteReceiveStream(process.stdout)

            async def next_line() -> str:
                return (await output.receive_until(b"\n", 65536)).decode()

            try:
                yield next_line
            finally:
                process.terminate()

    async def run(self, *arguments: str, content: str = "", **env: str) -> tuple[int, str]:
        """Run a command; return its code and all that it prints."""
        done = await anyio.run_process(
            ["kubectl", self._cache, *arguments],
            input=content.encode(),
            stderr=subprocess.STDOUT,
            check=False,
            env={**self._env(), **env},
        )
        return done.returncode, done.stdout.decode()
