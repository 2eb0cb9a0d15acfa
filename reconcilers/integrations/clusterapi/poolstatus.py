"""The statuses of pools: counts, and Ready where the definition has conditions.

The in-cluster provider's own definitions have no conditions, and the API server drops fields that
a definition does not have. If the response to a write lacks the written conditions, the definition
has none. From then on no conditions are written to pools of that kind.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from controller.client import Client
from controller.clock import Clock
from controller.conditions import is_true
from controller.events import EventType, Recorder
from controller.resource import Resource
from reconcilers.integrations.clusterapi.addresses import MAX_COUNT, PoolSpace
from reconcilers.integrations.clusterapi.api import Pool, PoolCounts
from reconcilers.integrations.clusterapi.offers import make_offers
from reconcilers.integrations.core.eventmemory import StateEvents
from reconcilers.promises.holdings import Holdings
from reconcilers.reporting.conditions import (
    READY,
    ConditionFinding,
    make_conditions_patch,
)
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.sharing import OVERLAPPING


def compute_counts(space: PoolSpace, holdings: Holdings) -> PoolCounts:
    """Return the counts of a pool for its status, cut to the largest integer that fits.

    All counts are in blocks, which are single addresses or prefixes. An IPAddress outside of the
    pool's ranges counts as used and as out of range.
    """
    return PoolCounts(
        total=min(space.total, MAX_COUNT),
        used=holdings.in_use_count,
        free=min(holdings.get_space().free, MAX_COUNT),
        outOfRange=holdings.outside_count,
    )


def describe_readiness(space: PoolSpace) -> ConditionFinding:
    """Return the Ready condition of a pool with a valid spec: False if its space is empty."""
    if not space.total:
        return ConditionFinding(
            READY, False, reason="NoCapacity", message="nothing in this pool may be handed out"
        )
    return ConditionFinding(
        READY, True, reason="Ready", message="claims are served from this pool"
    )


class PoolStatuses:
    """Writes the statuses of pools, only where they differ.

    Args:
        client: for the writes.
        recorder: records an event whenever a pool becomes ready, or stops being ready.
        clock: the time.
        spaces: the addresses that pools of all kinds hand out, to find overlaps.
    """

    def __init__(
        self, client: Client, recorder: Recorder, clock: Clock, spaces: SpaceIndex
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._spaces = spaces
        self._overlaps = StateEvents(recorder, "Serving")
        self._without_conditions: set[str] = set()
        """The kinds whose definition drops conditions."""

    async def write_figures(
        self,
        kind: Resource[Pool],
        pool: Pool,
        space: PoolSpace,
        holdings: Holdings,
        ready: ConditionFinding | None = None,
    ) -> None:
        """Write counts and conditions of a pool with a valid spec; report new overlaps as events.

        Args:
            pool: as it was read.
            space: what it may hand out.
            holdings: what claims and IPAddresses hold of it.
            ready: its condition Ready; None to use `describe_readiness`.
        """
        # None while it is unknown which pools overlap. Then the condition stays unchanged.
        overlapping = self._spaces.make_overlap_finding(make_offers(kind, pool))
        others = [overlapping] if overlapping is not None else []
        counts = compute_counts(space, holdings)
        await self.write(kind, pool, counts, ready or describe_readiness(space), *others)
        if overlapping is not None and not is_true(pool.status.conditions, OVERLAPPING):
            self._report_overlap(kind, pool, overlapping)

    def _report_overlap(self, kind: Resource[Pool], pool: Pool, overlap: ConditionFinding) -> None:
        """Record an event when a pool begins to overlap with others; note when that ends.

        While the overlap lasts, no further event is recorded.
        """
        if overlap.status:
            self._overlaps.report(kind, pool, reason="PoolsOverlap", message=overlap.message)
        else:
            self._overlaps.forget(kind, pool.metadata.key)

    async def write(
        self,
        kind: Resource[Pool],
        pool: Pool,
        counts: PoolCounts | None,
        ready: ConditionFinding,
        *others: ConditionFinding,
    ) -> None:
        """Write a pool's status if it differs; record an event if Ready changes.

        Args:
            pool: as it was read.
            counts: the counts to write; None leaves the counts of the status unchanged.
            ready: the condition Ready to write.
            *others: further conditions to write; all other conditions stay unchanged.

        Raises:
            Conflict: the pool changed meanwhile.
            ControllerError: the write failed.
        """
        has_conditions = kind.kind not in self._without_conditions
        patch = render_patch(
            pool,
            counts,
            findings=(ready, *others),
            now=self._clock.now(),
            has_conditions=has_conditions,
        )
        if not patch:
            return
        written = await self._client.patch_status(kind, pool, patch)
        # Without this, every pass would write conditions that the server drops.
        if "conditions" in patch and not written.status.conditions:
            self._without_conditions.add(kind.kind)
        if is_true(pool.status.conditions, READY) != ready.status:
            event_type: EventType = "Normal" if ready.status else "Warning"
            self._recorder.record(
                kind, written, event_type, ready.reason, ready.message, action="Serving"
            )


def render_patch(
    pool: Pool,
    counts: PoolCounts | None,
    findings: Sequence[ConditionFinding],
    now: datetime,
    *,
    has_conditions: bool,
) -> Mapping[str, Any]:
    """Return a patch with the fields of a pool's status that differ; empty if nothing differs.

    Args:
        pool: as it was read.
        counts: the counts to write; None leaves the counts of the status unchanged.
        findings: the conditions to write; other conditions stay unchanged.
        now: the time, for conditions that change.
        has_conditions: whether the definition of the kind has conditions; else none is written.
    """
    patch: dict[str, Any] = {}
    status = pool.status
    if counts is not None and counts != status.ipAddresses:
        patch["ipAddresses"] = {
            "total": counts.total,
            "used": counts.used,
            "free": counts.free,
            "outOfRange": counts.outOfRange,
        }
    if has_conditions:
        patch |= make_conditions_patch(
            status.conditions, findings, generation=pool.metadata.generation, now=now
        )
    return patch
