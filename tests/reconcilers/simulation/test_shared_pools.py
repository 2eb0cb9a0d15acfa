"""Claims and allocations of one NetworkPool never have one address, from seeds and in scenes."""

from functools import partial

import pytest

from tests.reconcilers.simulation import sharedrules as rules
from tests.reconcilers.simulation import sharedscenes as scenes
from tests.reconcilers.simulation.chaos import Run
from tests.reconcilers.simulation.claimrules import (
    created_addresses_unread,
    missing_revision_is_zero,
)
from tests.reconcilers.simulation.plans import Plan
from tests.reconcilers.simulation.seeds import PARTS, SEEDS, check_part, sharded_integration_plans
from tests.reconcilers.simulation.sharedpools import SharedPools
from tests.reconcilers.simulation.stage import Scene, played
from tests.reconcilers.simulation.switch import check_scene

SCENES = {
    "a lost journal is fenced before allocations are served": (
        rules.lost_journal_believed,
        scenes.claim_written_late_after_loss_of_memory,
    ),
    "a lost journal of a paused pool is fenced before allocations are served": (
        rules.lost_journal_believed,
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
        rules.promises_free_without_kinds,
        scenes.claim_promised_before_its_kinds_are_seen,
    ),
    "what claims have is taken before their kinds are seen": (
        rules.absence_believed_at_once,
        scenes.claim_served_before_its_kinds_are_seen,
    ),
    "what claims have is taken": (
        rules.claims_unseen,
        scenes.claim_promised_while_an_allocation_is_served,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@sharded_integration_plans
def test_claims_and_allocations_of_one_pool_never_share_an_address_and_what_fits_is_served(
    plan: Plan, share: int, options: str, part: int
) -> None:
    again = f"shared {{}} {options}"
    check_part(partial(Run, SharedPools, plan=plan), SEEDS // (2 * share), part, again)


@pytest.mark.parametrize("rule", SCENES)
def test_without_a_rule_the_scene_ends_badly_and_with_it_well(rule: str) -> None:
    off, scene = SCENES[rule]
    check_scene(off, lambda: played(scene, scenes.SharedStage), "both have", rule)


def test_a_pass_over_claims_chooses_by_one_moment_though_it_lists_allocations_in_between() -> None:
    """Else a promise that was kept meanwhile is settled, and its address free."""
    check_scene(
        rules.view_kept_while_allocations_are_listed,
        lambda: played(scenes.claim_written_while_allocations_are_listed, scenes.SharedStage),
        "both have",
    )


@pytest.mark.parametrize(
    "scene",
    [
        scenes.address_made_by_hand_that_a_list_showed,
        scenes.address_made_by_hand_that_an_earlier_list_showed,
    ],
)
def test_an_address_that_a_list_showed_is_taken_until_the_cache_shows_it(scene: Scene) -> None:
    """Else it is free again as soon as the cache of claims has caught up."""
    check_scene(
        rules.lists_forgotten,
        lambda: played(scene, scenes.SharedStage),
        "both have",
    )


def test_an_allocation_gets_no_address_of_an_ipaddress_that_outlives_its_claim() -> None:
    """Not even of a replica whose cache does not show the IPAddress."""
    check_scene(
        created_addresses_unread,
        lambda: played(scenes.claim_forced_away_while_ipaddresses_lag, scenes.SharedStage),
        "a and the IPAddress of c both have",
    )


def test_an_allocation_gets_no_address_of_an_ipaddress_whose_revision_was_removed_by_hand() -> (
    None
):
    check_scene(
        missing_revision_is_zero,
        lambda: played(scenes.claim_forced_away_after_an_edit_of_the_journal, scenes.SharedStage),
        "a and the IPAddress of c both have",
    )


def test_a_lost_journal_is_restored_while_its_pool_is_paused() -> None:
    """Else IPAllocations, which a pause does not concern, wait for ever."""
    check_scene(
        rules.pause_stops_the_fence,
        lambda: played(
            scenes.claim_written_late_after_a_paused_pool_lost_its_memory, scenes.SharedStage
        ),
        "waits for ever",
    )


def test_a_lost_journal_is_restored_while_another_controller_writes_the_pools_status() -> None:
    """Else each of the two passes waits for the other, for ever."""
    check_scene(
        rules.lost_journal_kept,
        lambda: played(scenes.journal_lost_while_another_controller_wrote, scenes.SharedStage),
        "wait for ever",
    )


def test_a_deleted_pool_that_waits_for_claims_asks_for_nothing() -> None:
    """It listed all allocations at each of its turns."""
    assert Run(SharedPools, 19).play() is None
