"""Each rule of giving back, switched off: the simulation of tenants must notice.

The functions in tenantrules.py switch the rules off. As with the pools, most are missed in
a storm, from a seed that is noted here; where that takes too many seeds, a scene plays what it
takes on the same replicas and servers: those of SCENES. That a MetalLB which was removed
is given a while, the grace of a deleted cluster, the annotation that releases anyway, and
whose allocations are orphans, are about giving back at all: networkpool/test_orphans.py and
tenantcluster/release/test_check.py hold each of them to its rule.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.numbers import Note
from tests.reconcilers.simulation import tenantrules as rules
from tests.reconcilers.simulation import tenantscenes as scenes
from tests.reconcilers.simulation.switch import Switch, check_scene, check_switch
from tests.reconcilers.simulation.tenancy import FORCE, WAITING, Faults, Tenancy
from tests.reconcilers.simulation.tenantscenes import Scene, play_scene

_STORM = Faults(calm=False)
GIVEN, REST = "may be given away", "it did not come to rest"

SWITCHES = {
    "gate": Switch(
        "the finalizer is removed last", rules.skip_release_check, sign=GIVEN, plan=_STORM, seed=12
    ),
    "mark": Switch(
        "a range that is marked for release is not projected",
        rules.project_marked_ranges,
        sign=REST,
        plan=Faults(),
        seed=26,
    ),
    "look": Switch(
        "a range is released only if it is not in the tenant's pool",
        rules.skip_pool_check,
        sign=GIVEN,
        plan=_STORM,
        seed=19,
    ),
    "silence": Switch(
        "a tenant that does not answer keeps its ranges",
        rules.release_without_answer,
        sign=GIVEN,
        plan=_STORM,
        seed=12,
    ),
    "record": Switch(
        "a projection is recorded before it begins",
        rules.skip_record_of_projection,
        sign=GIVEN,
        plan=_STORM,
        seed=12,
    ),
    "departed": Switch(
        "a tenant keeps its ranges when its cluster has vanished",
        rules.ignore_vanished_clusters,
        sign=GIVEN,
        plan=replace(FORCE, calm=False),
        seed=356,
    ),
    "elapsed": Switch(
        "a wait that has elapsed is not restarted",
        rules.restart_elapsed_waits,
        sign="still asks the management cluster",
        plan=WAITING,
        seed=2,
    ),
    "shrink": Switch(
        "shrink checks the tenant before it deletes an allocation",
        rules.delete_unmarked,
        sign=GIVEN,
        plan=_STORM,
        seed=12,
    ),
}

SCENES: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None], Scene, str]] = {
    "refuse": (
        "an older view does not overwrite a newer one",
        rules.write_older_projections,
        scenes.project_old_view,
        GIVEN,
    ),
    "version": (
        "a projection is written at the version of the pool that was read",
        rules.apply_at_any_version,
        scenes.late_projection,
        GIVEN,
    ),
    "position": (
        "the basis is the revision that was read, not one that was written",
        rules.move_basis_by_own_answers,
        scenes.project_old_view_after_own_write,
        GIVEN,
    ),
    "basis": (
        "a range is released only if its pool was written since the mark",
        rules.accept_any_basis,
        scenes.release_before_projection,
        GIVEN,
    ),
    "empty": (
        "a pool is created empty",
        rules.create_with_ranges,
        scenes.release_during_creation,
        GIVEN,
    ),
    "confirm": (
        "a new pool is filled with what a live read shows",
        rules.fill_by_cache,
        scenes.release_during_awaited_creation,
        GIVEN,
    ),
    "absence": (
        "only NotFound proves that there is no tenant",
        rules.treat_failed_read_as_absence,
        scenes.release_without_readable_secret,
        GIVEN,
    ),
    "uptake": (
        "a range is released only if MetalLB has read that it is withdrawn",
        rules.skip_uptake_check,
        scenes.release_during_pause,
        GIVEN,
    ),
    "services": (
        "a range is released only if no Service shows an address of it",
        rules.skip_service_check,
        scenes.release_shown_address,
        GIVEN,
    ),
    "families": (
        "no range is free while the tenant has the range of either family",
        rules.check_first_family_only,
        scenes.release_used_second_family,
        GIVEN,
    ),
    "withdraw": (
        "shrink keeps a range that is in use",
        rules.keep_marks,
        scenes.use_marked_address,
        "on its way out for ever",
    ),
    "lost": (
        "shrink keeps a range of which a Service took an address during the withdrawal",
        rules.ignore_losses,
        scenes.use_address_during_withdrawal,
        "a Service lost its address",
    ),
    "delete": (
        "a pool is deleted at the version that was read",
        rules.delete_at_any_version,
        scenes.delete_pool_late,
        "the tenant lost",
    ),
}


@pytest.mark.parametrize("rule", SWITCHES)
def test_without_a_rule_the_simulation_fails_and_with_it_the_same_seed_is_clean(
    rule: str, record_property: Note
) -> None:
    switch = SWITCHES[rule]
    check_switch(switch, lambda seed: Tenancy(seed, switch.plan).play(), record_property)


@pytest.mark.parametrize("name", SCENES)
def test_without_a_rule_the_scene_ends_badly_and_with_it_well(name: str) -> None:
    rule, off, scene, sign = SCENES[name]
    check_scene(off, lambda: play_scene(scene), sign=sign, rule=rule)
