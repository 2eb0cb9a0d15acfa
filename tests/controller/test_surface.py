"""The front door: what it names is there, and nobody inside depends on it."""

import ast
import re
import subprocess
import sys
from importlib import import_module
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
    assert sorted(_imported(door)) == sorted(door.__all__)


def _imported(door: ModuleType) -> dict[str, tuple[str, str]]:
    """Return what a package's first page imports from our own modules, and from where."""
    tree = ast.parse(Path(str(door.__file__)).read_text())
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("controller.")
        for alias in node.names
        if node.module is not None
    }


def test_what_is_loaded_late_is_what_type_checkers_see() -> None:
    for name, (module, original) in _imported(controller).items():
        assert getattr(controller, name) is getattr(import_module(module), original), name
    assert set(controller.__all__) <= set(dir(controller))
    with pytest.raises(AttributeError, match="no attribute 'Informant'"):
        getattr(controller, "Informant")  # noqa: B009 - mypy sees that it is not there


def test_every_exported_name_is_used_by_the_reconcilers_or_by_an_example_of_the_readme() -> None:
    sources = [path.read_text() for path in (PACKAGE.parent / "reconcilers").rglob("*.py")]
    readme = (PACKAGE / "README.md").read_text()
    sources += re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    used = {
        alias.name
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("controller")
        for alias in node.names
    }
    assert [name for name in controller.__all__ if name not in used] == []


def test_keys_and_conditions_cost_no_http_client() -> None:
    script = (
        "import sys\n"
        "from controller import Condition, Key, ObjectMeta, Resource\n"
        "print(*({'aiohttp', 'prometheus_client', 'kubernetes_asyncio'} & set(sys.modules)))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert printed.split() == []


def test_the_readme_has_a_line_for_every_module() -> None:
    table = (PACKAGE / "README.md").read_text()
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"} | packages
    assert {name for name in modules if f"`{name}`" not in table} == set()


def test_users_type_checkers_are_told_that_there_are_types() -> None:
    assert (PACKAGE / "py.typed").is_file()
