"""What docstrings, comments and design notes name in backticks exists in the code.

A rename that does not reach them leaves a name that nobody finds.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.docs.text import DESIGN, ROOT, list_quoted

FOLDERS = ("allocator", "controller", "envtest", "manifests", "reconcilers", "tests", "examples")
FOREIGN_NAMES = {
    "IntersectionObserver": "an interface of browsers",
    "already_allocated": "a reason of Cilium's operator",
    "no_pool": "a reason of Cilium's operator",
    "pool_selector_mismatch": "a reason of Cilium's operator",
}
"""Names that the code does not have, with what they are."""
CODE_NAME = re.compile(
    r"""(?:[A-Za-z_]\w*\.)*      # the modules, or the class
    (?:[a-z]+(?:_[a-z0-9]+)+     # a function or a variable of several words
    |_[a-z]\w*                   # a private one
    |[A-Z]\w*[a-z][A-Z]\w*       # a class of several words
    |(?<=\.)[A-Za-z]\w*          # an attribute
    )(?:\(.*\))?""",
    re.VERBOSE,
)
LONGEST_NAME = 80
"""Longer strings in the code are sentences, not names."""


class Source:
    """A Python file: the names that its code has, and the words that its sentences quote.

    Attributes:
        names: of definitions, variables, attributes, parameters and imports, and words of strings
            that may be names of fields, metrics or reasons.
        quoted: the words in backticks of docstrings and comments, each with its line.
    """

    def __init__(self, code: str) -> None:
        self.names: set[str] = set()
        self.quoted: list[tuple[int, str]] = []
        tree = ast.parse(code)
        docstrings = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if id(node) in docstrings:
                    self._quote(node.lineno, node.value)
                elif len(node.value) <= LONGEST_NAME and "`" not in node.value:
                    self.names.update(re.findall(r"\w+", node.value))
            else:
                self.names.update(list_names(node))
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.COMMENT:
                self._quote(token.start[0], token.string)

    def _quote(self, line: int, sentences: str) -> None:
        """Add the words in backticks of a docstring or a comment, which begins at a line."""
        self.quoted += ((line, word) for word in re.findall(r"`([^`\n]+)`", sentences))


def list_names(node: ast.AST) -> Iterator[str]:
    """Return the names that one node of a syntax tree has itself."""
    match node:
        case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
            yield name
        case ast.Name(name) | ast.Attribute(_, name) | ast.arg(name):
            yield name
        case ast.keyword(str(name)):
            yield name
        case ast.alias(name, other_name):
            yield from name.split(".")
            yield from [other_name] if other_name else []
        case _:
            pass


@cache
def read_sources() -> dict[str, Source]:
    """Return all Python files of the folders, by path from the project's root."""
    return {
        str(path.relative_to(ROOT)): Source(path.read_text(encoding="utf-8"))
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


@cache
def list_known_names() -> set[str]:
    """Return all names of the code, and those of its files and folders."""
    parts = {part for path in read_sources() for part in Path(path).with_suffix("").parts}
    return parts.union(FOREIGN_NAMES, *(source.names for source in read_sources().values()))


def is_unknown(word: str) -> bool:
    """Return whether a word in backticks has the form of a name, but names nothing in the code."""
    if CODE_NAME.fullmatch(word) is None:
        return False
    return word.partition("(")[0].rpartition(".")[2] not in list_known_names()


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_docstrings_and_comments_name_exists(folder: str) -> None:
    unknown = [
        f"{path}:{line}: {word}"
        for path, source in read_sources().items()
        if path.startswith(f"{folder}/")
        for line, word in source.quoted
        if is_unknown(word)
    ]
    assert unknown == []


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", *DESIGN])
def test_what_a_design_note_names_exists(document: str) -> None:
    assert [word for word in list_quoted(document) if is_unknown(word)] == []


def test_a_name_that_the_code_does_not_have_is_found() -> None:
    source = Source('"""Calls `take_low` and `Pool.take`."""\n\n# see `take_lower`\nprint(1)\n')
    assert source.quoted == [(1, "take_low"), (1, "Pool.take"), (3, "take_lower")]
    assert source.names == {"print"}
    assert is_unknown("no_such_name_anywhere".replace("any", "no"))
    assert is_unknown("Source.no_such_name_anywhere".replace("any", "no"))
    assert not is_unknown("is_unknown")
    assert not is_unknown("kubectl get pods")
