"""Objects that cannot be decoded, so that it is unknown what they hold of a pool.

The *outline* of such an object is the part of it that can be decoded all the same: its metadata,
and the reference to its pool.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from controller.codec import DecodeFailure
from controller.meta import Key, Object
from reconcilers.reporting.wording import name_with_count


class UnreadableHoldings(Exception):
    """Some objects cannot be decoded, so what they hold of a pool is unknown.

    Its message names the objects.
    """

    reason: ClassVar[str]
    """Of the pool's condition Ready."""


FINISH_DELETION = "correct it, or remove its finalizers once nothing uses its addresses"
HOLDERS_UNKNOWN = "HoldersUnknown"
"""The reason where objects that may hold addresses are unreadable."""


def build_holders_unknown_message(why: str, effect: str = "nothing is handed out") -> str:
    """Return the message of a pool while objects that may hold its addresses are unreadable.

    Args:
        why: which objects, and what a person has to do.
        effect: what the pool does not do while that is unknown.
    """
    return f"{effect} until it is known what these objects hold: {why}"


@dataclass(frozen=True, slots=True, order=True)
class UnreadableObject:
    """An object that cannot be decoded, and may hold addresses.

    Args:
        key: namespace and name.
        is_terminating: whether it is being deleted, as far as its metadata can be decoded.
    """

    kind: str
    key: Key
    is_terminating: bool = False

    @override
    def __str__(self) -> str:
        """Return a sentence that names the object, and what a person has to do."""
        problem = f"{self.kind} {self.key} cannot be read"
        if self.is_terminating:
            return f"{problem} and is being deleted; {FINISH_DELETION}"
        return f"{problem}; correct or delete it"


class UnreadableHolders(UnreadableHoldings):
    """Objects of other kinds than IPAllocation cannot be decoded, and may hold addresses.

    Args:
        objects: at least one.
    """

    reason = HOLDERS_UNKNOWN

    def __init__(self, objects: Collection[UnreadableObject]) -> None:
        self.objects = tuple(sorted(objects))
        """The objects, by kind and key."""
        super().__init__(describe_unreadable(self.objects))


def describe_unreadable(objects: Sequence[UnreadableObject]) -> str:
    """Return a sentence for each of the first few objects, and the number of the others.

    The parts are separated by semicolons.
    """
    return name_with_count(list(map(str, objects)), "; ")


def is_terminating(failure: str) -> bool:
    """Return whether an object that cannot be decoded is being deleted; False if not known.

    Args:
        failure: why it cannot be decoded. It is a DecodeFailure, a text with the decoded parts, if
            some part of the object can be decoded.
    """
    metadata = failure.metadata if isinstance(failure, DecodeFailure) else None
    return metadata is not None and metadata.is_terminating


def check_holders(
    unreadable: Mapping[str, Mapping[Key, str]],
    may_concern: Callable[[Key, Object | None], bool],
) -> None:
    """Raise if objects that cannot be decoded may hold addresses of a pool.

    Args:
        unreadable: by kind and key, why an object cannot be decoded.
        may_concern: returns whether an object with this key and outline may hold addresses of the
            pool; the outline is None if it cannot be decoded either.

    Raises:
        UnreadableHolders: some of the objects may hold addresses of the pool.
    """
    objects = [
        UnreadableObject(kind, key, is_terminating(failure))
        for kind, failures in unreadable.items()
        for key, failure in failures.items()
        if may_concern(key, read_outline(failure))
    ]
    if objects:
        raise UnreadableHolders(objects)


def find_unreadable(check: Callable[[], None]) -> tuple[UnreadableObject, ...]:
    """Return the objects for which a check raises UnreadableHolders; empty if it does not raise.

    Callers need the objects of several checks, so the error of one must not end the others.

    Args:
        check: a function that raises UnreadableHolders.
    """
    try:
        check()
    except UnreadableHolders as unreadable:
        return unreadable.objects
    return ()


def read_outline(failure: str) -> Object | None:
    """Return the outline of an object that cannot be decoded; None if no part can be decoded.

    Args:
        failure: why the object cannot be decoded. Only a DecodeFailure, a text with the decoded
            parts, can have an outline.
    """
    return failure.outline if isinstance(failure, DecodeFailure) else None
