"""The usual write of a status is settled on a shorter way, and nobody can tell."""

import copy
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from envtest.patching import FieldModel, Versions, merge_patch, track_update, tracking
from envtest.patching.entries import UPDATE
from envtest.patching.entries import manager as manager_of
from envtest.patching.renewal import renewed
from tests.envtest.patching.values import LAW

VERSION, EARLIER, NOW = "x/v1", "2026-01-01T00:00:00Z", "2026-01-01T00:00:07Z"
TEXT = {"type": "string"}
ITEM = {
    "type": "object",
    "properties": {"type": TEXT, "value": TEXT, "parts": {"type": "array", "items": TEXT}},
}
PROPERTIES: dict[str, Any] = {
    "text": TEXT,
    "count": {"type": "integer"},
    "either": {"x-kubernetes-int-or-string": True},
    "whole": {"type": "array", "items": TEXT},
    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
    "conditions": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": ITEM,
    },
    "labels": {"type": "object", "additionalProperties": TEXT},
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
PART = {"type": "object", "properties": PROPERTIES}
# The status of another day: what was taken apart is one whole, so older entries are out of line.
CHANGED = {"type": "object", "properties": {**PROPERTIES, "conditions": {"type": "array"}}}
MODEL = FieldModel.from_schema({"type": "object", "properties": {"spec": PART, "status": PART}})
LATER = FieldModel.from_schema({"type": "object", "properties": {"spec": PART, "status": CHANGED}})

WORDS = st.sampled_from(["1", "2"])
ITEMS = st.fixed_dictionaries(
    {"type": WORDS}, optional={"value": WORDS, "parts": st.lists(WORDS, max_size=2)}
)
PARTS = st.fixed_dictionaries(
    {},
    optional={
        "text": WORDS,
        "count": st.integers(0, 1),
        "either": st.sampled_from([0, 1, "1", True, 1.0]),
        "whole": st.lists(WORDS, max_size=2),
        "tags": st.lists(WORDS, max_size=2),
        "conditions": st.lists(ITEMS, max_size=2),
        "labels": st.dictionaries(WORDS, WORDS, max_size=2),
        "any": st.sampled_from(
            [{}, {"a": 1}, {"a": True}, {"a": [1]}, {"a": [True]}, {"a": None}]
        ),
    },
)


def _twist(value: Any, word: str) -> Any:
    """Return a value of the same shape: the usual write."""
    if isinstance(value, dict):
        return {k: v if k == "type" else _twist(v, word) for k, v in reversed(value.items())}
    if isinstance(value, list):
        return [_twist(item, word) for item in value]
    return word if isinstance(value, str) else value


@st.composite
def _writes(draw: st.DrawFn) -> list[tuple[dict[str, Any], dict[str, Any], FieldModel]]:
    """Return patches, each with who makes it through which subresource, and how the type is."""
    status, writes = draw(PARTS), []
    for _ in range(draw(st.integers(1, 5))):
        usual = draw(st.integers(0, 3)) > 0
        status = _twist(status, draw(WORDS)) if usual else draw(PARTS)
        patch: dict[str, Any] = {"status": status}
        if not draw(st.integers(0, 5)):
            patch |= {
                "spec": draw(PARTS),
                "metadata": {"labels": {"l": draw(WORDS)}},
            }
        call = {
            "manager": draw(st.sampled_from("aaab")),
            "subresource": draw(st.sampled_from(["status", "status", "status", ""])),
            "api_version": draw(st.sampled_from([VERSION, VERSION, VERSION, "x/v2"])),
            "now": draw(st.sampled_from([EARLIER, NOW, "2026-01-01T00:00:09Z"])),
        }
        writes.append((call, patch, draw(st.sampled_from([MODEL, MODEL, MODEL, LATER]))))
    return writes


def _created(body: dict[str, Any]) -> dict[str, Any]:
    obj = {"apiVersion": VERSION, "kind": "X", "metadata": {"name": "x", "labels": {"l": "1"}}}
    obj |= body
    track_update(None, obj, manager="a", fields=MODEL, api_version=VERSION, now=EARLIER)
    return obj


def _patched(live: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return the patched object with a metadata of its own, which shares its parts."""
    new: dict[str, Any] = merge_patch(live, patch)
    return {**new, "metadata": dict(new["metadata"])}


def _tracked(
    live: dict[str, Any], new: dict[str, Any], model: FieldModel, call: dict[str, Any]
) -> Any:
    versions = Versions(lambda _: model, lambda obj, version: {**obj, "apiVersion": version})
    track_update(live, new, fields=model, versions=versions, **call)
    return new["metadata"].get("managedFields")


def _in_general(
    live: dict[str, Any], new: dict[str, Any], model: FieldModel, call: dict[str, Any]
) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracking, "renewed", lambda *_: None)
        return _tracked(live, new, model, call)


@LAW
@given(PARTS, _writes())
def test_the_shorter_way_leads_where_the_general_one_does(
    spec: dict[str, Any], writes: list[tuple[dict[str, Any], dict[str, Any], FieldModel]]
) -> None:
    live = _created({"spec": spec})
    for call, patch, model in writes:
        live["apiVersion"] = call["api_version"]
        before = copy.deepcopy(live)
        note(f"{call} {patch} {'later' if model is LATER else ''}")
        general, shared = _patched(live, patch), _patched(live, patch)
        copied = copy.deepcopy(shared)
        expected = _in_general(live, general, model, call)
        assert _tracked(live, shared, model, call) == expected
        assert _tracked(live, copied, model, call) == expected
        assert shared == copied == general
        assert live == before, "what was passed in was changed in place"
        live = shared


def test_of_metadata_only_the_entries_may_hold_true_where_there_was_1() -> None:
    root = MODEL.root.members
    metadata = root.fields["metadata"].members if root else None
    assert metadata is not None
    assert [k for k, node in metadata.fields.items() if not node.strict] == ["managedFields"]


ENTRY = {
    "apiVersion": VERSION,
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:spec": {"f:text": {}}},
    "manager": "b",
    "operation": "Update",
    "time": EARLIER,
}
STATUS = {
    "text": "1",
    "count": 1,
    "whole": ["1"],
    "conditions": [{"type": "1", "value": "1"}, {"type": "2"}],
    "labels": {"1": "1"},
    "any": {"a": 1},
}
_CALL = {"manager": "a", "subresource": "status", "api_version": VERSION, "now": NOW}


def _with_status() -> dict[str, Any]:
    live = _created({"spec": {"text": "1"}})
    new = _patched(live, {"status": STATUS})
    _tracked(live, new, MODEL, {**_CALL, "now": EARLIER})
    return new


def _renewed(live: dict[str, Any], new: dict[str, Any], model: FieldModel = MODEL) -> Any:
    return renewed(model, live, new, manager_of("a", UPDATE, VERSION, "status"), NOW)


@pytest.mark.parametrize(
    ("patch", "changed"),
    [
        ({}, False),
        ({"text": "1"}, False),
        ({"text": "2"}, True),
        ({"count": 0}, True),
        ({"whole": ["2", "1"]}, True),
        ({"labels": {"1": "2"}}, True),
        ({"conditions": [{"value": "2", "type": "1"}, {"type": "2"}]}, True),
    ],
)
def test_a_status_that_is_said_again_moves_one_time_at_most(
    patch: dict[str, Any], changed: bool
) -> None:
    live = _with_status()
    first, second = live["metadata"]["managedFields"]
    expected = [first, {**second, "time": NOW if changed else EARLIER}]
    assert _renewed(live, _patched(live, {"status": patch})) == expected
    assert second["time"] == EARLIER


@pytest.mark.parametrize(
    "patch",
    [
        {"status": {"text": None}},
        {"status": {"either": "1"}},
        {"status": {"text": 1}},
        {"status": {"conditions": [{"type": "1", "value": "1"}]}},
        {"status": {"conditions": [{"type": "2"}, {"type": "1", "value": "1"}]}},
        {"status": {"conditions": [{"type": "1", "value": "1"}, {"type": "1"}]}},
        {"status": {"conditions": [{"type": "1", "value": "1"}, {}]}},
        {"status": {"labels": {"2": "1"}}},
        {"status": {"any": {"a": True}}},
        {"status": None},
        {"spec": {"text": "2"}},
        {"metadata": {"labels": {"l": "2"}}},
        {"other": "1"},
    ],
)
def test_a_write_that_does_more_is_settled_in_general(patch: dict[str, Any]) -> None:
    live = _with_status()
    assert _renewed(live, _patched(live, patch)) is None


@pytest.mark.parametrize(
    "entries",
    [
        [ENTRY],
        [{**ENTRY, "fieldsV1": {"f:status": {"f:count": {}}}}],
        [{**ENTRY, "apiVersion": "x/v0"}],
        [{**ENTRY, "manager": ""}],
        [{**ENTRY, "fieldsV1": {}}],
        [ENTRY, {**ENTRY, "time": NOW}],
        [{**ENTRY, "manager": f"m{number}"} for number in range(10)],
    ],
    ids=["alone", "shared", "version", "nameless", "nothing", "twice", "many"],
)
def test_entries_that_any_write_would_change_are_settled_in_general(
    entries: list[dict[str, Any]],
) -> None:
    live = _with_status()
    found = live["metadata"]["managedFields"]
    live["metadata"]["managedFields"] = [*entries, *(found if entries != [ENTRY] else found[:1])]
    assert _renewed(live, _patched(live, {"status": {"text": "2"}})) is None


def test_entries_from_before_a_change_of_the_schema_are_settled_in_general() -> None:
    live = _with_status()
    assert _renewed(live, _patched(live, {"status": {"text": "2"}}), LATER) is None


def test_a_write_that_may_touch_metadata_is_settled_in_general() -> None:
    live = _with_status()
    plain = FieldModel.from_schema({"type": "object"}, status_subresource=False)
    assert _renewed(live, _patched(live, {"status": {"text": "2"}}), plain) is None


@pytest.mark.parametrize(
    ("fields", "patch"),
    [
        ({"f:status": {"f:count": {}}}, {"status": {"text": "2"}}),
        ({"f:status": {"f:text": {}}}, {"status": {"text": "2", "whole": ["2"]}}),
        ({"f:status": {"f:text": {}}}, {"status": {"text": "2", "any": {"a": True}}}),
        ({"f:status": {}}, {"status": {"text": "2"}}),
        ({"f:status": {}, "f:spec": {"f:text": {}}}, {"spec": {"text": "2"}}),
        ({"f:status": {}, "f:kind": {}}, {"kind": "Y"}),
        ({"f:status": {"f:conditions": {".": {}, 'k:{"type":"2"}': {}}}}, {"status": {}}),
        (
            {"f:status": {"f:conditions": {'k:{"type":"3"}': {"f:value": {}}}}},
            {"status": {"conditions": [{"type": "3", "value": "1"}, {"type": "3", "value": "2"}]}},
        ),
    ],
    ids=["text", "list", "true", "whole", "spec", "kind", "nothing", "twice"],
)
def test_whatever_the_writer_is_said_to_own_both_ways_lead_to_the_same(
    fields: dict[str, Any], patch: dict[str, Any]
) -> None:
    live = _with_status()
    twice = [{"type": "3", "value": "1"}, {"type": "3", "value": "1"}]
    live["status"] = {**live["status"], "conditions": twice}
    live["metadata"]["managedFields"][:] = [
        {**live["metadata"]["managedFields"][1], "fieldsV1": fields}
    ]
    expected = _in_general(live, _patched(live, patch), MODEL, _CALL)
    assert _tracked(live, _patched(live, patch), MODEL, _CALL) == expected


def test_entries_that_stand_in_no_order_are_put_in_order() -> None:
    live = _with_status()
    live["metadata"]["managedFields"].reverse()
    found = _renewed(live, _patched(live, {"status": {"text": "2"}}))
    assert [entry["time"] for entry in found] == [EARLIER, NOW]
