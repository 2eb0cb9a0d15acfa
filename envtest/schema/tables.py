"""Tables of custom resources: the columns of a CRD version, and the cells of one object."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jsonpath import JSONPathEnvironment, JSONPathError

from controller.managedfields.gotext import encode_json
from envtest.schema.wording import CREATION_TIMESTAMP, NAME

_ENVIRONMENT: Final = JSONPathEnvironment()
Find = Callable[[Any], list[Any]]
# Most paths are names after dots, which are read without the library.
_NAMES: Final = re.compile(r"(?:\.[\w-]+)+", re.ASCII)
# A name that contains a dot, which kubectl's dialect escapes by a backslash.
_DOTTED: Final = re.compile(r"\.((?:[^.\[\]\\]|\\.)*\\\.(?:[^.\[\]\\]|\\.)*)")
_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY


@dataclass(frozen=True, slots=True)
class PrintedColumn:
    """One column: its header, and a function that finds its values in an object."""

    name: str
    type: str
    format: str
    description: str
    priority: int
    find: Find

    def build_definition(self) -> dict[str, Any]:
        """Return the entry of `columnDefinitions`."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


def compile_path(json_path: str) -> Find:
    """Return a function that returns the values at a path; an empty list for a missing key.

    Args:
        json_path: a path in the dialect of kubectl, such as `.spec.items[0].name`.

    Raises:
        JSONPathError: the path cannot be parsed.
    """
    if _NAMES.fullmatch(json_path):
        names = json_path.split(".")[1:]
        return lambda value: _find_at(value, names)
    if not json_path.startswith("."):
        raise JSONPathError(f"{json_path} does not begin with a dot")
    quoted = _DOTTED.sub(_quote_dotted_name, json_path)
    return _ENVIRONMENT.compile(f"${quoted}").findall


def _quote_dotted_name(match: re.Match[str]) -> str:
    r"""Return a match of _DOTTED in the library's dialect: `['a.b']` for `.a\.b`."""
    name = match[1].replace("\\", "")
    return f"['{name}']"


def _find_at(value: Any, names: Sequence[str]) -> list[Any]:
    """Return the value below these names in a list; an empty list if a name is missing."""
    for name in names:
        if not isinstance(value, dict) or name not in value:
            return []
        value = value[name]
    return [value]


def _build_standard(
    name: str, column_type: str, name_format: str, description: str, path: str
) -> PrintedColumn:
    """Return a column that tables of all custom resources may have."""
    return PrintedColumn(
        name,
        column_type,
        format=name_format,
        description=description,
        priority=0,
        find=compile_path(path),
    )


NAME_COLUMN: Final = _build_standard(
    "Name", "string", name_format="name", description=NAME, path=".metadata.name"
)
AGE_COLUMN: Final = _build_standard(
    "Age",
    "date",
    name_format="",
    description=CREATION_TIMESTAMP,
    path=".metadata.creationTimestamp",
)


def build_table_columns(crd_version: Mapping[str, Any]) -> list[PrintedColumn]:
    """Return the columns of a CRD version: Name, then its own; Name and Age if it has none.

    As in the server, one path that cannot be parsed discards all columns of the version.

    Args:
        crd_version: an entry of `spec.versions`.
    """
    try:
        own_columns = [
            _build_column(entry) for entry in crd_version.get("additionalPrinterColumns") or ()
        ]
    except JSONPathError:
        own_columns = []
    return [NAME_COLUMN, *(own_columns or [AGE_COLUMN])]


def _build_column(entry: Mapping[str, Any]) -> PrintedColumn:
    """Return the column of an entry of additionalPrinterColumns.

    Raises:
        JSONPathError: its path cannot be parsed.
    """
    path = entry["jsonPath"]
    default_description = f"Custom resource definition column (in JSONPath format): {path}"
    return PrintedColumn(
        name=entry["name"],
        type=entry["type"],
        format=entry.get("format") or "",
        description=entry.get("description") or default_description,
        priority=entry.get("priority") or 0,
        find=compile_path(path),
    )


def build_table_cells(
    columns: Sequence[PrintedColumn], obj: Mapping[str, Any], now: datetime.datetime
) -> list[Any]:
    """Return the cells of one object.

    Args:
        columns: from `build_table_columns`.
        obj: the object.
        now: the current time, with time zone, from which ages are computed.
    """
    cells: list[Any] = []
    for column in columns:
        # As kubectl prints only the first of several values.
        values = column.find(obj)
        cells.append(_format_cell(column.type, values[0], now) if values else None)
    return cells


def _format_cell(column_type: str, value: Any, now: datetime.datetime) -> Any:
    """Return a value as a cell of a column type; ages are computed from `now`."""
    return _CELLS[column_type](value, now)


def _format_text(value: Any, _now: datetime.datetime) -> str:
    """Return a value as text: a string as it is, null as `<no value>`, other values as JSON."""
    if isinstance(value, str):
        return value
    return "<no value>" if value is None else encode_json(value)


def _to_integer(value: Any, _now: datetime.datetime) -> int | None:
    """Return a number without its fraction; None for a value that is no number."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _to_number(value: Any, _now: datetime.datetime) -> float | None:
    """Return a number unchanged; None for a value that is no number."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _to_boolean(value: Any, _now: datetime.datetime) -> bool | None:
    """Return a boolean unchanged; None for any other value."""
    return value if isinstance(value, bool) else None


def _to_age(value: Any, now: datetime.datetime) -> str | None:
    """Return the age of a timestamp as the server prints it; None if it is no string.

    An empty string is `<unknown>`, and a string that is no timestamp `<invalid>`.
    """
    if not isinstance(value, str):
        return None
    if not value:
        return "<unknown>"
    try:
        moment = datetime.datetime.fromisoformat(value)
    except ValueError:
        return "<invalid>"
    # Python also accepts times without a zone, and with a space in place of the T.
    if moment.tzinfo is None or "T" not in value:
        return "<invalid>"
    return format_duration((now - moment).total_seconds())


_CELLS: Mapping[str, Callable[[Any, datetime.datetime], Any]] = {
    "boolean": _to_boolean,
    "date": _to_age,
    "integer": _to_integer,
    "number": _to_number,
    "string": _format_text,
}


def format_duration(seconds: float) -> str:
    """Return a duration as kubectl prints ages, such as 5m30s: at most two units.

    Args:
        seconds: the duration. Down to -1 it counts as 0, because clocks differ; below it is
            `<invalid>`.
    """
    whole_seconds = int(seconds)
    if whole_seconds < -1:
        return "<invalid>"
    for limit, unit, smaller_unit in _AGES:
        if whole_seconds < limit:
            return _format_units(max(whole_seconds, 0), unit, smaller_unit)
    return f"{whole_seconds // _YEAR}y"


# Below this many seconds: the unit, and the smaller unit shown after it.
_AGES: Final = (
    (2 * _MINUTE, 1, 0),
    (10 * _MINUTE, _MINUTE, 1),
    (3 * _HOUR, _MINUTE, 0),
    (8 * _HOUR, _HOUR, _MINUTE),
    (2 * _DAY, _HOUR, 0),
    (8 * _DAY, _DAY, _HOUR),
    (2 * _YEAR, _DAY, 0),
    (8 * _YEAR, _YEAR, _DAY),
)
_UNITS: Final = {1: "s", _MINUTE: "m", _HOUR: "h", _DAY: "d", _YEAR: "y"}


def _format_units(seconds: int, unit: int, smaller_unit: int) -> str:
    """Return a duration in a unit, with the rest in a smaller unit if that is not 0.

    Args:
        seconds: the duration.
        unit: the length of the unit in seconds.
        smaller_unit: the length of the smaller unit; 0 to leave out the rest.
    """
    larger_part = f"{seconds // unit}{_UNITS[unit]}"
    rest = seconds % unit // smaller_unit if smaller_unit else 0
    return f"{larger_part}{rest}{_UNITS[smaller_unit]}" if rest else larger_part
