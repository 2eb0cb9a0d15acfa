"""Plays storms of many seeds, by hand."""

import argparse
import random
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import httpx

from tests.contract.storm.clusters import Clusters
from tests.contract.storm.networks import Machines
from tests.contract.storm.play import Platform, StormSettings, play_storm

PLATFORMS: Mapping[str, Callable[[httpx.AsyncClient, random.Random], Platform]] = {
    "kubermatic": Clusters,
    "vitistack": Machines,
}


def main() -> int:
    """Play the storms of some seeds; return 1 if any had findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("platform", choices=[*PLATFORMS])
    parser.add_argument("seed", type=int, help="the first seed")
    parser.add_argument("--to", type=int, help="the seed to stop before; default: one seed")
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often a replica is killed or frozen"
    )
    parser.add_argument("--many", type=int, default=0, help="how many wait for the pool")
    parser.add_argument("--quiet", action="store_true", help="create and delete nothing meanwhile")
    args = parser.parse_args()
    seeds_with_findings = 0
    for seed in range(args.seed, args.to or args.seed + 1):
        settings = StormSettings(seed, args.rounds, many=args.many, busy=not args.quiet)
        with TemporaryDirectory(prefix="storm-") as folder:
            report = anyio.run(play_storm, PLATFORMS[args.platform], Path(folder), settings)
        seen = (
            f"{report.writes} writes of allocations, {report.most_holders} holders at once at most"
        )
        lines = [
            f"seed {seed}: {report.actions} actions, {seen}, settled after {report.seconds:.1f} s"
        ]
        lines += [f"  {line}" for line in [*report.faults, *report.findings]]
        sys.stdout.write("\n".join(lines) + "\n")
        seeds_with_findings += bool(report.findings)
    return min(seeds_with_findings, 1)


if __name__ == "__main__":
    sys.exit(main())
