"""Mutation tests: without any one safety rule of NetworkPools the simulation must fail.

A rule without which nothing fails is no rule. The functions in poolrules.py switch the rules off.
Most storms without a rule fail from a seed that is noted here. Where that takes too many seeds, a
scene of SCENES plays the events on the same replicas and server.

Two sentences of the protocol have no switch, as nothing depends on them alone. The revision is
never lowered: a pass that raises it has read everything below. A pool's last finalizer is removed
at the version that was read: a pool that is being deleted promises nothing, and the version
protects the finalizers that others add.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.numbers import Note
from tests.reconcilers.simulation import poolrules as rules
from tests.reconcilers.simulation import scenes
from tests.reconcilers.simulation.chaos import Run
from tests.reconcilers.simulation.networkpools import NetworkPools
from tests.reconcilers.simulation.plans import CYCLED, EDITED, LAGGING, LONG, QUIET, Plan
from tests.reconcilers.simulation.stage import Scene, play_scene
from tests.reconcilers.simulation.switch import Switch, check_scene, check_switch

_CALMED = Plan()
BOTH, WAITS = "both have", "waits although it fits"

Off = Callable[[pytest.MonkeyPatch], None]

SWITCHES = {
    "1a": Switch(
        "a pass waits for the pool's revision",
        rules.believe_any_position,
        sign=BOTH,
        plan=LONG,
        seed=29,
    ),
    "1c": Switch(
        "own answers never move the position",
        rules.move_position_by_own_answers,
        sign=BOTH,
        plan=QUIET,
        seed=80,
    ),
    "2a": Switch(
        "a range counts as held in every phase",
        rules.count_ranges_in_phase_allocated_only,
        sign=BOTH,
        plan=EDITED,
        seed=138,
    ),
    "2b": Switch(
        "promised addresses are not chosen again",
        rules.ignore_promises,
        sign=BOTH,
        plan=QUIET,
        seed=7,
    ),
    "2c": Switch(
        "both ranges of a promise are not chosen again",
        rules.ignore_second_promised_ranges,
        sign=BOTH,
        plan=replace(LAGGING, families=True),
        seed=2,
    ),
    "2d": Switch(
        "both ranges of an allocation are not chosen again",
        rules.ignore_second_held_ranges,
        sign=BOTH,
        plan=Plan(families=True),
        seed=1,
    ),
    "3a": Switch(
        "a request without our finalizer gets nothing",
        rules.serve_without_finalizer,
        "without its finalizer",
        seed=1,
    ),
    "3b": Switch(
        "a request that is being deleted gets nothing",
        rules.serve_while_terminating,
        "while it was being deleted",
        seed=3,
    ),
    "3c": Switch(
        "a request with an open promise gets no other promise",
        rules.promise_twice,
        "two promises to one",
        seed=0,
    ),
    "3d": Switch(
        "a request that requires both families gets both or nothing",
        rules.serve_one_of_two_required_families,
        sign="requires both families and shows one",
        plan=Plan(families=True),
        seed=17,
    ),
    "4a": Switch(
        "a pool is written at the version it was read at",
        rules.write_pools_at_any_version,
        sign=BOTH,
        plan=LONG,
        seed=9,
    ),
    "4b": Switch(
        "after a conflict a pass chooses again",
        rules.resend_choice_after_conflict,
        sign=BOTH,
        plan=LAGGING,
        seed=86,
    ),
    "4d": Switch(
        "one promise carries the ranges of both families",
        rules.promise_families_one_by_one,
        sign="requires both families and shows one",
        plan=Plan(families=True),
        seed=10,
    ),
    "6a": Switch(
        "a promise is kept until it is settled",
        rules.forget_promises_at_once,
        sign=BOTH,
        plan=QUIET,
        seed=63,
    ),
    "6b": Switch(
        "a newer version of the request settles its promise",
        rules.keep_promises_until_fulfilled,
        sign=WAITS,
        plan=_CALMED,
        seed=10,
    ),
    "6d": Switch(
        "what settled a promise raises the revision",
        rules.keep_revision,
        sign=BOTH,
        plan=LONG,
        seed=334,
    ),
    "6e": Switch(
        "the revision is that of an object, and no reason to write",
        rules.raise_revision_to_position,
        sign="come to rest",
        plan=_CALMED,
        seed=7,
    ),
    "7e": Switch(
        "a pool that is deleted hands out nothing",
        rules.serve_from_terminating_pools,
        sign="while it was being deleted",
        plan=CYCLED,
        seed=8,
    ),
    "7f": Switch(
        "a pool without our finalizer hands out nothing",
        rules.serve_from_pools_without_finalizer,
        sign="without its finalizer",
        plan=CYCLED,
        seed=9,
    ),
}


SEEDS_WITH_SHARDS = {"4a": 39, "2b": 30, "6a": 98}
"""The seeds that fail where shards move, by the number of the rule that is switched off."""

SCENES: dict[str, tuple[str, Off, Scene, str]] = {
    "1a with shards": (
        "a replica that gains a shard waits for its pools' revision",
        rules.believe_any_position,
        scenes.shard_moves_to_a_lagging_replica,
        BOTH,
    ),
    "1b": (
        "a LIST is live",
        rules.answer_lists_from_cache,
        scenes.lost_promise_to_an_unread_allocation,
        BOTH,
    ),
    "1d": (
        "a LIST serves only pools that were read before it began",
        rules.join_running_lists,
        scenes.list_began_before_the_pool_was_read,
        BOTH,
    ),
    "1e": (
        "a LIST serves only the version of a pool that asked for it",
        rules.reuse_lists_of_earlier_versions,
        scenes.list_is_kept_for_an_earlier_version,
        BOTH,
    ),
    "4c": (
        "a refusal is written only after a write of the pool",
        rules.refuse_without_writing_the_pool,
        scenes.refused_by_a_lagging_replica,
        "refused what its pool had promised",
    ),
    "5": (
        "a promise is for one version",
        rules.keep_promises_at_any_version,
        scenes.promise_written_to_another_version,
        BOTH,
    ),
    "6c": (
        "absence settles a promise only if the pass has read far enough",
        rules.drop_promises_to_absent_allocations,
        scenes.promise_to_an_unread_allocation,
        BOTH,
    ),
    "7g": (
        "only a LIST lets a pool go",
        rules.release_pools_by_cache,
        scenes.pool_deleted_by_a_replica_that_missed_an_allocation,
        "went while",
    ),
    "8": (
        "a deleted object is not shown again",
        rules.show_deleted_objects_again,
        scenes.answer_after_the_deletion,
        WAITS,
    ),
}


@pytest.mark.parametrize("number", SWITCHES)
def test_without_a_rule_the_simulation_fails_and_with_it_the_same_seed_is_clean(
    number: str, record_property: Note
) -> None:
    switch = SWITCHES[number]
    check_switch(switch, lambda seed: Run(NetworkPools, seed, switch.plan).play(), record_property)


@pytest.mark.parametrize(("number", "seed"), SEEDS_WITH_SHARDS.items())
def test_without_a_rule_the_simulation_fails_where_replicas_share_the_pools(
    number: str, seed: int, record_property: Note
) -> None:
    rule = SWITCHES[number]
    switch = replace(rule, plan=replace(rule.plan, replicas=3, shards=2, moves=0.1), seed=seed)
    check_switch(switch, lambda seed: Run(NetworkPools, seed, switch.plan).play(), record_property)


@pytest.mark.parametrize("number", SCENES)
def test_without_a_rule_the_scene_ends_badly_and_with_it_well(number: str) -> None:
    rule, off, scene, sign = SCENES[number]
    check_scene(off, lambda: play_scene(scene), sign=sign, rule=rule)
