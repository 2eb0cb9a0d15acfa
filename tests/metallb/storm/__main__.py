"""Plays storms of many seeds, by hand."""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from tests.metallb.storm.story import storm


def main() -> int:
    """Play the storms of some seeds; return 1 if any had findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int, help="the first seed")
    parser.add_argument("--to", type=int, help="the seed to stop before; default: one seed")
    parser.add_argument("--rounds", type=int, default=2, help="how often each part is struck")
    asked = parser.parse_args()
    bad = 0
    for seed in range(asked.seed, asked.to or asked.seed + 1):
        with TemporaryDirectory(prefix="storm-") as folder:
            report = anyio.run(storm, seed, Path(folder), asked.rounds)
        lines = [f"seed {seed}: {report.done} deeds, {report.summary}"]
        lines += [f"  {line}" for line in [*report.faults, *report.findings]]
        sys.stdout.write("\n".join(lines) + "\n")
        bad += bool(report.findings)
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
