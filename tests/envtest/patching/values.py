"""JSON values that laws are tried on."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

# A busy machine is no reason to fail: how long a law takes is not what it says.
LAW = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])

NAMES = st.sampled_from("abcd")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
LISTLESS = st.dictionaries(
    NAMES,
    st.recursive(
        st.none() | st.integers(-9, 9) | NAMES,
        lambda inner: st.dictionaries(NAMES, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)
OBJECT = st.dictionaries(NAMES, JSON, max_size=4)
