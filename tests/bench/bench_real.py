"""What allocations cost on the real etcd and kube-apiserver, next to a plain client-go controller.

Our controller and the peer (tests/bench/peer) get a control plane of their own each, one after the
other, with the same definitions, the same pool and the same driver:

- filling: 1,000 IPAllocations of 1 to 8 addresses are created at once, 32 requests in flight
- churn: every second one is deleted, and as many are created anew, in turn

A phase ends when a watch has shown every new one Allocated and every deleted one gone; the rate is
that of the new ones. What each of them cost is read when the pool's counters are right, too: CPU
time of the processes, and the writes that the API server counted (the driver's own among them: a
POST each, and in churn a DELETE). p50 and p99 are from the first event that shows an allocation to
the one that shows it Allocated. Overlapping pairs are looked for in all that the watch showed and
in what is there at the end; any of ours fails the benchmark.

Ours is `butler-ipam run` as the Deployment starts it, but without webhooks, and looking for
orphans only when the benchmark is over (the TenantClusters of these allocations do not exist).
Both are administrators, so that no flow control slows one of them down. What else the machine does
changes every number but the writes: compare within one run.

    python -m tests.bench real [--allocations N] [--only NAME] [--type KIND]
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
import click

from envtest.settings import PlaneError
from reconcilers.api import names
from tests.bench.comparison import Start, measure
from tests.bench.processes import Command, Reachable, as_a_pod, free_port, write_credentials
from tests.bench.tables import show

ROOT = Path(__file__).parents[2]
REAL = ROOT / ".real"
PEER = "bench/peer"
OURS = "butler-ipam"
CLIENT_GO = "client-go"
WORKERS = 8
NEVER = "24h"


def ours(of: Reachable, folder: Path) -> Command:
    """Return how to start our controller: as the Deployment does, without webhooks."""
    command, environment = as_a_pod(of, folder)
    flags = [
        "--leader-elect",
        f"--health-probe-bind-address=127.0.0.1:{free_port()}",
        f"--metrics-bind-address=127.0.0.1:{free_port()}",
        "--metrics-secure",
        "--log-format=json",
        f"--orphans-resync={NEVER}",
    ]
    return [*command, *flags], environment


def peer(program: Path, of: Reachable, folder: Path) -> Command:
    """Return how to start the peer."""
    token, authority = write_credentials(of, folder)
    flags = [
        f"--server={of.url}",
        f"--token-file={token}",
        f"--certificate-authority={authority}",
        f"--workers={WORKERS}",
    ]
    return [str(program), *flags], {}


def real_programs() -> Path | None:
    """Return the folder of etcd and kube-apiserver, or None if they are not there."""
    named = os.environ.get("KUBEBUILDER_ASSETS")
    folder = Path(named) if named else REAL / "newest"
    there = all((folder / name).exists() for name in ("etcd", "kube-apiserver"))
    return folder if there else None


def built_peer() -> Path | None:
    """Build the peer, or find the one that was built; say why there is none."""
    program = REAL / PEER
    if shutil.which("go") is None:
        if program.exists():
            return program
        click.echo(f"no {CLIENT_GO} controller to compare with: Go is not on this machine")
        return None
    builder = [sys.executable, str(ROOT / "tests/realservers/build.py"), PEER]
    if subprocess.run(builder, check=False, stdout=subprocess.DEVNULL).returncode:
        click.echo(f"no {CLIENT_GO} controller to compare with: it cannot be built, see above")
        return None
    return program


@click.command()
@click.option(
    "--allocations",
    type=click.IntRange(min=10),
    default=1000,
    show_default=True,
    help="How many are created at once.",
)
@click.option("--only", type=click.Choice([OURS, CLIENT_GO]), help="Measure one controller.")
@click.option(
    "--type",
    "kind",
    type=click.Choice([names.TYPE_NODES, names.TYPE_LOADBALANCER]),
    default=names.TYPE_NODES,
    show_default=True,
    help="What the addresses are for. Of a loadbalancer one, ours asks for its tenant before it is"
    " released, and is told that there is none; the peer knows of no tenants.",
)
def command(allocations: int, only: str | None, kind: str) -> None:
    """Measure controllers on the real etcd and kube-apiserver."""
    assets = real_programs()
    if assets is None:
        click.echo(
            "not measured: no etcd and kube-apiserver in the folder that KUBEBUILDER_ASSETS names,"
            " nor in .real/newest; `make real` builds them"
        )
        return
    starts: dict[str, Start] = {}
    if only != CLIENT_GO:
        starts[OURS] = ours
    if only != OURS and (program := built_peer()) is not None:
        starts[CLIENT_GO] = partial(peer, program)
    try:
        results = {
            name: anyio.run(measure, start, assets, allocations, kind)
            for name, start in starts.items()
        }
    except PlaneError as error:
        raise click.ClickException(str(error)) from error
    if results:
        show(allocations, results)
    if OURS in results and (results[OURS].overlaps or results[OURS].overlaps_left):
        raise click.ClickException("two of our allocations held the same address")


def run(arguments: Sequence[str] = ()) -> None:
    """Print what allocations cost on the real servers."""
    command.main(list(arguments), prog_name="python -m tests.bench real", standalone_mode=False)
