"""YAML documents as plain values that know their lines.

Values are built from the parser's events, one after another on a stack of our own. PyYAML's own
composer recurses, in C too, so that a line of 50,000 brackets ends the process; and it forgets on
which line a value stood once it is a value. Documents are cut apart at their `---` lines first, as
kubectl does, so that a syntax error costs its own document alone.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from reconcilers.cli.reading.scalars import NotJson, resolve

MAX_DEPTH = 200
MAX_ALIASED = 100_000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SEPARATOR = re.compile(r"^---(?=[ \t\r]|$)", re.MULTILINE)
_TAG = "tag:yaml.org,2002:"


class Malformed(Exception):
    """A document is not what it should be.

    Args:
        line: where, from 1.
        reason: what is wrong.
    """

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


class Block(dict[str, Any]):
    """A mapping, with the line of each key."""

    __slots__ = ("line", "lines")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}


class Series(list[Any]):
    """A sequence, with the line of each item."""

    __slots__ = ("line", "lines")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: list[int] = []


def line_of(value: Any, path: tuple[str | int, ...]) -> int:
    """Return the line of what is at `path` in `value`, or of the nearest that encloses it.

    0 if the value knows no lines.
    """
    line = value.line if isinstance(value, Block | Series) else 0
    for step in path:
        if isinstance(value, Block) and step in value.lines:
            line = value.lines[str(step)]
        elif isinstance(value, Series) and isinstance(step, int) and step < len(value.lines):
            line = value.lines[step]
        else:
            break
        value = value[step]
    return line


def pieces(text: str) -> Iterator[tuple[int, str]]:
    """Cut a text at its `---` lines; yield each piece with the number of lines before it."""
    cuts = [found.start() for found in _SEPARATOR.finditer(text)]
    starts = [0, *(cut for cut in cuts if cut > 0)]
    line = 0
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        piece = text[start:end]
        if not _only_directives(piece):
            yield line, piece
        line += piece.count("\n")


def _only_directives(piece: str) -> bool:
    lines = [line for line in piece.splitlines() if line.strip() and not line.startswith("#")]
    return bool(lines) and all(line.startswith("%") for line in lines)


def parse(piece: str, before: int = 0) -> list[tuple[int, Any]]:
    """Return the documents of a piece of text, each with its first line; empty ones are left out.

    Args:
        piece: what `pieces` yielded; more than one document only where `...` ends them.
        before: the number of lines before it.

    Raises:
        Malformed: it is no YAML, or YAML that makes no object for Kubernetes.
    """
    builder = _Builder(before)
    try:
        for event in yaml.parse(piece, Loader=_LOADER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, piece, before) from error
    except yaml.reader.ReaderError as error:
        line = before + piece.count("\n", 0, error.position) + 1
        raise Malformed(line, "this holds a control character, which YAML forbids") from error
    return [(line, value) for line, value in builder.documents if value is not None]


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


_NO_KEY = object()
_MERGE = object()


@dataclass(slots=True)
class _Open:
    """A mapping or sequence that is not finished.

    Args:
        value: what it will be.
        anchor: its anchor, if it has one.
        size: how many values it holds so far, aliases written out.
        key: the key that waits for its value.
    """

    value: Block | Series
    anchor: str | None
    size: int = 1
    key: Any = _NO_KEY
    key_line: int = 0
    merged: list[Any] = field(default_factory=list)


class _Builder:
    """Turns events into values."""

    def __init__(self, before: int) -> None:
        self._before = before
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._aliased = 0
        self._first = 0
        self.documents: list[tuple[int, Any]] = []

    def take(self, event: Any) -> None:
        """Take the next event."""
        line = self._before + event.start_mark.line + 1
        match event:
            case yaml.ScalarEvent():
                value = _scalar(event, line)
                if event.anchor:
                    self._anchors[event.anchor] = (value, 1)
                plain = event.implicit[0]
                self._attach(_MERGE if plain and value == "<<" else value, line, 1)
            case yaml.MappingStartEvent():
                self._open(Block(line), event, line, "map")
            case yaml.SequenceStartEvent():
                self._open(Series(line), event, line, "seq")
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._close()
            case yaml.AliasEvent():
                self._alias(str(event.anchor), line)
            case yaml.DocumentStartEvent():
                self._anchors, self._aliased, self._first = {}, 0, 0
            case _:
                pass  # the ends of documents and of the stream

    def _open(self, value: Block | Series, event: Any, line: int, tag: str) -> None:
        if event.tag not in {None, "!", _TAG + tag}:
            raise Malformed(line, f"the tag {_shown(event.tag)} means nothing to Kubernetes")
        if len(self._stack) == MAX_DEPTH:
            raise Malformed(line, f"this is nested more than {MAX_DEPTH} levels deep")
        self._first = self._first or line
        self._stack.append(_Open(value, event.anchor))

    def _close(self) -> None:
        done = self._stack.pop()
        if done.merged and isinstance(done.value, Block):
            _merge(done.value, done.merged)
        if done.anchor:
            self._anchors[done.anchor] = (done.value, done.size)
        self._attach(done.value, done.value.line, done.size)

    def _alias(self, anchor: str, line: int) -> None:
        if anchor not in self._anchors:
            raise Malformed(line, f"the alias *{anchor} refers to itself or to nothing before it")
        value, size = self._anchors[anchor]
        self._aliased += size
        if self._aliased > MAX_ALIASED:
            raise Malformed(line, f"the aliases stand for more than {MAX_ALIASED} values")
        self._attach(value, line, size)

    def _attach(self, value: Any, line: int, size: int) -> None:
        """Put a finished value where it belongs."""
        if not self._stack:
            self.documents.append((self._first or line, None if value is _MERGE else value))
            return
        parent = self._stack[-1]
        parent.size += size
        if isinstance(parent.value, Series):
            parent.value.append("<<" if value is _MERGE else value)
            parent.value.lines.append(line)
        elif parent.key is _NO_KEY:
            parent.key, parent.key_line = _MERGE if value is _MERGE else _key(value, line), line
        elif parent.key is _MERGE:
            parent.merged.append((value, line))
            parent.key = _NO_KEY
        else:
            _set(parent.value, parent.key, "<<" if value is _MERGE else value, parent.key_line)
            parent.key = _NO_KEY


def _set(block: Block, key: str, value: Any, line: int) -> None:
    if key in block:
        first = block.lines[key]
        raise Malformed(line, f"the key {_shown(key)} is here twice, first in line {first}")
    block[key] = value
    block.lines[key] = line


def _merge(block: Block, sources: list[Any]) -> None:
    """Add what `<<` merges: keys that the block and earlier sources do not have."""
    for value, line in sources:
        for source in value if isinstance(value, Series) else [value]:
            if not isinstance(source, Block):
                raise Malformed(line, "<< can only merge mappings")
            for key, inherited in source.items():
                if key not in block:
                    block[key] = inherited
                    block.lines[key] = source.lines[key]


def _key(value: Any, line: int) -> str:
    if value is None or isinstance(value, Block | Series):
        raise Malformed(line, "a key has to be a word or a number")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


_TAGGED: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "null": (type(None),),
}


def _scalar(event: Any, line: int) -> Any:
    word: str = event.value
    tag = event.tag
    if tag in {None, "!"}:
        try:
            return resolve(word) if event.implicit[0] and tag is None else word
        except NotJson as error:
            raise Malformed(line, str(error)) from error
    name = tag.removeprefix(_TAG)
    if name == "str":
        return word
    try:
        value = resolve(word)
    except NotJson as error:
        raise Malformed(line, str(error)) from error
    fits = _TAGGED.get(name)
    if fits is None:
        raise Malformed(line, f"the tag {_shown(tag)} means nothing to Kubernetes")
    if type(value) not in fits:
        raise Malformed(line, f"{_shown(word)} is no {name}, as its tag says")
    return value


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "...")
