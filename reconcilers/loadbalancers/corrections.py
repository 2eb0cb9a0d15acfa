"""Manual edits of what we wrote into tenants: written back, reported, and paced.

All of spec of our objects is ours. An edit is written back at once. If a writer repeats its edit,
each further correction waits twice as long as the one before, up to five minutes, and the
condition says so until it has been quiet for a while: two controllers that write against each
other would have the load balancer take addresses from Services without end.

What we have to write anyway, because a range came or went, never waits.
"""

from collections.abc import Iterable, Sequence

from controller.meta import TracedMeta
from reconcilers.api import names
from reconcilers.loadbalancers.port import Correction

LONGEST_PAUSE = 300.0
QUIET_SECONDS = 60.0
MANY = 5
"""After so many corrections, each soon after the one before, the object is contested."""


class Corrections:
    """The corrections in one tenant, as far as this process knows."""

    def __init__(self) -> None:
        self._unreported: list[Correction] = []
        self._corrections_in_a_row = 0
        self._corrected_at = 0.0
        self._edit = ""
        self._is_delayed = False

    def begin(self) -> None:
        """Begin a pass: a delayed correction is kept only if its edit is found again."""
        self._is_delayed = False

    def take(self) -> Sequence[Correction]:
        """Return the corrections since the last call."""
        corrections, self._unreported = self._unreported, []
        return corrections

    def may_correct(self, description: str, now: float) -> bool:
        """Return whether an edit may be written back now.

        Args:
            description: what was edited.
            now: monotonic seconds.
        """
        self._edit = description
        self._is_delayed = now < self._corrected_at + self._pause
        return not self._is_delayed

    def note_correction(self, kind: str, description: str, now: float) -> None:
        """Note that an edit was written back; a quiet time resets the count."""
        in_a_row = 0 if now >= self._quiet_at else self._corrections_in_a_row
        self._corrections_in_a_row = in_a_row + 1
        self._corrected_at, self._edit = now, description
        self._is_delayed = False
        self._unreported.append(Correction(kind, description))

    def contest(self, now: float) -> str:
        """Describe what another writer keeps changing; empty if none does."""
        if not self._is_delayed and (self._corrections_in_a_row < MANY or now >= self._quiet_at):
            return ""
        return (
            f"another writer in the tenant keeps changing {self._edit}; it is written back"
            f" ever less often, at last every {LONGEST_PAUSE / 60:.0f} min"
        )

    def due_in(self, now: float) -> float | None:
        """Return in how many seconds a correction is due, or a contest over; None for never."""
        if self._is_delayed:
            return max(0.0, self._corrected_at + self._pause - now)
        return max(0.0, self._quiet_at - now) if self.contest(now) else None

    @property
    def _pause(self) -> float:
        # The exponent has an end: days of repeated edits would make the power overflow.
        doublings = min(self._corrections_in_a_row - MANY, 10)
        return min(2.0**doublings, LONGEST_PAUSE) if doublings >= 0 else 0.0

    @property
    def _quiet_at(self) -> float:
        return self._corrected_at + max(QUIET_SECONDS, 2 * self._pause)


def describe_edit(metadata: TracedMeta, kind: str, fields: Iterable[str]) -> str:
    """Describe an edit, and its writer as far as the API server knows.

    Args:
        metadata: of the object as it was found.
        fields: those of its spec that differ from ours.
    """
    theirs = [
        entry
        for entry in metadata.managedFields
        if not entry.subresource and entry.manager != names.TENANT_FIELD_MANAGER
    ]
    last = max(theirs, key=lambda entry: entry.time, default=None)
    by = f" by {last.manager}" if last is not None and last.manager else ""
    return f"{kind} {metadata.name} ({', '.join(fields)}{by})"
