"""Unreadable objects are indexed by what can be decoded of them."""

from dataclasses import dataclass
from typing import Any

import msgspec

from controller.cache import Cache
from controller.codec import DecodeFailure, Unreadable
from controller.meta import Key, ObjectMeta
from tests.controller.widgets import WIDGETS, Widget

SIZE_INDEX = "size"


@dataclass(frozen=True, slots=True)
class Outline:
    """A widget of which the size alone can be decoded."""

    metadata: ObjectMeta
    spec: Any


@dataclass(frozen=True, slots=True)
class Spec:
    """The part of a widget's spec that can be decoded."""

    size: int


def _build_key(name: str) -> Key:
    return Key("default", name)


def _build_failure(name: str, size: int | None = None) -> DecodeFailure:
    outline = Outline(ObjectMeta(name, "default"), Spec(size)) if size is not None else None
    return DecodeFailure("spec.colour: no text", outline)


def _create_cache() -> Cache[Widget]:
    return Cache(WIDGETS, indexes={SIZE_INDEX: lambda widget: [str(widget.spec.size)]})


def _build_widget(name: str, revision: int) -> Widget:
    meta = {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(revision)}
    return msgspec.convert({"metadata": meta, "spec": {"size": 1}}, Widget)


def test_an_unreadable_object_is_found_by_its_outline() -> None:
    cache = _create_cache()
    cache.replace(
        [],
        5,
        {_build_key("two"): _build_failure("two", 2), _build_key("odd"): _build_failure("odd")},
    )
    assert cache.unreadable.list_by_index(SIZE_INDEX, "2") == {_build_key("two")}
    assert cache.unreadable.list_by_index(SIZE_INDEX, "1") == set()
    assert cache.unreadable.list_unplaced(SIZE_INDEX) == {_build_key("odd")}
    assert set(cache.unreadable.find_near(SIZE_INDEX, "2")) == {
        _build_key("two"),
        _build_key("odd"),
    }
    assert set(cache.unreadable.find_near(SIZE_INDEX, "1")) == {_build_key("odd")}


def test_an_object_moves_in_the_index_with_its_outline_and_leaves_it_when_it_is_gone() -> None:
    cache = _create_cache()
    cache.replace([], 5, {_build_key("two"): _build_failure("two", 2)})
    cache.apply(Unreadable(_build_key("two"), 6, _build_failure("two", 3)))
    assert cache.unreadable.list_by_index(SIZE_INDEX, "2") == set()
    assert cache.unreadable.list_by_index(SIZE_INDEX, "3") == {_build_key("two")}
    cache.apply(Unreadable(_build_key("two"), 7, _build_failure("two", 3), deleted=True))
    assert cache.unreadable.list_by_index(SIZE_INDEX, "3") == set()
    assert not cache.unreadable


def test_an_outline_for_which_the_index_function_raises_may_have_any_value() -> None:
    cache = _create_cache()
    outline = Outline(ObjectMeta("odd", "default"), None)
    cache.replace([], 5, {_build_key("odd"): DecodeFailure("no spec", outline)})
    assert cache.unreadable.list_unplaced(SIZE_INDEX) == {_build_key("odd")}


def test_many_unreadable_objects_of_a_list_are_noted_and_reported_in_slices() -> None:
    cache, noticed, per_step = _create_cache(), list[Key](), list[int]()
    cache.subscribe_unreadable(noticed.append)
    many = {
        _build_key(f"odd-{number}"): _build_failure(f"odd-{number}", 2) for number in range(1_000)
    }
    for _ in cache.replace_in_slices([_build_widget("fine", 3)], 5, many):
        per_step.append(len(noticed))
        noticed.clear()
        assert not cache.is_synced
    assert max(per_step) <= 50
    assert cache.is_synced
    assert len(cache.unreadable) == 1_000
    for _ in cache.replace_in_slices([_build_widget("fine", 3)], 6, {}):
        pass
    assert len(cache.unreadable) == 0
