"""The tenants' simulation with Cilium's adapter and a stand-in for LB-IPAM.

Rules of the adapter are switched off one by one, and a scene then gives an address away. A release
also needs a second acknowledgement, and another leader where Services share an address. These are
about an operator that the simulation does not play: loadbalancers/cilium has a test of each.
"""

from collections.abc import Callable
from functools import partial

import pytest

from tests.reconcilers.simulation import ciliumrules as rules
from tests.reconcilers.simulation import ciliumscenes, tenantscenes
from tests.reconcilers.simulation.ciliumtenancy import CiliumTenancy, CiliumYard
from tests.reconcilers.simulation.seeds import PARTS, SEEDS, check_part, tenant_faults
from tests.reconcilers.simulation.switch import check_scene
from tests.reconcilers.simulation.tenancy import Faults
from tests.reconcilers.simulation.tenantscenes import Scene

GIVEN = "may be given away"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@tenant_faults
def test_no_address_is_offered_wrongly_and_every_one_is_released(
    faults: Faults, options: str, part: int
) -> None:
    model = partial(CiliumTenancy, faults=faults)
    check_part(model, SEEDS // 4, part=part, again=f"cilium {{}} {options}")


SCENES: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None], Scene]] = {
    "empty": ("a pool is created empty", rules.created_with_ranges, tenantscenes.late_creation),
    "confirm": (
        "and filled with what a live read shows",
        rules.filled_unconfirmed,
        tenantscenes.late_creation_waited_for,
    ),
    "version": (
        "a write is for the pool as it was read",
        rules.patched_blindly,
        ciliumscenes.late_fill,
    ),
    "acknowledged": (
        "out means acknowledged in the generation that was written",
        rules.any_generation_counts,
        tenantscenes.read_before_a_pause,
    ),
    "others": (
        "no other pool has an address of the range",
        rules.other_pools_not_looked_at,
        ciliumscenes.added_by_a_person,
    ),
}


@pytest.mark.parametrize("name", SCENES)
def test_without_a_rule_the_scene_ends_badly_and_with_it_well(name: str) -> None:
    rule, off, scene = SCENES[name]
    check_scene(off, lambda: tenantscenes.play_scene(scene, CiliumYard), sign=GIVEN, rule=rule)
