"""The log of pools that wait: only long waits are logged, and reported in the pool's status."""

from structlog.testing import capture_logs

from controller.meta import Key
from reconcilers.promises.waitlog import PATIENCE_SECONDS, REPEAT_SECONDS, WaitLog
from tests.clock import VirtualClock

POOL = Key("butler-system", "lab")


async def test_a_pool_that_waits_for_long_is_logged_with_the_reason_once_a_minute() -> None:
    clock = VirtualClock()
    wait_log = WaitLog("NetworkPool", clock)
    with capture_logs() as lines:
        wait_log.note_wait(POOL, "claims are not known")
        await clock.advance(PATIENCE_SECONDS)
        wait_log.note_wait(POOL, "claims are not known")
        wait_log.note_wait(POOL, "claims are not known")
        await clock.advance(REPEAT_SECONDS)
        wait_log.note_wait(POOL, "claims are not known")
        wait_log.note_pass(POOL)
    assert [(line["log_level"], line.get("seconds")) for line in lines] == [
        ("warning", 10),
        ("warning", 70),
        ("info", None),
    ]
    assert lines[0]["reason"] == "claims are not known"
    assert lines[0]["name"] == "lab"


async def test_a_long_wait_is_reported_once_and_again_for_the_next_wait() -> None:
    clock = VirtualClock()
    wait_log = WaitLog("NetworkPool", clock)
    for _ in range(2):
        wait_log.note_wait(POOL, "claims")
        assert not wait_log.has_waited_long(POOL)
        await clock.advance(PATIENCE_SECONDS)
        wait_log.note_wait(POOL, "claims")
        assert wait_log.has_waited_long(POOL)
        assert wait_log.should_report(POOL, "", "claims")
        wait_log.note_reported(POOL, "claims")
        assert not wait_log.should_report(POOL, "claims", "claims")
        assert not wait_log.should_report(POOL, "", "claims"), (
            "another replica has removed the report"
        )
        wait_log.note_pass(POOL)


def test_a_replica_overwrites_its_own_report_and_one_from_before_its_start() -> None:
    wait_log = WaitLog("NetworkPool", VirtualClock())
    wait_log.note_wait(POOL, "claims", shown_reason="from before a restart")
    assert wait_log.should_report(POOL, "from before a restart", "claims")
    wait_log.note_reported(POOL, "claims")
    assert wait_log.should_report(POOL, "claims", "a LIST")
    wait_log.note_reported(POOL, "a LIST")
    assert not wait_log.should_report(POOL, "what another replica waits for", "a LIST")
    assert not wait_log.should_report(POOL, "what another replica waits for", "claims")


async def test_a_short_wait_is_not_logged() -> None:
    clock = VirtualClock()
    wait_log = WaitLog("NetworkPool", clock)
    with capture_logs() as lines:
        for _ in range(3):
            wait_log.note_wait(POOL, "claims are not known")
            await clock.advance(PATIENCE_SECONDS - 1)
            wait_log.note_pass(POOL)
    assert lines == []
