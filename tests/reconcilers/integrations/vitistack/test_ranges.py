"""What a network hands out, by its settings alone; and when an address is renewed."""

import pytest

from allocator import InvalidPool
from reconcilers.integrations.vitistack.allocations import compute_renewal_margin
from reconcilers.integrations.vitistack.api import Static
from reconcilers.integrations.vitistack.ranges import parse_space


def handed_out(static: Static) -> list[str]:
    """Return every address that a network hands out."""
    blocks = parse_space(static).layout.blocks
    return [address for block in blocks for address in block.addresses(100)]


@pytest.mark.parametrize(
    ("static", "expected"),
    [
        (Static("10.0.2.0/29", "10.0.2.1"), ["2", "3", "4", "5", "6"]),
        (Static("10.0.2.0/30", "10.0.2.1"), ["2"]),
        (Static("10.0.2.5/29", "10.0.2.4"), ["2", "3", "5", "6"]),
        (
            Static("10.0.2.0/24", "", ipv4RangeStart="10.0.2.7", ipv4RangeEnd="10.0.2.9"),
            ["7", "8", "9"],
        ),
        (
            Static("10.0.2.0/29", "", ipv4RangeStart="10.0.2.0", ipv4RangeEnd="10.0.2.7"),
            ["1", "2", "3", "4", "5", "6"],
        ),
        (
            Static("10.0.2.0/31", "", ipv4RangeStart="10.0.2.0", ipv4RangeEnd="10.0.2.1"),
            ["0", "1"],
        ),
    ],
)
def test_a_network_hands_out_its_range_without_gateway_network_and_broadcast(
    static: Static, expected: list[str]
) -> None:
    assert handed_out(static) == [f"10.0.2.{last}" for last in expected]


@pytest.mark.parametrize(
    "static",
    [
        Static("10.0.2.0/32", "10.0.2.0"),
        Static("10.0.2.0/31", "10.0.2.0"),
        Static("10.0.2.0/30", "10.0.2.2"),
        Static("10.0.2.0/24", "10.0.2.1", ipv4RangeStart="10.0.2.9", ipv4RangeEnd="10.0.2.7"),
        Static("10.0.2.0/24", "10.0.2.1", "10.0.1.9"),
        Static("10.0.2.0/24", "10.0.2.1", ipv4RangeStart="", ipv4RangeEnd="10.0.3.9"),
        Static("10.0.2.0/24", "2001:db8::1"),
        Static("10.0.2.0/24", "10.0.2.1", "eth0"),
        Static("10.0.2.300/24", "10.0.2.1"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_by_the_documented_words(
    static: Static,
) -> None:
    with pytest.raises(InvalidPool, match=r"^invalid IP range: "):
        parse_space(static)


def test_expiries_are_moved_ahead_between_half_and_three_quarters_of_their_time() -> None:
    margins = [compute_renewal_margin(f"uid-{number}", 3600) for number in range(100)]
    assert min(margins) >= 900
    assert max(margins) <= 1800
    assert len(set(margins)) > 50
