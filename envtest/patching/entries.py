"""The entries of metadata.managedFields: reading, sorting, capping and writing them."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from envtest.patching import fieldset, gotext
from envtest.patching.fieldset import Fields

APPLY = "Apply"
UPDATE = "Update"
ANCIENT = "ancient-changes"
MAX_UPDATERS = 10


class Manager(NamedTuple):
    """Who an entry belongs to; appliers are the same whatever version they apply."""

    name: str
    operation: str
    api_version: str
    subresource: str

    def text(self) -> str:
        """Return the identifier by which the real server sorts managers: JSON in field order."""
        parts = {
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "subresource": self.subresource,
        }
        inner = (f'"{key}":{gotext.json_text(value)}' for key, value in parts.items() if value)
        return "{" + ",".join(inner) + "}"

    def shown(self) -> str:
        """Return the manager as conflict messages print it."""
        text = gotext.quoted(self.name)
        if self.subresource:
            text += f" with subresource {gotext.quoted(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


@dataclass(slots=True)
class Owned:
    """What a manager owns, in which version it wrote it, and when (None: never a change)."""

    fields: Fields
    api_version: str
    time: str | None


Managed = dict[Manager, Owned]


def manager(name: str, operation: str, api_version: str, subresource: str) -> Manager:
    """Return the identity of whoever makes a request."""
    version = "" if operation == APPLY else api_version
    return Manager(name or "unknown", operation, version, subresource)


def trusted(entries: list[dict[str, Any]]) -> Managed:
    """Read entries that this library wrote."""
    found: Managed = {}
    for entry in entries:
        operation, version = entry["operation"], entry["apiVersion"]
        who = Manager(
            entry.get("manager", ""),
            operation,
            "" if operation == APPLY else version,
            entry.get("subresource", ""),
        )
        found[who] = Owned(entry.get("fieldsV1") or {}, version, entry.get("time"))
    return found


def decoded(entries: Any) -> Managed:
    """Read entries that a client wrote.

    Raises:
        ValueError: an entry is malformed; the text is the server's.
    """
    if entries is None:
        return {}
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("managedFields must be a list of objects")
    tidy = [_tidied(index, entry) for index, entry in enumerate(entries)]
    return trusted(tidy)


def _tidied(index: int, entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry in the form that the server writes.

    Raises:
        ValueError: it is malformed.
    """
    if entry.get("operation") not in {APPLY, UPDATE}:
        raise ValueError("operation must be `Apply` or `Update`")
    if not entry.get("apiVersion"):
        raise ValueError("apiVersion must not be empty")
    kind = entry.get("fieldsType")
    if not kind:
        raise ValueError(f"missing fieldsType in managed fields entry {index}")
    if kind != "FieldsV1":
        raise ValueError(f'invalid fieldsType "{kind}" in managed fields entry {index}')
    tidy = {**entry, "fieldsV1": fieldset.read(entry.get("fieldsV1"))}
    if entry.get("time") is not None:
        tidy["time"] = _instant(entry["time"])
    return tidy


def _instant(text: Any) -> str:
    """Return a time as the server writes it: in UTC, whole seconds.

    Raises:
        ValueError: it is no RFC 3339 time.
    """
    moment = datetime.fromisoformat(text if isinstance(text, str) else "")
    if moment.tzinfo is None:
        raise ValueError(f"{text} has no time zone")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def encoded(managed: Managed) -> list[dict[str, Any]]:
    """Write entries in the server's order: appliers first, then by time, name, version."""
    ranked = sorted(
        managed.items(),
        key=lambda item: (
            item[0].operation,
            item[1].time or "",
            item[0].name,
            item[1].api_version,
            item[0].subresource,
        ),
    )
    return [_entry(who, owned) for who, owned in ranked]


def _entry(who: Manager, owned: Owned) -> dict[str, Any]:
    """Write one entry; what is empty is left out."""
    entry: dict[str, Any] = {
        "apiVersion": owned.api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": owned.fields,
    }
    if who.name:
        entry["manager"] = who.name
    entry["operation"] = who.operation
    if who.subresource:
        entry["subresource"] = who.subresource
    if owned.time is not None:
        entry["time"] = owned.time
    return entry


def cap(managed: Managed) -> None:
    """Merge the oldest updates of each version into one entry until ten updates are left."""
    updaters = [who for who in managed if who.operation == UPDATE]
    excess = len(updaters) - MAX_UPDATERS
    if excess <= 0:
        return
    updaters.sort(key=lambda who: (managed[who].time or "", who.text()))
    first_of: dict[str, Manager] = {}
    for who in updaters:
        if excess <= 0:
            return
        owned = managed[who]
        first = first_of.setdefault(owned.api_version, who)
        if first is who:
            continue
        bucket = Manager(ANCIENT, UPDATE, owned.api_version, "")
        if bucket not in managed:
            managed[bucket] = managed.pop(first)
        fields = fieldset.union(owned.fields, managed[bucket].fields)
        del managed[who]
        managed[bucket] = Owned(fieldset.ordered(fields), owned.api_version, owned.time)
        excess -= 1
