"""What is kept of a space is what its objects say, change by change."""

from datetime import UTC, datetime

from allocator import AddressRange, Layout
from controller.meta import Key
from reconcilers.integrations.core.contents import NOTHING, Contents, Holding

A, B = Key("team", "a"), Key("team", "b")
EARLY, LATE = (datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2))


def blocks(first: int, last: int) -> AddressRange:
    return AddressRange.parse(f"10.0.0.{first}", f"10.0.0.{last}")


def contents() -> Contents:
    return Contents(Layout.parse("10.0.0.0/29"))


def test_what_two_objects_of_one_name_hold_is_held_once_and_until_both_are_gone() -> None:
    found = contents()
    found.put("claims", A, Holding(blocks(0, 0)))
    found.put("addresses", A, Holding(blocks(0, 0), counted=True))
    assert (found.space.used, found.used) == (1, 1)
    assert found.other_holder(blocks(0, 0), A) is None
    found.put("addresses", A, NOTHING)
    assert (found.space.used, found.used) == (1, 0)
    found.put("claims", A, NOTHING)
    assert found.space.used == 0


def test_another_holder_of_a_part_of_it_is_found_also_where_sizes_differ() -> None:
    found = contents()
    found.put("addresses", A, Holding(blocks(2, 2)))
    assert found.other_holder(blocks(2, 2), B) == A
    found.put("addresses", B, Holding(blocks(0, 3)))
    assert found.other_holder(blocks(2, 2), A) == B
    assert found.other_holder(blocks(4, 4), A) is None


def test_who_waits_is_in_the_order_of_age_then_name_and_leaves_when_served() -> None:
    found = contents()
    found.put("claims", B, Holding(place=(EARLY, B)))
    found.put("claims", A, Holding(place=(LATE, A)))
    assert queued(found) == [B, A]
    found.put("claims", B, Holding(blocks(0, 0)))
    assert queued(found) == [A]


def queued(found: Contents) -> list[Key]:
    return [key for _, key in found.turns()]


def test_equal_requests_wait_in_one_row_unless_another_object_has_their_name() -> None:
    found = contents()
    for key, created in ((A, LATE), (B, EARLY)):
        found.put("claims", key, Holding(place=(created, key), row="equal"))
    turns = found.turns()
    assert next(turns) == (EARLY, B)
    turns.leave_out()
    assert list(turns) == []
    found.put("addresses", A, Holding(blocks(0, 0)))
    turns = found.turns()
    assert next(turns) == (EARLY, B)
    turns.leave_out()
    assert list(turns) == [(LATE, A)]
    found.put("addresses", A, NOTHING)
    found.put("claims", B, NOTHING)
    assert queued(found) == [A]
    assert (found.waiting, found.oldest) == (1, LATE)


def test_different_things_outside_are_counted_each_once() -> None:
    found = contents()
    found.put("addresses", A, Holding(outside="10.9.9.9", counted=True))
    found.put("addresses", B, Holding(outside="10.9.9.9", counted=True))
    assert (found.outside, found.used) == (1, 2)
    found.put("addresses", A, NOTHING)
    assert (found.outside, found.used) == (1, 1)
    found.put("addresses", B, NOTHING)
    assert (found.outside, found.used) == (0, 0)
