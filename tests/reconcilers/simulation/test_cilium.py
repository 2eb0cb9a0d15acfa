"""The tenants' simulation with Cilium's adapter and a stand-in for LB-IPAM."""

from collections.abc import Mapping
from functools import partial

import pytest

from reconcilers.loadbalancers.cilium.pools import CiliumPool, annotations_of, body_of
from reconcilers.loadbalancers.cilium.projection import PoolProjection, spans_of_ranges
from reconcilers.loadbalancers.port import Confirm, ProjectedRanges, Projection
from tests.reconcilers.simulation import tenantscenes as scenes
from tests.reconcilers.simulation.ciliumtenancy import CiliumTenancy, CiliumYard
from tests.reconcilers.simulation.seeds import PARTS, SEEDS, check_part, tenant_faults
from tests.reconcilers.simulation.switch import check_scene
from tests.reconcilers.simulation.tenancy import Faults

GIVEN = "may be given away"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@tenant_faults
def test_no_address_is_offered_wrongly_and_every_one_is_released(
    faults: Faults, options: str, part: int
) -> None:
    model = partial(CiliumTenancy, faults=faults)
    check_part(model, SEEDS // 4, part, f"cilium {{}} {options}")


def test_a_pool_is_created_empty_and_filled_later() -> None:
    async def create(
        self: PoolProjection, name: str, ranges: ProjectedRanges, projection: Projection
    ) -> CiliumPool:
        annotations = annotations_of(projection.basis, projection.owner, ranges.allocation.uid)
        spec = {"blocks": body_of(spans_of_ranges(ranges)), "disabled": False}
        return await self._pools.create(name, annotations, spec)

    def switch_off(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(PoolProjection, "_create", create)

    scene = scenes.late_creation
    check_scene(switch_off, lambda: scenes.play_scene(scene, CiliumYard), GIVEN)


def test_the_ranges_of_a_new_pool_are_confirmed_live() -> None:
    async def confirm_unread(
        pools: Mapping[str, CiliumPool],
        by_name: Mapping[str, ProjectedRanges],
        projection: Projection,
        confirm: Confirm,
    ) -> Projection:
        return projection

    def switch_off(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(PoolProjection, "_confirm_projection", staticmethod(confirm_unread))

    scene = scenes.late_creation_waited_for
    check_scene(switch_off, lambda: scenes.play_scene(scene, CiliumYard), GIVEN)
