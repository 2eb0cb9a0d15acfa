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
from tests.reconcilers.simulation.switch import Switch, check, check_scene
from tests.reconcilers.simulation.test_switches import BOTH

BOTH_HAVE = BOTH
_FORCED = Plan(force=True)

SWITCHES = {
    "2a": Switch(
        "what is promised is taken",
        rules.promises_not_taken,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=31,
    ),
    "2b": Switch(
        "an address that others have is not adopted",
        journalrules.other_holders_unseen,
        sign=BOTH_HAVE,
        plan=Plan(),
        seed=397,
    ),
    "3a": Switch(
        "who has no finalizer gets nothing",
        rules.before_the_finalizer,
        sign="without its finalizer",
        plan=SHARP,
        seed=6,
    ),
    "3b": Switch(
        "who is being deleted gets nothing",
        rules.while_terminating,
        sign="while it was being deleted",
        plan=SHARP,
        seed=4,
    ),
    "4a": Switch(
        "the journal is written at the version that was read",
        rules.pools_written_blindly,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=93,
    ),
    "4b": Switch(
        "after a conflict one chooses anew",
        rules.choice_sent_again,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=26,
    ),
    "5": Switch(
        "a claim is written at the version that was promised for",
        rules.written_at_any_version,
        sign="while it was being deleted",
        plan=SHARP,
        seed=1,
    ),
    "6": Switch(
        "a promise is kept until it is settled",
        rules.dropped_at_once,
        sign=BOTH_HAVE,
        plan=LAGGING,
        seed=97,
    ),
    "9a": Switch(
        "the IPAddress of a claim that vanished is released",
        rules.vanished_claims_unseen,
        sign="is left of a claim",
        plan=_FORCED,
        seed=6,
    ),
    "9b": Switch(
        "an IPAddress in the way that serves no claim is taken away",
        rules.leftovers_stay,
        sign="waits although it fits",
        plan=_FORCED,
        seed=15,
    ),
    "9c": Switch(
        "a claim goes when a live read shows no IPAddress",
        rules.released_by_cache,
        sign="is left of a claim",
        plan=_FORCED,
        seed=6,
    ),
}

CLUSTERS = {
    "10a": Switch(
        "an address rests before another claim gets it",
        rules.addresses_never_rest,
        sign="which was to rest",
        plan=RESTING,
        seed=8,
    ),
    "10b": Switch(
        "a claim is released though its Cluster is gone",
        rules.waits_for_a_lost_cluster,
        sign="is deleted and still there",
        plan=RESTING,
        seed=24,
    ),
}

SCENES = {
    "8": (
        rules.own_answers_count_as_read,
        scenes.own_write_after_an_unseen_claim,
        BOTH_HAVE,
    ),
    "11a": (
        rules.unreadable_objects_hold_nothing,
        scenes.ipaddress_unreadable_for_a_while,
        "a and b both have",
    ),
    "11b": (
        rules.unreadable_objects_hold_nothing,
        scenes.claim_unreadable_for_a_while,
        "a and b both have",
    ),
    "11c": (
        rules.promises_to_the_unreadable_settled,
        scenes.promise_to_an_unreadable_claim,
        BOTH_HAVE,
    ),
    "12a": (
        rules.created_addresses_unread,
        scenes.claim_forced_away_while_ipaddresses_lag,
        "the IPAddresses of a and b both have",
    ),
    "12b": (
        rules.created_addresses_unread,
        scenes.claim_forced_away_before_its_promise_is_dropped,
        "the IPAddresses of a and b both have",
    ),
    "12c": (
        rules.created_addresses_unread,
        scenes.claim_loses_its_finalizer_while_ipaddresses_lag,
        "the IPAddresses of a and b both have",
    ),
    "12d": (
        rules.addresses_forgotten_by_fences,
        scenes.memory_lost_after_a_claim_was_forced_away,
        "the IPAddresses of a and b both have",
    ),
    "12e": (
        rules.created_addresses_unread,
        scenes.status_of_a_served_claim_wiped_while_ipaddresses_lag,
        "the IPAddresses of c and b both have",
    ),
    "12f": (
        rules.missing_revision_is_zero,
        scenes.revision_of_ipaddresses_removed_by_hand,
        "the IPAddresses of a and b both have",
    ),
    "13": (
        journalrules.fence_voids_nothing,
        scenes.memory_lost_during_a_pause,
        BOTH_HAVE,
    ),
    "10c": (
        rules.pools_believed_absent,
        scenes.claim_released_while_pools_lag,
        "does not rest",
    ),
    "10d": (
        rules.pools_believed_absent,
        scenes.claim_released_by_a_pool_without_a_grace_period,
        "does not rest",
    ),
    "9d": (
        rules.deleted_by_cache,
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
    check(switch, lambda seed: Run(Claims, seed, switch.plan).play(), record_property)


@pytest.mark.slow
@pytest.mark.parametrize("number", CLUSTERS)
def test_without_a_rule_clusters_that_come_and_go_show_it(
    number: str, record_property: Note
) -> None:
    switch = CLUSTERS[number]
    check(switch, lambda seed: Run(ClusterClaims, seed, switch.plan).play(), record_property)


@pytest.mark.parametrize("number", SCENES)
def test_without_a_rule_the_scene_ends_badly_and_with_it_well(
    number: str,
) -> None:
    off, scene, expected = SCENES[number]
    check_scene(off, lambda: play_scene(scene, scenes.ClaimStage), expected)
