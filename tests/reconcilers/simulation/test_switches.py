"""Mutation tests: without any one safety rule of NetworkPools the simulation must fail.

A rule that nothing misses is none. What each switch does is told by functions in poolrules.py.
Most are missed in a storm, from a seed that is noted here. Where that takes too many seeds, a
scene plays what it takes, on the same replicas, wires and server: those of SCENES.

Two sentences of the protocol have no switch, as nothing depends on them alone: that the revision
is never lowered (who raises it has read everything below), and that a pool's last finalizer goes
at the version that was read (nothing is promised in a pool that is being deleted; the version
protects what others add to the list of finalizers).
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
from tests.reconcilers.simulation.switch import Switch, check, check_scene

_CALMED = Plan()
BOTH, WAITS = "both have", "waits although it fits"

Off = Callable[[pytest.MonkeyPatch], None]

SWITCHES = {
    "1a": Switch(
        "a pass waits for the pool's revision",
        rules.any_position,
        sign=BOTH,
        plan=LONG,
        seed=29,
    ),
    "1c": Switch(
        "own answers never move the position",
        rules.position_of_own_answers,
        sign=BOTH,
        plan=QUIET,
        seed=80,
    ),
    "2a": Switch(
        "a range is held in whatever phase",
        rules.held_in_phase_allocated_only,
        sign=BOTH,
        plan=EDITED,
        seed=138,
    ),
    "2b": Switch(
        "what is promised is taken", rules.promises_not_taken, sign=BOTH, plan=QUIET, seed=7
    ),
    "2c": Switch(
        "both ranges of a promise are taken",
        rules.second_promised_not_taken,
        sign=BOTH,
        plan=replace(LAGGING, families=True),
        seed=2,
    ),
    "2d": Switch(
        "both ranges that are held are taken",
        rules.second_held_not_taken,
        sign=BOTH,
        plan=Plan(families=True),
        seed=1,
    ),
    "3a": Switch(
        "who has no finalizer gets nothing",
        rules.without_finalizer,
        "without its finalizer",
        seed=1,
    ),
    "3b": Switch(
        "who is being deleted gets nothing",
        rules.while_terminating,
        "while it was being deleted",
        seed=3,
    ),
    "3c": Switch(
        "who is promised something waits for it",
        rules.promised_twice,
        "two promises to one",
        seed=0,
    ),
    "3d": Switch(
        "who requires both families gets both or nothing",
        rules.one_of_two_suffices,
        sign="requires both families and shows one",
        plan=Plan(families=True),
        seed=17,
    ),
    "4a": Switch(
        "a pool is written at the version it was read at",
        rules.pools_written_blindly,
        sign=BOTH,
        plan=LONG,
        seed=9,
    ),
    "4b": Switch(
        "after a conflict one chooses anew",
        rules.choice_sent_again,
        sign=BOTH,
        plan=LAGGING,
        seed=86,
    ),
    "4d": Switch(
        "one promise carries the ranges of both families",
        rules.one_family_at_a_time,
        sign="requires both families and shows one",
        plan=Plan(families=True),
        seed=10,
    ),
    "6a": Switch(
        "a promise is kept until it is settled", rules.never_kept, sign=BOTH, plan=QUIET, seed=63
    ),
    "6b": Switch(
        "a higher version settles", rules.kept_until_fulfilled, sign=WAITS, plan=_CALMED, seed=10
    ),
    "6d": Switch(
        "what settled a promise raises the revision",
        rules.revision_not_raised,
        sign=BOTH,
        plan=LONG,
        seed=334,
    ),
    "6e": Switch(
        "the revision is an object's, and no reason to write",
        rules.revision_of_lists,
        sign="come to rest",
        plan=_CALMED,
        seed=7,
    ),
    "7e": Switch(
        "a pool that is deleted hands out nothing",
        rules.terminating_serves,
        sign="while it was being deleted",
        plan=CYCLED,
        seed=8,
    ),
    "7f": Switch(
        "nor does one without our finalizer",
        rules.serves_without_finalizer,
        sign="without its finalizer",
        plan=CYCLED,
        seed=9,
    ),
}


MISSED_WITH_SHARDS = {"4a": 39, "2b": 30, "6a": 98}
"""Rules that are also missed where shards move, from these seeds."""

SCENES: dict[str, tuple[str, Off, Scene, str]] = {
    "1a with shards": (
        "who gains a shard waits for its pools' revision",
        rules.any_position,
        scenes.shard_moves_to_one_who_lags,
        BOTH,
    ),
    "1b": ("a LIST is live", rules.stale_lists, scenes.forgotten_and_unheard_of, BOTH),
    "1d": (
        "a LIST serves only pools that were read before it began",
        rules.late_for_a_list,
        scenes.list_began_before_the_pool_was_read,
        BOTH,
    ),
    "1e": (
        "a LIST serves only the version of a pool that asked for it",
        rules.lists_of_earlier_versions,
        scenes.list_is_kept_for_an_earlier_version,
        BOTH,
    ),
    "4c": (
        "who refuses has proved to know the pool",
        rules.refused_without_proof,
        scenes.refused_by_one_with_an_old_view,
        "refused what its pool had promised",
    ),
    "5": (
        "a promise is for one version",
        rules.unbound_promises,
        scenes.promise_kept_to_another_version,
        BOTH,
    ),
    "6c": (
        "absence settles only for who has read far enough",
        rules.dropped_when_absent,
        scenes.promised_to_one_unheard_of,
        BOTH,
    ),
    "7g": (
        "only a LIST lets a pool go",
        rules.leaves_by_cache,
        scenes.pool_goes_while_one_is_unheard_of,
        "went while",
    ),
    "8": (
        "what was deleted stays so",
        rules.deleted_objects_return,
        scenes.answer_after_the_end,
        WAITS,
    ),
}


@pytest.mark.parametrize("number", SWITCHES)
def test_without_a_rule_the_simulation_fails_and_with_it_the_same_seed_is_clean(
    number: str, record_property: Note
) -> None:
    switch = SWITCHES[number]
    check(switch, lambda seed: Run(NetworkPools, seed, switch.plan).play(), record_property)


@pytest.mark.parametrize(("number", "seed"), MISSED_WITH_SHARDS.items())
def test_where_replicas_share_the_pools_a_rule_is_missed_as_well(
    number: str, seed: int, record_property: Note
) -> None:
    rule = SWITCHES[number]
    switch = replace(rule, plan=replace(rule.plan, replicas=3, shards=2, moves=0.1), seed=seed)
    check(switch, lambda seed: Run(NetworkPools, seed, switch.plan).play(), record_property)


@pytest.mark.parametrize("number", SCENES)
def test_without_a_rule_the_scene_ends_badly_and_with_it_well(number: str) -> None:
    rule, off, scene, sign = SCENES[number]
    check_scene(off, lambda: play_scene(scene), sign=sign, rule=rule)
