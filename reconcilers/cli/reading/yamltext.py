"""YAML and JSON documents as plain values that know their lines.

PyYAML's parser in C gives events, and these have the lines. Its composers are not used: the one in
C recurses, so that a line of 50,000 brackets ends the process, and it refuses an anchor that is
given anew, which Kubernetes takes. What a word means is not left to PyYAML: kubectl reads YAML 1.1
the Go way, where `y` and `n` are booleans, a leading zero means octal, `0o17` too, `1e3` is a
number, and times of day, dates and sexagesimals stay text. The table in the tests was taken from
kubectl 1.32.

Documents are cut apart at their `---` lines first, as kubectl does, so that a syntax error costs
its own document alone.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from reconcilers.cli.reading.findings import value_text

MAX_DEPTH = 200
MAX_ALIASED = 100_000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SEPARATOR = re.compile(r"^---(?=[ \t\r]|$)", re.MULTILINE)
_CONTENT = re.compile(r"^[ \t]*[^#%\s]", re.MULTILINE)
"""A line that is neither empty nor a comment nor a directive."""
_SPACE = re.compile(r"[ \t\r\n]*")
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
        raise Malformed(0, f"{word} is not a number in JSON; put it in quotes if it is a string")
    digits = word.replace("_", "")
    for pattern, base in _INTEGERS:
        if pattern.fullmatch(digits):
            return int(digits.replace("o", "", 1), base)
    if not _FLOAT.fullmatch(digits):
        return word
    value = float(digits)
    return value if abs(value) != float("inf") else word


def pieces(content: str) -> Iterator[tuple[int, str]]:
    """Cut a text at its `---` lines; yield each piece with the number of lines before it."""
    cuts = [separator.start() for separator in _SEPARATOR.finditer(content)]
    starts = [0, *(cut for cut in cuts if cut > 0)]
    line = 0
    for start, end in zip(starts, [*starts[1:], len(content)], strict=True):
        piece = content[start:end]
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
    """Return the error of invalid YAML; `before` lines of the file precede `piece`."""
    mark = error.problem_mark or error.context_mark
    line = mark.line if mark is not None else 0
    at = "".join(piece.splitlines()[line : line + 1])
    problem = error.problem or "it cannot be read"
    context = f" {error.context}:" if error.context else ""
    if context and error.context_mark is not None and error.context_mark.line != line:
        context = f" {error.context} that begins in line {before + error.context_mark.line + 1}:"
    tab = "; indent with spaces, not with tabs" if "\t" in at[: len(at) - len(at.lstrip())] else ""
    return Malformed(before + line + 1, f"this is not valid YAML:{context} {problem}{tab}")


class _Anchored(NamedTuple):
    """What an alias stands for.

    Args:
        size: how many values it holds, itself included.
        height: how many levels of lists and mappings it has.
    """

    value: Any
    size: int
    height: int


class _Documents:
    """Makes values of the events of PyYAML's parser for a piece with `before` lines before it."""

    def __init__(self, piece: str, before: int) -> None:
        self._before = before
        self._events: Iterator[Any] = yaml.parse(piece, Loader=_LOADER)
        self._anchors: dict[str, _Anchored] = {}
        self._depth = 0
        self._deepest = 0
        self._count = 0
        self._aliased = 0

    def read(self) -> Iterator[tuple[int, Any]]:
        """Yield the first line and the value of each document."""
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                root = next(self._events)
                yield self._line(root), self._value(root)

    def _line(self, event: Any) -> int:
        return self._before + int(event.start_mark.line) + 1

    def _value(self, event: Any) -> Any:
        """Return the value that begins with `event`; take the events up to its end."""
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        deepest, count = self._deepest, self._count
        self._deepest, self._count = self._depth, count + 1
        if isinstance(event, yaml.ScalarEvent):
            value: Any = self._scalar(event)
        else:
            self._enter(event, 1)
            value = self._inside(event)
            self._depth -= 1
        if event.anchor is not None:  # Kubernetes takes an anchor that is given anew
            height = self._deepest - self._depth
            self._anchors[event.anchor] = _Anchored(value, self._count - count, height)
        self._deepest = max(deepest, self._deepest)
        return value

    def _alias(self, event: Any) -> Any:
        """Return the value of an anchor, as if it were written here."""
        anchored, line = self._anchors.get(event.anchor), self._line(event)
        if anchored is None:
            problem = f"the alias *{event.anchor} refers to itself or to nothing before it"
            raise Malformed(line, problem)
        self._count += anchored.size
        self._aliased += anchored.size
        if self._aliased > MAX_ALIASED:
            raise Malformed(line, f"the aliases stand for more than {MAX_ALIASED} values")
        self._enter(event, anchored.height)
        self._depth -= anchored.height
        return anchored.value

    def _enter(self, event: Any, levels: int) -> None:
        self._depth += levels
        self._deepest = max(self._deepest, self._depth)
        if self._depth > MAX_DEPTH:
            problem = f"this is nested more than {MAX_DEPTH} levels deep"
            raise Malformed(self._line(event), problem)

    def _scalar(self, event: Any) -> Scalar:
        if event.tag in {None, "!"}:
            tag = _PLAIN if event.tag is None and event.implicit[0] else f"{_TAG}str"
        else:
            tag = event.tag
        try:
            return _scalar(tag, event.value)
        except Malformed as wrong:
            raise Malformed(self._line(event), wrong.reason) from wrong

    def _inside(self, event: Any) -> LinedDict | LinedList:
        """Return the list or mapping that begins with `event`."""
        line, is_list = self._line(event), isinstance(event, yaml.SequenceStartEvent)
        if event.tag not in {None, f"{_TAG}{'seq' if is_list else 'map'}"}:
            raise Malformed(line, f"the tag {value_text(event.tag)} means nothing to Kubernetes")
        if not is_list:
            return self._dict(line)
        items = LinedList(line)
        while not isinstance(item := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(item))
            items.lines.append(self._line(item))
        return items

    def _dict(self, line: int) -> LinedDict:
        mapping, merged = LinedDict(line), []
        while not isinstance(key_event := next(self._events), yaml.MappingEndEvent):
            key, at = self._value(key_event), self._line(key_event)
            value_event = next(self._events)
            value = self._value(value_event)
            if _merges(key_event):
                merged.append((value, self._line(value_event)))
                continue
            if key is None or isinstance(key, dict | list):
                raise Malformed(at, "a key must be a string or a number")
            name = str(key).lower() if isinstance(key, bool) else str(key)
            if name in mapping:
                first = mapping.lines[name]
                raise Malformed(
                    at, f"the key {value_text(name)} appears twice, first in line {first}"
                )
            mapping[name], mapping.lines[name] = value, at
        for value, at in merged:
            _merge(mapping, value, at)
        return mapping


def _merges(event: Any) -> bool:
    is_plain = isinstance(event, yaml.ScalarEvent) and event.implicit[0] and event.tag is None
    return is_plain and bool(event.value == "<<")


def _merge(mapping: LinedDict, value: Any, line: int) -> None:
    """Add what `<<` merges: keys that the mapping and earlier sources do not have."""
    for source in value if isinstance(value, list) else [value]:
        if not isinstance(source, LinedDict):
            raise Malformed(line, "<< can only merge mappings")
        for key in source.keys() - mapping.keys():
            mapping.lines[key] = source.lines[key]
        mapping.update(
            {key: source_value for key, source_value in source.items() if key not in mapping}
        )


def _scalar(tag: str, word: str) -> Scalar:
    if tag == f"{_TAG}str":
        return word
    value = resolve(word)
    if tag == _PLAIN:
        return value
    name = tag.removeprefix(_TAG)
    types_by_tag = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}
    if name not in types_by_tag:
        raise Malformed(0, f"the tag {value_text(tag)} means nothing to Kubernetes")
    if type(value) not in types_by_tag[name]:
        raise Malformed(0, f"{value_text(word)} is no {name}, as its tag says")
    return value


def parse_json(content: str) -> list[tuple[int, Any]]:
    """Return the JSON documents of a text, each with its first line.

    JSON is YAML, almost: where reading it as YAML gives the same values, these know their lines.

    Raises:
        Malformed: it is no JSON, or has a key twice.
    """
    decoder = json.JSONDecoder(object_pairs_hook=_json_object, parse_constant=_json_constant)
    documents: list[tuple[int, Any]] = []
    at = _end_of_space(content, 0)
    while at < len(content):
        line = content.count("\n", 0, at) + 1
        try:
            value, end = decoder.raw_decode(content, at)
        except json.JSONDecodeError as error:
            raise Malformed(error.lineno, f"this is not valid JSON: {error.msg}") from error
        except Malformed as error:
            raise Malformed(_as_yaml(content)[0] or line, error.reason) from error
        except RecursionError as error:
            raise Malformed(line, f"this is nested more than {MAX_DEPTH} levels deep") from error
        documents.append((line, value))
        at = _end_of_space(content, end)
    if len(documents) != 1 or len(content) > _JSON_WITH_LINES:
        return documents
    lined = _as_yaml(content)[1]
    return lined if [value for _, value in lined] == [documents[0][1]] else documents


def _as_yaml(content: str) -> tuple[int, list[tuple[int, Any]]]:
    """Return the line of the first fault that a text has as YAML, or its documents."""
    try:
        return 0, parse(content)
    except Malformed as error:
        return error.line, []


def _json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise Malformed(0, f"the key {key!r} is appears twice in one object")
        mapping[key] = value
    return mapping


def _json_constant(word: str) -> Any:
    raise Malformed(0, f"{word} is not a number in JSON")


def _end_of_space(content: str, at: int) -> int:
    space = _SPACE.match(content, at)
    return space.end() if space else at
