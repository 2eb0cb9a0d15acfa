"""Pieces of which rows are made: ages, counts, selectors, containers, in kubectl's spelling."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from envtest.schema.wording import CREATION_TIMESTAMP, NAME
from envtest.server.rules import Column

Body = Mapping[str, Any]
Cell = Callable[[Body], Any]
Entry = tuple[Column, Cell]
NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"


def age(moment: object) -> str:
    """Return how long ago a time was, as kubectl words it: 45s, 3m5s, 2h, 5d."""
    if not isinstance(moment, str):
        return UNKNOWN
    return span((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds())


def span(length: float) -> str:
    """Return a length of time in seconds as kubectl words it."""
    seconds = int(length)
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    steps = (
        (120, f"{seconds}s"),
        (600, f"{minutes}m" + (f"{seconds % 60}s" if seconds % 60 else "")),
        (3 * 3600, f"{minutes}m"),
        (8 * 3600, f"{hours}h" + (f"{minutes % 60}m" if minutes % 60 else "")),
        (48 * 3600, f"{hours}h"),
        (8 * 86400, f"{days}d" + (f"{hours % 24}h" if hours % 24 else "")),
        (2 * 365 * 86400, f"{days}d"),
        (8 * 365 * 86400, f"{days // 365}y" + (f"{days % 365}d" if days % 365 else "")),
    )
    return next((text for limit, text in steps if seconds < limit), f"{days // 365}y")


def between(start: str, end: str) -> str:
    """Return the time between two moments."""
    passed = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return span(passed.total_seconds())


def value(body: Any, path: str, otherwise: Any = "") -> Any:
    """Return what stands at a dotted path."""
    found = body
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return otherwise if found is None else found


def at(path: str, otherwise: Any = "") -> Cell:
    """Return the cell that shows what stands at a dotted path."""
    return lambda body: value(body, path, otherwise)


def count(*names: str) -> Cell:
    """Return the cell that counts the entries of some fields together."""
    return lambda body: sum(len(value(body, name, ())) for name in names)


def labels(given: Mapping[str, str] | None) -> str:
    """Return labels, sorted: a=b,c=d."""
    return ",".join(f"{key}={one}" for key, one in sorted((given or {}).items())) or NONE


_SIGNS = {"In": "in", "NotIn": "notin"}


def selector(given: Body | None) -> str:
    """Return a LabelSelector as kubectl takes it on its command line."""
    given = given or {}
    terms = [(key, f"{key}={one}") for key, one in (given.get("matchLabels") or {}).items()]
    for one in given.get("matchExpressions") or ():
        key, operator = one["key"], one["operator"]
        among = ",".join(sorted(one.get("values") or ()))
        if operator in _SIGNS:
            terms.append((key, f"{key} {_SIGNS[operator]} ({among})"))
        else:
            terms.append((key, key if operator == "Exists" else f"!{key}"))
    return ",".join(text for _, text in sorted(terms)) or NONE


def containers(path: str, part: str) -> Cell:
    """Return the cell that lists names or images of the containers at a path."""
    return lambda body: ",".join(str(one.get(part, "")) for one in value(body, path, ()))


def conditions(body: Body) -> dict[str, str]:
    """Return the status of each condition by its type."""
    found = value(body, "status.conditions", ())
    return {one.get("type", ""): one.get("status", "") for one in found}


def text(name: str, description: str, cell: Cell) -> Entry:
    """Return a column of texts."""
    return Column(name, "string", description), cell


def number(name: str, description: str, cell: Cell) -> Entry:
    """Return a column of whole numbers."""
    return Column(name, "integer", description), cell


def truth(name: str, description: str, cell: Cell) -> Entry:
    """Return a column of truth values."""
    return Column(name, "boolean", description), cell


def wide(name: str, description: str, cell: Cell) -> Entry:
    """Return a column that shows in wide tables only."""
    return Column(name, "string", description, priority=1), cell


TITLE: Entry = (Column("Name", "string", NAME, "name"), at("metadata.name"))
AGE: Entry = text(
    "Age", CREATION_TIMESTAMP, lambda body: age(body["metadata"].get("creationTimestamp"))
)
CREATED: Entry = (
    Column("Created At", "date", CREATION_TIMESTAMP),
    at("metadata.creationTimestamp"),
)


def template(path: str, chosen: str = "") -> list[Entry]:
    """Return the wide columns of a kind with a pod template.

    Args:
        path: of the pod's spec.
        chosen: of the selector of its pods, if it has one.
    """
    found = [
        wide(
            "Containers",
            "Names of each container in the template.",
            containers(f"{path}.containers", "name"),
        ),
        wide(
            "Images",
            "Images referenced by each container in the template.",
            containers(f"{path}.containers", "image"),
        ),
    ]
    if chosen:
        cell: Cell = lambda body: selector(value(body, chosen, None))  # noqa: E731
        found.append(wide("Selector", "Which pods it counts as its own", cell))
    return found
