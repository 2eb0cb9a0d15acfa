"""How each rule of Cilium's adapter is switched off."""

from collections.abc import Mapping
from typing import Any

import pytest

from reconcilers.loadbalancers.cilium import release
from reconcilers.loadbalancers.cilium.poolclient import PoolClient
from reconcilers.loadbalancers.cilium.pools import (
    IPS_TOTAL,
    CiliumPool,
    annotations_of,
    body_of,
    condition,
)
from reconcilers.loadbalancers.cilium.projection import PoolProjection, spans_of_ranges
from reconcilers.loadbalancers.port import Confirm, ProjectedRanges, Projection


def created_with_ranges(patch: pytest.MonkeyPatch) -> None:
    async def create(
        self: PoolProjection, name: str, ranges: ProjectedRanges, projection: Projection
    ) -> CiliumPool:
        annotations = annotations_of(projection.basis, projection.owner, ranges.allocation.uid)
        spec = {"blocks": body_of(spans_of_ranges(ranges)), "disabled": False}
        return await self._pools.create(name, annotations, spec)

    patch.setattr(PoolProjection, "_create", create)


def filled_unconfirmed(patch: pytest.MonkeyPatch) -> None:
    async def confirm_unread(
        pools: Mapping[str, CiliumPool],
        by_name: Mapping[str, ProjectedRanges],
        projection: Projection,
        confirm: Confirm,
    ) -> Projection:
        return projection

    patch.setattr(PoolProjection, "_confirm_projection", staticmethod(confirm_unread))


def patched_blindly(patch: pytest.MonkeyPatch) -> None:
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
    def has_total(pool: CiliumPool) -> bool:
        return condition(pool, IPS_TOTAL) is not None

    patch.setattr(release, "is_acknowledged", has_total)
    patch.setattr(release, "count", lambda pool, kind: 0)


def other_pools_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(release, "overlaps_any", lambda pool, spans: False)
