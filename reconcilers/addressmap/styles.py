"""Letters and colours for the states of addresses, in terminals and in pictures."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconcilers.pictures.extents import AddressState


@dataclass(frozen=True, slots=True)
class Style:
    """The letter and the colours of a state.

    People who see no red or no green can tell the colours of pictures apart, because their
    lightness differs, too. Each colour has contrast on light and on dark ground.

    Args:
        letter: in a picture of letters.
        terminal: click's name of its colour; None for the terminal's own.
        fill: CSS colour in pictures.
        dark: CSS colour on dark ground.
        words: the meaning, for a legend.
    """

    letter: str
    terminal: str | None
    fill: str
    dark: str
    words: str


STYLES: Mapping[AddressState, Style] = {
    AddressState.OVERLAP: Style(
        "!", "bright_red", fill="#d1242f", dark="#ff7b72", words="held by several"
    ),
    AddressState.STRAY: Style(
        "?", "magenta", fill="#bf3989", dark="#f778ba", words="held, but not in the pool's ranges"
    ),
    AddressState.RELEASING: Style(
        "<", "yellow", fill="#d4a72c", dark="#e3b341", words="being given back"
    ),
    AddressState.ALLOCATED: Style("#", "blue", fill="#0969da", dark="#58a6ff", words="held"),
    AddressState.PROMISED: Style(
        "+", "cyan", fill="#54aeff", dark="#a5d6ff", words="chosen, not yet written"
    ),
    AddressState.RESERVED: Style(
        "x", "bright_black", fill="#6e7781", dark="#8b949e", words="reserved"
    ),
    AddressState.UNKNOWN: Style(
        "~", "bright_black", fill="#eaeef2", dark="#484f58", words="unknown: you may not read it"
    ),
    AddressState.FREE: Style(".", "green", fill="#aceebb", dark="#1b4b2a", words="free"),
    AddressState.OUTSIDE: Style(
        " ", None, fill="#d0d7de", dark="#2d333b", words="outside the ranges for tenants"
    ),
}
