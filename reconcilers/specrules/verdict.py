"""The result of applying rules to an object: causes to refuse it, and warnings.

A *remark* is a sentence about a field. A *cause* is such a sentence in the form of the API, which
refuses a write. A *verdict* has all causes and warnings about one write.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from json import dumps
from typing import Protocol, Self, TypeVar

from controller.errors import Cause
from reconcilers.reporting.wording import count_noun
from reconcilers.specrules.poolnamespaces import describe_refused_namespace

Path = tuple[str | int, ...]
"""A field of an object, step by step: `("spec", "reserved", 0, "cidr")`."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence about a field: a fault or a warning."""

    path: Path
    message: str


T_contra = TypeVar("T_contra", contravariant=True)

INVALID = "FieldValueInvalid"
FORBIDDEN = "FieldValueForbidden"
REQUIRED = "FieldValueRequired"

MOST_CAUSES = 100
"""The most causes that the answer to one write names, as the size of answers is limited."""


def format_path(path: Path) -> str:
    """Return a path as the API server writes it: `spec.reserved[0].cidr`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".")


def build_invalid_cause(path: Path, message: str) -> Cause:
    """Return the cause that the value of a field is invalid."""
    return Cause(format_path(path), INVALID, message)


def build_value_cause(field: str, value: object, problem: str) -> Cause:
    """Return the cause that a value is invalid, in the form of the API server's `field.Invalid`.

    Args:
        field: its path, as the API server writes it.
        value: the value, which the message repeats as JSON.
    """
    return Cause(field, INVALID, f"Invalid value: {dumps(value)}: {problem}")


def build_forbidden_cause(path: Path, message: str) -> Cause:
    """Return the cause that other objects or fields forbid the value of a field."""
    return Cause(format_path(path), FORBIDDEN, message)


def build_required_cause(path: Path, message: str) -> Cause:
    """Return the cause that a required field is missing."""
    return Cause(format_path(path), REQUIRED, message)


def describe_remark(remark: Remark) -> str:
    """Return a remark as the text of a warning: field and message."""
    return f"{format_path(remark.path)}: {remark.message}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a write is allowed, why not, and warnings.

    Args:
        causes: why the write is refused, by field; empty if no field is at fault.
        warnings: sentences for the client; they refuse nothing.
        refusal: why the write is refused for a reason that is about no field; empty if there is
            no such reason.
        forbidden: whether `refusal` is answered as Forbidden (403); else as BadRequest (400).
    """

    causes: tuple[Cause, ...] = ()
    warnings: tuple[str, ...] = ()
    refusal: str = ""
    forbidden: bool = False

    @classmethod
    def from_causes(cls, causes: Iterable[Cause] = (), warnings: Iterable[str] = ()) -> Self:
        """Return a verdict with causes and warnings; without causes it allows the write."""
        return cls(tuple(causes), tuple(warnings))

    @property
    def allowed(self) -> bool:
        """Whether the write is allowed."""
        return not self.causes and not self.refusal

    def join_causes(self) -> str:
        """Return all causes as one text, in the form of the API server's own validation."""
        sentences = [f"{c.field}: {c.message}" if c.field else c.message for c in self.causes]
        return sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"


NOTHING = Verdict()
"""The verdict that allows a write without warnings."""


class Validator(Protocol[T_contra]):
    """Validates writes of one kind: creations, changes of a spec, and deletions."""

    async def review_creation(self, new: T_contra) -> Verdict:
        """Return the verdict on a new object."""
        ...

    async def review_update(self, new: T_contra, old: T_contra | None) -> Verdict:
        """Return the verdict on a changed spec.

        Args:
            old: the stored object; None if it cannot be decoded.
        """
        ...

    async def review_deletion(self, old: T_contra) -> Verdict:
        """Return the verdict on a deletion."""
        ...


def limit_causes(causes: Iterable[Cause], path: Path, single: str, several: str) -> list[Cause]:
    """Return the first MOST_CAUSES causes; if there are more, a last cause gives their number.

    Args:
        path: the field of the cause that gives the number.
        single: the words after "1 more": "allocation holds addresses".
        several: the words after "7 more": "allocations hold addresses".
    """
    listed = list(causes)
    if len(listed) <= MOST_CAUSES:
        return listed
    more = len(listed) - MOST_CAUSES
    counted = count_noun(more, f"more {single}", f"more {several}")
    return [*listed[:MOST_CAUSES], build_forbidden_cause(path, f"and {counted}")]


def refuse_namespace(namespace: str, allowed: Sequence[str]) -> Verdict | None:
    """Return the refusal of a NetworkPool or ProviderConfig because of its namespace.

    None if the namespace may hold such objects.

    Args:
        namespace: of the object.
        allowed: the namespaces of `--pool-namespaces`; empty for all.
    """
    reason = describe_refused_namespace(namespace, allowed)
    if not reason:
        return None
    message = f"{reason}. Create it in one of these, or let an administrator add the namespace"
    return Verdict.from_causes([build_forbidden_cause(("metadata", "namespace"), message)])
