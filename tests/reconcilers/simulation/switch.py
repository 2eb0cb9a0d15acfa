"""A safety rule that can be switched off, and what the simulation then says."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.numbers import Note
from tests.reconcilers.simulation.plans import Plan


@dataclass(frozen=True)
class Switch:
    """A rule of the protocol.

    Args:
        rule: which, in a sentence.
        off: switches it off.
        sign: part of what the simulation says without it.
        plan: under which it has to notice.
        seed: one that is known to notice; others are tried if the code has changed its course.
    """

    rule: str
    off: Callable[[pytest.MonkeyPatch], None]
    sign: str
    plan: Any = field(default_factory=Plan)
    seed: int = 0


SEARCHED = 600
"""How many other seeds are tried before a switch counts as one that nothing misses."""


def check(switch: Switch, play: Callable[[int], str | None], note: Note) -> None:
    """Assert that a seed fails with the rule switched off, and is clean with it.

    Args:
        switch: the rule.
        play: plays a seed, and returns what went wrong.
        note: is told of a better seed, where the one that is known does not notice any more: to
            search for it each time takes seconds.

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
    """Assert that a scene ends badly with a rule switched off, and well with it.

    Args:
        off: switches it off.
        play: plays the scene, and returns what went wrong.
        sign: part of what the scene says without the rule.
        rule: which, in a sentence.
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
