"""What a reader of the page lacks: taking every message leads to the state of the server."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconcilers.addressmap.pagemessages import build_change_message, build_whole_message, encode
from tests.reconcilers.addressmap.received import Received

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


@given(st.lists(STATES, min_size=1, max_size=5), st.integers(0, 4))
def test_a_reader_has_the_newest_state_after_each_message(
    states: list[dict[str, Any]], forgets: int
) -> None:
    received, seen = Received(), None
    for at, state in enumerate(states):
        news = (
            build_whole_message(state)
            if seen is None or at == forgets
            else build_change_message(seen, state)
        )
        received.take(encode(news))
        assert received.state == state
        seen = state


def test_one_range_that_changes_is_all_that_is_sent() -> None:
    extents = {str(at): {"size": 1, "state": "free"} for at in range(1000)}
    before = {"made": "now", "pools": {"p": {"name": "p", "percent": 0, "extents": extents}}}
    changed = {**extents, "7": {"size": 1, "state": "allocated"}}
    now = {**before, "pools": {"p": {"name": "p", "percent": 0, "extents": changed}}}
    assert build_change_message(before, now) == {
        "pools": {"set": {"p": {"extents": {"set": {"7": changed["7"]}, "drop": []}}}, "drop": []}
    }
    assert build_change_message(now, now) == {}
