"""Claims and allocations of one NetworkPool never have one address, from seeds and in scenes."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.numbers import Note
from tests.reconcilers.simulation import sharedrules as rules
from tests.reconcilers.simulation import sharedscenes as scenes
from tests.reconcilers.simulation.chaos import Run
from tests.reconcilers.simulation.claimrules import (
    created_addresses_unread,
)
from tests.reconcilers.simulation.plans import STEADILY_SWITCHED, SWITCHED, Plan
from tests.reconcilers.simulation.seeds import PARTS, SEEDS, check_part, sharded_integration_plans
from tests.reconcilers.simulation.sharedpools import SharedPools
from tests.reconcilers.simulation.stage import Scene, play_scene
from tests.reconcilers.simulation.switch import Switch, check, check_scene

SCENES = {
    "a lost journal is fenced before allocations are served": (
        rules.lost_journal_believed,
        scenes.claim_written_late_after_loss_of_memory,
    ),
    "a lost journal of a paused pool is fenced before allocations are served": (
        rules.pause_stops_the_fence,
        scenes.claim_written_late_after_a_paused_pool_lost_its_memory,
    ),
    "an address that an allocation has is not adopted": (
        rules.adopted_though_allocated,
        scenes.address_made_by_hand_that_an_allocation_has,
    ),
    "what is promised to an allocation is taken": (
        rules.promises_to_allocations_free,
        scenes.allocation_promised_while_a_claim_is_served,
    ),
    "what is promised to a claim is taken": (
        rules.promises_to_claims_free,
        scenes.claim_promised_while_an_allocation_is_served,
    ),
    "what is promised to a claim is taken before the kinds of claims are seen": (
        rules.promises_to_claims_free,
        scenes.claim_promised_before_its_kinds_are_seen,
    ),
    "what claims have is taken before their kinds are seen": (
        rules.absence_believed_at_once,
        scenes.claim_served_before_its_kinds_are_seen,
    ),
    "what claims have is taken": (
        rules.claims_unseen,
        scenes.claim_served_before_an_allocation_asks,
    ),
    "claims are read as far as the journal says": (
        rules.lagging_claims_read,
        scenes.claim_loses_its_ipaddress_while_claims_lag,
    ),
    "a fence of one kind keeps the promises to the other": (
        rules.fence_drops_all_promises,
        scenes.fence_of_claims_while_an_allocation_is_promised,
    ),
    "what claims have is taken though one of their definitions is missing": (
        rules.incomplete_is_absent,
        scenes.definition_missing_while_an_ipaddress_exists,
    ),
    "what claims have is taken though the integration is off": (
        rules.entry_ignored_without_integration,
        scenes.integration_off_after_a_claim_was_served,
    ),
    "a journal that was written for another uid is lost": (
        rules.journal_of_any_uid,
        scenes.claim_written_late_after_a_restore_to_a_new_uid,
    ),
    "a claim and an allocation of one name are two holders": (
        rules.promises_known_by_key,
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
def test_what_the_journal_says_of_claims_is_believed_by_processes_without_the_integration(
    record_property: Note,
) -> None:
    """Else a pool whose claims nobody reads gives their addresses to allocations."""
    switch = Switch(
        "what claims have is taken though the integration is off",
        rules.entry_ignored_without_integration,
        sign="both have",
        plan=STEADILY_SWITCHED,
        seed=8,
    )
    check(switch, lambda seed: Run(SharedPools, seed, switch.plan).play(), record_property)


@pytest.mark.parametrize("rule", SCENES)
def test_without_a_rule_the_scene_ends_badly_and_with_it_well(rule: str) -> None:
    off, scene = SCENES[rule]
    check_scene(off, lambda: play_scene(scene, scenes.SharedStage), sign="both have", rule=rule)


def test_a_pass_chooses_by_one_moment_though_it_lists_allocations_in_between() -> None:
    """Else a promise that was kept meanwhile is settled, and its address free."""
    check_scene(
        rules.holdings_of_claims_kept_while_allocations_are_listed,
        lambda: play_scene(scenes.claim_written_while_allocations_are_listed, scenes.SharedStage),
        "both have",
    )


def test_an_address_that_a_list_showed_is_taken_until_the_cache_shows_it() -> None:
    """Else it is free again as soon as the cache of claims has caught up."""
    check_scene(
        rules.lists_forgotten,
        lambda: play_scene(scenes.address_made_by_hand_that_a_list_showed, scenes.SharedStage),
        "both have",
    )


@pytest.mark.parametrize(
    ("off", "scene"),
    [
        (created_addresses_unread, scenes.claim_forced_away_while_ipaddresses_lag),
        (rules.lagging_addresses_read, scenes.claim_forced_away_after_its_promise_is_dropped),
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
        rules.missing_revision_is_zero,
        lambda: play_scene(
            scenes.claim_forced_away_after_an_edit_of_the_journal, scenes.SharedStage
        ),
        "a and the IPAddress of c both have",
    )


def test_the_condition_of_another_controller_ends_though_the_journal_is_lost() -> None:
    """Else the pool, whose journal only a pass can restore, waits for ever."""
    check_scene(
        rules.lost_journal_keeps_condition,
        lambda: play_scene(scenes.journal_lost_while_another_controller_wrote, scenes.SharedStage),
        "wait for ever",
    )


def test_a_deleted_pool_that_waits_for_claims_asks_for_nothing() -> None:
    """It listed all allocations at each of its turns."""
    assert Run(SharedPools, 19).play() is None


def test_absence_of_claims_is_believed_though_promises_to_allocations_change_the_journal() -> None:
    check_scene(
        rules.every_promise_is_of_the_entry,
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
