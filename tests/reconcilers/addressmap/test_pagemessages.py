"""Messages to the page: a client that applies each of them has the state of the server."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconcilers.addressmap.pagemessages import build_change_message, build_whole_message, encode
from tests.reconcilers.addressmap.received import ReceivedState

NAMES = st.sampled_from("abcd")
ENTRIES = st.dictionaries(NAMES, st.fixed_dictionaries({"size": st.integers(0, 2)}))
POOLS = st.fixed_dictionaries(
    {
        "name": NAMES,
        "percent": st.integers(0, 1),
        "extents": ENTRIES,
        "requests": ENTRIES,
    }
)
STATES = st.fixed_dictionaries(
    {
        "made": NAMES,
        "order": st.lists(NAMES, max_size=2),
        "looks": st.dictionaries(NAMES, st.integers(0, 2)),
        "tenants": ENTRIES,
        "pools": st.dictionaries(NAMES, POOLS),
    }
)


@given(states=st.lists(STATES, min_size=1, max_size=5), reconnects_at=st.integers(0, 4))
def test_a_client_has_the_newest_state_after_each_message(
    states: list[dict[str, Any]], reconnects_at: int
) -> None:
    """A client gets the whole state at first and when it connects again, else the changes.

    Args:
        states: the states of the server, one after another.
        reconnects_at: the index of the state that the client gets whole.
    """
    received, state_before = ReceivedState(), None
    for at, state in enumerate(states):
        message = (
            build_whole_message(state)
            if state_before is None or at == reconnects_at
            else build_change_message(state_before, state)
        )
        received.apply_message(encode(message))
        assert received.state == state
        state_before = state


def test_the_message_of_one_changed_range_has_only_that_range() -> None:
    extents = {str(at): {"size": 1, "state": "free"} for at in range(1000)}
    before = {"made": "now", "pools": {"p": {"name": "p", "percent": 0, "extents": extents}}}
    changed = {**extents, "7": {"size": 1, "state": "allocated"}}
    now = {**before, "pools": {"p": {"name": "p", "percent": 0, "extents": changed}}}
    assert build_change_message(before, now) == {
        "pools": {"set": {"p": {"extents": {"set": {"7": changed["7"]}, "drop": []}}}, "drop": []}
    }
    assert build_change_message(now, now) == {}
