"""Each rule by which claims get their addresses, switched off: the simulation must notice."""

import pytest

from tests.numbers import Note
from tests.reconcilers.simulation import claimrules as rules
from tests.reconcilers.simulation import claimscenes as scenes
from tests.reconcilers.simulation import journalrules
from tests.reconcilers.simulation.chaos import Run
from tests.reconcilers.simulation.claims import Claims
from tests.reconcilers.simulation.clusters import ClusterClaims
from tests.reconcilers.simulation.plans import LAGGING, RESTING, SHARP, Plan
from tests.reconcilers.simulation.stage import play_scene
from tests.reconcilers.simulation.switch import Switch, check_scene, check_switch
from tests.reconcilers.simulation.test_switches import BOTH

BOTH_HAVE = BOTH
_FORCED = Plan(force=True)

SWITCHES = {
    "2a": Switch(
        "promised addresses are not chosen again",
        rules.ignore_promises,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=31,
    ),
    "2b": Switch(
        "an address of another request is not adopted",
        journalrules.ignore_other_holders,
        sign=BOTH_HAVE,
        plan=Plan(),
        seed=397,
    ),
    "3a": Switch(
        "a request without our finalizer gets nothing",
        rules.serve_without_finalizer,
        sign="without its finalizer",
        plan=SHARP,
        seed=6,
    ),
    "3b": Switch(
        "a request that is being deleted gets nothing",
        rules.serve_while_terminating,
        sign="while it was being deleted",
        plan=SHARP,
        seed=4,
    ),
    "4a": Switch(
        "the journal is written at the version that was read",
        rules.write_pools_at_any_version,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=93,
    ),
    "4b": Switch(
        "after a conflict a pass chooses again",
        rules.resend_choice_after_conflict,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=26,
    ),
    "5": Switch(
        "a claim is written at the version that the promise names",
        rules.write_requests_at_any_version,
        sign="while it was being deleted",
        plan=SHARP,
        seed=1,
    ),
    "6": Switch(
        "a promise is kept until it is settled",
        rules.forget_promises_at_once,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=97,
    ),
    "9a": Switch(
        "the IPAddress of a vanished claim is released",
        rules.ignore_vanished_claims,
        sign="is left of a claim",
        plan=_FORCED,
        seed=3,
    ),
    "9b": Switch(
        "an IPAddress without a claim is removed if a claim needs its name",
        rules.keep_leftovers,
        sign="waits although it fits",
        plan=_FORCED,
        seed=8,
    ),
    "9c": Switch(
        "a claim is released when a live read shows no IPAddress",
        rules.release_claims_by_cache,
        sign="is left of a claim",
        plan=_FORCED,
        seed=8,
    ),
}

CLUSTERS = {
    "10a": Switch(
        "no claim gets an address in its grace period",
        rules.skip_grace_period,
        sign="in its grace period",
        plan=RESTING,
        seed=8,
    ),
    "10b": Switch(
        "a claim is released though its Cluster is gone",
        rules.wait_for_lost_clusters,
        sign="is deleted and still there",
        plan=RESTING,
        seed=24,
    ),
}

SCENES = {
    "8": (
        rules.count_own_answers_as_read,
        scenes.own_write_after_an_unseen_claim,
        BOTH_HAVE,
    ),
    "11a": (
        rules.ignore_unreadable_objects,
        scenes.ipaddress_unreadable_for_a_while,
        "a and b both have",
    ),
    "11b": (
        rules.ignore_unreadable_objects,
        scenes.claim_unreadable_for_a_while,
        "a and b both have",
    ),
    "11c": (
        rules.settle_promises_to_the_unreadable,
        scenes.promise_to_an_unreadable_claim,
        BOTH_HAVE,
    ),
    "12a": (
        rules.settle_before_addresses_are_read,
        scenes.claim_forced_away_while_ipaddresses_lag,
        "the IPAddresses of a and b both have",
    ),
    "12b": (
        rules.settle_before_addresses_are_read,
        scenes.claim_forced_away_before_its_promise_is_dropped,
        "the IPAddresses of a and b both have",
    ),
    "12c": (
        rules.settle_before_addresses_are_read,
        scenes.claim_loses_its_finalizer_while_ipaddresses_lag,
        "the IPAddresses of a and b both have",
    ),
    "12d": (
        rules.fence_without_listing_addresses,
        scenes.memory_lost_after_a_claim_was_forced_away,
        "the IPAddresses of a and b both have",
    ),
    "12e": (
        rules.settle_before_addresses_are_read,
        scenes.status_of_a_served_claim_wiped_while_ipaddresses_lag,
        "the IPAddresses of c and b both have",
    ),
    "12f": (
        rules.replace_missing_revision_by_zero,
        scenes.revision_of_ipaddresses_removed_by_hand,
        "the IPAddresses of a and b both have",
    ),
    "13": (
        journalrules.fence_without_voiding,
        scenes.memory_lost_during_a_pause,
        BOTH_HAVE,
    ),
    "10c": (
        rules.believe_pools_absent,
        scenes.claim_released_while_pools_lag,
        "is free at once",
    ),
    "10d": (
        rules.believe_pools_absent,
        scenes.claim_released_by_a_pool_without_a_grace_period,
        "is free at once",
    ),
    "9d": (
        rules.delete_by_cache,
        scenes.pool_deleted_while_a_cache_lags,
        "an IPAddress names it",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("number", SWITCHES)
def test_without_a_rule_the_simulation_fails_and_with_it_the_same_seed_is_clean(
    number: str, record_property: Note
) -> None:
    switch = SWITCHES[number]
    check_switch(switch, lambda seed: Run(Claims, seed, switch.plan).play(), record_property)


@pytest.mark.slow
@pytest.mark.parametrize("number", CLUSTERS)
def test_without_a_rule_of_clusters_the_simulation_fails_and_with_it_the_same_seed_is_clean(
    number: str, record_property: Note
) -> None:
    switch = CLUSTERS[number]
    check_switch(
        switch, lambda seed: Run(ClusterClaims, seed, switch.plan).play(), record_property
    )


@pytest.mark.parametrize("number", SCENES)
def test_without_a_rule_the_scene_ends_badly_and_with_it_well(
    number: str,
) -> None:
    off, scene, expected = SCENES[number]
    check_scene(off, lambda: play_scene(scene, scenes.ClaimStage), expected)
