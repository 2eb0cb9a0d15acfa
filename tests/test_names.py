"""Names and docstrings that a reader of one function cannot understand.

The rules are those of CONTRIBUTING.md, "Names". `PACKAGES` are the packages that keep them.
"""

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = (
    "allocator",
    ".ci",
    "controller",
    "envtest",
    "examples",
    "manifests",
    "reconcilers",
    "tests",
    "version.py",
)
EMPTY_NAMES = {
    *("one", "each", "some", "every", "mine", "what", "who", "those", "them", "text", "left"),
    *("found", "made", "wanted", "shown", "held", "served", "given", "named", "taken"),
}
"""Names that do not say what the variable holds."""
PARTICIPLES = {
    *("held", "given", "taken", "shown", "found", "made", "left", "kept", "told", "seen", "gone"),
    *("known", "chosen", "written", "sent", "drawn", "built", "bound", "begun", "split", "cut"),
}
"""Participles that do not end in -ed."""
VERBS_IN_ED = {"feed", "seed", "need", "embed", "proceed", "succeed", "exceed"}
EMPTY_BEGINNING = re.compile(r"(Return|Yield) (what|who|whose|those|which|whether what)\b")

SHIPPED = ("allocator", "controller", "envtest", "manifests", "reconcilers")
"""The packages in which a public class name is unique; a private class is seen in one module."""
WIRE_NAMES = {"controller/discovery.py": {"served"}}
"""Fields of objects in JSON, by module: the API names them."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_property(function: Function) -> bool:
    """Return whether a method is read as an attribute."""
    names = {getattr(node, "id", getattr(node, "attr", "")) for node in function.decorator_list}
    return bool(names & {"property", "cached_property", "setter"})


def is_override(function: Function) -> bool:
    """Return whether a method has the name of the method that it overrides."""
    return any(getattr(node, "id", "") == "override" for node in function.decorator_list)


def is_participle(name: str) -> bool:
    """Return whether a function's name is a bare participle: it says neither verb nor noun."""
    word = name.strip("_")
    is_regular = word.endswith("ed") and word not in VERBS_IN_ED
    return "_" not in word and (is_regular or word in PARTICIPLES)


def variable_name(node: ast.arg | ast.Name) -> str:
    """Return the name that a node gives to a variable, a parameter or a field; else nothing."""
    if isinstance(node, ast.arg):
        return node.arg
    return node.id if isinstance(node.ctx, ast.Store) else ""


def find_problems(source: str, wire_names: Collection[str] = ()) -> Iterator[tuple[int, str]]:
    """Yield the line of each name or docstring against the rules, and what is wrong there.

    Args:
        source: the text of a module.
        wire_names: fields that are named as in JSON.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.arg | ast.Name):
            name = variable_name(node)
            if name in EMPTY_NAMES and name not in wire_names:
                yield node.lineno, f"the variable {name} does not say what it holds"
        if not isinstance(node, Function):
            continue
        if is_participle(node.name) and not is_property(node) and not is_override(node):
            yield node.lineno, f"the function {node.name} is a bare participle"
        if EMPTY_BEGINNING.match(ast.get_docstring(node) or ""):
            yield node.lineno, f"the docstring of {node.name} does not name what it returns"


def list_files(package: str) -> list[Path]:
    """Return the modules of a package of PACKAGES, or the module itself."""
    path = ROOT / package
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


@pytest.mark.parametrize("package", PACKAGES)
def test_names_and_docstrings_of_a_package_say_what_they_are(package: str) -> None:
    files = list_files(package)
    assert files
    problems = [
        f"{path.relative_to(ROOT)}:{line}: {problem}"
        for path in files
        for line, problem in find_problems(
            path.read_text(encoding="utf-8"), WIRE_NAMES.get(str(path.relative_to(ROOT)), ())
        )
    ]
    assert problems == []


@pytest.mark.parametrize(
    "source",
    [
        "for one in pools: pass",
        "pools = [one for one in pools]",
        "def take(text): pass",
        "def served(): pass",
        "def _held(): pass",
        "def serve():\n    '''Return what is served.'''",
    ],
)
def test_a_name_or_docstring_against_the_rules_is_found(source: str) -> None:
    assert list(find_problems(source))


def test_names_that_say_what_they_are_pass() -> None:
    source = "def list_served(pools):\n    '''Return the pools that are served.'''"
    assert list(find_problems(source)) == []


ARGUMENT = re.compile(r" {4}(\*{0,2}\w+(?:, \*{0,2}\w+)*):")


def list_parameters(node: ast.AST) -> set[str]:
    """Return the parameters of a function, or of a class and its fields."""
    if isinstance(node, Function):
        of_function = node.args
        all_parameters = (*of_function.posonlyargs, *of_function.args, *of_function.kwonlyargs)
        rest = (of_function.vararg, of_function.kwarg)
        return {argument.arg for argument in (*all_parameters, *rest) if argument is not None}
    parameters: set[str] = set()
    for statement in getattr(node, "body", ()):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            parameters.add(statement.target.id)
        if isinstance(statement, ast.FunctionDef) and statement.name in {"__init__", "__new__"}:
            parameters |= list_parameters(statement)
    return parameters


def find_unknown_arguments(source: str) -> Iterator[str]:
    """Yield each entry of an `Args:` section that names no parameter and no field.

    Args:
        source: the text of a module.
    """
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, Function | ast.ClassDef):
            continue
        _, _, section = (ast.get_docstring(node) or "").partition("\nArgs:\n")
        parameters = list_parameters(node)
        if isinstance(node, ast.ClassDef) and not parameters:
            continue  # its base has the parameters
        for line in section.splitlines():
            if line and not line.startswith(" "):
                break
            if entry := ARGUMENT.match(line):
                names = {name.strip("* ") for name in entry[1].split(",")}
                yield from (f"{node.name}: {name}" for name in sorted(names - parameters))


def list_annotations(node: ast.AST) -> dict[str, str]:
    """Return the types of a function's parameters, or of a class's parameters and fields."""
    types: dict[str, str] = {}
    if isinstance(node, Function):
        of_function = node.args
        parameters = (*of_function.posonlyargs, *of_function.args, *of_function.kwonlyargs)
        rest = (of_function.vararg, of_function.kwarg)
        for argument in (*parameters, *(argument for argument in rest if argument is not None)):
            types[argument.arg] = ast.unparse(argument.annotation) if argument.annotation else ""
        return types
    for statement in getattr(node, "body", ()):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            types[statement.target.id] = ast.unparse(statement.annotation)
        if isinstance(statement, ast.FunctionDef) and statement.name in {"__init__", "__new__"}:
            types |= list_annotations(statement)
    return types


def list_words(phrase: str) -> set[str]:
    """Return the words of a phrase, of a name or of a type, in lower case and in the singular."""
    words = re.findall(r"[A-Za-z]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", phrase))
    return {re.sub(r"(?<=..)(ies$|(?<=[sx])es$|s$)", "", word.lower()) for word in words}


WORDS_OF_TYPES = {
    "Callable": "function",
    "Mapping": "dict",
    "Path": "file path folder",
    "Sequence": "list",
    "bool": "whether",
    "int": "number integer",
    "str": "string text",
}
"""Words of a docstring that repeat a type."""
WORDS_THAT_SAY_NOTHING = list_words("the a an of its it this that to is which one our own")


def find_repeating_entries(source: str) -> Iterator[str]:
    """Yield each entry of an `Args:` section that only repeats the name and the type.

    Args:
        source: the text of a module.
    """
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, Function | ast.ClassDef):
            continue
        _, _, section = (ast.get_docstring(node) or "").partition("\nArgs:\n")
        section = re.split(r"^(?! |$)", section, maxsplit=1, flags=re.MULTILINE)[0]
        types = list_annotations(node)
        entries = re.split(r"^ {4}(?=\S)", section, flags=re.MULTILINE)
        for names, _, description in (entry.partition(":") for entry in entries if ":" in entry):
            known = set(WORDS_THAT_SAY_NOTHING)
            for name in (name.strip("* ") for name in names.split(",")):
                of_type = types.get(name, "")
                synonyms = [WORDS_OF_TYPES.get(word, "") for word in re.findall(r"\w+", of_type)]
                known |= list_words(" ".join([name, of_type, *synonyms]))
            if list_words(description) <= known:
                yield f"{node.name}: {names}: {description.strip()}"


def test_no_entry_of_args_repeats_only_the_name_and_the_type() -> None:
    repeating = [
        f"{path.relative_to(ROOT)}: {problem}"
        for folder in (*SHIPPED, "examples", ".ci", "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for problem in find_repeating_entries(path.read_text(encoding="utf-8"))
    ]
    assert repeating == [], "say more (a unit, the meaning of None, a source), or leave it out"


def test_an_entry_of_args_that_repeats_name_and_type_is_found() -> None:
    head = 'def take(pool: NetworkPool, seconds: float):\n    """Take.\n\n    Args:\n        '
    assert list(find_repeating_entries(f'{head}pool: the pool.\n    """'))
    assert list(find_repeating_entries(f'{head}pool: the NetworkPool.\n    """'))
    assert not list(find_repeating_entries(f'{head}seconds: 0 means at once.\n    """'))


def test_every_entry_of_args_names_a_parameter_or_a_field() -> None:
    unknown = [
        f"{path.relative_to(ROOT)}: {problem}"
        for folder in (*SHIPPED, "examples", ".ci", "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for problem in find_unknown_arguments(path.read_text(encoding="utf-8"))
    ]
    assert unknown == []


def test_an_entry_of_args_that_names_nothing_is_found() -> None:
    source = "def take(pool):\n    '''Take.\n\n    Args:\n        old: the pool.\n    '''"
    assert list(find_unknown_arguments(source)) == ["take: old"]


def list_repeated_class_names(sources: Iterable[str]) -> set[str]:
    """Return the names of public classes that more than one module defines.

    Args:
        sources: the texts of the modules.
    """
    counts = Counter[str]()
    for source in sources:
        classes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef))
        counts.update({node.name for node in classes if not node.name.startswith("_")})
    return {name for name, count in counts.items() if count > 1}


def test_a_class_name_is_unique_in_the_packages_that_are_shipped() -> None:
    paths = [path for package in SHIPPED for path in (ROOT / package).rglob("*.py")]
    repeated = list_repeated_class_names(path.read_text(encoding="utf-8") for path in paths)
    assert repeated == set(), "name the new class after its own subject"


def test_a_class_name_of_two_modules_is_found() -> None:
    sources = ["class Reader: ...\nclass _Seen: ...", "class Reader: ...\nclass _Seen: ..."]
    assert list_repeated_class_names(sources) == {"Reader"}
