"""The name of an IPAddress consists of the prefix of its pool and of its address."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator import AddressRange
from reconcilers.integrations.metal3.addressnames import (
    find_prefixes,
    make_address_name,
    parse_name,
)

ADDRESSES = (
    st.ip_addresses()
    .filter(
        lambda address: getattr(address, "ipv4_mapped", None) is None  # metal3's schema has none
    )
    .map(
        lambda address: AddressRange(int(address), int(address), 4 if address.version == 4 else 6)
    )
)
PREFIXES = st.from_regex(r"[a-z0-9]([-.a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)


@given(ADDRESSES, PREFIXES)
def test_a_name_that_was_made_of_an_address_is_parsed_to_that_address(
    address: AddressRange, prefix: str
) -> None:
    name = make_address_name(prefix, address)
    if name != prefix:  # of the address ::, nothing but the prefix is left
        assert address in list(parse_name(name, prefix))
        assert prefix in find_prefixes(name)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("10.0.0.5", "p-10-0-0-5"),
        ("fd00::", "p-fd00"),
        ("fd00::5", "p-fd00--5"),
        ("::1", "p---1"),
        ("1:2:3:4::", "p-1-2-3-4"),
    ],
)
def test_a_name_is_made_as_metal3_makes_it(address: str, name: str) -> None:
    assert make_address_name("p", AddressRange.parse(address, address)) == name


def test_a_name_that_may_be_of_either_family_is_parsed_to_both_addresses() -> None:
    addresses = [address.start_text for address in parse_name("p-1-2-3-4", "p")]
    assert addresses == ["1.2.3.4", "1:2:3:4::"]


@pytest.mark.parametrize("name", ["q-10-0-0-5", "p-by-hand", "p", "p-", "p-10-0-0-05"])
def test_a_name_of_another_form_is_parsed_to_no_address(name: str) -> None:
    assert list(parse_name(name, "p")) == []


def test_an_ambiguous_name_may_come_from_pools_of_several_prefixes() -> None:
    assert find_prefixes("p-fd00-1--5") == ("p", "p-fd00", "p-fd00-1-")


@pytest.mark.parametrize("name", ["p", "p-", "by-hand", "x" * 253, "-" * 253])
def test_a_name_without_address_comes_from_no_pool(name: str) -> None:
    assert find_prefixes(name) == ()
