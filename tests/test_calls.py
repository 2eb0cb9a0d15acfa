"""Calls that a reader cannot follow without the definition: many arguments without their names."""

import ast
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.test_names import PACKAGES, ROOT, list_files

MOST_UNNAMED = 3
"""How many arguments of a call may be told by their places alone."""
BY_PLACE = {
    "Condition": "type, status, reason, message: the order of every Kubernetes API",
    "ObjectMeta": "name, namespace, uid, resourceVersion: the order in which messages name them",
    "OwnerReference": "apiVersion, kind, name, uid: the order in which Kubernetes writes them",
    "Resource": "group, version, kind, plural: the order in which Kubernetes writes them",
    "add_finalizer": "client, resource, object, finalizer: documented for users",
    "ensure": "client, resource, owner, body: documented for users",
    "remove_finalizer": "client, resource, object, finalizer: documented for users",
    **dict.fromkeys(
        ("check_readable", "choose", "settle"),
        "a step of the promise protocol that the simulation replaces by a wrong one, by place",
    ),
    **dict.fromkeys(
        ("builds", "chain", "given", "select"), "a name that another library has as well"
    ),
}
"""Functions whose arguments may all be told by their places, with the reason."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parse_modules() -> Mapping[Path, ast.Module]:
    """Return the syntax trees of all modules but the examples of kopf, which follow its style."""
    return {
        path: ast.parse(path.read_text(encoding="utf-8"))
        for package in PACKAGES
        for path in list_files(package)
        if not path.is_relative_to(ROOT / "examples" / "kopf")
    }


def list_own_names(trees: Collection[ast.Module]) -> set[str]:
    """Return the names of the functions and classes that are defined here.

    Those that take any number of arguments are left out, as the words of a command are.
    """
    names, with_any_number = set[str](), set[str]()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, Function | ast.ClassDef):
                names.add(node.name)
                if any(map(takes_any_number, (node, *_list_constructors(node)))):
                    with_any_number.add(node.name)
    return names - with_any_number


def takes_any_number(node: ast.AST) -> bool:
    """Return whether a function takes any number of arguments by place."""
    return isinstance(node, Function) and node.args.vararg is not None


def _list_constructors(node: Function | ast.ClassDef) -> list[ast.stmt]:
    return [part for part in node.body if getattr(part, "name", "") == "__init__"]


def find_unnamed(tree: ast.Module, own_names: Collection[str]) -> Iterator[tuple[int, str]]:
    """Yield the line of each call with too many unnamed arguments, and what it calls.

    Args:
        tree: the syntax tree of a module.
        own_names: the names of functions and classes that the rule is for.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or len(node.args) <= MOST_UNNAMED:
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name in own_names and not any(isinstance(part, ast.Starred) for part in node.args):
            yield node.lineno, name


def test_calls_with_many_arguments_name_those_from_the_third_on() -> None:
    trees = parse_modules()
    own_names = list_own_names(trees.values()) - BY_PLACE.keys()
    unnamed = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path, tree in trees.items()
        for line, name in find_unnamed(tree, own_names)
    ]
    assert unnamed == []


def test_a_call_with_four_unnamed_arguments_is_found() -> None:
    definition = "def take(a, b, c, d): ...\ndef say(*words): ...\n"
    tree = ast.parse(f"{definition}take(1, 2, 3, 4)\ntake(1, 2, c=3, d=4)\nsay(1, 2, 3, 4)")
    own_names = list_own_names([tree])
    assert list(find_unnamed(tree, own_names)) == [(3, "take")]


def test_every_exception_is_needed() -> None:
    trees = parse_modules().values()
    called = {name for tree in trees for _, name in find_unnamed(tree, BY_PLACE.keys())}
    assert called == BY_PLACE.keys()
