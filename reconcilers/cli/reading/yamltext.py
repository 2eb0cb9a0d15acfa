"""YAML and JSON documents as plain values that know their lines.

PyYAML parses and composes, and its nodes have the lines. Over the events of its C parser runs the
composer that is written in Python: the one in C recurses, so that a line of 50,000 brackets ends
the process. What a word means is not left to PyYAML: kubectl reads YAML 1.1 the Go way, where `y`
and `n` are booleans, a leading zero means octal, `0o17` too, `1e3` is a number, and times of day,
dates and sexagesimals stay text. The table in the tests was taken from kubectl 1.32.

Documents are cut apart at their `---` lines first, as kubectl does, so that a syntax error costs
its own document alone.
"""

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import yaml
from typing_extensions import override
from yaml.composer import Composer

MAX_DEPTH = 200
MAX_ALIASED = 100_000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SEPARATOR = re.compile(r"^---(?=[ \t\r]|$)", re.MULTILINE)
_CONTENT = re.compile(r"^[ \t]*[^#%\s]", re.MULTILINE)
"""A line that is neither empty nor a comment nor a directive."""
_TAG = "tag:yaml.org,2002:"
_PLAIN = "plain"
"""The tag of words without quotes and without a tag."""
_JSON_WITH_LINES = 2_000_000
"""Up to how many characters JSON is read a second time, as YAML, to learn its lines."""

Scalar = str | int | float | bool | None

_TRUE = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_NULL = ("", "~", "null", "Null", "NULL")
_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys(_NULL, None),
}
_INTEGERS: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"[-+]?0b[01]+"), 2),
    (re.compile(r"[-+]?0x[0-9a-fA-F]+"), 16),
    (re.compile(r"[-+]?0o?[0-7]+"), 8),
    (re.compile(r"[-+]?[0-9]+"), 10),
)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_JSON = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LONGEST_NUMBER = 400


class Malformed(Exception):
    """A document is not what it should be.

    Args:
        line: where, from 1; 0 if the reader of the whole has to say.
        reason: what is wrong.
    """

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


class LinedDict(dict[str, Any]):
    """A mapping, with its line and the line of each key."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}


class LinedList(list[Any]):
    """A sequence, with its line and the line of each item."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: list[int] = []


def line_of(value: Any, path: tuple[str | int, ...]) -> int:
    """Return the line of what is at `path` in `value`, or of the nearest that encloses it.

    0 if the value knows no lines.
    """
    line = value.line if isinstance(value, LinedDict | LinedList) else 0
    for step in path:
        if isinstance(value, LinedDict) and step in value.lines:
            line = value.lines[str(step)]
        elif isinstance(value, LinedList) and isinstance(step, int) and step < len(value.lines):
            line = value.lines[step]
        else:
            break
        value = value[step]
    return line


def resolve(word: str) -> Scalar:
    """Return the value of an unquoted word.

    Raises:
        Malformed: it is infinity or not-a-number, for which JSON has no word.
    """
    if word in _WORDS:
        return _WORDS[word]
    if word[0] not in "0123456789+-." or len(word) > _LONGEST_NUMBER:
        return word
    if _NOT_JSON.fullmatch(word):
        raise Malformed(0, f"{word} is no number that JSON can carry; quote it if it is a text")
    digits = word.replace("_", "")
    for pattern, base in _INTEGERS:
        if pattern.fullmatch(digits):
            return int(digits.replace("o", "", 1), base)
    if not _FLOAT.fullmatch(digits):
        return word
    value = float(digits)
    return value if abs(value) != float("inf") else word


def pieces(text: str) -> Iterator[tuple[int, str]]:
    """Cut a text at its `---` lines; yield each piece with the number of lines before it."""
    cuts = [found.start() for found in _SEPARATOR.finditer(text)]
    starts = [0, *(cut for cut in cuts if cut > 0)]
    line = 0
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        piece = text[start:end]
        if _CONTENT.search(piece):
            yield line, piece
        line += piece.count("\n")


def parse(piece: str, before: int = 0) -> list[tuple[int, Any]]:
    """Return the documents of a piece of text, each with its first line; empty ones are left out.

    Args:
        piece: what `pieces` yielded; more than one document only where `...` ends them.
        before: the number of lines before it.

    Raises:
        Malformed: it is no YAML, or YAML that makes no object for Kubernetes.
    """
    try:
        documents = list(_Documents(piece, before).read())
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, piece, before) from error
    except yaml.reader.ReaderError as error:
        line = before + piece.count("\n", 0, error.position) + 1
        raise Malformed(line, "this holds a control character, which YAML forbids") from error
    return [(line, value) for line, value in documents if value is not None]


def _syntax_error(error: yaml.MarkedYAMLError, piece: str, before: int) -> Malformed:
    mark = error.problem_mark or error.context_mark
    line = mark.line if mark is not None else 0
    lines = piece.splitlines()
    at = lines[line] if line < len(lines) else ""
    problem = error.problem or "it cannot be read"
    context = f" {error.context}:" if error.context else ""
    if context and error.context_mark is not None and error.context_mark.line != line:
        context = f" {error.context} that begins in line {before + error.context_mark.line + 1}:"
    tab = "; indent with spaces, not with tabs" if "\t" in at[: len(at) - len(at.lstrip())] else ""
    return Malformed(before + line + 1, f"this is no valid YAML:{context} {problem}{tab}")


class _Documents(Composer):
    """Composes documents, and makes values of them.

    Args:
        piece: the text.
        before: the number of lines before it.
    """

    def __init__(self, piece: str, before: int) -> None:
        super().__init__()
        self._before = before
        self._events: Iterator[Any] = yaml.parse(piece, Loader=_LOADER)
        self._next: Any = next(self._events)
        self._taken: Any = None
        self._depth = 0
        self._aliased = 0

    def read(self) -> Iterator[tuple[int, Any]]:
        """Yield the first line and the value of each document."""
        self.get_event()
        while not self.check_event(yaml.StreamEndEvent):
            node = self.compose_document()
            yield self._line(node), self._value(node)

    # -- what a Composer asks of the parser and the resolver beside it ----------------------------

    def check_event(self, *kinds: type) -> bool:
        """Return whether the next event is of one of these kinds."""
        return isinstance(self._next, kinds)

    def peek_event(self) -> Any:
        """Return the next event, and leave it."""
        return self._next

    def get_event(self) -> Any:
        """Return the next event, and take it."""
        self._taken, self._next = self._next, next(self._events, None)
        return self._taken

    def descend_resolver(self, _parent: Any, _index: Any) -> None:
        """Count the levels; the composer recurses for each."""
        self._depth += 1
        if self._depth > MAX_DEPTH and not self.check_event(yaml.ScalarEvent):
            raise self._too_deep(self._next)

    def ascend_resolver(self) -> None:
        """Count the levels."""
        self._depth -= 1

    def resolve(self, _kind: Any, _value: Any, implicit: Any) -> str:
        """Return the tag of what has none."""
        if not isinstance(self._taken, yaml.ScalarEvent):
            return ""
        return _PLAIN if implicit[0] and self._taken.tag is None else f"{_TAG}str"

    @override
    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self._next
        if isinstance(event, yaml.AliasEvent):
            return self._alias(self.get_event())
        self.anchors.pop(event.anchor, None)  # Kubernetes takes an anchor that is given anew
        return super().compose_node(parent, index)

    def _alias(self, event: Any) -> Any:
        """Return what an anchor stands for, as if it were written here."""
        node, line = self.anchors.get(event.anchor), self._line(event)
        if node is None or node.end_mark is None:
            what = f"the alias *{event.anchor} refers to itself or to nothing before it"
            raise Malformed(line, what)
        waiting = [(node, self._depth + 1)]
        while waiting:
            inner, depth = waiting.pop()
            self._aliased += 1
            if self._aliased > MAX_ALIASED:
                raise Malformed(line, f"the aliases stand for more than {MAX_ALIASED} values")
            if depth > MAX_DEPTH and not isinstance(inner, yaml.ScalarNode):
                raise self._too_deep(event)
            waiting += [(one, depth + 1) for one in _inside(inner)]
        here = copy.copy(node)
        here.start_mark = event.start_mark
        return here

    def _too_deep(self, event: Any) -> Malformed:
        return Malformed(self._line(event), f"this is nested more than {MAX_DEPTH} levels deep")

    # -- values -----------------------------------------------------------------------------------

    def _line(self, node: Any) -> int:
        return self._before + int(node.start_mark.line) + 1

    def _value(self, node: Any) -> Any:
        line = self._line(node)
        if isinstance(node, yaml.ScalarNode):
            try:
                return _scalar(node.tag, node.value)
            except Malformed as wrong:
                raise Malformed(line, wrong.reason) from wrong
        is_list = isinstance(node, yaml.SequenceNode)
        if node.tag not in {"", f"{_TAG}{'seq' if is_list else 'map'}"}:
            raise Malformed(line, f"the tag {_shown(node.tag)} means nothing to Kubernetes")
        return self._list(node, line) if is_list else self._dict(node, line)

    def _list(self, node: Any, line: int) -> LinedList:
        made = LinedList(line)
        made += map(self._value, node.value)
        made.lines += map(self._line, node.value)
        return made

    def _dict(self, node: Any, line: int) -> LinedDict:
        made, merged = LinedDict(line), []
        for key_node, value_node in node.value:
            value, at = self._value(value_node), self._line(key_node)
            if (key_node.tag, key_node.value) == (_PLAIN, "<<"):
                merged.append((value, self._line(value_node)))
                continue
            key = self._key(key_node, at)
            if key in made:
                first = made.lines[key]
                raise Malformed(at, f"the key {_shown(key)} is here twice, first in line {first}")
            made[key], made.lines[key] = value, at
        for value, at in merged:
            _merge(made, value, at)
        return made

    def _key(self, node: Any, line: int) -> str:
        key = self._value(node)
        if key is None or isinstance(key, dict | list):
            raise Malformed(line, "a key has to be a word or a number")
        return str(key).lower() if isinstance(key, bool) else str(key)


def _inside(node: Any) -> Iterator[Any]:
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from pair


def _merge(made: LinedDict, value: Any, line: int) -> None:
    """Add what `<<` merges: keys that the mapping and earlier sources do not have."""
    for source in value if isinstance(value, list) else [value]:
        if not isinstance(source, LinedDict):
            raise Malformed(line, "<< can only merge mappings")
        for key in source.keys() - made.keys():
            made.lines[key] = source.lines[key]
        made.update({key: one for key, one in source.items() if key not in made})


def _scalar(tag: str, word: str) -> Scalar:
    if tag == f"{_TAG}str":
        return word
    value = resolve(word)
    if tag == _PLAIN:
        return value
    name = tag.removeprefix(_TAG)
    wanted = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}
    if name not in wanted:
        raise Malformed(0, f"the tag {_shown(tag)} means nothing to Kubernetes")
    if type(value) not in wanted[name]:
        raise Malformed(0, f"{_shown(word)} is no {name}, as its tag says")
    return value


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "...")


def parse_json(text: str) -> list[tuple[int, Any]]:
    """Return the JSON documents of a text, each with its first line.

    JSON is YAML, almost: where reading it as YAML gives the same values, these know their lines.

    Raises:
        Malformed: it is no JSON, or has a key twice.
    """
    decoder = json.JSONDecoder(object_pairs_hook=_json_object, parse_constant=_json_constant)
    documents: list[tuple[int, Any]] = []
    at = _skip(text, 0)
    while at < len(text):
        line = text.count("\n", 0, at) + 1
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise Malformed(error.lineno, f"this is no valid JSON: {error.msg}") from error
        except Malformed as error:
            raise Malformed(_as_yaml(text)[0] or line, error.reason) from error
        except RecursionError as error:
            raise Malformed(line, f"this is nested more than {MAX_DEPTH} levels deep") from error
        documents.append((line, value))
        at = _skip(text, end)
    if len(documents) != 1 or len(text) > _JSON_WITH_LINES:
        return documents
    lined = _as_yaml(text)[1]
    return lined if [value for _, value in lined] == [documents[0][1]] else documents


def _as_yaml(text: str) -> tuple[int, list[tuple[int, Any]]]:
    """Return the line of the first fault that a text has as YAML, or its documents."""
    try:
        return 0, parse(text)
    except Malformed as error:
        return error.line, []


def _json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise Malformed(0, f"the key {key!r} is in one object twice")
        made[key] = value
    return made


def _json_constant(word: str) -> Any:
    raise Malformed(0, f"{word} is no number that JSON can carry")


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
