"""What a webhook may answer: a closed set, so that no answer contradicts itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from controller.errors import Cause
from controller.webhooks.diff import difference

PatchOperation = Mapping[str, Any]
"""One operation of a JSON patch (RFC 6902): `op`, `path`, and `value` or `from`."""

_OPERATIONS = frozenset({"add", "remove", "replace", "move", "copy", "test"})


@dataclass(frozen=True, slots=True)
class Allowed:
    """The write may go on.

    Args:
        warnings: sentences that kubectl shows to whoever wrote. The API server cuts each at 256
            characters and all together at 4096, and so does the webhook server before it.
    """

    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Denied:
    """The write is refused.

    Args:
        message: what is wrong, where, and how to mend it, for the person who wrote.
        reason: one CamelCase word for programs, as in metav1.Status: `Forbidden`, `Invalid`.
        code: the HTTP status that the writer gets, from 400 to 599.
        causes: the fields at fault, one entry each; in the Status' `details.causes`.
        warnings: as for Allowed.

    Raises:
        ValueError: the code is none of an error; the API server would make it 400.
    """

    message: str
    reason: str = "Forbidden"
    code: int = 403
    causes: Sequence[Cause] = ()
    warnings: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not 400 <= self.code <= 599:
            raise ValueError(f"a refusal needs a code from 400 to 599, not {self.code}")

    @classmethod
    def invalid(cls, message: str, *causes: Cause, warnings: Sequence[str] = ()) -> Self:
        """Return the refusal of content that breaks a rule: 422, Invalid, with its causes.

        Args:
            message: what is wrong, for the person who wrote.
            *causes: the fields at fault.
            warnings: as for Allowed.
        """
        return cls(message, "Invalid", 422, causes, warnings)


@dataclass(frozen=True, slots=True)
class Patched:
    """The write may go on with changes; for mutating webhooks only.

    Args:
        patch: what is changed; with nothing in it the answer is the same as Allowed.
        warnings: as for Allowed.

    Raises:
        ValueError: an entry is no operation of a JSON patch.
    """

    patch: Sequence[PatchOperation]
    warnings: Sequence[str] = ()

    def __post_init__(self) -> None:
        for entry in self.patch:
            path = entry.get("path")
            pointer = isinstance(path, str) and (not path or path.startswith("/"))
            if entry.get("op") not in _OPERATIONS or not pointer:
                raise ValueError(f"{dict(entry)!r} is no operation of a JSON patch (RFC 6902)")

    @classmethod
    def between(cls, before: Any, after: Any, *, warnings: Sequence[str] = ()) -> Self:
        """Return the answer whose patch turns `before` into `after`.

        Args:
            before: decoded JSON; take it from the request's `objectBytes`, as a patch made from
                a typed object would remove every field that the type does not name.
            after: what it shall become.
            warnings: as for Allowed.
        """
        return cls(tuple(difference(before, after)), warnings)


Answer = Allowed | Denied | Patched
"""What a handler returns."""
