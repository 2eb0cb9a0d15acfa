"""Plays a story step by step and tells it with what is really there."""

from collections.abc import Callable, Sequence

import click

from controller.clock import Clock
from controller.errors import ControllerError
from reconcilers.cli.demo.audit import Broken
from reconcilers.cli.demo.step import Step
from reconcilers.cli.demo.world import NotYet, World
from reconcilers.cli.local.objects import UnknownKind

Tell = Callable[[str], None]


class DidNotHappen(Exception):
    """A step did not happen; the message names it and says what was seen instead."""


async def play(
    steps: Sequence[Step], world: World, clock: Clock, tell: Tell, seconds: float
) -> None:
    """Do and see one step after the other.

    Args:
        steps: the story.
        world: where it plays.
        clock: for the time limit.
        tell: takes one line of the telling.
        seconds: how long each sight may be waited for.

    Raises:
        DidNotHappen: names the first step that did not.
    """
    for number, step in enumerate(steps, start=1):
        tell(click.style(f"{number:2}  {step.title}", bold=True))
        begun = clock.monotonic()
        try:
            for deed in step.does:
                await deed(world)
            for sight in step.sees:
                for line in await world.until(sight, seconds):
                    tell(f"    {line}")
        except (NotYet, Broken, ControllerError, UnknownKind) as why:
            took = clock.monotonic() - begun
            raise DidNotHappen(
                f"step {number} of {len(steps)} ({step.title}) did not happen within"
                f" {took:.1f} s: {why}"
            ) from why
