"""Plays storms of many seeds, by hand."""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from tests.cilium.operators import find_newest, find_oldest
from tests.storm.balancers import CiliumInTenants, MetalLBInTenants, TenantBalancer
from tests.storm.people import TENANTS
from tests.storm.story import StormPlan, play_storm

BALANCERS = ("metallb", "cilium", "cilium-oldest")


def make_balancer(name: str) -> TenantBalancer:
    """Return the load balancer with a name in BALANCERS; exit if its program was not built."""
    if name == "metallb":
        return MetalLBInTenants()
    program = find_newest() if name == "cilium" else find_oldest()
    if program is None:
        sys.exit(f"there is no {name} beside KUBEBUILDER_ASSETS: CONTRIBUTING.md has the command")
    return CiliumInTenants(program)


def main() -> int:
    """Play the storms of some seeds; return 1 if any had findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("balancer", choices=BALANCERS)
    parser.add_argument("seed", type=int, help="the first seed")
    parser.add_argument("--to", type=int, help="the seed to stop before; default: one seed")
    parser.add_argument("--rounds", type=int, default=2, help="how often each part is struck")
    parser.add_argument("--tenants", type=int, default=len(TENANTS), help="three at most")
    arguments = parser.parse_args()
    failed_count = 0
    for seed in range(arguments.seed, arguments.to or arguments.seed + 1):
        plan = StormPlan(seed, arguments.rounds, arguments.tenants)
        with TemporaryDirectory(prefix="storm-") as folder:
            report = anyio.run(play_storm, make_balancer(arguments.balancer), Path(folder), plan)
        lines = [f"seed {seed}: {report.action_count} actions, {report.summary}"]
        lines += [f"  {line}" for line in [*report.faults, *report.findings]]
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
        failed_count += bool(report.findings)
    return min(failed_count, 1)


if __name__ == "__main__":
    sys.exit(main())
