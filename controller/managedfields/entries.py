"""Entries of metadata.managedFields: reading, validating, sorting, capping and writing them.

An entry lists the fields that one manager owns, in the version in which it wrote them. Applies and
updates of a manager have different entries.
"""

import functools
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from controller.managedfields import fieldset, gotext
from controller.managedfields.errors import FieldCause
from controller.managedfields.fieldset import Fields

APPLY = "Apply"
UPDATE = "Update"
# The manager of the entries into which `merge_oldest` merges the oldest update entries.
ANCIENT = "ancient-changes"
MAX_UPDATERS = 10

# Fields that no manager owns, because the server writes them or because they name the object.
UNOWNED: Fields = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        ".": {},
        "f:clusterName": {},
        "f:creationTimestamp": {},
        "f:generation": {},
        "f:managedFields": {},
        "f:name": {},
        "f:namespace": {},
        "f:resourceVersion": {},
        "f:selfLink": {},
        "f:uid": {},
    },
}


class EntryManager(NamedTuple):
    """Who an entry belongs to.

    The api_version of an applier is empty, because its entry covers all versions that it applies.
    """

    name: str
    operation: str
    api_version: str
    subresource: str

    def format_identifier(self) -> str:
        """Return the identifier by which the real server sorts managers: JSON in field order."""
        parts = {
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "subresource": self.subresource,
        }
        inner = (f'"{key}":{gotext.encode_json(value)}' for key, value in parts.items() if value)
        return "{" + ",".join(inner) + "}"

    def describe(self) -> str:
        """Return the manager as conflict messages print it."""
        description = gotext.quote(self.name)
        if self.subresource:
            description += f" with subresource {gotext.quote(self.subresource)}"
        return (
            f"{description} using {self.api_version}" if self.operation == UPDATE else description
        )


@dataclass(slots=True)
class Owned:
    """The fields of a manager, the version in which it wrote them, and when it last changed one.

    The time is None if no write of the manager changed anything.
    """

    fields: Fields
    api_version: str
    time: str | None


Managed = dict[EntryManager, Owned]


def create_manager(name: str, operation: str, api_version: str, subresource: str) -> EntryManager:
    """Return the manager that makes a request; one without a name is called "unknown"."""
    return _get_cached_manager(
        name or "unknown", operation, api_version=api_version, subresource=subresource
    )


@functools.lru_cache(maxsize=1024)
def _get_cached_manager(
    name: str, operation: str, api_version: str, subresource: str
) -> EntryManager:
    """Return a manager; cached, because few managers write all objects.

    The entry of an applier covers all versions that it applies, so it has no version.
    """
    return EntryManager(
        name,
        operation,
        api_version="" if operation == APPLY else api_version,
        subresource=subresource,
    )


def read_trusted_entries(entries: list[dict[str, Any]]) -> Managed:
    """Return the owned fields by manager, from entries that `encode_entries` wrote.

    Such entries need no validation.
    """
    managed: Managed = {}
    for entry in entries:
        fields = entry.get("fieldsV1") or {}
        managed[read_manager(entry)] = Owned(fields, entry["apiVersion"], entry.get("time"))
    return managed


def read_manager(entry: dict[str, Any]) -> EntryManager:
    """Return the manager that an entry belongs to."""
    return _get_cached_manager(
        entry.get("manager", ""),
        entry["operation"],
        api_version=entry["apiVersion"],
        subresource=entry.get("subresource", ""),
    )


def decode_entries(entries: Any) -> Managed:
    """Return the owned fields by manager, from entries that a client wrote.

    Raises:
        ValueError: an entry is malformed; the message is the real server's.
    """
    if entries is None:
        return {}
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("managedFields must be a list of objects")
    normalised = [_normalise_entry(index, entry) for index, entry in enumerate(entries)]
    return read_trusted_entries(normalised)


def _normalise_entry(index: int, entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry as the server writes it: canonical path elements, and a time in UTC.

    Raises:
        ValueError: the entry is malformed.
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
    normalised = {**entry, "fieldsV1": fieldset.read_fields(entry.get("fieldsV1"))}
    if entry.get("time") is not None:
        normalised["time"] = _normalise_time(entry["time"])
    return normalised


def _normalise_time(timestamp: Any) -> str:
    """Return a time as the server writes it: in UTC, whole seconds.

    Raises:
        ValueError: the value is not an RFC 3339 time.
    """
    # A value that is not a string becomes "", for which fromisoformat raises the ValueError.
    parsed = datetime.fromisoformat(timestamp if isinstance(timestamp, str) else "")
    if parsed.tzinfo is None:
        raise ValueError(f"{timestamp} has no time zone")
    return parsed.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def encode_entries(managed: Managed) -> list[dict[str, Any]]:
    """Return JSON entries in the server's order: appliers first, then by time, name, version."""
    return sorted(
        (_encode_entry(manager, owned) for manager, owned in managed.items()), key=get_sort_key
    )


def get_sort_key(entry: dict[str, Any]) -> tuple[str, ...]:
    """Return the sort key of an entry; "Apply" sorts before "Update", so appliers come first."""
    return (
        entry["operation"],
        entry.get("time", ""),
        entry.get("manager", ""),
        entry["apiVersion"],
        entry.get("subresource", ""),
    )


def _encode_entry(manager: EntryManager, owned: Owned) -> dict[str, Any]:
    """Return one entry as JSON; an empty name or subresource, or a time of None, is left out."""
    entry: dict[str, Any] = {
        "apiVersion": owned.api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": owned.fields,
    }
    if manager.name:
        entry["manager"] = manager.name
    entry["operation"] = manager.operation
    if manager.subresource:
        entry["subresource"] = manager.subresource
    if owned.time is not None:
        entry["time"] = owned.time
    return entry


def merge_oldest(managed: Managed) -> None:
    """Merge the oldest update entries, by version, until ten update entries are left.

    The entries of one version are merged into the entry of the manager "ancient-changes". An entry
    that is the only one of its version stays, so more than ten may be left. `managed` is changed
    in place.
    """
    if len(managed) <= MAX_UPDATERS:
        return  # the usual object: even if all entries are updates, they are not too many
    updaters = [manager for manager in managed if manager.operation == UPDATE]
    excess = len(updaters) - MAX_UPDATERS
    if excess <= 0:
        return
    updaters.sort(key=lambda manager: (managed[manager].time or "", manager.format_identifier()))
    first_by_version: dict[str, EntryManager] = {}
    for updater in updaters:
        if excess <= 0:
            return
        owned = managed[updater]
        first = first_by_version.setdefault(owned.api_version, updater)
        if first is updater:
            continue  # merging needs a second entry of the same version
        # With the second entry, the first one becomes the entry that collects all of its version.
        bucket = EntryManager(ANCIENT, UPDATE, api_version=owned.api_version, subresource="")
        if bucket not in managed:
            managed[bucket] = managed.pop(first)
        fields = fieldset.union(owned.fields, managed[bucket].fields)
        del managed[updater]
        managed[bucket] = Owned(fieldset.order_elements(fields), owned.api_version, owned.time)
        excess -= 1


MAX_NAME = 128  # bytes
MAX_SUBRESOURCE = 256  # bytes
_PLACE = "metadata.managedFields"
_OPERATIONS = frozenset({APPLY, UPDATE})
_TYPES = frozenset({"", "FieldsV1"})


def get_default_manager(user_agent: str) -> str:
    """Return the manager of a request without `fieldManager`: the product of its User-Agent.

    That is the text before the first slash, without unprintable characters, cut at MAX_NAME bytes.
    """
    name = ""
    for rune in user_agent.split("/", 1)[0]:
        if rune.isprintable():
            if len((name + rune).encode("utf-8", "replace")) > MAX_NAME:
                break
            name += rune
    return name


def check_manager(name: str, field: str = "fieldManager") -> list[FieldCause]:
    """Return the errors in the name of a manager, as causes of a 422 answer."""
    causes: list[FieldCause] = []
    if _is_plain(name):
        return causes  # the usual name: it spares the loop over the characters
    if len(name.encode("utf-8", "replace")) > MAX_NAME:
        message = f"Too long: may not be more than {MAX_NAME} bytes"
        causes.append(FieldCause("FieldValueTooLong", message, field))
    position = 0  # in bytes, as Go counts
    for rune in name:
        if not rune.isprintable():
            description = f"{gotext.quote(name)}: invalid character U+{ord(rune):04X}"
            message = f"Invalid value: {description} (at position {position})"
            causes.append(FieldCause("FieldValueInvalid", message, field))
        position += len(rune.encode("utf-8", "replace"))
    return causes


def _is_plain(name: str) -> bool:
    """Return whether a name is ASCII, printable and short, so that it needs no further check."""
    return len(name) <= MAX_NAME and name.isascii() and name.isprintable()


def find_decoding_error(obj: dict[str, Any]) -> str | None:
    """Return why the managedFields of an object cannot be read; None if they can.

    The real server sends this as a warning if an admission webhook made them malformed.
    """
    try:
        decode_entries((obj.get("metadata") or {}).get("managedFields"))
    except (ValueError, TypeError) as error:
        return str(error)
    return None


def validate_managed_fields(obj: dict[str, Any]) -> list[FieldCause]:
    """Return the errors in the managedFields of an object, as causes of a 422 answer.

    Entries that cannot be read at all never come this far: ownership tracking replaces them.
    """
    causes: list[FieldCause] = []
    for index, entry in enumerate((obj.get("metadata") or {}).get("managedFields") or ()):
        operation, kind = entry.get("operation", ""), entry.get("fieldsType", "")
        name, subresource = entry.get("manager", ""), entry.get("subresource", "")
        if operation not in _OPERATIONS:
            message = f"Invalid value: {gotext.quote(operation)}: must be `Apply` or `Update`"
            causes.append(FieldCause("FieldValueInvalid", message, f"{_PLACE}[{index}].operation"))
        if kind not in _TYPES:
            message = f"Invalid value: {gotext.quote(kind)}: must be `FieldsV1`"
            causes.append(
                FieldCause("FieldValueInvalid", message, f"{_PLACE}[{index}].fieldsType")
            )
        if not _is_plain(name):
            causes += check_manager(name, f"{_PLACE}[{index}].manager")
        if len(subresource.encode()) > MAX_SUBRESOURCE:
            message = f"Too long: may not be more than {MAX_SUBRESOURCE} bytes"
            causes.append(
                FieldCause("FieldValueTooLong", message, f"{_PLACE}[{index}].subresource")
            )
    return causes
