"""Paces and reports the correction of edits that others make in our objects in tenants.

All fields in spec of our objects are ours. An edit is written back at once. If a writer repeats
its edit, the object is *contested*: each further correction waits twice as long as the one before,
up to five minutes, and the condition says so until no edit has happened for a while. Two
controllers that write against each other would have the load balancer take addresses from Services
without end.

A write that is needed anyway, because a range was added or removed, never waits.
"""

from collections.abc import Iterable, Sequence

from controller.meta import TracedMeta
from reconcilers.api import names
from reconcilers.loadbalancers.port import Correction

LONGEST_PAUSE = 300.0
"""The longest time between two corrections of a contested object, in seconds."""
QUIET_SECONDS = 60.0
"""After so many seconds without a correction, or longer after a long pause, a contest is over."""
CONTESTED_AFTER = 5
"""After so many corrections, each soon after the one before, the object is contested."""


class Corrections:
    """The corrections in one tenant, as far as this process has made them."""

    def __init__(self) -> None:
        self._unreported: list[Correction] = []
        self._corrections_in_a_row = 0
        self._corrected_at = 0.0
        self._edit = ""
        self._is_delayed = False

    def begin_pass(self) -> None:
        """Begin a pass, and forget a delayed correction: its edit may be gone by now.

        If the edit is still there, `request_correction` delays it again.
        """
        self._is_delayed = False

    def take_unreported(self) -> Sequence[Correction]:
        """Return the corrections since the last call, and forget them."""
        corrections, self._unreported = self._unreported, []
        return corrections

    def request_correction(self, description: str, now: float) -> bool:
        """Note whether the correction of an edit is delayed; return whether it may be made now.

        Args:
            description: the edit, as `describe_edit` returns it.
            now: monotonic seconds.
        """
        self._edit = description
        self._is_delayed = now < self._corrected_at + self._pause
        return not self._is_delayed

    def note_correction(self, kind: str, description: str, now: float) -> None:
        """Note that an edit was written back; after a quiet time the count starts again at 1.

        Args:
            kind: the kind of the object.
            description: the edit, as `describe_edit` returns it.
            now: monotonic seconds.
        """
        in_a_row = 0 if now >= self._quiet_at else self._corrections_in_a_row
        self._corrections_in_a_row = in_a_row + 1
        self._corrected_at, self._edit = now, description
        self._is_delayed = False
        self._unreported.append(Correction(kind, description))

    def describe_contest(self, now: float) -> str:
        """Return the sentence for a contested object; empty if nothing is contested.

        Args:
            now: monotonic seconds.
        """
        # While a correction is delayed the contest goes on, however long the last one is ago.
        if not self._is_delayed and (
            self._corrections_in_a_row < CONTESTED_AFTER or now >= self._quiet_at
        ):
            return ""
        return (
            f"another writer in the tenant keeps changing {self._edit}; it is written back"
            f" ever less often, at last every {LONGEST_PAUSE / 60:.0f} min"
        )

    def compute_check_delay(self, now: float) -> float | None:
        """Return the seconds until a delayed correction is due, or until the contest is over.

        Returns:
            The seconds; None if no correction is delayed and nothing is contested.
        """
        if self._is_delayed:
            return max(0.0, self._corrected_at + self._pause - now)
        return max(0.0, self._quiet_at - now) if self.describe_contest(now) else None

    @property
    def _pause(self) -> float:
        """Seconds between the last correction and the next one; 0 until an object is contested."""
        # The exponent is bounded: days of repeated edits would make the power overflow.
        doublings = min(self._corrections_in_a_row - CONTESTED_AFTER, 10)
        return min(2.0**doublings, LONGEST_PAUSE) if doublings >= 0 else 0.0

    @property
    def _quiet_at(self) -> float:
        """When the contest is over if no further edit is corrected, in monotonic seconds."""
        # Longer than the pause: otherwise a contest would end before its next correction.
        return self._corrected_at + max(QUIET_SECONDS, 2 * self._pause)


def describe_edit(metadata: TracedMeta, kind: str, fields: Iterable[str]) -> str:
    """Return an edit in words: the object, its edited fields, and the writer if it is known.

    The API server notes writers in managedFields. The newest entry that is not ours counts.

    Args:
        metadata: the metadata of the object as it was read.
        kind: the object's kind.
        fields: names of the fields that differ from ours.
    """
    # A writer of a subresource changes the status, not our fields.
    entries_of_others = [
        entry
        for entry in metadata.managedFields
        if not entry.subresource and entry.manager != names.TENANT_FIELD_MANAGER
    ]
    last_entry = max(entries_of_others, key=lambda entry: entry.time, default=None)
    by = f" by {last_entry.manager}" if last_entry is not None and last_entry.manager else ""
    return f"{kind} {metadata.name} ({', '.join(fields)}{by})"
