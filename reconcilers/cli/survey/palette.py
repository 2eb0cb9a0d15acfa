"""One colour and one letter for each state, in the terminal and in pictures.

The colours of pictures are told apart by people who see no red or no green (the order of their
lightness says it too), and each has contrast on light and on dark ground.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from reconcilers.cli.survey.extents import State


@dataclass(frozen=True, slots=True)
class Paint:
    """How a state looks.

    Args:
        letter: in a picture of letters.
        terminal: click's name of its colour; None for the terminal's own.
        fill: CSS colour in pictures.
        words: what it means, for a legend.
    """

    letter: str
    terminal: str | None
    fill: str
    words: str


COLOURS: Mapping[State, Paint] = {
    State.OVERLAP: Paint("!", "bright_red", "#d1242f", "held by several"),
    State.STRAY: Paint("?", "magenta", "#bf3989", "held, though not to be handed out"),
    State.RELEASING: Paint("<", "yellow", "#d4a72c", "being given back"),
    State.ALLOCATED: Paint("#", "blue", "#0969da", "held"),
    State.PROMISED: Paint("+", "cyan", "#54aeff", "chosen, not yet written"),
    State.RESERVED: Paint("x", "bright_black", "#6e7781", "reserved"),
    State.FREE: Paint(".", "green", "#aceebb", "free"),
    State.OUTSIDE: Paint(" ", None, "#d0d7de", "outside the ranges for tenants"),
}
