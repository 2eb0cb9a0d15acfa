"""The limits on the size of the code: modules, packages, and what one module imports."""

from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("allocator", "controller", "envtest", "manifests", "reconcilers", "tests", ".ci")
MODULE_LINES = 400
ENVTEST_LINES = 25_000
ENVTEST_MODULES = 200
COMMAND_LINE_LINES = 8_000
IMPORTS = 15


def modules(*folders: str) -> list[Path]:
    """Return the Python files in some folders of the repository."""
    return [path for folder in folders for path in (ROOT / folder).rglob("*.py")]


def lines(path: Path) -> int:
    """Return how many lines a file has."""
    return len(path.read_text(encoding="utf-8").splitlines())


def test_no_module_has_more_than_four_hundred_lines() -> None:
    found = modules(*FOLDERS)
    assert Path(__file__) in found
    long = {str(path.relative_to(ROOT)): lines(path) for path in found}
    assert {name: count for name, count in long.items() if count > MODULE_LINES} == {}


def test_the_embedded_control_plane_stays_within_its_limits() -> None:
    found = modules("envtest")
    assert 0 < len(found) <= ENVTEST_MODULES
    assert sum(map(lines, found)) <= ENVTEST_LINES


def test_the_command_line_stays_within_its_limit() -> None:
    assert 0 < sum(map(lines, modules("reconcilers/cli"))) <= COMMAND_LINE_LINES


@pytest.mark.parametrize("name", ["networkpool", "tenantcluster"])
def test_a_reconciler_imports_at_most_fifteen_modules_of_ours(name: str) -> None:
    graph = grimp.build_graph("allocator", "controller", "reconcilers", cache_dir=None)
    imported = graph.find_modules_directly_imported_by(f"reconcilers.{name}.reconciler")
    assert 0 < len(imported) <= IMPORTS, sorted(imported)
