"""What the rules say of an object: causes to refuse it, and warnings."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from controller.errors import Cause
from reconcilers.reporting.wording import count_noun
from reconcilers.specrules.poolnamespaces import describe_refused_namespace

Path = tuple[str | int, ...]
"""Where something is in an object: `("spec", "reserved", 0, "cidr")`."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence about a field."""

    path: Path
    message: str


T_contra = TypeVar("T_contra", contravariant=True)

INVALID = "FieldValueInvalid"
FORBIDDEN = "FieldValueForbidden"
REQUIRED = "FieldValueRequired"

MOST_CAUSES = 100
"""Up to so many causes of one write are named; the size of answers is limited."""


def field(path: Path) -> str:
    """Return a path as the API server writes it: `spec.reserved[0].cidr`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".")


def invalid(path: Path, message: str) -> Cause:
    """Return the cause that the value of a field is invalid."""
    return Cause(field(path), INVALID, message)


def forbidden(path: Path, message: str) -> Cause:
    """Return the cause that other objects or fields forbid the value of a field."""
    return Cause(field(path), FORBIDDEN, message)


def build_required_cause(path: Path, message: str) -> Cause:
    """Return the cause of a rejection because a required field is missing."""
    return Cause(field(path), REQUIRED, message)


def describe_remark(remark: Remark) -> str:
    """Return a remark as a warning."""
    return f"{field(remark.path)}: {remark.message}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rules say.

    Args:
        causes: why the write is refused; empty if it may go on.
        warnings: for the client, one sentence each.
        refusal: why it is refused, where that is about no field; empty if it may go on.
        forbidden: whether a refusal is answered as Forbidden; else as a bad request.
    """

    causes: tuple[Cause, ...] = ()
    warnings: tuple[str, ...] = ()
    refusal: str = ""
    forbidden: bool = False

    @classmethod
    def from_causes(cls, causes: Iterable[Cause] = (), warnings: Iterable[str] = ()) -> Self:
        """Return the verdict with these."""
        return cls(tuple(causes), tuple(warnings))

    @property
    def allowed(self) -> bool:
        """Whether the write may go on."""
        return not self.causes and not self.refusal

    def sentence(self) -> str:
        """Return all causes in one text, as the API server puts them."""
        sentences = [f"{c.field}: {c.message}" if c.field else c.message for c in self.causes]
        return sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"


NOTHING = Verdict()
"""Nothing to say: the write may go on."""


class Validator(Protocol[T_contra]):
    """Validates the writes of one kind that change a spec, or delete."""

    async def review_creation(self, new: T_contra) -> Verdict:
        """Validate a new object."""
        ...

    async def review_update(self, new: T_contra, old: T_contra | None) -> Verdict:
        """Validate a changed spec; `old` is None if what is stored cannot be read."""
        ...

    async def review_deletion(self, old: T_contra) -> Verdict:
        """Validate a deletion."""
        ...


def limit_causes(causes: Iterable[Cause], path: Path, single: str, several: str) -> list[Cause]:
    """Return the causes, the last one counting those that are too many to be named.

    Args:
        path: the field that the last one is about.
        single: what one more cause says: "allocation holds addresses".
        several: what several more causes say: "allocations hold addresses".
    """
    listed = list(causes)
    if len(listed) <= MOST_CAUSES:
        return listed
    more = len(listed) - MOST_CAUSES
    counted = count_noun(more, f"more {single}", f"more {several}")
    return [*listed[:MOST_CAUSES], forbidden(path, f"and {counted}")]


def refuse_namespace(namespace: str, allowed: Sequence[str]) -> Verdict | None:
    """Return the refusal of a NetworkPool or ProviderConfig by its namespace; None if it may be.

    Args:
        namespace: of the object.
        allowed: the namespaces that may hold such objects; empty for all.
    """
    why = describe_refused_namespace(namespace, allowed)
    if not why:
        return None
    message = f"{why}. Create it in one of these, or let an administrator add the namespace"
    return Verdict.from_causes([forbidden(("metadata", "namespace"), message)])
