"""Errors of single fields: type, path, offending value and detail, in the API server's words.

The functions that build them are those of apimachinery's package field (`field.Invalid`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from controller.managedfields import gotext


class Omitted:
    """The type of OMITTED, a value that the message leaves out: objects and lists of rules."""


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A value that is printed as given, because the server does not print it like others."""

    content: str


OMITTED: Final = Omitted()
# A nil path prints like this; the server uses it for errors that belong to no single field.
NO_FIELD: Final = "<nil>"

_LABELS = {
    "Required": "Required value",
    "Invalid": "Invalid value",
    "TypeInvalid": "Invalid value",
    "Duplicate": "Duplicate value",
    "NotSupported": "Unsupported value",
    "Forbidden": "Forbidden",
    "TooLong": "Too long",
    "TooMany": "Too many",
    "NotFound": "Not found",
    "InternalError": "Internal error",
}
_REASONS = {error_type: f"FieldValue{error_type}" for error_type in _LABELS} | {
    "InternalError": "InternalError"
}
_WITHOUT_VALUE = frozenset({"Required", "Forbidden", "TooLong", "InternalError"})
# Error types after which rules are not evaluated: the fields they read may have another shape.
_BLOCKING = frozenset({"NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"})


@dataclass(frozen=True, slots=True)
class FieldError:
    """One reason why an object is refused.

    Attributes:
        error_type: "Required", "Invalid", "TypeInvalid", "Duplicate", "NotSupported", "Forbidden",
            "TooLong", "TooMany", "NotFound" or "InternalError".
        field: path as the server prints it, e.g. `spec.items[0].name`; `<nil>` when the error has
            no field.
        value: the offending value, or OMITTED.
        detail: what is wrong with it; may be empty.
    """

    error_type: str
    field: str
    value: Any
    detail: str

    @property
    def body(self) -> str:
        """The message without the field in front."""
        message = _LABELS[self.error_type]
        if self.error_type not in _WITHOUT_VALUE and self.value is not OMITTED:
            message += f": {_format_value(self.value)}"
        return f"{message}: {self.detail}" if self.detail else message

    @property
    def message(self) -> str:
        """The message with the field in front, as it stands in a Status."""
        return f"{self.field}: {self.body}"

    @property
    def blocks_rules(self) -> bool:
        """Whether rules are left unchecked on an object with this error."""
        return self.error_type in _BLOCKING

    def build_cause(self) -> dict[str, str]:
        """Return the error as an entry of `details.causes` in a Status."""
        return {"reason": _REASONS[self.error_type], "message": self.body, "field": self.field}


def _format_value(value: Any) -> str:
    """Return a value as Go prints it in a field error."""
    if isinstance(value, Verbatim):
        return value.content
    if isinstance(value, str):
        return gotext.quote(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return gotext.format_number(value)
    return gotext.encode_json(value)


def join_messages(errors: Iterable[FieldError]) -> str:
    """Join the messages of errors as the server does: each once, in brackets if several."""
    texts = list(dict.fromkeys(error.message for error in errors))
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"


def build_required_error(field: str, detail: str = "") -> FieldError:
    """Return the error of a field that is missing."""
    return FieldError("Required", field, value="", detail=detail)


def build_invalid_error(field: str, value: Any, detail: str) -> FieldError:
    """Return the error of a value that breaks a rule."""
    return FieldError("Invalid", field, value=value, detail=detail)


def build_forbidden_error(field: str, detail: str) -> FieldError:
    """Return the error of a field that must not be set here."""
    return FieldError("Forbidden", field, value="", detail=detail)


def build_duplicate_error(field: str, value: Any) -> FieldError:
    """Return the error of a value that occurs twice where it may occur once."""
    return FieldError("Duplicate", field, value=value, detail="")


def build_not_supported_error(field: str, value: Any, supported: Sequence[str]) -> FieldError:
    """Return the error of a value that is not allowed.

    Args:
        field: the path.
        value: the offending value.
        supported: the allowed values, in the order in which the message lists them.
    """
    detail = "supported values: " + ", ".join(gotext.quote(item) for item in supported)
    return FieldError("NotSupported", field, value=value, detail=detail if supported else "")


def build_too_long_error(field: str, limit: int) -> FieldError:
    """Return the error of a string of more than `limit` characters; its message says bytes.

    A negative limit, which no string keeps, is left out of the message.
    """
    noun = "byte" if limit == 1 else "bytes"
    detail = f"may not be more than {limit} {noun}" if limit >= 0 else "value is too long"
    return FieldError("TooLong", field, value="", detail=detail)


def build_too_many_error(field: str, actual: int, limit: int) -> FieldError:
    """Return the error for more than `limit` items or properties."""
    noun = "item" if limit == 1 else "items"
    return FieldError("TooMany", field, value=actual, detail=f"must have at most {limit} {noun}")
