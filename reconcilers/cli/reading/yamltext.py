"""YAML and JSON documents as plain values that know their lines.

PyYAML's parser in C yields events with lines, and the values are built here from these events.
PyYAML's own composers are not used. The composer in C recurses, so a line of 50,000 brackets
ends the process, and it rejects an anchor that is defined twice, which Kubernetes accepts.

The meaning of an unquoted word is not left to PyYAML either. kubectl reads YAML 1.1 as Go does:
`y` and `n` are booleans, a leading zero or `0o` means octal, `1e3` is a number, and times of day,
dates and sexagesimals are strings. The table in the tests was taken from kubectl 1.32.

A text is cut at its `---` lines first, as kubectl does, so that a syntax error makes only its own
document unreadable.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from reconcilers.cli.reading.findings import format_value

MAX_DEPTH = 200
"""The most lists and mappings around a value."""
MAX_ALIASED = 100_000
"""The most values that the aliases of a piece of text stand for."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SEPARATOR = re.compile(r"^---(?=[ \t\r]|$)", re.MULTILINE)
_CONTENT = re.compile(r"^[ \t]*[^#%\s]", re.MULTILINE)
"""A line that is neither empty nor a comment nor a directive."""
_SPACE = re.compile(r"[ \t\r\n]*")
_TAG = "tag:yaml.org,2002:"
_PLAIN = "plain"
"""The tag of words without quotes and without a tag."""
_JSON_WITH_LINES = 2_000_000
"""Longer JSON, in characters, is not read a second time as YAML to learn its lines."""

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
"""The most characters of a number; a longer word counts as a text."""


class Malformed(Exception):
    """A document cannot be read.

    Args:
        line: the line of the fault, from 1; 0 if only the caller knows the line.
        reason: the fault.
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


def find_line(value: Any, path: tuple[str | int, ...]) -> int:
    """Return the line of the field at a path, or of the nearest field around it that has a line.

    0 if the value has no lines, because it was parsed as JSON only.
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


def parse_word(word: str) -> Scalar:
    """Return the value of an unquoted word.

    Raises:
        Malformed: the word is infinity or not-a-number, for which JSON has no word.
    """
    # The empty word is in _WORDS: it means null.
    if word in _WORDS:
        return _WORDS[word]
    if word[0] not in "0123456789+-." or len(word) > _LONGEST_NUMBER:
        return word  # a text: no number begins like this, or is so long
    if _NOT_JSON.fullmatch(word):
        raise Malformed(0, f"{word} is not a number in JSON; put it in quotes if it is a string")
    digits = word.replace("_", "")
    for pattern, base in _INTEGERS:
        if pattern.fullmatch(digits):
            return int(digits.replace("o", "", 1), base)  # Go's 0o17 and 017 mean the same
    if not _FLOAT.fullmatch(digits):
        return word
    value = float(digits)
    # A number that is too large for a float stays a text.
    return value if abs(value) != float("inf") else word


def cut_at_separators(content: str) -> Iterator[tuple[int, str]]:
    """Cut a text at its `---` lines; yield the number of lines before each piece, and the piece.

    Pieces without content are left out.
    """
    cuts = [separator.start() for separator in _SEPARATOR.finditer(content)]
    starts = [0, *(cut for cut in cuts if cut > 0)]
    line = 0
    for start, end in zip(starts, [*starts[1:], len(content)], strict=True):
        piece = content[start:end]
        if _CONTENT.search(piece):
            yield line, piece
        line += piece.count("\n")


def parse_yaml(piece: str, before: int = 0) -> list[tuple[int, Any]]:
    """Return the documents of a piece of text, each with its first line; empty ones are left out.

    Args:
        piece: a piece from `cut_at_separators`. It has several documents only if lines `...` end
            them.
        before: the number of lines of the file before the piece.

    Raises:
        Malformed: the piece is not valid YAML, or no value that Kubernetes accepts.
    """
    try:
        documents = list(_Documents(piece, before).read())
    except yaml.MarkedYAMLError as error:
        raise _build_syntax_error(error, piece, before) from error
    except yaml.reader.ReaderError as error:
        line = before + piece.count("\n", 0, error.position) + 1
        raise Malformed(line, "this holds a control character, which YAML forbids") from error
    return [(line, value) for line, value in documents if value is not None]


def _build_syntax_error(error: yaml.MarkedYAMLError, piece: str, before: int) -> Malformed:
    """Return the exception for invalid YAML, with the line of the fault in the file.

    Args:
        before: the number of lines of the file before the piece.
    """
    mark = error.problem_mark or error.context_mark
    line = mark.line if mark is not None else 0
    faulty_line = "".join(piece.splitlines()[line : line + 1])
    problem = error.problem or "it cannot be read"
    context = f" {error.context}:" if error.context else ""
    if context and error.context_mark is not None and error.context_mark.line != line:
        context = f" {error.context} that begins in line {before + error.context_mark.line + 1}:"
    indent = faulty_line[: len(faulty_line) - len(faulty_line.lstrip())]
    remedy = "; indent with spaces, not with tabs" if "\t" in indent else ""
    return Malformed(before + line + 1, f"this is not valid YAML:{context} {problem}{remedy}")


class _Anchored(NamedTuple):
    """The value of an anchor, which its aliases stand for.

    Args:
        size: the number of values in it, itself included.
        height: the number of levels of lists and mappings in it.
    """

    value: Any
    size: int
    height: int


class _Documents:
    """Builds values from the events of PyYAML's parser.

    Depth and aliases are limited, because a short text can stand for a huge value.

    Args:
        before: the number of lines of the file before the text.
    """

    def __init__(self, piece: str, before: int) -> None:
        self._before = before
        self._events: Iterator[Any] = yaml.parse(piece, Loader=_LOADER)
        self._anchors: dict[str, _Anchored] = {}
        self._depth = 0
        """The number of lists and mappings around the current event."""
        self._deepest = 0
        """The greatest depth inside the value that is being read."""
        self._count = 0
        """The number of values read so far, with those that aliases stand for."""
        self._aliased = 0
        """The number of values that aliases stand for."""

    def read(self) -> Iterator[tuple[int, Any]]:
        """Yield the first line and the value of each document."""
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                root = next(self._events)
                yield self._find_line(root), self._read_value(root)

    def _find_line(self, event: Any) -> int:
        """Return the line of the file at which an event begins."""
        return self._before + int(event.start_mark.line) + 1

    def _read_value(self, event: Any) -> Any:
        """Return the value that begins with an event, and consume the events up to its end.

        If the value has an anchor, note it with its size and height for later aliases. For that,
        `_deepest` and `_count` are measured inside the value, and then joined with the outer ones.
        """
        if isinstance(event, yaml.AliasEvent):
            return self._resolve_alias(event)
        outer_deepest, outer_count = self._deepest, self._count
        self._deepest, self._count = self._depth, outer_count + 1
        if isinstance(event, yaml.ScalarEvent):
            value: Any = self._parse_scalar(event)
        else:
            self._descend(event, 1)
            value = self._read_collection(event)
            self._depth -= 1
        if event.anchor is not None:  # an anchor that is defined twice has its last value
            height = self._deepest - self._depth
            self._anchors[event.anchor] = _Anchored(value, self._count - outer_count, height)
        self._deepest = max(outer_deepest, self._deepest)
        return value

    def _resolve_alias(self, event: Any) -> Any:
        """Return the value of the anchor that an alias names.

        Count size and depth as if the value were written here. Raise Malformed if the anchor is
        unknown, or a limit is exceeded.
        """
        anchored, line = self._anchors.get(event.anchor), self._find_line(event)
        if anchored is None:
            problem = f"the alias *{event.anchor} refers to itself or to nothing before it"
            raise Malformed(line, problem)
        self._count += anchored.size
        self._aliased += anchored.size
        if self._aliased > MAX_ALIASED:
            raise Malformed(line, f"the aliases stand for more than {MAX_ALIASED} values")
        # The depth is raised only to check the limit; the events of the value are not read again.
        self._descend(event, anchored.height)
        self._depth -= anchored.height
        return anchored.value

    def _descend(self, event: Any, levels: int) -> None:
        """Go some levels deeper; raise Malformed if that is deeper than MAX_DEPTH."""
        self._depth += levels
        self._deepest = max(self._deepest, self._depth)
        if self._depth > MAX_DEPTH:
            problem = f"this is nested more than {MAX_DEPTH} levels deep"
            raise Malformed(self._find_line(event), problem)

    def _parse_scalar(self, event: Any) -> Scalar:
        """Return the value of a scalar by its tag and quotes; raise Malformed with its line."""
        if event.tag in {None, "!"}:
            tag = _PLAIN if event.tag is None and event.implicit[0] else f"{_TAG}str"
        else:
            tag = event.tag
        try:
            return _parse_scalar(tag, event.value)
        except Malformed as error:
            raise Malformed(self._find_line(event), error.reason) from error

    def _read_collection(self, event: Any) -> LinedDict | LinedList:
        """Return the list or mapping that begins with an event.

        Raises:
            Malformed: its tag is not that of a list or mapping, or a value in it is malformed.
        """
        line, is_list = self._find_line(event), isinstance(event, yaml.SequenceStartEvent)
        if event.tag not in {None, f"{_TAG}{'seq' if is_list else 'map'}"}:
            raise Malformed(line, f"the tag {format_value(event.tag)} means nothing to Kubernetes")
        if not is_list:
            return self._read_mapping(line)
        items = LinedList(line)
        while not isinstance(item := next(self._events), yaml.SequenceEndEvent):
            items.append(self._read_value(item))
            items.lines.append(self._find_line(item))
        return items

    def _read_mapping(self, line: int) -> LinedDict:
        """Return the mapping whose start event was read.

        The sources of `<<` are merged last, because the mapping's own keys take precedence.
        """
        mapping, merged = LinedDict(line), []
        while not isinstance(key_event := next(self._events), yaml.MappingEndEvent):
            key, key_line = self._read_value(key_event), self._find_line(key_event)
            value_event = next(self._events)
            value = self._read_value(value_event)
            if _is_merge_key(key_event):
                merged.append((value, self._find_line(value_event)))
                continue
            if key is None or isinstance(key, dict | list):
                raise Malformed(key_line, "a key must be a string or a number")
            name = str(key).lower() if isinstance(key, bool) else str(key)
            if name in mapping:
                first = mapping.lines[name]
                raise Malformed(
                    key_line, f"the key {format_value(name)} appears twice, first in line {first}"
                )
            mapping[name], mapping.lines[name] = value, key_line
        for value, line_of_value in merged:
            _merge_source(mapping, value, line_of_value)
        return mapping


def _is_merge_key(event: Any) -> bool:
    """Return whether an event is the key `<<`, without quotes and without a tag."""
    is_plain = isinstance(event, yaml.ScalarEvent) and event.implicit[0] and event.tag is None
    return is_plain and bool(event.value == "<<")


def _merge_source(mapping: LinedDict, value: Any, line: int) -> None:
    """Add the keys of the value of `<<`, a mapping or a list of mappings, to a mapping.

    Keys that the mapping or an earlier source has are left out.
    """
    for source in value if isinstance(value, list) else [value]:
        if not isinstance(source, LinedDict):
            raise Malformed(line, "<< can only merge mappings")
        for key in source.keys() - mapping.keys():
            mapping.lines[key] = source.lines[key]
        mapping.update(
            {key: source_value for key, source_value in source.items() if key not in mapping}
        )


def _parse_scalar(tag: str, word: str) -> Scalar:
    """Return the value of a scalar; raise Malformed if it contradicts its tag.

    Args:
        tag: the YAML tag, or _PLAIN for a word without quotes and without a tag.
        word: the text of the scalar.
    """
    if tag == f"{_TAG}str":
        return word
    value = parse_word(word)
    if tag == _PLAIN:
        return value
    name = tag.removeprefix(_TAG)
    types_by_tag = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}
    if name not in types_by_tag:
        raise Malformed(0, f"the tag {format_value(tag)} means nothing to Kubernetes")
    if type(value) not in types_by_tag[name]:
        raise Malformed(0, f"{format_value(word)} is no {name}, as its tag says")
    return value


def parse_json(content: str) -> list[tuple[int, Any]]:
    """Return the JSON documents of a text, each with its first line.

    Almost all JSON is YAML, so a single document is read as YAML, too. If that gives the same
    value, it is returned, because it knows its lines.

    Raises:
        Malformed: the text is no JSON, or an object has a key twice.
    """
    decoder = json.JSONDecoder(
        object_pairs_hook=_build_json_object, parse_constant=_reject_json_constant
    )
    documents: list[tuple[int, Any]] = []
    position = _find_end_of_space(content, 0)
    while position < len(content):
        line = content.count("\n", 0, position) + 1
        try:
            value, end = decoder.raw_decode(content, position)
        except json.JSONDecodeError as error:
            raise Malformed(error.lineno, f"this is not valid JSON: {error.msg}") from error
        except Malformed as error:
            # json does not tell the line of a repeated key or of NaN. As YAML, the text may have
            # the same fault, and then its line is known.
            raise Malformed(_parse_as_yaml(content)[0] or line, error.reason) from error
        except RecursionError as error:
            raise Malformed(line, f"this is nested more than {MAX_DEPTH} levels deep") from error
        documents.append((line, value))
        position = _find_end_of_space(content, end)
    if len(documents) != 1 or len(content) > _JSON_WITH_LINES:
        return documents
    from_yaml = _parse_as_yaml(content)[1]
    return from_yaml if [value for _, value in from_yaml] == [documents[0][1]] else documents


def _parse_as_yaml(content: str) -> tuple[int, list[tuple[int, Any]]]:
    """Return 0 and the documents of a text as YAML.

    If the text is invalid, return the line of the fault and no documents.
    """
    try:
        return 0, parse_yaml(content)
    except Malformed as error:
        return error.line, []


def _build_json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raise Malformed if it has a key twice, which json accepts."""
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise Malformed(0, f"the key {key!r} appears twice in one object")
        mapping[key] = value
    return mapping


def _reject_json_constant(word: str) -> Any:
    """Raise Malformed for NaN and Infinity, which Python's json accepts and Kubernetes rejects."""
    raise Malformed(0, f"{word} is not a number in JSON")


def _find_end_of_space(content: str, position: int) -> int:
    """Return the position of the first character that is no white space, from a position on."""
    space = _SPACE.match(content, position)
    return space.end() if space else position
