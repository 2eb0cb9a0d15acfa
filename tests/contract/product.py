"""The product as a process, with an integration switched on."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.reconcilers.cli.commands import butler_ipam, environment


@contextmanager
def product(
    integration: str, kubeconfig: Path, log: Path, *flags: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the product with an integration as a process; it is killed at the end.

    Args:
        integration: its name.
        kubeconfig: of the API server.
        log: the file that its output is added to.
        flags: more of its flags.
    """
    command = butler_ipam(
        "run",
        f"--kubeconfig={kubeconfig}",
        f"--integration={integration}",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
        "--log-format=console",
        *flags,
    )
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, env=environment(), cwd="/", stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
