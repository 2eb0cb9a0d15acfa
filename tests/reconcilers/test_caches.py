"""A part of a cache is what going through all of it would find."""

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.cache import Cache
from controller.codec import Deleted, Modified
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.caches import Part
from tests.reconcilers import make

CHANGES = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["in", "out", "gone"])))


@given(early=CHANGES, late=CHANGES, listed=st.sets(st.sampled_from("abc")))
@settings(max_examples=60, deadline=None)
def test_a_partial_view_follows_its_cache(
    early: list[tuple[str, str]], late: list[tuple[str, str]], listed: set[str]
) -> None:
    cache, revision = Cache(IP_ALLOCATION), 1

    def happen(changes: list[tuple[str, str]]) -> None:
        nonlocal revision
        for name, what in changes:
            revision += 1
            one = make.allocation(name, labels={"is": what}, resourceVersion=str(revision))
            cache.apply(Deleted(one) if what == "gone" else Modified(one))

    def names_found() -> list[str]:
        return sorted(one.metadata.name for one in part)

    def names_expected() -> list[str]:
        return sorted(one.metadata.name for one in cache if one.metadata.labels["is"] == "in")

    happen(early)
    part = Part(cache, lambda one: one.metadata.labels["is"] == "in")
    assert names_found() == names_expected()
    happen(late)
    assert names_found() == names_expected()
    cache.replace([make.allocation(name, labels={"is": "in"}) for name in listed], revision + 1)
    assert names_found() == names_expected()
