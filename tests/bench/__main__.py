"""Run benchmarks: `python -m tests.bench` runs all of them, `python -m tests.bench NAME ...` some.

A benchmark is a module `bench_NAME.py` in this folder with a function `run()` that prints its
numbers. None fails on time: machines differ, so compare ratios within one run.
"""

import importlib
import pkgutil
import sys

import click

from tests import bench


def names() -> list[str]:
    """Return the names of the benchmarks that there are."""
    modules = (module.name for module in pkgutil.iter_modules(bench.__path__))
    return sorted(name.removeprefix("bench_") for name in modules if name.startswith("bench_"))


def main(wanted: list[str]) -> int:
    """Run the benchmarks named, or all; return the exit code."""
    known = names()
    unknown = [name for name in wanted if name not in known]
    if unknown:
        click.echo(f"no benchmark {', '.join(unknown)}; there are: {', '.join(known)}", err=True)
        return 2
    for name in wanted or known:
        click.echo(f"== {name}")
        importlib.import_module(f"tests.bench.bench_{name}").run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
