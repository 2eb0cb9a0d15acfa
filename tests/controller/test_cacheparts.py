"""A CachePart always has the objects of its cache that match its predicate."""

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.cache import Cache
from controller.cacheparts import CachePart
from controller.codec import Deleted, Modified
from tests.controller.widgets import WIDGETS, build_widget

CHANGES = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["in", "out", "gone"])))
"""Names of widgets and their new colors: `in` matches the predicate, `gone` deletes the widget."""


@given(changes_before=CHANGES, changes_after=CHANGES, listed_names=st.sets(st.sampled_from("abc")))
@settings(max_examples=60, deadline=None)
def test_a_part_has_the_matching_objects_after_events_and_lists(
    changes_before: list[tuple[str, str]],
    changes_after: list[tuple[str, str]],
    listed_names: set[str],
) -> None:
    cache, revision = Cache(WIDGETS), 1

    def apply_changes(changes: list[tuple[str, str]]) -> None:
        nonlocal revision
        for name, color in changes:
            revision += 1
            changed = build_widget(name, revision, color=color)
            cache.apply(Deleted(changed) if color == "gone" else Modified(changed))

    def list_part_names() -> list[str]:
        return sorted(cached.metadata.name for cached in part)

    def list_expected_names() -> list[str]:
        return sorted(cached.metadata.name for cached in cache if cached.spec.color == "in")

    apply_changes(changes_before)
    part = CachePart(cache, lambda cached: cached.spec.color == "in")
    assert list_part_names() == list_expected_names()
    apply_changes(changes_after)
    assert list_part_names() == list_expected_names()
    cache.replace(
        [build_widget(name, revision, color="in") for name in listed_names], revision + 1
    )
    assert list_part_names() == list_expected_names()
