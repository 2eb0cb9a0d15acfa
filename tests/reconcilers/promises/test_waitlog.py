"""Pools that wait for long are logged, and no others."""

from structlog.testing import capture_logs

from controller.meta import Key
from reconcilers.promises.waitlog import PATIENCE_SECONDS, REPEAT_SECONDS, WaitLog
from tests.clock import VirtualClock

POOL = Key("butler-system", "lab")


async def test_a_pool_that_waits_for_long_is_logged_with_the_reason_once_a_minute() -> None:
    clock = VirtualClock()
    waits = WaitLog("NetworkPool", clock)
    with capture_logs() as lines:
        waits.note_wait(POOL, "claims are not known")
        await clock.advance(PATIENCE_SECONDS)
        waits.note_wait(POOL, "claims are not known")
        waits.note_wait(POOL, "claims are not known")
        await clock.advance(REPEAT_SECONDS)
        waits.note_wait(POOL, "claims are not known")
        waits.note_pass(POOL)
    assert [(line["log_level"], line.get("seconds")) for line in lines] == [
        ("warning", 10),
        ("warning", 70),
        ("info", None),
    ]
    assert lines[0]["reason"] == "claims are not known"
    assert lines[0]["name"] == "lab"


async def test_a_long_wait_is_reported_once_and_again_for_the_next_wait() -> None:
    clock = VirtualClock()
    waits = WaitLog("NetworkPool", clock)
    for _ in range(2):
        waits.note_wait(POOL, "claims")
        assert not waits.has_waited_long(POOL)
        await clock.advance(PATIENCE_SECONDS)
        waits.note_wait(POOL, "claims")
        assert waits.has_waited_long(POOL)
        assert waits.should_report(POOL, "", "claims")
        waits.note_reported(POOL, "claims")
        assert not waits.should_report(POOL, "claims", "claims")
        assert not waits.should_report(POOL, "", "claims"), "another replica corrected it"
        waits.note_pass(POOL)


def test_a_report_is_overwritten_by_the_replica_that_wrote_it_and_if_it_is_from_before() -> None:
    waits = WaitLog("NetworkPool", VirtualClock())
    waits.note_wait(POOL, "claims", shown_reason="from before a restart")
    assert waits.should_report(POOL, "from before a restart", "claims")
    waits.note_reported(POOL, "claims")
    assert waits.should_report(POOL, "claims", "a LIST")
    waits.note_reported(POOL, "a LIST")
    assert not waits.should_report(POOL, "what another replica waits for", "a LIST")
    assert not waits.should_report(POOL, "what another replica waits for", "claims")


async def test_a_short_wait_is_not_logged() -> None:
    clock = VirtualClock()
    waits = WaitLog("NetworkPool", clock)
    with capture_logs() as lines:
        for _ in range(3):
            waits.note_wait(POOL, "claims are not known")
            await clock.advance(PATIENCE_SECONDS - 1)
            waits.note_pass(POOL)
    assert lines == []
