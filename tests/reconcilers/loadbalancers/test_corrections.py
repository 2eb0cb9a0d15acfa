"""How often an edit of what is ours is written back, however long another writer insists."""

from reconcilers.loadbalancers.corrections import LONGEST_PAUSE, Corrections


def test_a_writer_that_overwrites_for_weeks_is_corrected_every_five_minutes() -> None:
    upkeep, now = Corrections(), 0.0
    for _ in range(5000):
        while not upkeep.request_correction("spec.autoAssign", now):
            due = upkeep.compute_check_delay(now)
            assert due is not None
            now += due
        upkeep.note_correction("IPAddressPool", "spec.autoAssign", now)
        upkeep.take_unreported()
    assert not upkeep.request_correction("spec.autoAssign", now + LONGEST_PAUSE - 1)
    assert upkeep.describe_contest(now) != ""
    assert upkeep.request_correction("spec.autoAssign", now + LONGEST_PAUSE)
