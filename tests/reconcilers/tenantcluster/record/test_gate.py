"""The bounded wait of the release check for a balancer that does not count its addresses."""

from hypothesis import given
from hypothesis import strategies as st

from reconcilers.tenantcluster.record.gate import FORGET_SECONDS, BoundedWait

WAIT = 10.0
NOT_SERVED = (7, "not served", 0)
STATES = [NOT_SERVED, (9, "not served", 0), (7, "uid-pool", 3), None]
"""States that a check sees: the revision of the mark, and the uid and generation of the pool.

None stands for a check in which the balancer may still hand out the range; it clears the wait.
"""


@given(st.lists(st.tuples(st.sampled_from(STATES), st.floats(0, 2 * FORGET_SECONDS)), max_size=12))
def test_a_wait_has_elapsed_only_if_every_check_of_it_saw_the_same_state(
    checks: list[tuple[tuple[int, str, int] | None, float]],
) -> None:
    wait, now = BoundedWait(), 0.0
    history: list[tuple[float, tuple[int, str, int] | None]] = []
    for state, pause in checks:
        now += pause
        history.append((now, state))
        if state is None:
            wait.clear()
            continue
        unbroken_since = now
        for (earlier, seen), (later, _) in zip(history[-2::-1], history[:0:-1], strict=True):
            if seen != state or later - earlier >= FORGET_SECONDS:
                break
            unbroken_since = earlier
        assert wait.start_or_check(state, WAIT, now) == (now - unbroken_since >= WAIT)


def test_the_wait_starts_again_if_the_range_is_marked_again() -> None:
    wait = BoundedWait()
    assert not wait.start_or_check(NOT_SERVED, WAIT, 0.0)
    assert wait.start_or_check(NOT_SERVED, WAIT, 10.0)
    assert wait.start_or_check(NOT_SERVED, WAIT, 11.0), "a pass checks again after it projects"
    marked_again = (12, *NOT_SERVED[1:])
    assert not wait.start_or_check(marked_again, WAIT, 12.0)
    assert not wait.start_or_check(NOT_SERVED, WAIT, 13.0)
