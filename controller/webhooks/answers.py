"""The answers that the handler of a webhook may return.

There is a class for each, so that no answer contradicts itself, as a refusal with a patch would.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from controller.errors import Cause

PatchOperation = Mapping[str, Any]
"""One operation of a JSON patch (RFC 6902): `op`, `path`, and `value` or `from`."""

_OPERATIONS = frozenset({"add", "remove", "replace", "move", "copy", "test"})


@dataclass(frozen=True, slots=True)
class Allowed:
    """The write is allowed.

    Args:
        warnings: sentences that kubectl prints. The API server cuts each at 256 characters and all
            together at 4096, and the webhook server cuts them likewise.
    """

    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Denied:
    """The write is refused.

    Args:
        message: what is wrong, where, and how to fix it, for the person who wrote.
        reason: one CamelCase word for programs, as in metav1.Status: `Forbidden`, `Invalid`.
        code: the HTTP status code of the response to the writer, from 400 to 599.
        causes: the rejected fields, for the Status' `details.causes`.
        warnings: as for Allowed.

    Raises:
        ValueError: the code is not from 400 to 599; the API server would replace it by 400.
    """

    message: str
    reason: str = "Forbidden"
    code: int = 403
    causes: Sequence[Cause] = ()
    warnings: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Refuse a code that is not the code of an error."""
        if not 400 <= self.code <= 599:
            raise ValueError(f"a refusal needs a code from 400 to 599, not {self.code}")

    @classmethod
    def invalid(cls, message: str, *causes: Cause, warnings: Sequence[str] = ()) -> Self:
        """Return the refusal of invalid content: code 422, reason Invalid.

        Args:
            message: what is wrong, for the person who wrote.
            *causes: the rejected fields.
            warnings: as for Allowed.
        """
        return cls(message, "Invalid", code=422, causes=causes, warnings=warnings)


@dataclass(frozen=True, slots=True)
class Patched:
    """The write is allowed with changes; for mutating webhooks only.

    Args:
        patch: the changes; if empty the answer is the same as Allowed.
        warnings: as for Allowed.

    Raises:
        ValueError: an entry is not an operation of a JSON patch.
    """

    patch: Sequence[PatchOperation]
    warnings: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Refuse entries that are not operations of a JSON patch; their values are not checked."""
        for entry in self.patch:
            path = entry.get("path")
            is_pointer = isinstance(path, str) and (not path or path.startswith("/"))
            if entry.get("op") not in _OPERATIONS or not is_pointer:
                raise ValueError(f"{dict(entry)!r} is not an operation of a JSON patch (RFC 6902)")

    @classmethod
    def from_change(cls, before: Any, after: Any, *, warnings: Sequence[str] = ()) -> Self:
        """Return the answer whose patch changes `before` to `after`.

        Args:
            before: decoded JSON, from the request's `objectBytes`: a patch computed from the typed
                object would remove every field that the type does not name.
            after: decoded JSON, the wanted result.
            warnings: as for Allowed.
        """
        return cls(tuple(create_patch_operations(before, after)), warnings)


Answer = Allowed | Denied | Patched
"""What a handler returns."""


def create_patch_operations(before: Any, after: Any, path: str = "") -> Iterator[dict[str, Any]]:
    """Yield the operations of a JSON patch (RFC 6902) that changes `before` to `after`.

    Objects are compared by field, and lists of equal length by entry. A list whose length changes
    is replaced as a whole, because a minimal patch of lists takes quadratic time.

    Args:
        before: decoded JSON.
        after: decoded JSON.
        path: the JSON pointer (RFC 6901) of both values in the whole document.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _create_field_operations(before, after, path)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from create_patch_operations(old, new, f"{path}/{index}")
    elif type(before) is not type(after) or before != after:
        # The types are compared because True equals 1 in Python, and does not in JSON.
        yield {"op": "replace", "path": path, "value": after}


def _create_field_operations(
    before: dict[str, Any], after: dict[str, Any], path: str
) -> Iterator[dict[str, Any]]:
    """Yield the operations that change an object at `path`, field by field.

    Fields are removed first; then the fields of `after` are changed or added, in their order.
    """
    # A JSON pointer writes ~ as ~0 and / as ~1.
    pointers = {
        name: f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        for name in {**before, **after}
    }
    for name in before:
        if name not in after:
            yield {"op": "remove", "path": pointers[name]}
    for name, new in after.items():
        if name in before:
            yield from create_patch_operations(before[name], new, pointers[name])
        else:
            yield {"op": "add", "path": pointers[name], "value": new}
