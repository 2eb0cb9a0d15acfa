"""The front door: what it names is there, and nobody inside depends on it."""

import ast
from pathlib import Path
from types import ModuleType

import pytest

import controller
import controller.webhooks

DOORS = [controller, controller.webhooks]
PACKAGE = Path(controller.__file__).parent


@pytest.mark.parametrize("door", DOORS)
def test_every_public_name_is_there_and_listed_in_order(door: ModuleType) -> None:
    assert door.__all__ == sorted(door.__all__, key=_as_ruff_sorts)
    assert [name for name in door.__all__ if not hasattr(door, name)] == []


def _as_ruff_sorts(name: str) -> tuple[int, str]:
    """Constants first, then classes, then functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


@pytest.mark.parametrize("door", DOORS)
def test_what_the_front_door_imports_is_what_it_lists(door: ModuleType) -> None:
    tree = ast.parse(Path(str(door.__file__)).read_text())
    imported = [
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert sorted(imported) == sorted(door.__all__)


def test_the_readme_has_a_line_for_every_module() -> None:
    table = (PACKAGE / "README.md").read_text()
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"} | packages
    assert {name for name in modules if f"`{name}`" not in table} == set()


def test_users_type_checkers_are_told_that_there_are_types() -> None:
    assert (PACKAGE / "py.typed").is_file()
