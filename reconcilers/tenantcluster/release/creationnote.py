"""Records in the management cluster that an object is about to be created in a tenant.

An adapter may need an object of its own in a tenant, to prove that a range is out. After the
creation it checks that the IPAllocation, the *holder* of the range, still exists. A process may
die between the creation and the check. If the cluster is torn down in that time, nothing in the
management cluster leads to the new object.

So the creation is *recorded* beforehand, by an annotation on the IPAllocation, at exactly the
version that a live read showed. The record is removed after the check. An IPAllocation with a
record is not released, so its TenantCluster stays, and its teardown deletes the object.

The record of a process that died stays. It counts until no request of that process can arrive any
more.
"""

from typing_extensions import override

from controller.client import Client
from controller.clock import Clock
from controller.errors import Conflict, ControllerError, NotFound
from controller.loggers import get_logger
from reconcilers.api import names
from reconcilers.api.ipallocation import RELEASED, IPAllocation
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.loadbalancers.port import CreationNote
from reconcilers.tenantcluster.allocations.annotations import annotate
from reconcilers.tenantcluster.record.gate import SeenCreations

_ATTEMPTS = 5
"""How often the removal of the record is tried if others write the IPAllocation meanwhile: a
record that stays delays the release by minutes."""

_log = get_logger(__name__)


class AllocationCreationNote(CreationNote):
    """The record of one creation, on the IPAllocation that needs the object.

    Args:
        client: of the management cluster.
        allocation: the IPAllocation whose range is to be released.
        creations: the time when each record on the allocation was first seen.
        clock: the time.
    """

    def __init__(
        self, client: Client, allocation: IPAllocation, creations: SeenCreations, clock: Clock
    ) -> None:
        self._clock = clock
        self._client = client
        self._allocation = allocation
        self._creations = creations
        self._is_pending = creations.note_sighting(allocation, clock.monotonic())
        """As of the start: the record that `begin` writes does not count."""
        self._value = ""

    @property
    @override
    def is_pending(self) -> bool:
        """Whether the allocation already had a record, whose creation may still happen."""
        return self._is_pending

    @override
    async def begin(self) -> bool:
        """Record that the object is about to be created.

        Returns:
            Whether the object may be created. False if the IPAllocation is gone or released, was
            written meanwhile, or has a record of another process that still counts. False also if
            a request to the management cluster failed.
        """
        try:
            live = await self._find_holder()
            if live is None or self._creations.note_sighting(live, self._clock.monotonic()):
                return False
            # The version makes the value unique, so `end` recognizes the record of this process.
            self._value = live.metadata.resourceVersion
            await self._write_record(live, self._value)
        except (Conflict, NotFound):
            return False
        except ControllerError as error:
            # Logged, not raised: the caller uses the tenant's client, which would count this
            # failure of the management cluster as the tenant's.
            _log.info("cannot record a creation in the tenant", error=str(error))
            return False
        return True

    @override
    async def remove(self) -> bool:
        """Remove the record.

        Returns:
            Whether the object may stay. False if the IPAllocation is gone or released, or if a
            request to the management cluster failed.
        """
        try:
            for _ in range(_ATTEMPTS):
                live = await self._find_holder()
                if live is None:
                    return False  # without the holder, no teardown would delete the object
                if live.metadata.annotations.get(names.ANNOTATION_MARKER_CREATION) != self._value:
                    return True  # another process replaced the record with its own
                if await self._remove_record(live):
                    return True
        except NotFound:
            return False
        except ControllerError as error:
            _log.info("cannot remove the record of a creation in the tenant", error=str(error))
            return False
        # Others wrote the IPAllocation at each attempt. It exists, and is not released while it
        # has the record, so the object may stay.
        return True

    async def _remove_record(self, live: IPAllocation) -> bool:
        """Remove the record; return False if the IPAllocation changed since it was read."""
        try:
            await self._write_record(live, value=None)
        except Conflict:
            return False
        return True

    async def _find_holder(self) -> IPAllocation | None:
        """Return the IPAllocation by a live read; None if it is gone or released.

        A released IPAllocation counts as gone: its finalizer is removed without another check of
        its record.
        """
        meta = self._allocation.metadata
        live = await self._client.find(IP_ALLOCATION, meta.key)
        if live is None or live.metadata.uid != meta.uid or live.status.phase == RELEASED:
            return None
        return live

    async def _write_record(self, live: IPAllocation, value: str | None) -> None:
        """Write the record at the version of `live`; remove it if `value` is None."""
        await annotate(self._client, live, {names.ANNOTATION_MARKER_CREATION: value})
