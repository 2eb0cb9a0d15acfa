"""The names of field managers, and what may be wrong with entries that clients send."""

from typing import Any

from envtest.patching import entries
from envtest.patching.errors import Cause
from envtest.schema import gotext

MAX_NAME = 128  # bytes
MAX_SUBRESOURCE = 256  # bytes
_PLACE = "metadata.managedFields"
_OPERATIONS = frozenset({entries.APPLY, entries.UPDATE})
_TYPES = frozenset({"", "FieldsV1"})


def default_manager(user_agent: str) -> str:
    """Return the manager of a request that names none: the product of its User-Agent."""
    name = ""
    for rune in user_agent.split("/", 1)[0]:
        if rune.isprintable():
            if len((name + rune).encode("utf-8", "replace")) > MAX_NAME:
                break
            name += rune
    return name


def check_manager(name: str, field: str = "fieldManager") -> list[Cause]:
    """Say what is wrong with the name of a manager, as causes of a 422 answer."""
    found: list[Cause] = []
    if _is_plain(name):
        return found
    if len(name.encode("utf-8", "replace")) > MAX_NAME:
        text = f"Too long: may not be more than {MAX_NAME} bytes"
        found.append(Cause("FieldValueTooLong", text, field))
    position = 0
    for rune in name:
        if not rune.isprintable():
            shown = f"{gotext.quote(name)}: invalid character U+{ord(rune):04X}"
            text = f"Invalid value: {shown} (at position {position})"
            found.append(Cause("FieldValueInvalid", text, field))
        position += len(rune.encode("utf-8", "replace"))
    return found


def _is_plain(name: str) -> bool:
    """Tell at a glance that nothing is wrong with a name, as with nearly all."""
    return len(name) <= MAX_NAME and name.isascii() and name.isprintable()


def decoding_error(obj: dict[str, Any]) -> str | None:
    """Return why the managedFields of an object cannot be read, None if they can.

    The real server says so in a warning when an admission webhook has spoilt them.
    """
    try:
        entries.decoded((obj.get("metadata") or {}).get("managedFields"))
    except (ValueError, TypeError) as error:
        return str(error)
    return None


def validate_managed_fields(obj: dict[str, Any]) -> list[Cause]:
    """Say what is wrong with the managedFields of an object, as causes of a 422 answer.

    Entries that cannot be read at all never come this far: ownership tracking replaces them.
    """
    found: list[Cause] = []
    for index, entry in enumerate((obj.get("metadata") or {}).get("managedFields") or ()):
        operation, kind = entry.get("operation", ""), entry.get("fieldsType", "")
        name, subresource = entry.get("manager", ""), entry.get("subresource", "")
        if operation not in _OPERATIONS:
            text = f"Invalid value: {gotext.quote(operation)}: must be `Apply` or `Update`"
            found.append(Cause("FieldValueInvalid", text, f"{_PLACE}[{index}].operation"))
        if kind not in _TYPES:
            text = f"Invalid value: {gotext.quote(kind)}: must be `FieldsV1`"
            found.append(Cause("FieldValueInvalid", text, f"{_PLACE}[{index}].fieldsType"))
        if not _is_plain(name):
            found += check_manager(name, f"{_PLACE}[{index}].manager")
        if len(subresource.encode()) > MAX_SUBRESOURCE:
            text = f"Too long: may not be more than {MAX_SUBRESOURCE} bytes"
            found.append(Cause("FieldValueTooLong", text, f"{_PLACE}[{index}].subresource"))
    return found
