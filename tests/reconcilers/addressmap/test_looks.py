"""Colours and patterns of tenants: stable, and distinct on paper and for the colour-blind, too."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcilers.addressmap.looks import DARK_FILLS, FILLS, PATTERNS, assign_looks, find_look

SIGHTS = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "no green": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "no blue": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
"""By the cones of an eye: the matrix from linear RGB to the linear RGB that is seen.

By Machado, Oliveira and Fernandes (2009).
"""

LEAST_DISTANCE = 30.0
"""The least distance of two colours in CIELAB; people see a distance of 2.3 side by side."""

Triple = tuple[float, float, float]


def compute_linear_rgb(colour: str) -> Triple:
    """Return the linear RGB of a colour `#rrggbb`."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return red, green, blue


def multiply(matrix: tuple[Triple, ...], colour: Triple) -> list[float]:
    """Return the product of a matrix and a colour."""
    return [sum(a * b for a, b in zip(row, colour, strict=True)) for row in matrix]


def compute_cielab(colour: list[float]) -> Triple:
    """Return the CIELAB coordinates of a colour in linear RGB, in the white of daylight (D65)."""
    xyz = multiply(
        ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505)),
        (colour[0], colour[1], colour[2]),
    )
    x, y, z = (
        value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116
        for value in (xyz[0] / 0.9505, xyz[1], xyz[2] / 1.089)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def compute_contrast(first: str, other: str) -> float:
    """Return the contrast ratio of two colours `#rrggbb`, by WCAG 2: from 1 to 21."""
    luminances = [
        0.2126 * red + 0.7152 * green + 0.0722 * blue
        for red, green, blue in (compute_linear_rgb(first), compute_linear_rgb(other))
    ]
    return (max(luminances) + 0.05) / (min(luminances) + 0.05)


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("fills", [FILLS, DARK_FILLS], ids=["light", "dark"])
def test_any_two_colours_differ_for_people_with_any_sight(
    fills: tuple[str, ...], sight: str
) -> None:
    seen_colours = {
        colour: compute_cielab(multiply(SIGHTS[sight], compute_linear_rgb(colour)))
        for colour in fills
    }
    too_close = [
        (first, other)
        for first, other in combinations(fills, 2)
        if sum((a - b) ** 2 for a, b in zip(seen_colours[first], seen_colours[other], strict=True))
        < LEAST_DISTANCE**2
    ]
    assert too_close == []


def test_colours_have_enough_contrast_with_the_background_of_the_page() -> None:
    """A contrast of 3 is what WCAG 2 demands of graphics."""
    assert min(compute_contrast(fill, "#ffffff") for fill in FILLS) >= 3
    assert min(compute_contrast(fill, "#0d1117") for fill in DARK_FILLS) >= 3


def test_there_is_a_look_for_each_pair_of_a_colour_and_a_pattern() -> None:
    count = len(FILLS) * len(PATTERNS)
    assert len({find_look(place) for place in range(count)}) == count
    assert find_look(count) == find_look(0)


names = st.lists(st.text("abc/", min_size=1, max_size=4), max_size=60)


@given(names=names, more=names)
def test_tenants_get_distinct_looks_while_there_are_enough_and_keep_them(
    names: list[str], more: list[str]
) -> None:
    first = assign_looks(names)
    count = len(FILLS) * len(PATTERNS)
    assert len(set(first.values())) == min(len(first), count)
    later = assign_looks([*names, *more], first)
    assert {name: later[name] for name in first} == first, "earlier tenants keep their looks"


def test_a_tenant_looks_the_same_in_another_picture() -> None:
    alone = assign_looks(["team/red"])["team/red"]
    assert assign_looks(["team/blue", "team/red", "shop/prod"])["team/red"] == alone
