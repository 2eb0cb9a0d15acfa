"""The package imports only the standard library, and exports all its errors."""

import ast
import inspect
import sys
from pathlib import Path

import pytest

import allocator
from allocator import errors

MODULES = sorted(Path(allocator.__file__).parent.glob("*.py"))
IMPURE_MODULES = {"asyncio", "datetime", "logging", "os", "pathlib", "random", "threading", "time"}


def list_imports(module: Path) -> set[str]:
    """Return the top-level packages that a module imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.name} imports relatively"
            names.add(str(node.module).partition(".")[0])
    return names


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_a_module_imports_nothing_but_the_standard_library_and_its_neighbours(
    module: Path,
) -> None:
    assert list_imports(module) <= sys.stdlib_module_names | {"allocator"}


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_modules_read_no_clock_no_random_numbers_and_no_input(module: Path) -> None:
    assert not list_imports(module) & IMPURE_MODULES


def test_the_public_names_are_sorted_and_hold_every_error() -> None:
    constants = [name for name in allocator.__all__ if name.isupper()]
    others = [name for name in allocator.__all__ if not name.isupper()]
    assert constants == sorted(constants)
    assert others == sorted(others)
    raised = {name for name, _ in inspect.getmembers(errors, inspect.isclass)}
    assert {name for name in raised if name != "Sequence"} <= set(allocator.__all__)
