"""YAML values built from the parser's events, one after the other.

PyYAML's own way from text to values takes a frame of the stack for each level and twenty times as
long; here the parser in C is asked where there is one, and what is deep or refers to itself is
refused in passing.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import yaml

DEEPEST: Final = 200
_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = f"{_TAG}merge"
_PLAIN: Final = frozenset({None, "!", f"{_TAG}map", f"{_TAG}seq"})
_PARSER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Scalars(yaml.SafeLoader):
    """Knows what a scalar means: YAML 1.1 without dates, and a bare y or n for a truth value."""

    bool_values: ClassVar[dict[str, bool]] = {**yaml.SafeLoader.bool_values, "y": True, "n": False}


_Scalars.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != f"{_TAG}timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Scalars.add_implicit_resolver(f"{_TAG}bool", re.compile("^[yYnN]$"), list("yYnN"))


@dataclass(slots=True)
class _Open:
    """A collection that is being filled."""

    anchor: str | None
    values: list[Any] = field(default_factory=list)
    # For mappings: keys, each with the line that it stands on.
    keys: list[tuple[Any, int]] | None = None
    wants_key: bool = False
    # The keys whose values are complete.
    known: set[Any] = field(default_factory=set)


class Builder:
    """Builds the first document of a text."""

    def __init__(self) -> None:
        self.duplicates: list[str] = []
        self._scalars: Any = _Scalars("")
        self._open: list[_Open] = []
        self._anchors: dict[str, Any] = {}
        self._result: Any = None

    def build(self, text: str) -> Any:
        """Return the value.

        Raises:
            yaml.YAMLError: the text is not YAML, too deep, or contains itself.
        """
        # Parsing a file is lazy: what is too deep is not read to its end.
        for event in yaml.parse(text, Loader=_PARSER):
            if isinstance(event, yaml.DocumentEndEvent):
                break
            take = _HANDLERS.get(type(event))
            if take is not None:
                take(self, event)
        return self._result

    def scalar(self, event: Any) -> None:
        """Take a scalar."""
        tag = event.tag
        if tag is None or tag == "!":
            if not event.implicit[0]:
                tag = f"{_TAG}str"
            else:
                tag = self._scalars.resolve(yaml.ScalarNode, event.value, event.implicit)
        value: Any = event.value
        if tag == _MERGE:
            value = _MERGING
        elif tag != f"{_TAG}str":
            node = yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark)
            value = self._scalars.construct_object(node)
        self._put(value, event)
        if event.anchor is not None:
            self._anchors[event.anchor] = value

    def alias(self, event: Any) -> None:
        """Take a reference to something before it."""
        if any(one.anchor == event.anchor for one in self._open):
            raise yaml.MarkedYAMLError(problem=f"anchor '{event.anchor}' value contains itself")
        if event.anchor not in self._anchors:
            raise yaml.MarkedYAMLError(problem=f"unknown anchor '{event.anchor}' referenced")
        self._put(self._anchors[event.anchor], event)

    def start(self, event: Any) -> None:
        """Begin a collection."""
        if event.tag not in _PLAIN:
            raise yaml.MarkedYAMLError(
                problem=f"could not determine a constructor for the tag '{event.tag}'"
            )
        if len(self._open) >= DEEPEST:
            raise yaml.MarkedYAMLError(problem=f"exceeded max depth of {DEEPEST}")
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        keys: list[tuple[Any, int]] | None = [] if is_mapping else None
        self._open.append(_Open(event.anchor, keys=keys, wants_key=is_mapping))

    def end(self, event: Any) -> None:
        """Finish a collection."""
        done = self._open.pop()
        value: Any = done.values
        if done.keys is not None:
            value = self._mapping(done.keys, done.values)
        if done.anchor is not None:
            self._anchors[done.anchor] = value
        self._put(value, event)

    def _put(self, value: Any, event: Any) -> None:
        """Put a value where it belongs."""
        if not self._open:
            self._result = value
            return
        home = self._open[-1]
        if home.keys is None or not home.wants_key:
            home.values.append("<<" if value is _MERGING else value)
            if home.keys is not None:
                self._finish_pair(home, *home.keys[-1])
            return
        if isinstance(value, dict | list):
            raise yaml.MarkedYAMLError(problem="found unhashable key")
        key = value if value is _MERGING else _text(value)
        home.keys.append((key, event.start_mark.line + 1))
        home.wants_key = False

    def _finish_pair(self, home: _Open, key: Any, line: int) -> None:
        """Go on to the next key; that one stands twice is noticed when its value is complete."""
        home.wants_key = True
        if key is _MERGING:
            return
        if key in home.known:
            self.duplicates.append(f'line {line}: key "{key}" already set in map')
        home.known.add(key)

    def _mapping(self, keys: list[tuple[Any, int]], values: list[Any]) -> Any:
        built: dict[Any, Any] = {}
        merged: dict[Any, Any] = {}
        for (key, _), value in zip(keys, values, strict=True):
            if key is _MERGING:
                for one in reversed(value if isinstance(value, list) else [value]):
                    if not isinstance(one, Mapping):
                        text = "map merge requires map or sequence of maps as the value"
                        raise yaml.MarkedYAMLError(problem=text)
                    merged.update(one)
                continue
            built[key] = value
        return {**merged, **built} if merged else built


# Stands for the key under which other mappings are merged in.
_MERGING: Final = object()
_HANDLERS: Final[dict[type, Callable[[Builder, Any], None]]] = {
    yaml.ScalarEvent: Builder.scalar,
    yaml.AliasEvent: Builder.alias,
    yaml.SequenceStartEvent: Builder.start,
    yaml.MappingStartEvent: Builder.start,
    yaml.SequenceEndEvent: Builder.end,
    yaml.MappingEndEvent: Builder.end,
}


def _text(key: object) -> str:
    """Return a key as JSON has it."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)
