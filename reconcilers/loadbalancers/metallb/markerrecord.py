"""Record in the management cluster that the marker is about to be created in a tenant.

A process may die between creating the marker and checking that the holder of the range is still
there. If the cluster is torn down in between, nothing in the management cluster leads to the new
marker. So the creation is recorded on the IPAllocation before, at exactly the version that a live
read showed, and the record is removed after that check. An IPAllocation with a record is not
released, so its TenantCluster stays, and its teardown deletes the marker.

The record of a process that died stays. It counts until no request of that process can arrive any
more.
"""

from dataclasses import dataclass, field

import structlog

from controller.client import Client
from controller.clock import Clock
from controller.errors import Conflict, ControllerError, NotFound
from controller.meta import Version
from reconcilers.api import names
from reconcilers.api.ipallocation import RELEASED, IPAllocation
from reconcilers.api.resources import IP_ALLOCATION

UNRESOLVED_SECONDS = 120.0
"""How long a record counts: an API server gives up a request after a minute (--request-timeout),
and the process that sent it gives up before."""
_FORGET_SECONDS = 3_600.0

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class SeenCreations:
    """Since when records of creations have been seen on one allocation."""

    _seen: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By record: when it was first seen, and when last, in monotonic seconds."""

    def may_arrive(self, allocation: IPAllocation, now: float) -> bool:
        """Return whether the creation that is recorded on the allocation may still be under way.

        Args:
            allocation: the allocation.
            now: monotonic seconds.
        """
        record = allocation.metadata.annotations.get(names.ANNOTATION_MARKER_CREATION)
        if record is None:
            return False
        recent = {one: at for one, at in self._seen.items() if now - at[1] < _FORGET_SECONDS}
        since, _ = recent.get(record, (now, now))
        recent[record] = since, now
        self._seen = recent
        return now - since < UNRESOLVED_SECONDS


class MarkerRecord:
    """The record of one creation, on the IPAllocation that needs the marker.

    Args:
        client: of the management cluster.
        allocation: the IPAllocation.
        creations: since when records have been seen on it.
        clock: the time.
    """

    def __init__(
        self, client: Client, allocation: IPAllocation, creations: SeenCreations, clock: Clock
    ) -> None:
        self._clock = clock
        self._client = client
        self._allocation = allocation
        self._creations = creations
        self._value = ""

    async def begin(self) -> bool:
        """Record that the marker is about to be created.

        Returns:
            False if that must not be: the IPAllocation is gone or released, was written meanwhile,
            could not be read, or has a record of another process that still counts.
        """
        try:
            live = await self._held()
            if live is None or self._creations.may_arrive(live, self._clock.monotonic()):
                return False
            self._value = live.metadata.resourceVersion
            await self._write(live, self._value)
        except (Conflict, NotFound):
            return False
        except ControllerError as error:
            # Not the tenant's failure, for which it would be left alone a while.
            _log.info("cannot record the creation of the marker", error=str(error))
            return False
        return True

    async def end(self) -> bool:
        """Remove the record.

        Returns:
            False if the marker has to go: the IPAllocation is gone or released, or could not be
            read. One that was only written meanwhile keeps the record.
        """
        try:
            live = await self._held()
            if live is None:
                return False
            if live.metadata.annotations.get(names.ANNOTATION_MARKER_CREATION) == self._value:
                await self._write(live, None)
        except Conflict:
            return True
        except NotFound:
            return False
        except ControllerError as error:
            _log.info("cannot remove the record of the marker's creation", error=str(error))
            return False
        return True

    async def _held(self) -> IPAllocation | None:
        """Return the IPAllocation by a live read; None if it is gone, or holds nothing any more.

        One that is released goes without another look at its record.
        """
        meta = self._allocation.metadata
        live = await self._client.find(IP_ALLOCATION, meta.key)
        if live is None or live.metadata.uid != meta.uid or live.status.phase == RELEASED:
            return None
        return live

    async def _write(self, live: IPAllocation, value: str | None) -> None:
        patch = {"metadata": {"annotations": {names.ANNOTATION_MARKER_CREATION: value}}}
        await self._client.patch(IP_ALLOCATION, Version.from_object(live), patch)
