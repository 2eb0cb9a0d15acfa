"""Findings, and the conditions that are made of them."""

from reconcilers.reporting.conditions import LONGEST_MESSAGE, ConditionFinding


def test_a_condition_has_no_control_characters_of_a_tenant() -> None:
    message = "Service default/esc names pool a\x1b[2J\x1b[31mALL GOOD\nsecond line"
    condition = ConditionFinding(
        "LoadBalancersServed", False, reason="Refused", message=message
    ).to_condition(1)
    assert condition.message == (
        r"Service default/esc names pool a\x1b[2J\x1b[31mALL GOOD\nsecond line"
    )


def test_a_message_of_escapes_is_cut_to_its_limit() -> None:
    message = ConditionFinding(
        "Ready", False, reason="Refused", message="\x1b" * LONGEST_MESSAGE
    ).message
    assert len(message) == LONGEST_MESSAGE
