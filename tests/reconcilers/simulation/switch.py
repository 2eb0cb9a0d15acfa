"""Switches: safety rules that can be switched off, and the violations that follow."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.numbers import Note
from tests.reconcilers.simulation.plans import Plan


@dataclass(frozen=True)
class Switch:
    """A rule, how it is switched off, and the violation that must follow.

    Args:
        rule: a sentence that states the rule.
        off: switches the rule off.
        sign: a part of the violation without the rule.
        plan: the plan of the runs that must fail without the rule.
        seed: one that is known to fail; others are tried if it does not fail any more.
    """

    rule: str
    off: Callable[[pytest.MonkeyPatch], None]
    sign: str
    plan: Any = field(default_factory=Plan)
    seed: int = 0


SEARCHED = 600
"""How many other seeds are tried before the rule counts as one without which nothing fails."""


def check_switch(switch: Switch, play: Callable[[int], str | None], note: Note) -> None:
    """Assert that a seed fails with the rule switched off, and is clean with it.

    Args:
        switch: the rule.
        play: plays a seed; returns the violation, None if there is none.
        note: records another seed if the known one does not notice any more: a search takes
            seconds each time.

    Raises:
        AssertionError: no seed notices.
    """
    with pytest.MonkeyPatch.context() as patch:
        switch.off(patch)
        seed = _find_failing_seed(switch, play)
    if seed != switch.seed:
        note(f"seed {switch.seed} does not notice any more; the first that does", seed)
    assert play(seed) is None


def check_scene(
    off: Callable[[pytest.MonkeyPatch], None],
    play: Callable[[], str | None],
    sign: str,
    rule: str = "",
) -> None:
    """Assert that a scene ends with a violation with a rule switched off, and without one with it.

    Args:
        off: switches the rule off.
        play: plays the scene; returns the violation, None if there is none.
        sign: a part of the violation without the rule.
        rule: a sentence that states the rule.
    """
    assert play() is None
    with pytest.MonkeyPatch.context() as patch:
        off(patch)
        verdict = play()
    assert verdict is not None, f"nothing is amiss without the rule: {rule or off.__name__}"
    assert sign in verdict


def _find_failing_seed(switch: Switch, play: Callable[[int], str | None]) -> int:
    """Return the first seed that fails with the rule switched off, for the reason it should."""
    seeds: list[int] = [switch.seed, *range(SEARCHED)]
    for seed in seeds:
        verdict = play(seed)
        if verdict and switch.sign in verdict:
            return seed
    raise AssertionError(f"{SEARCHED} seeds and nothing is amiss without the rule: {switch.rule}")
