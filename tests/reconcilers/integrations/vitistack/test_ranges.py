"""The addresses that a network hands out by its settings, and when they are renewed."""

import pytest

from allocator import InvalidPool
from reconcilers.integrations.vitistack.allocations import compute_renewal_margin
from reconcilers.integrations.vitistack.api import Static
from reconcilers.integrations.vitistack.ranges import parse_space


def list_addresses(static: Static) -> list[str]:
    """Return every address that a network with static settings hands out."""
    blocks = parse_space(static).layout.blocks
    return [address for block in blocks for address in block.list_addresses(100)]


@pytest.mark.parametrize(
    ("static", "last_octets"),
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
    static: Static, last_octets: list[str]
) -> None:
    assert list_addresses(static) == [f"10.0.2.{octet}" for octet in last_octets]


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
def test_settings_that_contradict_each_other_are_refused_with_the_documented_message(
    static: Static,
) -> None:
    with pytest.raises(InvalidPool, match=r"^invalid IP range: "):
        parse_space(static)


def test_an_address_is_renewed_between_half_and_three_quarters_of_its_time_to_live() -> None:
    """Addresses that were allocated together are renewed at different times."""
    margins = [compute_renewal_margin(f"uid-{number}", 3600) for number in range(100)]
    assert min(margins) >= 900
    assert max(margins) <= 1800
    assert len(set(margins)) > 50
