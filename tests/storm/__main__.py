"""Plays storms of many seeds, by hand."""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from tests.cilium.operators import find_newest, find_oldest
from tests.storm.balancers import Balancer, InCilium, InMetalLB
from tests.storm.people import TENANTS
from tests.storm.story import Asked, storm

BALANCERS = ("metallb", "cilium", "cilium-oldest")


def balancer_of(name: str) -> Balancer:
    """Return a load balancer by its name in BALANCERS; end if it was not built."""
    if name == "metallb":
        return InMetalLB()
    program = find_newest() if name == "cilium" else find_oldest()
    if program is None:
        sys.exit(f"there is no {name} beside KUBEBUILDER_ASSETS: CONTRIBUTING.md has the command")
    return InCilium(program)


def main() -> int:
    """Play the storms of some seeds; return 1 if any had findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("balancer", choices=BALANCERS)
    parser.add_argument("seed", type=int, help="the first seed")
    parser.add_argument("--to", type=int, help="the seed to stop before; default: one seed")
    parser.add_argument("--rounds", type=int, default=2, help="how often each part is struck")
    parser.add_argument("--tenants", type=int, default=len(TENANTS), help="three at most")
    arguments = parser.parse_args()
    bad = 0
    for seed in range(arguments.seed, arguments.to or arguments.seed + 1):
        asked = Asked(seed, arguments.rounds, arguments.tenants)
        with TemporaryDirectory(prefix="storm-") as folder:
            report = anyio.run(storm, balancer_of(arguments.balancer), Path(folder), asked)
        lines = [f"seed {seed}: {report.done} deeds, {report.summary}"]
        lines += [f"  {line}" for line in [*report.faults, *report.findings]]
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
        bad += bool(report.findings)
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
