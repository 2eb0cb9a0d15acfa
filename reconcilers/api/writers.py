"""Who wrote an object, from metadata.managedFields: names and times, never the fields themselves.

The fields are most of an object's bytes and are skipped while decoding. Only the kinds whose
writers matter have this metadata.
"""

from dataclasses import dataclass

from controller.meta import ObjectMeta


@dataclass(frozen=True, slots=True)
class Writer:
    """One entry of managedFields: the last write of one manager."""

    manager: str = ""
    """Its name."""
    subresource: str = ""
    """What was written; empty for the object itself."""
    time: str = ""
    """When that last changed anything, RFC 3339. Text, as it is hardly ever looked at."""


@dataclass(frozen=True, slots=True)
class TracedMeta(ObjectMeta):
    """Metadata with its writers."""

    managedFields: tuple[Writer, ...] = ()
