"""YAML bodies as the API server reads them: YAML 1.1 without dates, then as if it were JSON."""

import re
from collections.abc import Hashable
from typing import Any, ClassVar

import yaml
from typing_extensions import override

_BOOL = "tag:yaml.org,2002:bool"
# Go's reader has the same grammar, but other words for what it misses.
_WORDS = {
    "expected the node content": "did not find expected node content",
    "expected ',' or ']'": "did not find expected ',' or ']'",
    "expected ',' or '}'": "did not find expected ',' or '}'",
    "expected <block end>": "did not find expected key",
}
# Far above what a body within the size limit can hold without aliases.
_MOST_NODES = 2_000_000
# The reader goes down a frame or two for each level; Go's own limit is 10,000.
_DEEPEST = 200
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class YamlError(Exception):
    """A text that is not YAML; the message says where."""


class _Loader(yaml.SafeLoader):
    """SafeLoader that keeps dates as text and notices keys that stand twice."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.duplicates: list[str] = []
        self._depth = 0

    @override
    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise yaml.MarkedYAMLError(
                problem=f"exceeded max depth of {_DEEPEST}", problem_mark=self.get_mark()
            )
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node

    @override
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen:
                line = key.start_mark.line + 1
                self.duplicates.append(f'line {line}: key "{name}" already set in map')
            seen.add(name)
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _ShortBooleanLoader(_Loader):
    """Also takes a bare y or n for a truth value: YAML 1.1 says so, PyYAML does not."""

    bool_values: ClassVar[dict[str, bool]] = {**yaml.SafeLoader.bool_values, "y": True, "n": False}


_ShortBooleanLoader.add_implicit_resolver(_BOOL, re.compile("^[yYnN]$"), list("yYnN"))


def read_yaml(data: bytes) -> tuple[Any, list[str]]:
    """Return the first document and the complaints about keys that stand twice.

    Args:
        data: the text; JSON is YAML, too.

    Raises:
        YamlError: the text is not YAML.
    """
    try:
        loader = _ShortBooleanLoader(data.decode("utf-8"))
        try:
            node = loader.get_single_node()
            value = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
        return _Plain().of(value), loader.duplicates
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise YamlError(_sentence(error)) from error


def write_yaml(value: Any) -> str:
    """Return a JSON value as YAML, keys in order."""
    return yaml.safe_dump(value, default_flow_style=False, allow_unicode=True)


class _Plain:
    """Makes keys texts, as JSON needs them; bounds what aliases of aliases can grow into."""

    def __init__(self) -> None:
        self._left = _MOST_NODES

    def of(self, value: Any) -> Any:
        """Return a value as JSON has it."""
        self._left -= 1
        if self._left < 0:
            raise ValueError("document contains excessive aliasing")
        if isinstance(value, dict):
            return {_key(key): self.of(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.of(item) for item in value]
        return value if isinstance(value, str | int | float | bool | type(None)) else str(value)


def _key(key: object) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def _sentence(error: Exception) -> str:
    """Return one line about a YAML error, with its place."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    problem = _WORDS.get(problem.partition(", but found")[0], problem)
    return f"yaml: line {mark.line + 1}: {problem}" if mark else f"yaml: {problem}"
