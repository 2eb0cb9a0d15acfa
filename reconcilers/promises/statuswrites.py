"""When another controller last wrote the status of an object, by the managers of its fields."""

from dataclasses import dataclass
from datetime import datetime

from controller.meta import TracedMeta
from reconcilers.api import names


@dataclass(frozen=True, slots=True, order=True)
class StatusWrite:
    """The last write of a status by one controller."""

    at: datetime
    manager: str


def last_foreign_write(meta: TracedMeta, our_manager: str) -> StatusWrite | None:
    """Return the last write of an object's status by another controller; None if there was none.

    A write by `kubectl` does not count: it is one edit by a person. If that edit wipes a journal,
    the pool voids its earlier promises (fence.py). A write by the controller that lists the
    addresses of the platform does not count either. A write whose time is unusable is skipped.

    Args:
        meta: the object's metadata.
        our_manager: our field manager; empty if it is not known. Then the result is None.
    """
    writes = [
        StatusWrite(written_at, writer.manager)
        for writer in (meta.managedFields if our_manager else ())
        if writer.subresource == "status"
        and writer.manager != our_manager
        and not _is_no_allocator(writer.manager)
        and (written_at := _parse_time(writer.time)) is not None
    ]
    return max(writes, default=None)


def _is_no_allocator(manager: str) -> bool:
    """Return whether a field manager is known to allocate no addresses.

    Such managers are kubectl, and the controller that lists the addresses of the platform.
    """
    is_person = manager == "kubectl" or manager.startswith("kubectl-")
    return is_person or manager == names.INFRASTRUCTURE_FIELD_MANAGER


def _parse_time(written_at: str) -> datetime | None:
    """Return a time of managedFields; None if it cannot be parsed or has no time zone."""
    try:
        time = datetime.fromisoformat(written_at)
    except ValueError:
        return None
    return time if time.tzinfo else None  # without a zone it cannot be compared with other times
