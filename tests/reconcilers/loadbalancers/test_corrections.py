"""How often an edit of our objects is corrected while another writer repeats the edit."""

from reconcilers.loadbalancers.corrections import LONGEST_PAUSE, Corrections


def test_a_writer_that_overwrites_for_weeks_is_corrected_every_five_minutes() -> None:
    corrections, now = Corrections(), 0.0
    for _ in range(5000):
        while not corrections.request_correction("spec.autoAssign", now):
            due = corrections.compute_check_delay(now)
            assert due is not None
            now += due
        corrections.note_correction("IPAddressPool", "spec.autoAssign", now)
        corrections.take_unreported()
    assert not corrections.request_correction("spec.autoAssign", now + LONGEST_PAUSE - 1)
    assert corrections.describe_contest(now) != ""
    assert corrections.request_correction("spec.autoAssign", now + LONGEST_PAUSE)
