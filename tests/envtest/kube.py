"""The real kubectl, where there is one of version 1.28 or newer."""

import functools
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import anyio

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
    found = (int(version["major"]), int(re.sub(r"\D", "", version["minor"])))
    if found < _OLDEST:
        return f"{program} is {found[0]}.{found[1]}; 1.28 or newer is needed"
    return ""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with the kubeconfig of one user; its caches go into a folder of the test."""

    kubeconfig: Path

    async def __call__(self, *arguments: str, text: str = "", **env: str) -> str:
        """Run a command that must succeed; return what it prints."""
        code, output = await self.run(*arguments, text=text, **env)
        assert code == 0, f"kubectl {' '.join(arguments)}: {output}"
        return output

    async def run(self, *arguments: str, text: str = "", **env: str) -> tuple[int, str]:
        """Run a command; return its code and all that it prints."""
        cache = f"--cache-dir={self.kubeconfig.parent / 'cache'}"
        done = await anyio.run_process(
            ["kubectl", cache, *arguments],
            input=text.encode(),
            stderr=subprocess.STDOUT,
            check=False,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), **env},
        )
        return done.returncode, done.stdout.decode()
