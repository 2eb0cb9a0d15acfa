"""The CPU of commands that read files: user and system time of a process of their own.

Each command runs on the samples that are shipped, and `plan` also on 20 pools with 2,000
allocations. `--version` beside them shows what Python and click take. Bytecode is kept, as of an
installed program: each command runs once before it is measured. A busy machine makes all of it
slower, so compare commands within one run; the number of modules is the same everywhere.

    python -m tests.bench commands
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import click

from reconcilers.api.names import API_VERSION, DEFAULT_NAMESPACE

SAMPLES = Path(__file__).parents[2] / "manifests/samples"
COMMANDS = ("pools", "check", "map", "plan")
RUNS = 7
GOAL = 0.25
"""CPU seconds of a command on the samples."""
PLAN_GOAL = 3.0
"""CPU seconds of `plan` with 2,000 allocations in 20 pools."""
_COUNT_MODULES = """
import sys
from reconcilers.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
sys.stderr.write(f"\\n{len(sys.modules)}")
"""


def measure(arguments: Sequence[str], runs: int = RUNS) -> tuple[float, int]:
    """Return the median CPU seconds of a command, and how many modules it loads.

    Args:
        arguments: the arguments of butler-ipam.
        runs: how often the command is measured.
    """
    variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    counted = _run([sys.executable, "-c", _COUNT_MODULES, *arguments], variables)
    seconds = []
    for _ in range(runs):
        before = _read_children_cpu_seconds()
        _run([sys.executable, "-m", "reconcilers", *arguments], variables)
        seconds.append(_read_children_cpu_seconds() - before)
    return median(seconds), int(counted.rpartition("\n")[2])


def _run(command: Sequence[str], variables: Mapping[str, str]) -> str:
    """Run a program, and return what it wrote to standard error."""
    done = subprocess.run(
        command, env=variables, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    if done.returncode not in {0, 1}:  # 1 says that something is wrong among the objects
        raise click.ClickException(f"{' '.join(command)} ended with {done.returncode}")
    return done.stderr.decode()


def _read_children_cpu_seconds() -> float:
    """Return the CPU seconds of all processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def make_plan_manifests(pools: int, allocations: int) -> Iterator[dict[str, Any]]:
    """Yield the manifests of pools, and of allocations that are spread over them."""
    for number in range(pools):
        yield _make_object("NetworkPool", f"pool-{number}", {"cidr": f"10.{number}.0.0/20"})
    for number in range(allocations):
        spec = {
            "poolRef": {"name": f"pool-{number % pools}"},
            "tenantClusterRef": {"name": f"tenant-{number}", "namespace": "tenants"},
            "type": "loadbalancer",
            "count": 8,
        }
        yield _make_object("IPAllocation", f"allocation-{number}", spec)


def _make_object(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of an object in the namespace of pools."""
    metadata = {"name": name, "namespace": DEFAULT_NAMESPACE}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def show(name: str, arguments: Sequence[str], goal: float, runs: int = RUNS) -> None:
    """Measure a command and print its figures.

    Args:
        name: the title of the figures.
        arguments: the arguments of butler-ipam.
        goal: CPU seconds that the command should not exceed.
        runs: how often the command is measured.
    """
    seconds, modules = measure(arguments, runs)
    click.echo(f"{name:30} {seconds:6.2f} s CPU (goal {goal:.2f}) {modules:5} modules")


def run() -> None:
    """Print the figures of all commands."""
    show("--version", ["--version"], GOAL)
    for command in COMMANDS:
        show(command, [command, "-f", str(SAMPLES)], GOAL)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "many.json"
        items = list(make_plan_manifests(20, 2000))
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        show("plan, 2,000 allocations", ["plan", "-f", str(path)], PLAN_GOAL, runs=3)
