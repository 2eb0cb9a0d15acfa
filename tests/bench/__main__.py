"""Run benchmarks: `python -m tests.bench` runs all of them, `python -m tests.bench NAME ...` some.

A benchmark is a module `bench_NAME.py` in this folder with a function `run()` that prints its
numbers. None fails on time: machines differ, so compare ratios within one run. Options after the
name of a benchmark are passed to it, if its `run` takes arguments: `python -m tests.bench real
--help`.
"""

import importlib
import inspect
import pkgutil
import sys
from itertools import takewhile

import click

from tests import bench


def list_benchmarks() -> list[str]:
    """Return the names of all benchmarks."""
    modules = (module.name for module in pkgutil.iter_modules(bench.__path__))
    return sorted(name.removeprefix("bench_") for name in modules if name.startswith("bench_"))


def main(arguments: list[str]) -> int:
    """Run the benchmarks that the arguments name, all by default; return the exit code."""
    all_names = list_benchmarks()
    chosen = list(takewhile(lambda argument: not argument.startswith("-"), arguments))
    options = arguments[len(chosen) :]
    unknown = [name for name in chosen if name not in all_names]
    if unknown:
        click.echo(
            f"no benchmark {', '.join(unknown)}; there are: {', '.join(all_names)}", err=True
        )
        return 2
    modules = {
        name: importlib.import_module(f"tests.bench.bench_{name}") for name in chosen or all_names
    }
    if options and (len(chosen) != 1 or not inspect.signature(modules[chosen[0]].run).parameters):
        click.echo(f"{' '.join(options)}: name one benchmark that takes options", err=True)
        return 2
    for name, module in modules.items():
        click.echo(f"== {name}")
        try:
            module.run(*([options] if options else []))
        except click.ClickException as problem:
            problem.show()
            return problem.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
