"""How a state of addresses is shown, in terminals and in pictures."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconcilers.pictures.extents import AddressState


@dataclass(frozen=True, slots=True)
class Style:
    """How a state is shown.

    The colours of pictures are told apart by people who see no red or no green (the order of
    their lightness says it too), and each has contrast on light and on dark ground.

    Args:
        letter: in a picture of letters.
        terminal: click's name of its colour; None for the terminal's own.
        fill: CSS colour in pictures.
        dark: the same where the ground is dark, so that what is most of a pool does not glare.
        words: what it means, for a legend.
    """

    letter: str
    terminal: str | None
    fill: str
    dark: str
    words: str


STYLES: Mapping[AddressState, Style] = {
    AddressState.OVERLAP: Style("!", "bright_red", "#d1242f", "#ff7b72", "held by several"),
    AddressState.STRAY: Style(
        "?", "magenta", "#bf3989", "#f778ba", "held, but not in the pool's ranges"
    ),
    AddressState.RELEASING: Style("<", "yellow", "#d4a72c", "#e3b341", "being given back"),
    AddressState.ALLOCATED: Style("#", "blue", "#0969da", "#58a6ff", "held"),
    AddressState.PROMISED: Style("+", "cyan", "#54aeff", "#a5d6ff", "chosen, not yet written"),
    AddressState.RESERVED: Style("x", "bright_black", "#6e7781", "#8b949e", "reserved"),
    AddressState.UNKNOWN: Style(
        "~", "bright_black", "#eaeef2", "#484f58", "unknown: you may not read it"
    ),
    AddressState.FREE: Style(".", "green", "#aceebb", "#1b4b2a", "free"),
    AddressState.OUTSIDE: Style(" ", None, "#d0d7de", "#2d333b", "outside the ranges for tenants"),
}
