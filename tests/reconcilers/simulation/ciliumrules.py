"""Switches for the rules of Cilium's adapter.

Each function switches one rule off. Its docstring says what the code does without the rule.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from reconcilers.loadbalancers.cilium import adapter, poolclient, projection, release
from reconcilers.loadbalancers.cilium.poolclient import PoolClient
from reconcilers.loadbalancers.cilium.pools import (
    IPS_TOTAL,
    CiliumPool,
    find_condition,
    make_annotations,
    make_blocks,
)
from reconcilers.loadbalancers.cilium.projection import PoolProjection, parse_ranges
from reconcilers.loadbalancers.cilium.release import ReleaseMemory, ReleaseStep, ReleaseWrite
from reconcilers.loadbalancers.port import (
    Confirm,
    NotYet,
    ProjectedRanges,
    Projection,
    Proven,
    Withdrawal,
)


def create_with_ranges(patch: pytest.MonkeyPatch) -> None:
    """Create a pool with its ranges at once."""

    async def create(
        self: PoolProjection, name: str, ranges: ProjectedRanges, projection: Projection
    ) -> CiliumPool:
        annotations = make_annotations(projection.basis, projection.owner, ranges.allocation.uid)
        spec = {"blocks": make_blocks(parse_ranges(ranges)), "disabled": False}
        return await self._pools.create(name, annotations, spec)

    patch.setattr(PoolProjection, "_create", create)


def fill_by_cache(patch: pytest.MonkeyPatch) -> None:
    """Fill an empty pool with what the cache shows."""

    async def confirm_unread(
        pools: Mapping[str, CiliumPool],
        by_name: Mapping[str, ProjectedRanges],
        projection: Projection,
        confirm: Confirm,
    ) -> Projection:
        return projection

    patch.setattr(PoolProjection, "_confirm_projection", staticmethod(confirm_unread))


def patch_pools_at_any_version(patch: pytest.MonkeyPatch) -> None:
    """Write a pool whatever it has become."""

    async def patch_pool(
        self: PoolClient, pool: CiliumPool, change: Mapping[str, Any]
    ) -> CiliumPool:
        written = change["metadata"]["annotations"].items()
        annotations = {name: value for name, value in written if value is not None}
        body = {**change, "metadata": {"annotations": annotations}}
        return await self._client.apply(
            self._version.resource, pool.metadata.key, body, manager="blind", force=True
        )

    patch.setattr(PoolClient, "patch", patch_pool)


def accept_any_generation(patch: pytest.MonkeyPatch) -> None:
    """Treat a pool that was ever counted as acknowledged, and its addresses as unused."""

    def has_total(pool: CiliumPool) -> bool:
        return find_condition(pool, IPS_TOTAL) is not None

    patch.setattr(release, "is_acknowledged", has_total)
    patch.setattr(release, "read_count", lambda pool, kind: 0)


def skip_other_pools(patch: pytest.MonkeyPatch) -> None:
    """Release a range though other pools may have it."""
    patch.setattr(release, "overlaps_any", lambda pool, spans: False)


def repeat_any_refused_write(patch: pytest.MonkeyPatch) -> None:
    """Repeat a write that was refused, whatever has changed in the pool."""
    patch.setattr(poolclient, "_list_judged_parts", lambda pool: ())


def accept_any_basis(patch: pytest.MonkeyPatch) -> None:
    """Release a range though its pool was not written since the range was marked."""
    patch.setattr(release, "read_basis", lambda pool: 10**9)


def write_older_projections(patch: pytest.MonkeyPatch) -> None:
    """Write an older view over a newer one."""
    patch.setattr(projection, "_require_newest", lambda pool, intended: None)


def keep_edits_of_deleted(patch: pytest.MonkeyPatch) -> None:
    """Leave the edits of people in the pool of a deleted allocation."""

    async def disable_only(
        self: PoolProjection,
        pool: CiliumPool,
        ranges: ProjectedRanges,
        intended: Projection,
        *,
        is_disabled: bool = False,
    ) -> bool:
        if not is_disabled:
            return await ensure_intended(self, pool, ranges, intended)
        if not pool.spec.disabled:
            uid = ranges.allocation.uid
            await self._patch(pool, {"disabled": True}, projection=intended, uid=uid)
        return pool.spec.disabled

    ensure_intended = PoolProjection._ensure_intended
    patch.setattr(PoolProjection, "_ensure_intended", disable_only)


def empty_without_drain(patch: pytest.MonkeyPatch) -> None:
    """Empty a pool that was not disabled before."""
    find_first_step = release._decide_before_own_write

    def find_step_without_drain(
        pool: CiliumPool, withdrawal: Withdrawal, memory: Any, now: float
    ) -> ReleaseStep | None:
        step = find_first_step(pool, withdrawal, memory=memory, now=now)
        if step is not None and step.write is ReleaseWrite.DRAIN:
            return ReleaseStep(NotYet("not drained"), ReleaseWrite.EMPTY)
        return step

    patch.setattr(release, "_decide_before_own_write", find_step_without_drain)


def ignore_used_count(patch: pytest.MonkeyPatch) -> None:
    """Ignore how many addresses of a range the operator counts as used."""
    decide_acknowledged = release._decide_acknowledged

    def decide_without_count(*arguments: Any, is_confirmed: bool) -> ReleaseStep:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(release, "read_count", lambda pool, kind: 0)
            return decide_acknowledged(*arguments, is_confirmed=is_confirmed)

    patch.setattr(release, "_decide_acknowledged", decide_without_count)


def accept_one_acknowledgement(patch: pytest.MonkeyPatch) -> None:
    """Release a range after one acknowledgement of its empty pool."""
    patch.setattr(ReleaseMemory, "note_acknowledgement", lambda self: True)


def accept_any_writer(patch: pytest.MonkeyPatch) -> None:
    """Accept an acknowledgement of a generation that the check itself did not write."""
    patch.setattr(ReleaseMemory, "is_own_write", lambda self, pool: True)


def skip_wait_for_other_leaders(patch: pytest.MonkeyPatch) -> None:
    """Release a range at once though a Service of its pool had a sharing key."""
    patch.setattr(release, "_decide_after_sharing", lambda *_: ReleaseStep(Proven()))


def skip_takeover_check(patch: pytest.MonkeyPatch) -> None:
    """Ignore when the operator's leader took its Lease."""
    patch.setattr(adapter, "judge_takeover", lambda *_: Proven())


def believe_silence(patch: pytest.MonkeyPatch) -> None:
    """Release a range at once if the operator shows nothing about its pool."""
    patch.setattr(release, "Unprovable", lambda *_, **__: Proven())


def believe_missing_kinds(patch: pytest.MonkeyPatch) -> None:
    """Release a range at once if the tenant does not serve Cilium's kinds."""
    patch.setattr(adapter, "Unprovable", lambda *_, **__: Proven())
