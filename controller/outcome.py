"""The results that a reconciler may return: a closed set, so that no combination is contradictory.

    Settled                 nothing to do until something changes
    Again(after)            reconcile again after so many seconds, even if nothing changes
    Blocked(reason, after)  cannot continue until a person or another controller acts

If a reconciler raises, the runner retries with back-off, unless it is a TerminalError
(see errors.py).
"""

import math
from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing to do until something changes."""


@dataclass(frozen=True, slots=True, init=False)
class Again:
    """Reconcile again after `after` seconds.

    Args:
        after: seconds, or a timedelta. 0 means without a delay; a key that is reconciled with 0
            again and again is reconciled at most ten times per second.

    Raises:
        TypeError: `after` is neither a number nor a timedelta.
        ValueError: `after` is negative, infinite or no number (NaN).
    """

    after: float

    def __init__(self, after: float | timedelta) -> None:
        object.__setattr__(self, "after", _to_seconds(after, "Again(after)"))


@dataclass(frozen=True, slots=True, init=False)
class Blocked:
    """The reconciler cannot continue until a person or another controller acts.

    Args:
        reason: one CamelCase word for logs, for example `PoolNotFound`.
        after: seconds or a timedelta until the next reconciliation; None waits for a change.

    Raises:
        TypeError: `after` is neither a number nor a timedelta nor None.
        ValueError: `after` is negative, infinite or no number (NaN).
    """

    reason: str
    after: float | None

    def __init__(self, reason: str, after: float | timedelta | None = None) -> None:
        seconds = None if after is None else _to_seconds(after, "Blocked(reason, after)")
        object.__setattr__(self, "reason", reason)
        object.__setattr__(self, "after", seconds)


Outcome = Settled | Again | Blocked
SETTLED = Settled()


def _to_seconds(after: float | timedelta, subject: str) -> float:
    """Return a delay in seconds.

    Args:
        after: seconds or a timedelta.
        subject: the outcome and its argument, for the message.

    Raises:
        TypeError: `after` is neither a number nor a timedelta.
        ValueError: `after` is negative, infinite or NaN.
    """
    seconds: object = after.total_seconds() if isinstance(after, timedelta) else after
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise TypeError(f"{subject} takes seconds or a timedelta, not {after!r}")
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{subject} takes seconds from 0 on, not {after!r}")
    return seconds
