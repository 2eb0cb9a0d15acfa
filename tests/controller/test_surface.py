"""The front door: what it names is there, and nobody inside depends on it."""

import ast
import inspect
from pathlib import Path

import controller

PACKAGE = Path(controller.__file__).parent


def test_every_public_name_is_there_documented_and_listed_in_order() -> None:
    assert controller.__all__ == sorted(controller.__all__, key=_as_ruff_sorts)
    for name in controller.__all__:
        value = getattr(controller, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, name


def _as_ruff_sorts(name: str) -> tuple[int, str]:
    """Constants first, then classes, then functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


def test_what_the_front_door_imports_is_what_it_lists() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    imported = [
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert sorted(imported) == sorted(controller.__all__)


def test_the_readme_has_a_line_for_every_module() -> None:
    table = (PACKAGE / "README.md").read_text()
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    assert {name for name in modules if f"`{name}`" not in table} == set()
