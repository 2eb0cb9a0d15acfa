"""What allocations cost on the real etcd and kube-apiserver, next to a plain client-go controller.

Our controller and the peer (tests/bench/peer) get a control plane of their own each, one after the
other, with the same definitions, the same pool and the same driver:

- filling: 1,000 IPAllocations, and in another run 5,000, of 1 to 8 addresses are created at once,
  32 requests in flight
- churn: every second one is deleted, and as many are created anew, in turn

A phase ends when a watch has shown every new one Allocated and every deleted one gone; the rate is
that of the new ones. What each of them cost is read when the pool's counters are right, too: CPU
time of the processes, and the writes that the API server counted (the driver's own among them: a
POST each, and in churn a DELETE). p50 and p99 are from the first event that shows an allocation to
the one that shows it Allocated. Overlapping pairs are looked for in all that the watch showed and
in what is there at the end; any of ours fails the benchmark.

Below them stands the most that any controller can reach on this machine (tests/bench/bare.py;
`--only none` prints it alone): the same requests and one bare write for each, without a
controller, once without a watch and once with the driver's own. A goal above that cannot be
reached there.

Ours is `butler-ipam run` as the Deployment starts it, but without webhooks, and looking for
orphans only when the benchmark is over (the TenantClusters of these allocations do not exist).
Both are administrators, so that no flow control slows one of them down. What else the machine does
changes every number but the writes: compare within one run. `bench_embedded` is the same on the
embedded API server, which does not count writes.

    python -m tests.bench real [--allocations N]... [--only NAME] [--type KIND]
"""

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
from tests.bench.bare import measure_bare
from tests.bench.comparison import Start, measure
from tests.bench.places import REAL, ROOT, Open, list_places
from tests.bench.processes import (
    Command,
    Reachable,
    choose_free_port,
    make_pod_command,
    write_credentials,
)
from tests.bench.tables import show, show_bare

PEER = "bench/peer"
OURS = "butler-ipam"
CLIENT_GO = "client-go"
NEITHER = "none"
WORKERS = 8
NEVER = "24h"


def make_our_command(of: Reachable, folder: Path) -> Command:
    """Return the command that starts our controller as the Deployment does, without webhooks."""
    command, environment = make_pod_command(of, folder)
    flags = [
        "--leader-elect",
        f"--health-probe-bind-address=127.0.0.1:{choose_free_port()}",
        f"--metrics-bind-address=127.0.0.1:{choose_free_port()}",
        "--metrics-secure",
        "--log-format=json",
        f"--orphans-resync={NEVER}",
    ]
    return [*command, *flags], environment


def make_peer_command(program: Path, of: Reachable, folder: Path) -> Command:
    """Return the command that starts the peer, whose program is given."""
    token, authority = write_credentials(of, folder)
    flags = [
        f"--server={of.url}",
        f"--token-file={token}",
        f"--certificate-authority={authority}",
        f"--workers={WORKERS}",
    ]
    return [str(program), *flags], {}


def build_peer() -> Path | None:
    """Build the peer, or find it without Go; print the reason and return None if there is none."""
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
    multiple=True,
    default=(1000, 5000),
    show_default=True,
    help="How many are created at once; several in turn.",
)
@click.option(
    "--only",
    type=click.Choice([OURS, CLIENT_GO, NEITHER]),
    help=f"Measure one controller; {NEITHER}: the most that either of them can reach.",
)
@click.option(
    "--type",
    "kind",
    type=click.Choice([names.TYPE_NODES, names.TYPE_LOADBALANCER]),
    default=names.TYPE_NODES,
    show_default=True,
    help="What the addresses are for. Of a loadbalancer one, ours asks for its tenant before it is"
    " released, and finds that there is none; the peer has no tenants.",
)
@click.pass_obj
def command(place: str, allocations: Sequence[int], only: str | None, kind: str) -> None:
    """Measure controllers on a control plane."""
    there = list_places().get(place)
    if there is None:
        click.echo(
            "not measured: no etcd and kube-apiserver in the folder that KUBEBUILDER_ASSETS names,"
            " nor in .real/newest; `make real` builds them"
        )
        return
    starts: dict[str, Start] = {}
    if only in {None, OURS}:
        starts[OURS] = make_our_command
    if only in {None, CLIENT_GO} and (program := build_peer()) is not None:
        starts[CLIENT_GO] = partial(make_peer_command, program)
    for number in allocations:
        _compare_controllers(starts, there, number=number, kind=kind, bare=only in {None, NEITHER})


def _compare_controllers(
    starts: dict[str, Start], place: Open, number: int, kind: str, *, bare: bool
) -> None:
    """Measure controllers with one number of allocations, and print the results.

    Args:
        starts: how to start each controller, by its name.
        place: opens the control plane.
        number: the number of allocations.
        kind: the spec.type of the allocations.
        bare: whether to measure the highest possible rate, without a controller, as well.

    Raises:
        ClickException: a server does not start, or two allocations of ours held one address.
    """
    try:
        results = {
            name: anyio.run(measure, start, place, number, kind) for name, start in starts.items()
        }
        most = {
            name: anyio.run(partial(measure_bare, place, number, kind, watched=watched))
            for name, watched in (("no watch", False), ("one watch", True))
            if bare
        }
    except PlaneError as error:
        raise click.ClickException(str(error)) from error
    if results:
        show(number, results)
    if most:
        show_bare(most, results, CLIENT_GO)
    if OURS in results and (results[OURS].overlaps or results[OURS].overlaps_left):
        raise click.ClickException("two of our allocations held the same address")


def run(arguments: Sequence[str] = (), place: str = "real") -> None:
    """Print what allocations cost on the real servers."""
    name = f"python -m tests.bench {place}"
    command.main(list(arguments), prog_name=name, standalone_mode=False, obj=place)
