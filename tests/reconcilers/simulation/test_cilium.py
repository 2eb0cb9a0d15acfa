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
from tests.reconcilers.simulation.switch import Switch, check_scene, check_switch
from tests.reconcilers.simulation.tenancy import EDITED, Faults
from tests.reconcilers.simulation.tenantrules import move_basis_by_own_answers
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
def test_edits_of_pools_neither_misplace_an_address_nor_block_its_release(part: int) -> None:
    model = partial(CiliumTenancy, faults=EDITED)
    check_part(model, SEEDS // 4, part=part, again="cilium {} --edits")


def test_without_the_repair_of_a_deleted_pool_an_edit_blocks_its_release(
    record_property: Note,
) -> None:
    repair = Switch(
        "edits of the pool of a deleted allocation are undone",
        rules.keep_edits_of_deleted,
        sign="on its way out for ever",
        plan=EDITED,
        seed=5,
    )
    check_switch(repair, lambda seed: CiliumTenancy(seed, EDITED).play(), record_property)


SCENES: dict[str, Rule] = {
    "empty": (
        "a pool is created empty",
        rules.create_with_ranges,
        tenantscenes.release_during_creation,
    ),
    "confirm": (
        "a new pool is filled with what a live read shows",
        rules.fill_by_cache,
        tenantscenes.release_during_awaited_creation,
    ),
    "version": (
        "a pool is written at the version that was read",
        rules.patch_pools_at_any_version,
        ciliumscenes.release_during_fill,
    ),
    "acknowledged": (
        "a range is released only if the written generation is acknowledged",
        rules.accept_any_generation,
        tenantscenes.release_during_pause,
    ),
    "judged": (
        "a refused write is repeated only if nothing but counts has changed",
        rules.repeat_any_refused_write,
        ciliumscenes.release_during_awaited_fill,
    ),
    "basis": (
        "a range is released only if its pool was written since the mark",
        rules.accept_any_basis,
        ciliumscenes.fill_range_marked_again,
    ),
    "refuse leftovers": (
        "an older view does not empty a newer pool",
        rules.write_older_projections,
        ciliumscenes.empty_unread_pool,
    ),
    "refuse ranges": (
        "an older view does not overwrite the ranges of a newer one",
        rules.write_older_projections,
        ciliumscenes.project_ranges_before_edit,
    ),
    "position": (
        "the basis is the revision that was read, not one that was written",
        move_basis_by_own_answers,
        ciliumscenes.empty_unread_pool_after_own_write,
    ),
    "drain": (
        "a pool is drained before it is emptied",
        rules.empty_without_drain,
        ciliumscenes.use_address_after_check,
    ),
    "used": (
        "a pool is emptied when nothing of it is counted as used",
        rules.ignore_used_count,
        ciliumscenes.use_address_without_status,
    ),
    "twice": (
        "two acknowledgements are needed: one may be of a deleted pool of that name",
        rules.accept_one_acknowledgement,
        ciliumscenes.acknowledge_by_deleted_pool,
    ),
    "own": (
        "an acknowledgement counts only if the check has written the generation",
        rules.accept_any_writer,
        ciliumscenes.acknowledge_by_former_pool,
    ),
    "others": (
        "no other pool has an address of the range",
        rules.skip_other_pools,
        ciliumscenes.release_address_in_foreign_pool,
    ),
}


WAITING_SCENES: dict[str, Rule] = {
    "keyed": (
        "another leader is waited for where a Service may have shared an address",
        rules.skip_wait_for_other_leaders,
        ciliumscenes.empty_used_pool,
    ),
    "takeover": (
        "a former leader that may stand still is waited for",
        rules.skip_takeover_check,
        ciliumscenes.freeze_leader,
    ),
    "hidden": (
        "a leader whose Lease cannot be read is waited for",
        rules.believe_silence,
        ciliumscenes.freeze_hidden_leader,
    ),
    "not served": (
        "kinds that are gone prove nothing",
        rules.believe_missing_kinds,
        ciliumscenes.remove_kinds,
    ),
    "missing": (
        "a pool that is gone proves nothing",
        rules.believe_silence,
        ciliumscenes.delete_pools,
    ),
    "silent": (
        "an operator that has never counted proves nothing",
        rules.believe_silence,
        ciliumscenes.lose_counts,
    ),
}


@pytest.mark.parametrize("name", SCENES)
def test_without_a_rule_the_scene_ends_badly_and_with_it_well(name: str) -> None:
    rule, off, scene = SCENES[name]
    check_scene(off, lambda: tenantscenes.play_scene(scene, CiliumYard), sign=GIVEN, rule=rule)


@pytest.mark.parametrize("name", WAITING_SCENES)
def test_without_a_rule_about_invisible_state_the_scene_ends_badly(name: str) -> None:
    rule, off, scene = WAITING_SCENES[name]
    check_scene(off, lambda: tenantscenes.play_scene(scene, WaitingYard), sign=GIVEN, rule=rule)
