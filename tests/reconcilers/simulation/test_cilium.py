"""The tenants' simulation with Cilium's adapter and a stand-in for LB-IPAM.

Rules of the adapter are switched off one by one, and a scene then gives an address away. A release
also needs a second acknowledgement, and another leader where Services share an address. These are
about an operator that the simulation does not play: loadbalancers/cilium has a test of each.
"""

from collections.abc import Callable, Mapping
from functools import partial
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
from tests.reconcilers import make
from tests.reconcilers.lbipam import POOLS
from tests.reconcilers.simulation import tenantscenes as scenes
from tests.reconcilers.simulation.ciliumtenancy import CiliumTenancy, CiliumYard
from tests.reconcilers.simulation.seeds import PARTS, SEEDS, check_part, tenant_faults
from tests.reconcilers.simulation.switch import check_scene
from tests.reconcilers.simulation.tenancy import Faults
from tests.reconcilers.simulation.tenantscenes import Scene, Yard, nothing

GIVEN = "may be given away"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@tenant_faults
def test_no_address_is_offered_wrongly_and_every_one_is_released(
    faults: Faults, options: str, part: int
) -> None:
    model = partial(CiliumTenancy, faults=faults)
    check_part(model, SEEDS // 4, part=part, again=f"cilium {{}} {options}")


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


async def late_fill(yard: Yard) -> str | None:
    """The ranges of a new pool are on their way while the other replica releases them."""
    await yard.project(yard.one)
    yard.hold_range("team-a-lb-1", scenes.SECOND)
    await yard.project(yard.one, scenes.write_of_pool("PATCH"))
    yard.server.delete("ipallocations", "team-a-lb-1")
    await release_range(yard)
    await yard.arrive()
    return yard.verdict()


async def added_by_a_person(yard: Yard) -> str | None:
    """A person has a pool with the range, which Cilium does not use while ours is there."""
    yard.hold_range("team-a-lb-1", scenes.SECOND)
    await yard.project(yard.one)
    blocks = [{"start": scenes.SECOND, "stop": scenes.SECOND}]
    yard.tenants["a"].add(POOLS, {"metadata": {"name": "theirs"}, "spec": {"blocks": blocks}})
    yard.server.delete("ipallocations", "team-a-lb-1")
    await release_range(yard)
    return yard.verdict()


async def release_range(yard: Yard) -> None:
    """Let the other replica check a deleted allocation until it waits for nothing of its own."""
    for _ in range(8):
        await yard.work(
            yard.other, yard.other.allocations, key=make.key("team-a-lb-1"), late=nothing
        )
        await yard.clock.advance(1)


SCENES: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None], Scene]] = {
    "empty": ("a pool is created empty", created_with_ranges, scenes.late_creation),
    "confirm": (
        "and filled with what a live read shows",
        filled_unconfirmed,
        scenes.late_creation_waited_for,
    ),
    "version": ("a write is for the pool as it was read", patched_blindly, late_fill),
    "acknowledged": (
        "out means acknowledged in the generation that was written",
        any_generation_counts,
        scenes.read_before_a_pause,
    ),
    "others": (
        "no other pool has an address of the range",
        other_pools_not_looked_at,
        added_by_a_person,
    ),
}


@pytest.mark.parametrize("name", SCENES)
def test_without_a_rule_the_scene_ends_badly_and_with_it_well(name: str) -> None:
    rule, off, scene = SCENES[name]
    check_scene(off, lambda: scenes.play_scene(scene, CiliumYard), sign=GIVEN, rule=rule)
