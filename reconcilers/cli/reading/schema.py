"""An object against the schema of its kind, by the rules that an API server applies.

The schema is the one in the CRD. What the API server would refuse is a fault; what it would drop
without a word (unknown fields) is a surprise; nulls where nothing is required count as absent.
Pydantic could validate too, but not enumerations and CEL rules, which exist in the schema only.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any

from reconcilers.api import crd
from reconcilers.cli.reading import rules
from reconcilers.cli.reading.kinds import OURS
from reconcilers.cli.reading.metadata import Fault, is_time
from reconcilers.cli.reading.place import Step, shown

Path = tuple[Step, ...]

_BOUNDS = {"int32": 2**31, "int64": 2**63}


@dataclass(slots=True)
class Judgement:
    """What came of it.

    Args:
        value: the object as the server would keep it, without its defaults.
        faults: what it would refuse.
        surprises: what it would drop.
    """

    value: Any = None
    faults: list[Fault] = field(default_factory=list)
    surprises: list[Fault] = field(default_factory=list)


def judge(kind: str, body: Mapping[str, Any]) -> Judgement:
    """Hold spec and status of an object of ours against its schema."""
    judgement = Judgement()
    whole = _schema(kind)
    relevant = {name: body[name] for name in body if name != "metadata"}
    judgement.value = _Judge(judgement).value(relevant, whole, ())
    return judgement


@cache
def _schema(kind: str) -> Mapping[str, Any]:
    whole = crd.structural_schema(OURS[kind].model)
    del whole["properties"]["metadata"]  # has rules of its own
    return whole


class _Judge:
    """Walks a value along its schema."""

    def __init__(self, judgement: Judgement) -> None:
        self._faults = judgement.faults
        self._surprises = judgement.surprises

    def value(self, value: Any, schema: Mapping[str, Any], path: Path) -> Any:
        """Return `value` as it would be kept; note what is wrong with it."""
        wanted = schema.get("type")
        misfit = _misfit(value, wanted)
        if misfit:
            self._faults.append((path, misfit))
            return value
        before = len(self._faults)
        if wanted == "object":
            value = self._object(value, schema, path)
        elif wanted == "array":
            value = self._array(value, schema, path)
        else:
            self._faults += [(path, what) for what in _plain_faults(value, schema)]
            value = int(value) if wanted == "integer" else value
        if len(self._faults) == before:
            for rule in schema.get("x-kubernetes-validations", ()):
                if not rules.holds(rule["rule"], value):
                    at = rule.get("fieldPath", "").split(".")[1:]
                    self._faults.append(((*path, *at), rule["message"]))
        return value

    def _object(self, value: Mapping[str, Any], schema: Mapping[str, Any], path: Path) -> Any:
        properties = schema.get("properties")
        if properties is None:
            return dict(value)
        required = schema.get("required", ())
        for name in required:
            if value.get(name) is None:
                self._faults.append(((*path, name), "is missing"))
        kept = {}
        for name, inner in value.items():
            if name not in properties:
                self._unknown(name, properties, schema, path)
                if schema.get("x-kubernetes-preserve-unknown-fields"):
                    kept[name] = inner
            elif inner is not None:
                kept[name] = self.value(inner, properties[name], (*path, name))
        return kept

    def _unknown(
        self, name: str, properties: Mapping[str, Any], schema: Mapping[str, Any], path: Path
    ) -> None:
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            return
        near = get_close_matches(name, properties, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        self._surprises.append(((*path, name), f"this field is unknown and ignored{hint}"))

    def _array(self, value: list[Any], schema: Mapping[str, Any], path: Path) -> Any:
        length = len(value)
        if length > schema.get("maxItems", length):
            self._faults.append((path, f"has {length} items, at most {schema['maxItems']} fit"))
        if length < schema.get("minItems", 0):
            self._faults.append((path, f"needs at least {schema['minItems']} items"))
        kept = [
            self.value(item, schema.get("items", {}), (*path, at)) for at, item in enumerate(value)
        ]
        self._faults += _duplicates(kept, schema, path)
        return kept


def _is_whole(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


_FITS: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_whole,
}
_NAMES = {
    "object": "a mapping",
    "array": "a list",
    "string": "a text",
    "boolean": "true or false",
    "integer": "a whole number",
}


def _misfit(value: Any, wanted: str | None) -> str | None:
    """Return what is wrong with a value's type, None if nothing is."""
    if wanted is None or _FITS[wanted](value):
        return None
    return f"has to be {_NAMES[wanted]}, not {shown(value)}{_hint(value, wanted)}"


def _hint(value: Any, wanted: str) -> str:
    if wanted == "string" and isinstance(value, bool | int | float):
        return "; quote it"
    unquoted = (wanted == "integer" and str(value).isdecimal()) or (
        wanted == "boolean" and value in {"true", "false"}
    )
    return "; leave the quotes away" if isinstance(value, str) and unquoted else ""


def _plain_faults(value: Any, schema: Mapping[str, Any]) -> Iterator[str]:
    if "enum" in schema and value not in schema["enum"]:
        near = get_close_matches(str(value), schema["enum"], n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield f"{shown(value)} is not one of {', '.join(schema['enum'])}{hint}"
    if isinstance(value, str):
        yield from _text_faults(value, schema)
    elif not isinstance(value, bool):
        yield from _number_faults(value, schema)


def _text_faults(value: str, schema: Mapping[str, Any]) -> Iterator[str]:
    if len(value) < schema.get("minLength", 0):
        yield "must not be empty"
    if len(value) > schema.get("maxLength", len(value)):
        yield f"{shown(value)} is longer than {schema['maxLength']} characters"
    elif "pattern" in schema and not _pattern(schema["pattern"]).search(value):
        yield f"{shown(value)} {_expectation(schema['pattern'])}"
    if schema.get("format") == "date-time" and not is_time(value):
        yield f"{shown(value)} is no time as in 2026-01-31T12:00:00Z"


def _number_faults(value: float, schema: Mapping[str, Any]) -> Iterator[str]:
    limit = _BOUNDS.get(schema.get("format", ""), 0)
    if limit and not -limit <= value < limit:
        yield f"{shown(value)} does not fit into {schema['format']}"
    elif value < schema.get("minimum", value):
        yield f"must be at least {schema['minimum']}, not {shown(value)}"
    elif value > schema.get("maximum", value):
        yield f"must be at most {schema['maximum']}, not {shown(value)}"


_EXPECTATIONS = {
    r"^(\d{1,3}\.){3}\d{1,3}$": "is no IPv4 address as in 10.40.1.0",
    r"^(\d{1,3}\.){3}\d{1,3}/\d{1,2}$": "is no CIDR as in 10.40.0.0/24",
    r"^v\d+\.\d+\.\d+$": "is no version as in v1.33.1",
    r"^https?://": "is no URL: it has to begin with http:// or https://",
}


def _expectation(pattern: str) -> str:
    return _EXPECTATIONS.get(pattern, f"does not match {pattern}")


@lru_cache(maxsize=64)
def _pattern(text: str) -> re.Pattern[str]:
    """Return a pattern as Go reads it: ASCII digits, `$` only at the very end."""
    return re.compile(text.removesuffix("$") + r"\Z" if text.endswith("$") else text, re.ASCII)


def _duplicates(kept: list[Any], schema: Mapping[str, Any], path: Path) -> Iterator[Fault]:
    """Yield the items of a list that is keyed by fields, where two have the same key."""
    keys = schema.get("x-kubernetes-list-map-keys")
    seen: dict[str, int] = {}
    for at, item in enumerate(kept):
        if keys is None or not isinstance(item, Mapping):
            return
        key = repr([item.get(name) for name in keys])  # the values may be of any type yet
        first = seen.setdefault(key, at)
        if first != at:
            yield (*path, at), f"has the same {', '.join(keys)} as item {first}"
