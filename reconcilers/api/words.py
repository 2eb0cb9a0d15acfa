"""What the page about the API says of one kind: its conditions and events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ConditionWords:
    """A condition of one kind.

    Args:
        meaning: what it is True for.
        reasons: what each reason says; which status goes with it comes first.
    """

    type: str
    meaning: str
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EventWords:
    """An event on an object of one kind.

    Args:
        type: Normal or Warning.
        meaning: when it is written.
    """

    type: str
    reason: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Words:
    """What is written on objects of one kind."""

    conditions: Sequence[ConditionWords]
    events: Sequence[EventWords]
