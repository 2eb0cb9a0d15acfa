"""Another controller that writes our statuses: Butler's own, say, that was not scaled to zero.

It hands out ranges without asking the pool's assignments, and its writes of a pool's status wipe
them. Two allocators over one pool are what no precondition can put right, so ours steps back
until the other one has been silent for a while. Who wrote what is in managedFields.

People are not meant: `kubectl` is a person's tool, and a single edit is met by the fence.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from controller.conditions import is_true
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.writers import TracedMeta
from reconcilers.conditions import FOREIGN_MANAGER, READY, Finding

STATUS = "status"


@dataclass(frozen=True, slots=True)
class Intruder:
    """Another controller, and when it last wrote."""

    manager: str
    wrote: str
    at: datetime

    def silent_in(self, now: datetime, silence: float) -> float:
        """Return in how many seconds it will have been silent for `silence` seconds."""
        return silence - (now - self.at).total_seconds()

    def findings(self, pool: NetworkPool) -> list[Finding]:
        """Return what the pool says of it.

        Ready is turned once and then left to the other one, which may well write it too: two
        controllers that correct each other at every write would never be silent.
        """
        message = (
            f"{self.manager} writes {self.wrote}: nothing is handed out while another controller"
            " does that; scale it to zero"
        )
        told = [Finding(FOREIGN_MANAGER, True, "StatusWrittenByOthers", message)]
        if not is_true(pool.status.conditions, FOREIGN_MANAGER):
            told.append(Finding(READY, False, "ForeignManager", message))
        return told


def intruder(
    pool: NetworkPool,
    allocations: Iterable[IPAllocation],
    ours: str,
    now: datetime,
    silence: float,
) -> Intruder | None:
    """Return the controller that wrote last, if it did within the last `silence` seconds.

    Args:
        pool: its status is looked at.
        allocations: theirs too.
        ours: our field manager; if that is not known, nobody is foreign.
        now: the time.
        silence: seconds after which a controller counts as stopped.
    """
    if not ours:
        return None
    written: list[tuple[str, TracedMeta]] = [("the status of this NetworkPool", pool.metadata)]
    written += [("the status of its IPAllocations", a.metadata) for a in allocations]
    found = [
        Intruder(writer.manager, what, at)
        for what, meta in written
        for writer in meta.managedFields
        if writer.subresource == STATUS
        and writer.manager != ours
        and not _harmless(writer.manager)
        and (at := _moment(writer.time)) is not None
    ]
    recent = [one for one in found if one.silent_in(now, silence) > 0]
    return max(recent, key=lambda one: (one.at, one.manager), default=None)


def _harmless(manager: str) -> bool:
    """Whether it is a person, or the controller that lists what the platform itself uses."""
    person = manager == "kubectl" or manager.startswith("kubectl-")
    return person or manager == names.INFRASTRUCTURE_FIELD_MANAGER


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def gone() -> Finding:
    """Return what a pool says once the other controller is silent."""
    return Finding(
        FOREIGN_MANAGER, False, "NoForeignManager", "no other controller writes these statuses"
    )
