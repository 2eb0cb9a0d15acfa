"""The public names of the framework: they exist, and each is used."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import controller
import controller.scaffold
import controller.webhooks

PACKAGES = [controller, controller.scaffold, controller.webhooks]
FOLDER = Path(controller.__file__).parent


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_exists_and_is_sorted(package: ModuleType) -> None:
    assert package.__all__ == sorted(package.__all__, key=_get_ruff_sort_key)
    assert [name for name in package.__all__ if not hasattr(package, name)] == []


def _get_ruff_sort_key(name: str) -> tuple[int, str]:
    """Return the sort key of a name: constants first, then classes, then functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


@pytest.mark.parametrize("package", PACKAGES)
def test_the_imports_of_a_package_are_its_public_names(package: ModuleType) -> None:
    assert sorted(_list_imports(package)) == sorted(package.__all__)


def _list_imports(package: ModuleType) -> dict[str, tuple[str, str]]:
    """Return the names that a package imports from modules of the framework, with the modules."""
    tree = ast.parse(Path(str(package.__file__)).read_text())
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("controller.")
        and node.module != "controller.lazyexports"
        for alias in node.names
        if node.module is not None
    }


def test_lazily_loaded_names_are_what_type_checkers_see() -> None:
    for name, (module, original) in _list_imports(controller).items():
        assert getattr(controller, name) is getattr(import_module(module), original), name
    assert set(controller.__all__) <= set(dir(controller))
    with pytest.raises(AttributeError, match="no attribute 'Informant'"):
        getattr(controller, "Informant")  # noqa: B009 - mypy sees that it is not there


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_every_exported_name_is_used_by_the_reconcilers_or_by_a_tested_example(
    package: ModuleType,
) -> None:
    root = FOLDER.parent
    files = [*(root / "reconcilers").rglob("*.py"), *(root / "examples").glob("*.py")]
    sources = [path.read_text() for path in files]
    for page in (FOLDER / "README.md", *(root / "docs").glob("*.md")):
        sources += re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    used = {
        (node.module, alias.name)
        for source in sources
        for node in ast.walk(_parse(source))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    origins = _list_imports(package)
    assert [
        name
        for name in package.__all__
        if used.isdisjoint({(package.__name__, name), origins[name]})
    ] == []


def _parse(source: str) -> ast.AST:
    """Return the tree of a module, or of a block of a page, which may await at its top level."""
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = compile(source, "<source>", "exec", flags=flags)
    assert isinstance(tree, ast.AST)
    return tree


def test_importing_keys_and_conditions_loads_no_http_client() -> None:
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
    table = (FOLDER / "README.md").read_text()
    packages = {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    modules = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"} | packages
    assert {name for name in modules if f"`{name}`" not in table} == set()


def test_the_package_is_marked_as_typed() -> None:
    assert (FOLDER / "py.typed").is_file()
