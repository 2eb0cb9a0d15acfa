"""What holds of every patch and every warning."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from envtest.admission.patchtexts import reason
from envtest.admission.warnings import add_warnings
from envtest.patching import PatchError, json_patch

NAMES = st.sampled_from(["a", "b", "0", "-", "a/b"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers(0, 2) | st.sampled_from(["x", ""]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=6,
)
PATHS = st.lists(NAMES, max_size=3).map(
    lambda parts: "".join("/" + part.replace("/", "~1") for part in parts)
)
OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "odd"])},
    optional={"path": PATHS, "from": PATHS, "value": VALUES},
)


@given(st.dictionaries(NAMES, VALUES, max_size=3), st.lists(OPERATIONS, min_size=1, max_size=4))
def test_every_patch_that_does_not_apply_is_explained(
    body: dict[str, Any], operations: list[Any]
) -> None:
    try:
        json_patch(body, operations)
    except PatchError:
        told = reason(body, operations)
        assert told
        assert told != "the patch does not apply"


@given(st.lists(st.text(max_size=700), max_size=40), st.lists(st.text(max_size=700), max_size=40))
def test_warnings_stay_within_what_headers_can_carry(before: list[str], added: list[str]) -> None:
    clean = [text for text in before if text.isprintable()]
    warnings = list(clean)
    add_warnings(warnings, added)

    assert sum(map(len, dict.fromkeys(warnings))) <= 4096 + 256
    whole = set(clean) | set(added)
    assert all(any(one.startswith(text) for one in whole) for text in warnings)
    assert not any("\n" in text for text in warnings)
