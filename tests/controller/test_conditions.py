"""Conditions: their transition times, their order, and their JSON."""

from datetime import UTC, datetime, timedelta, timezone

import msgspec
from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from controller.conditions import (
    Condition,
    find_condition,
    format_rfc3339,
    format_rfc3339_micro,
    is_true,
    remove_condition,
    set_condition,
    to_json,
)

EARLY = datetime(2026, 1, 1, tzinfo=UTC)
LATE = EARLY + timedelta(hours=1)
READY = Condition("Ready", "True", "Allocated", "10.0.0.1", EARLY, 1)
OTHER = Condition("Other", "False", "No", "", EARLY)


def test_a_new_condition_is_added_at_the_end_with_the_present_time() -> None:
    late = LATE.replace(microsecond=123)
    after = set_condition([OTHER], Condition("Ready", "True", "Allocated"), late)
    assert after == (OTHER, Condition("Ready", "True", "Allocated", "", LATE))


def test_the_transition_time_moves_with_the_status_and_with_nothing_else() -> None:
    reworded = Condition("Ready", "True", "Moved", "10.0.0.2", LATE, 2)
    (kept,) = set_condition([READY], reworded, LATE)
    assert kept == Condition("Ready", "True", "Moved", "10.0.0.2", EARLY, 2)
    (moved,) = set_condition([READY], Condition("Ready", "False", "Lost"), LATE)
    assert moved.lastTransitionTime == LATE


def test_a_condition_without_a_time_gets_one() -> None:
    (mended,) = set_condition([Condition("Ready", "True")], Condition("Ready", "True"), LATE)
    assert mended.lastTransitionTime == LATE


def test_setting_an_equal_condition_changes_nothing_and_keeps_the_order() -> None:
    assert set_condition([READY, OTHER], READY, LATE) == (READY, OTHER)


def test_conditions_are_found_by_type_and_removed_by_type() -> None:
    assert find_condition([OTHER, READY], "Ready") is READY
    assert find_condition([OTHER], "Ready") is None
    assert is_true([READY, OTHER], "Ready")
    assert not is_true([READY, OTHER], "Other")
    assert not is_true([], "Ready")
    assert remove_condition([READY, OTHER], "Ready") == (OTHER,)


def test_a_condition_is_written_with_whole_seconds_and_without_absent_fields() -> None:
    assert to_json(READY) == {
        "type": "Ready",
        "status": "True",
        "reason": "Allocated",
        "message": "10.0.0.1",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    assert set(to_json(Condition("Ready", "True"))) == {"type", "status", "reason", "message"}


def test_times_are_written_in_utc_whatever_their_zone() -> None:
    moment = datetime(2026, 1, 1, 2, 0, 0, 5, tzinfo=timezone(timedelta(hours=2)))
    assert format_rfc3339(moment) == "2026-01-01T00:00:00Z"
    assert format_rfc3339_micro(moment) == "2026-01-01T00:00:00.000005Z"


@dataclass(frozen=True)
class Status:
    """A status with conditions, as the API kinds have."""

    conditions: tuple[Condition, ...] = ()


def test_both_decoders_read_written_conditions_alike() -> None:
    body = {"conditions": [to_json(READY), to_json(OTHER)]}
    assert msgspec.json.decode(msgspec.json.encode(body), type=Status).conditions == (READY, OTHER)
    assert TypeAdapter(Status).validate_python(body).conditions == (READY, OTHER)
