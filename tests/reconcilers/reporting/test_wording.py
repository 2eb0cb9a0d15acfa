"""Counted nouns and lists that are cut, in messages."""

import pytest

from allocator import AddressRange
from reconcilers.networkpool import status
from reconcilers.networkpool.choicewords import describe_allocated
from reconcilers.reporting.wording import count_addresses, count_noun, name_with_count, truncate
from tests.reconcilers import make


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 IPs"), (1, "1 IP"), (2, "2 IPs"), (1024, "1024 IPs")]
)
def test_one_is_singular(number: int, words: str) -> None:
    assert count_noun(number, "IP") == words


def test_a_noun_has_the_plural_that_is_given() -> None:
    assert count_addresses(1, "node") == "1 node address"
    assert count_addresses(2) == "2 addresses"
    assert count_noun(2, "IPAddress", "IPAddresses") == "2 IPAddresses"


@pytest.mark.parametrize(
    ("items", "words"),
    [([], ""), (["a"], "a"), (["a", "b"], "a, b"), (["a", "b", "c", "d"], "a, b, and 2 more")],
)
def test_a_long_list_is_cut_and_says_how_many_more_there_are(items: list[str], words: str) -> None:
    assert name_with_count(items, named_at_most=2) == words


@pytest.mark.parametrize(("content", "expected"), [("", ""), ("abc", "abc"), ("abcd", "abc…")])
def test_a_long_text_is_cut_and_shows_that_it_is(content: str, expected: str) -> None:
    assert truncate(content, 3) == expected


def test_messages_about_one_address_are_in_the_singular() -> None:
    pool, address = make.pool(), AddressRange.parse("10.40.0.0", "10.40.0.0")
    message = describe_allocated(pool, [address], "as pinned")
    assert message == "allocated 1 IP: 10.40.0.0/32 from lab, as pinned"
    assert (
        status.describe_waiting_deletion(1).message
        == "waiting for 1 active allocation to be released"
    )
