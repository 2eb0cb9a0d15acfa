"""The documentation of public names: their parameters and the errors they raise."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_origin

import pytest

import controller
import controller.scaffold
import controller.webhooks

PACKAGES = (controller, controller.scaffold, controller.webhooks)
ROOT = Path(controller.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))


def list_members() -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of each public function, class, method and property."""
    for package in PACKAGES:
        for name in package.__all__:
            value = getattr(package, name)
            if inspect.isfunction(value):
                yield name, value
            elif inspect.isclass(value) and get_origin(value) is None:
                yield name, value
                for attribute, member in vars(value).items():
                    if attribute.startswith("_"):
                        continue
                    function = _find_function(member)
                    if function is not None:
                        yield f"{name}.{attribute}", function


def _find_function(member: Any) -> Callable[..., Any] | None:
    """Return the function behind a property or a method; None for other attributes."""
    if isinstance(member, property):
        return member.fget
    if isinstance(member, classmethod | staticmethod):
        member = member.__func__
    function = inspect.unwrap(member) if callable(member) else None
    return function if inspect.isfunction(function) else None


MEMBERS = dict(list_members())


@pytest.mark.parametrize("name", MEMBERS)
def test_every_public_name_has_a_docstring(name: str) -> None:
    assert _find_docstring(name), f"{name} has no docstring"


@pytest.mark.parametrize("name", MEMBERS)
def test_every_parameter_is_explained(name: str) -> None:
    documentation = _find_docstring(name)
    missing = [
        parameter
        for parameter in _list_parameters(MEMBERS[name])
        if not _is_explained(documentation, parameter)
    ]
    assert not missing, f"{name} does not say what {missing} are: add them to Args"


@pytest.mark.parametrize("name", MEMBERS)
def test_every_error_raised_in_the_body_is_documented(name: str) -> None:
    documentation = _find_docstring(name) + _find_docstring(name.partition(".")[0])
    assert {
        error_name
        for error_name in _list_raised_errors(MEMBERS[name])
        if error_name not in documentation
    } == set()


def _find_docstring(name: str) -> str:
    """Return the docstring of a public name, or that of the method that it overrides."""
    own_docstring = MEMBERS[name].__doc__
    if own_docstring:
        return str(own_docstring)
    kind, _, method = name.partition(".")
    for base in getattr(_find_package(kind), kind).__mro__[1:]:
        inherited = vars(base).get(method)
        if inherited is not None and inherited.__doc__:
            return str(inherited.__doc__)
    return ""


def _find_package(name: str) -> Any:
    """Return the package that exports a name."""
    return next(package for package in PACKAGES if name in package.__all__)


def _list_parameters(value: Any) -> list[str]:
    """Return the names of the parameters of a function, or of a class's constructor."""
    if inspect.isclass(value):
        if issubclass(value, Exception) or getattr(value, "_is_protocol", False):
            return []
        if not is_dataclass(value) and "__init__" not in vars(value):
            return []
        if issubclass(value, tuple):
            return []
    parameters = inspect.signature(value).parameters
    return [name for name in parameters if name not in ("self", "cls")]


def _is_explained(documentation: str, parameter: str) -> bool:
    """Return whether a docstring has a parameter among its Args or in backticks."""
    quoted = re.search(rf"`{parameter}`|`{parameter.upper()}`", documentation)
    listed = re.search(rf"^\s+\*{{0,2}}{parameter}: ", documentation, re.MULTILINE)
    return bool(quoted or listed)


def _list_raised_errors(value: Any) -> set[str]:
    """Return the names of exceptions in the `raise` statements of a function."""
    if inspect.isclass(value):
        return set()
    tree = ast.parse(textwrap.dedent(inspect.getsource(value)))
    error_names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if isinstance(raised, ast.Name) and raised.id[0].isupper():
                error_names.add(raised.id)
    return error_names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_arguments_of_a_docstring_are_one_block(path: Path) -> None:
    """Editors and the site show nothing of `Args` below a blank line."""
    scopes = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(path.read_text())):
        docstring = (ast.get_docstring(node) or "") if isinstance(node, scopes) else ""
        section = docstring.partition("\nArgs:\n")[2]
        assert not re.match(r"(    .*\n)+\n    \S", section), f"{path}: {section}"
