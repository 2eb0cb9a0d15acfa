"""Claims and allocations of one NetworkPool never have one address, from seeds and in scenes."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.numbers import Note
from tests.reconcilers.simulation import sharedrules as rules
from tests.reconcilers.simulation import sharedscenes as scenes
from tests.reconcilers.simulation.chaos import Run
from tests.reconcilers.simulation.claimrules import (
    settle_before_addresses_are_read,
)
from tests.reconcilers.simulation.plans import STEADILY_SWITCHED, SWITCHED, Plan
from tests.reconcilers.simulation.seeds import PARTS, SEEDS, check_part, sharded_integration_plans
from tests.reconcilers.simulation.sharedpools import SharedPools
from tests.reconcilers.simulation.stage import Scene, play_scene
from tests.reconcilers.simulation.switch import Switch, check_scene, check_switch

SCENES = {
    "a lost journal is fenced before allocations are served": (
        rules.skip_fence_of_claims,
        scenes.claim_written_late_after_loss_of_memory,
    ),
    "a lost journal of a paused pool is fenced before allocations are served": (
        rules.skip_fence_during_pause,
        scenes.claim_written_late_after_a_paused_pool_lost_its_memory,
    ),
    "an address that an allocation has is not adopted": (
        rules.adopt_allocated_addresses,
        scenes.address_made_by_hand_that_an_allocation_has,
    ),
    "an address that is promised to an allocation is not given to a claim": (
        rules.forget_promises_to_allocations,
        scenes.allocation_promised_while_a_claim_is_served,
    ),
    "an address that is promised to a claim is not given to an allocation": (
        rules.forget_promises_to_claims,
        scenes.claim_promised_while_an_allocation_is_served,
    ),
    "an address that is promised to a claim is kept until the kinds of claims are discovered": (
        rules.forget_promises_to_claims,
        scenes.claim_promised_before_its_kinds_are_seen,
    ),
    "addresses of claims are kept until the kinds of claims are discovered": (
        rules.believe_absence_at_once,
        scenes.claim_served_before_its_kinds_are_seen,
    ),
    "addresses of claims are not given to allocations": (
        rules.ignore_claims,
        scenes.claim_served_before_an_allocation_asks,
    ),
    "claims are read as far as the journal says": (
        rules.believe_lagging_claims,
        scenes.claim_loses_its_ipaddress_while_claims_lag,
    ),
    "a fence of one kind keeps the promises to the other": (
        rules.drop_all_promises_in_fence,
        scenes.fence_of_claims_while_an_allocation_is_promised,
    ),
    "addresses of claims are kept though one of their definitions is missing": (
        rules.treat_incomplete_as_absent,
        scenes.definition_missing_while_an_ipaddress_exists,
    ),
    "addresses of claims are kept though the integration is off": (
        rules.ignore_entry_without_integration,
        scenes.integration_off_after_a_claim_was_served,
    ),
    "a journal that was written for another uid is lost": (
        rules.believe_journals_of_any_uid,
        scenes.claim_written_late_after_a_restore_to_a_new_uid,
    ),
    "a claim and an allocation of one name are two holders": (
        rules.settle_promises_by_key,
        scenes.claim_and_allocation_of_one_name,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@sharded_integration_plans
def test_claims_and_allocations_of_one_pool_never_share_an_address_and_what_fits_is_served(
    plan: Plan, share: int, options: str, part: int
) -> None:
    again = f"shared {{}} {options}"
    check_part(partial(Run, SharedPools, plan=plan), SEEDS // (2 * share), part=part, again=again)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_claims_and_allocations_share_no_address_while_the_integration_goes_and_comes_back(
    part: int,
) -> None:
    again = "shared {} --switches"
    check_part(partial(Run, SharedPools, plan=SWITCHED), SEEDS // 2, part=part, again=again)


@pytest.mark.slow
def test_processes_without_the_integration_keep_the_addresses_that_the_journal_gives_to_claims(
    record_property: Note,
) -> None:
    """Else a pool whose claims nobody reads gives their addresses to allocations."""
    switch = Switch(
        "addresses of claims are kept though the integration is off",
        rules.ignore_entry_without_integration,
        sign="both have",
        plan=STEADILY_SWITCHED,
        seed=8,
    )
    check_switch(switch, lambda seed: Run(SharedPools, seed, switch.plan).play(), record_property)


@pytest.mark.parametrize("rule", SCENES)
def test_without_a_rule_the_scene_ends_badly_and_with_it_well(rule: str) -> None:
    off, scene = SCENES[rule]
    check_scene(off, lambda: play_scene(scene, scenes.SharedStage), sign="both have", rule=rule)


def test_a_pass_that_lists_allocations_reads_the_claims_again_before_it_chooses() -> None:
    """Else a promise that is written during the LIST is settled, and its address free."""
    check_scene(
        rules.keep_claims_read_before_the_list,
        lambda: play_scene(scenes.claim_written_while_allocations_are_listed, scenes.SharedStage),
        "both have",
    )


def test_an_address_that_a_list_showed_is_taken_until_the_cache_shows_it() -> None:
    """Else it is free again as soon as the cache of claims has caught up."""
    check_scene(
        rules.forget_lists,
        lambda: play_scene(scenes.address_made_by_hand_that_a_list_showed, scenes.SharedStage),
        "both have",
    )


@pytest.mark.parametrize(
    ("off", "scene"),
    [
        (settle_before_addresses_are_read, scenes.claim_forced_away_while_ipaddresses_lag),
        (rules.believe_lagging_addresses, scenes.claim_forced_away_after_its_promise_is_dropped),
    ],
)
def test_an_allocation_gets_no_address_of_an_ipaddress_that_outlives_its_claim(
    off: Callable[[pytest.MonkeyPatch], None], scene: Scene
) -> None:
    """Not even of a replica whose cache does not show the IPAddress."""
    check_scene(
        off,
        lambda: play_scene(scene, scenes.SharedStage),
        "a and the IPAddress of c both have",
    )


def test_an_allocation_gets_no_address_of_an_ipaddress_whose_revision_was_removed_by_hand() -> (
    None
):
    check_scene(
        rules.replace_missing_revision_by_zero,
        lambda: play_scene(
            scenes.claim_forced_away_after_an_edit_of_the_journal, scenes.SharedStage
        ),
        "a and the IPAddress of c both have",
    )


def test_the_condition_of_another_controller_ends_though_the_journal_is_lost() -> None:
    """Else the pool, whose journal only a pass can restore, waits for ever."""
    check_scene(
        rules.keep_foreign_condition_without_journal,
        lambda: play_scene(scenes.journal_lost_while_another_controller_wrote, scenes.SharedStage),
        "wait for ever",
    )


def test_a_deleted_pool_that_waits_for_claims_sends_no_requests() -> None:
    """In this run an earlier version listed all allocations in each pass."""
    assert Run(SharedPools, 19).play() is None


def test_absence_of_claims_is_believed_though_promises_to_allocations_change_the_journal() -> None:
    check_scene(
        rules.compare_whole_journals,
        lambda: play_scene(scenes.absence_under_steady_promises, scenes.SharedStage),
        "waits for ever",
    )


@pytest.mark.parametrize(
    ("is_claim_first", "expected"), [(True, "the claim"), (False, "the allocation")]
)
def test_the_oldest_request_is_served_first_whichever_kind_it_is_of(
    is_claim_first: bool, expected: str
) -> None:
    scene = partial(scenes.oldest_request_of_either_kind, is_claim_first=is_claim_first)
    assert play_scene(scene, scenes.SharedStage) == expected
