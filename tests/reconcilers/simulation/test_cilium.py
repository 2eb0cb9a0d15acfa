"""The tenants' simulation with Cilium's adapter and a stand-in for LB-IPAM.

Rules of the adapter are switched off one by one, and a scene then gives an address away.
"""

from collections.abc import Callable
from functools import partial

import pytest

from tests.numbers import Note
from tests.reconcilers.simulation import ciliumrules as rules
from tests.reconcilers.simulation import ciliumscenes, tenantscenes
from tests.reconcilers.simulation.ciliumtenancy import (
    CiliumTenancy,
    CiliumYard,
    WaitingYard,
)
from tests.reconcilers.simulation.seeds import PARTS, SEEDS, check_part, tenant_faults
from tests.reconcilers.simulation.switch import Switch, check, check_scene
from tests.reconcilers.simulation.tenancy import EDITED, Faults
from tests.reconcilers.simulation.tenantrules import basis_of_own_answers
from tests.reconcilers.simulation.tenantscenes import Scene

GIVEN = "may be given away"
Rule = tuple[str, Callable[[pytest.MonkeyPatch], None], Scene]
"""In a sentence, how it is switched off, and what happens then."""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@tenant_faults
def test_no_address_is_offered_wrongly_and_every_one_is_released(
    faults: Faults, options: str, part: int
) -> None:
    model = partial(CiliumTenancy, faults=faults)
    check_part(model, SEEDS // 4, part=part, again=f"cilium {{}} {options}")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_edit_of_a_pool_gives_an_address_away_or_keeps_one(part: int) -> None:
    model = partial(CiliumTenancy, faults=EDITED)
    check_part(model, SEEDS // 4, part=part, again="cilium {} --edits")


def test_without_the_repair_of_a_deleted_pool_an_edit_keeps_its_addresses(
    record_property: Note,
) -> None:
    repair = Switch(
        "edits of the pool of a deleted allocation are undone",
        rules.edits_of_deleted_kept,
        sign="on its way out for ever",
        plan=EDITED,
        seed=5,
    )
    check(repair, lambda seed: CiliumTenancy(seed, EDITED).play(), record_property)


SCENES: dict[str, Rule] = {
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
    "judged": (
        "and is repeated only if nothing but its counts has changed",
        rules.changes_not_judged,
        ciliumscenes.late_fill_waited_for,
    ),
    "basis": (
        "out means written since the mark",
        rules.any_basis_counts,
        ciliumscenes.late_fill_of_a_range_marked_again,
    ),
    "refuse leftovers": (
        "an older view takes no newer pool for a leftover",
        rules.older_views_written,
        ciliumscenes.taken_for_a_leftover,
    ),
    "refuse ranges": (
        "an older view does not overwrite the ranges of a newer one",
        rules.older_views_written,
        ciliumscenes.ranges_edited_by_a_person,
    ),
    "position": (
        "the basis is what was read, not written",
        basis_of_own_answers,
        ciliumscenes.taken_for_a_leftover_by_one_who_wrote,
    ),
    "drain": (
        "a pool is drained before it is emptied",
        rules.emptied_without_drain,
        ciliumscenes.used_after_the_look,
    ),
    "used": (
        "a pool is emptied when nothing of it is counted as used",
        rules.used_not_looked_at,
        ciliumscenes.used_without_being_shown,
    ),
    "twice": (
        "one acknowledgement may be of a deleted pool of that name",
        rules.one_acknowledgement_counts,
        ciliumscenes.status_of_a_deleted_pool,
    ),
    "own": (
        "and counts if the check itself has written the generation",
        rules.any_writer_counts,
        ciliumscenes.status_of_the_pool_before,
    ),
    "others": (
        "no other pool has an address of the range",
        rules.other_pools_not_looked_at,
        ciliumscenes.added_by_a_person,
    ),
}


WAITING_SCENES: dict[str, Rule] = {
    "keyed": (
        "another leader is waited for where a Service may have shared an address",
        rules.any_leader_counts,
        ciliumscenes.emptied_by_a_person,
    ),
    "takeover": (
        "a leader that may stand still is given a while",
        rules.takeovers_not_looked_at,
        ciliumscenes.frozen_while_another_leads,
    ),
    "hidden": (
        "so is one whose Lease may not be read",
        rules.silence_is_proof,
        ciliumscenes.frozen_while_a_hidden_one_leads,
    ),
    "not served": (
        "kinds that are gone prove nothing",
        rules.missing_kinds_are_proof,
        ciliumscenes.kinds_removed,
    ),
    "missing": (
        "nor does a pool that is gone",
        rules.silence_is_proof,
        ciliumscenes.pools_deleted_by_a_person,
    ),
    "silent": (
        "nor does an operator that has never counted",
        rules.silence_is_proof,
        ciliumscenes.nothing_counted,
    ),
}


@pytest.mark.parametrize("name", SCENES)
def test_without_a_rule_the_scene_ends_badly_and_with_it_well(name: str) -> None:
    rule, off, scene = SCENES[name]
    check_scene(off, lambda: tenantscenes.play_scene(scene, CiliumYard), sign=GIVEN, rule=rule)


@pytest.mark.parametrize("name", WAITING_SCENES)
def test_without_a_rule_about_what_cannot_be_seen_the_scene_ends_badly(name: str) -> None:
    rule, off, scene = WAITING_SCENES[name]
    check_scene(off, lambda: tenantscenes.play_scene(scene, WaitingYard), sign=GIVEN, rule=rule)
