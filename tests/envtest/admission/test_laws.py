"""What holds of every warning."""

from hypothesis import given
from hypothesis import strategies as st

from envtest.admission.answers import add_warnings


@given(st.lists(st.text(max_size=700), max_size=40), st.lists(st.text(max_size=700), max_size=40))
def test_warnings_stay_within_what_headers_can_carry(before: list[str], added: list[str]) -> None:
    clean = [text for text in before if text.isprintable()]
    warnings = list(clean)
    add_warnings(warnings, added)

    assert sum(map(len, dict.fromkeys(warnings))) <= 4096 + 256
    whole = set(clean) | set(added)
    assert all(any(one.startswith(text) for one in whole) for text in warnings)
    assert not any("\n" in text for text in warnings)
