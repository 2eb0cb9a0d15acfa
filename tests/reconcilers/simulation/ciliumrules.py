"""How each rule of Cilium's adapter is switched off."""

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


def created_with_ranges(patch: pytest.MonkeyPatch) -> None:
    """A pool is created with its ranges at once."""

    async def create(
        self: PoolProjection, name: str, ranges: ProjectedRanges, projection: Projection
    ) -> CiliumPool:
        annotations = make_annotations(projection.basis, projection.owner, ranges.allocation.uid)
        spec = {"blocks": make_blocks(parse_ranges(ranges)), "disabled": False}
        return await self._pools.create(name, annotations, spec)

    patch.setattr(PoolProjection, "_create", create)


def filled_unconfirmed(patch: pytest.MonkeyPatch) -> None:
    """An empty pool is filled with what the cache says."""

    async def confirm_unread(
        pools: Mapping[str, CiliumPool],
        by_name: Mapping[str, ProjectedRanges],
        projection: Projection,
        confirm: Confirm,
    ) -> Projection:
        return projection

    patch.setattr(PoolProjection, "_confirm_projection", staticmethod(confirm_unread))


def patched_blindly(patch: pytest.MonkeyPatch) -> None:
    """A pool is written whatever it has become."""

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


def any_generation_counts(patch: pytest.MonkeyPatch) -> None:
    """A pool that was ever counted is acknowledged, and no address of it is in use."""

    def has_total(pool: CiliumPool) -> bool:
        return find_condition(pool, IPS_TOTAL) is not None

    patch.setattr(release, "is_acknowledged", has_total)
    patch.setattr(release, "read_count", lambda pool, kind: 0)


def other_pools_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    """No check looks for the range in other pools."""
    patch.setattr(release, "overlaps_any", lambda pool, spans: False)


def changes_not_judged(patch: pytest.MonkeyPatch) -> None:
    """A write that was refused is repeated whatever has changed."""
    patch.setattr(poolclient, "_list_judged_parts", lambda pool: ())


def any_basis_counts(patch: pytest.MonkeyPatch) -> None:
    """A pool need not have been written since the mark."""
    patch.setattr(release, "read_basis", lambda pool: 10**9)


def older_views_written(patch: pytest.MonkeyPatch) -> None:
    """An older view is written over a newer one."""
    patch.setattr(projection, "_require_newest", lambda pool, intended: None)


def edits_of_deleted_kept(patch: pytest.MonkeyPatch) -> None:
    """The pool of a deleted allocation keeps whatever a person has written to it."""

    async def restore(
        self: PoolProjection,
        pool: CiliumPool,
        ranges: ProjectedRanges,
        intended: Projection,
        *,
        is_disabled: bool = False,
    ) -> bool:
        if not is_disabled:
            return await restore_any(self, pool, ranges, intended)
        if not pool.spec.disabled:
            uid = ranges.allocation.uid
            await self._patch(pool, {"disabled": True}, projection=intended, uid=uid)
        return pool.spec.disabled

    restore_any = PoolProjection._ensure_intended
    patch.setattr(PoolProjection, "_ensure_intended", restore)


def emptied_without_drain(patch: pytest.MonkeyPatch) -> None:
    """A pool is emptied though it was not disabled before."""
    find_first_step = release._decide_before_own_write

    def find_hasty_step(
        pool: CiliumPool, withdrawal: Withdrawal, memory: Any, now: float
    ) -> ReleaseStep | None:
        step = find_first_step(pool, withdrawal, memory=memory, now=now)
        if step is not None and step.write is ReleaseWrite.DRAIN:
            return ReleaseStep(NotYet("not drained"), ReleaseWrite.EMPTY)
        return step

    patch.setattr(release, "_decide_before_own_write", find_hasty_step)


def used_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    """No check looks how many addresses of a range the operator counts as used."""
    step_acknowledged = release._decide_acknowledged

    def step_hastily(*arguments: Any, is_confirmed: bool) -> ReleaseStep:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(release, "read_count", lambda pool, kind: 0)
            return step_acknowledged(*arguments, is_confirmed=is_confirmed)

    patch.setattr(release, "_decide_acknowledged", step_hastily)


def one_acknowledgement_counts(patch: pytest.MonkeyPatch) -> None:
    """One acknowledgement of an empty pool is enough."""
    patch.setattr(ReleaseMemory, "note_acknowledged", lambda self: True)


def any_writer_counts(patch: pytest.MonkeyPatch) -> None:
    """An acknowledgement counts whoever wrote the generation."""
    patch.setattr(ReleaseMemory, "is_own", lambda self, pool: True)


def any_leader_counts(patch: pytest.MonkeyPatch) -> None:
    """No other leader is waited for where a Service had a sharing key."""
    patch.setattr(release, "_decide_after_sharing", lambda *_: ReleaseStep(Proven()))


def takeovers_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    """No check looks when the leader took its Lease."""
    patch.setattr(adapter, "judge_takeover", lambda *_: Proven())


def silence_is_proof(patch: pytest.MonkeyPatch) -> None:
    """What an operator does not show counts as out at once."""
    patch.setattr(release, "Unprovable", lambda *_, **__: Proven())


def missing_kinds_are_proof(patch: pytest.MonkeyPatch) -> None:
    """A tenant that does not serve the kinds hands out nothing."""
    patch.setattr(adapter, "Unprovable", lambda *_, **__: Proven())
