"""What the status of a NetworkNamespace says: how much is in use, and who hands out the same."""

from collections.abc import Mapping
from typing import Any

from controller.client import Client
from controller.clock import Clock
from controller.conditions import find
from controller.events import Recorder
from reconcilers.conditions import rendered, with_findings
from reconcilers.integrations.core.contents import Contents
from reconcilers.integrations.vitistack.api import (
    NETWORKS,
    STATIC,
    NetworkNamespace,
    Static,
    Summary,
)
from reconcilers.integrations.vitistack.overlaps import OVERLAPPING, finding, overlaps
from reconcilers.integrations.vitistack.ranges import NetworkSpace
from reconcilers.integrations.vitistack.world import World
from reconcilers.integrations.vitistack.writing import ACTION


class NetworkStatuses:
    """Writes the statuses of networks.

    Args:
        client: for the writes.
        world: the caches.
        recorder: takes the events.
        clock: the time.
    """

    def __init__(self, client: Client, world: World, recorder: Recorder, clock: Clock) -> None:
        self._client = client
        self._world = world
        self._recorder = recorder
        self._clock = clock
        self._without_conditions = False
        """Whether the definition has no conditions, so that what is written of them is lost."""

    async def write(
        self, network: NetworkNamespace, static: Static, space: NetworkSpace, contents: Contents
    ) -> None:
        """Write how much of a network is in use, and who else hands it out, if that differs.

        Args:
            network: as it was read.
            static: what it hands out.
            space: the same in numbers.
            contents: what is held.

        Raises:
            Conflict: the network changed meanwhile.
        """
        await self._write(network, self._counts(network, static, space, contents))

    async def write_overlaps(self, network: NetworkNamespace) -> None:
        """Write who else hands out what a network will once it is provisioned, if that differs.

        Raises:
            Conflict: the network changed meanwhile.
        """
        await self._write(network, {})

    async def _write(self, network: NetworkNamespace, patch: dict[str, Any]) -> None:
        """Write a patch of the status, with the condition where that differs."""
        found = finding(overlaps(network, self._world.networks))
        has = network.status.conditions
        # A network that shares nothing, and never did, has no such condition.
        if not self._without_conditions and (found.status or find(has, OVERLAPPING) is not None):
            now, generation = self._clock.now(), network.metadata.generation
            conditions = with_findings(has, [found], generation, now)
            if conditions != tuple(has):
                patch["conditions"] = rendered(conditions)
        if not patch:
            return
        written = await self._client.patch_status(NETWORKS, network, patch)
        if "conditions" not in patch:
            return
        self._without_conditions = not written.status.conditions
        if found.status:
            self._recorder.record(
                NETWORKS, written, "Warning", OVERLAPPING, found.message, action=ACTION
            )

    def _counts(
        self, network: NetworkNamespace, static: Static, space: NetworkSpace, contents: Contents
    ) -> dict[str, Any]:
        """Return what is to be written of the counts; nothing if they are right."""
        how = network.spec.ipAllocation
        summary = Summary(
            type=STATIC,
            provider=(how.provider if how is not None else "") or self._world.provider,
            allocatedCount=contents.used,
            availableCount=contents.space.free,
            totalCount=space.layout.total,
        )
        has, prefix = network.status, space.layout.cidr.text
        if (has.ipAllocationSummary, has.ipv4Prefix, has.vlanId) == (
            summary,
            prefix,
            static.vlanId,
        ):
            return {}
        counts: Mapping[str, Any] = {n: getattr(summary, n) for n in Summary.__slots__}
        return {"ipv4Prefix": prefix, "vlanId": static.vlanId, "ipAllocationSummary": counts}
