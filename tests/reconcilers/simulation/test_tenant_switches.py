"""Each rule of giving back, switched off: the simulation of tenants must notice.

What each switch does is told by functions in tenantrules.py. As with the pools, most are missed in
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
from tests.reconcilers.simulation.switch import Switch, check, check_scene
from tests.reconcilers.simulation.tenancy import FORCE, WAITING, Faults, Tenancy
from tests.reconcilers.simulation.tenantscenes import Scene, play_scene

_STORM = Faults(calm=False)
GIVEN, REST = "may be given away", "it did not come to rest"

SWITCHES = {
    "gate": Switch("the finalizer goes last", rules.open_gate, sign=GIVEN, plan=_STORM, seed=12),
    "mark": Switch(
        "what is marked is not projected", rules.marks_projected, sign=REST, plan=Faults(), seed=26
    ),
    "look": Switch(
        "out means not in the pool", rules.pool_not_looked_at, sign=GIVEN, plan=_STORM, seed=19
    ),
    "silence": Switch(
        "who does not answer holds on", rules.silence_is_consent, sign=GIVEN, plan=_STORM, seed=12
    ),
    "begun": Switch(
        "a projection is recorded before it begins",
        rules.begun_not_recorded,
        sign=GIVEN,
        plan=_STORM,
        seed=12,
    ),
    "departed": Switch(
        "a tenant outlives its cluster",
        rules.gone_is_torn_down,
        sign=GIVEN,
        plan=replace(FORCE, calm=False),
        seed=356,
    ),
    "elapsed": Switch(
        "a wait that has elapsed stays so",
        rules.waits_consumed,
        sign="still asks the management cluster",
        plan=WAITING,
        seed=2,
    ),
    "shrink": Switch(
        "shrink asks before it takes", rules.deleted_unmarked, sign=GIVEN, plan=_STORM, seed=12
    ),
}

SCENES: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None], Scene, str]] = {
    "refuse": (
        "an older view does not overwrite a newer",
        rules.older_views_written,
        scenes.old_view,
        GIVEN,
    ),
    "version": (
        "a projection is for the pool as it was read",
        rules.applied_blindly,
        scenes.late_projection,
        GIVEN,
    ),
    "position": (
        "the basis is what was read, not written",
        rules.basis_of_own_answers,
        scenes.old_view_of_one_who_wrote,
        GIVEN,
    ),
    "basis": (
        "out means written since the mark",
        rules.any_basis,
        scenes.taken_back_before_it_was_projected,
        GIVEN,
    ),
    "empty": ("a pool is created empty", rules.created_with_ranges, scenes.late_creation, GIVEN),
    "confirm": (
        "and filled with what is so now",
        rules.filled_unconfirmed,
        scenes.late_creation_waited_for,
        GIVEN,
    ),
    "absence": (
        "only NotFound says that there is no tenant",
        rules.failure_is_absence,
        scenes.secret_without_answer,
        GIVEN,
    ),
    "uptake": (
        "out means out of what MetalLB has read",
        rules.uptake_not_waited_for,
        scenes.read_before_a_pause,
        GIVEN,
    ),
    "services": (
        "nor on a Service",
        rules.services_not_looked_at,
        scenes.still_shown_by_a_service,
        GIVEN,
    ),
    "families": (
        "no range is free while the tenant has any of both",
        rules.first_family_asked_for,
        scenes.in_use_by_its_second_family,
        GIVEN,
    ),
    "withdraw": (
        "shrink leaves what is in use",
        rules.marks_stay,
        scenes.in_use_again,
        "on its way out for ever",
    ),
    "lost": (
        "shrink leaves what a Service took as it was taken out",
        rules.losses_unseen,
        scenes.taken_as_it_left,
        "a Service lost its address",
    ),
    "delete": (
        "a pool is deleted as it was read",
        rules.pools_deleted_blindly,
        scenes.late_withdrawal,
        "the tenant lost",
    ),
}


@pytest.mark.parametrize("rule", SWITCHES)
def test_without_a_rule_the_simulation_fails_and_with_it_the_same_seed_is_clean(
    rule: str, record_property: Note
) -> None:
    switch = SWITCHES[rule]
    check(switch, lambda seed: Tenancy(seed, switch.plan).play(), record_property)


@pytest.mark.parametrize("name", SCENES)
def test_without_a_rule_the_scene_ends_badly_and_with_it_well(name: str) -> None:
    rule, off, scene, sign = SCENES[name]
    check_scene(off, lambda: play_scene(scene), sign=sign, rule=rule)
