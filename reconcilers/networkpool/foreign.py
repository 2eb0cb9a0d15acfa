"""Another controller that writes our statuses: Butler's own, say, that was not scaled to zero.

It hands out ranges without reading the pool's assignments, and its writes of a pool's status wipe
them. No precondition makes two allocators over one pool safe, so ours hands out nothing until the
other one has written nothing for a while. Who wrote what is in managedFields.

`kubectl` does not count: it is a person's tool, and a single edit is handled by the fence.
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
class ForeignManager:
    """Another controller, and when it last wrote."""

    manager: str
    wrote: str
    at: datetime

    def stopped_in(self, now: datetime, silence: float) -> float:
        """Return in how many seconds it will have written nothing for `silence` seconds."""
        return silence - (now - self.at).total_seconds()

    def findings(self, pool: NetworkPool) -> list[Finding]:
        """Return the pool's conditions while it writes.

        Ready is set once and then left alone, as the other controller may write it too: two
        controllers that correct each other at every write would never stop writing.
        """
        message = (
            f"{self.manager} writes {self.wrote}: nothing is handed out while another controller"
            " does that; scale it to zero"
        )
        found = [Finding(FOREIGN_MANAGER, True, "StatusWrittenByOthers", message)]
        if not is_true(pool.status.conditions, FOREIGN_MANAGER):
            found.append(Finding(READY, False, "ForeignManager", message))
        return found


def foreign_manager(
    pool: NetworkPool,
    allocations: Iterable[IPAllocation],
    ours: str,
    now: datetime,
    silence: float,
) -> ForeignManager | None:
    """Return the controller that wrote last, if it did within the last `silence` seconds.

    Args:
        pool: whose status it may have written.
        allocations: the pool's, whose statuses it may have written.
        ours: our field manager; if that is not known, no manager counts as foreign.
        now: the time.
        silence: seconds after which a controller counts as stopped.
    """
    if not ours:
        return None
    written: list[tuple[str, TracedMeta]] = [("the status of this NetworkPool", pool.metadata)]
    written += [("the status of its IPAllocations", a.metadata) for a in allocations]
    found = [
        ForeignManager(writer.manager, what, at)
        for what, meta in written
        for writer in meta.managedFields
        if writer.subresource == STATUS
        and writer.manager != ours
        and not _is_ignored(writer.manager)
        and (at := _parsed_time(writer.time)) is not None
    ]
    recent = [one for one in found if one.stopped_in(now, silence) > 0]
    return max(recent, key=lambda one: (one.at, one.manager), default=None)


def _is_ignored(manager: str) -> bool:
    """Whether it is a person, or the controller that lists what the platform itself uses."""
    person = manager == "kubectl" or manager.startswith("kubectl-")
    return person or manager == names.INFRASTRUCTURE_FIELD_MANAGER


def _parsed_time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else None


def none_foreign() -> Finding:
    """Return the ForeignManager condition once the other controller has stopped writing."""
    return Finding(
        FOREIGN_MANAGER, False, "NoForeignManager", "no other controller writes these statuses"
    )
