"""Server-side apply: merging, ownership, conflicts and what goes when it is not applied any more.

The expectations were taken from a real server, request by request.
"""

from typing import Any

import pytest

from controller.managedfields import ApplyConflict, FieldModel, PatchError, Versions, apply
from tests.envtest.patching.shelf import MERGE_PATCH, Shelf

TEXT = {"type": "string"}


def _build_object_schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _build_keyed_list_schema(*keys: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
        "items": _build_object_schema(**properties),
    }


SPEC = _build_object_schema(
    text=TEXT,
    number={"type": "integer"},
    atomic={**_build_object_schema(x=TEXT, y=TEXT), "x-kubernetes-map-type": "atomic"},
    free={"type": "object", "additionalProperties": TEXT},
    tags={"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
    ports=_build_keyed_list_schema(
        "port", "proto", port={"type": "integer"}, proto={**TEXT, "default": "TCP"}, name=TEXT
    ),
    plain={"type": "array", "items": TEXT},
    any={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    nested=_build_object_schema(a=_build_object_schema(b=TEXT, c=TEXT)),
    preset={**TEXT, "default": "yes"},
)
SCHEMA = _build_object_schema(spec=SPEC, status=_build_object_schema(phase=TEXT))
API_VERSION, KIND = "test.example.com/v1", "Thing"
_STRING = ".spec.text: expected string, got "
PORT_80 = 'k:{"port":80,"proto":"TCP"}'


def _build_thing(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "t", **metadata},
        "spec": spec,
    }


@pytest.fixture(name="shelf")
def _shelf() -> Shelf:
    """Return an empty store for the kind of these tests."""
    return Shelf(SCHEMA, API_VERSION, KIND)


def _find_owned_fields(obj: dict[str, Any], manager: str, operation: str = "Apply") -> Any:
    (fields,) = (
        entry["fieldsV1"]
        for entry in obj["metadata"].get("managedFields", ())
        if (entry["manager"], entry["operation"]) == (manager, operation)
    )
    return fields


def test_an_applier_owns_the_fields_that_it_applied_and_no_defaults(shelf: Shelf) -> None:
    created = shelf.apply("t", _build_thing({"text": "1", "ports": [{"port": 80}]}), "a")
    assert created["spec"]["preset"] == "yes"
    assert created["spec"]["ports"] == [{"port": 80, "proto": "TCP"}]
    assert _find_owned_fields(created, "a") == {
        "f:spec": {"f:ports": {PORT_80: {".": {}, "f:port": {}}}, "f:text": {}}
    }


def test_fields_that_are_not_applied_any_more_are_removed(shelf: Shelf) -> None:
    shelf.apply("t", _build_thing({"text": "1", "ports": [{"port": 80}, {"port": 81}]}), "a")
    remaining = shelf.apply("t", _build_thing({"ports": [{"port": 81}]}), "a")
    assert remaining["spec"] == {"preset": "yes", "ports": [{"port": 81, "proto": "TCP"}]}


def test_a_field_that_another_manager_owns_too_is_not_removed(shelf: Shelf) -> None:
    shelf.apply("t", _build_thing({"ports": [{"port": 80}], "tags": ["x", "y"]}), "a")
    shelf.apply("t", _build_thing({"ports": [{"port": 80, "name": "n"}], "tags": ["y"]}), "b")
    remaining = shelf.apply("t", _build_thing({}), "a")
    assert remaining["spec"]["ports"] == [{"port": 80, "proto": "TCP", "name": "n"}]
    assert remaining["spec"]["tags"] == ["y"]


def test_a_field_that_an_updater_has_changed_is_not_removed(shelf: Shelf) -> None:
    shelf.apply("t", _build_thing({"text": "1", "number": 1}), "a")
    shelf.patch("t", MERGE_PATCH, patch={"spec": {"text": "2"}}, manager="editor")
    remaining = shelf.apply("t", _build_thing({}), "a")
    assert remaining["spec"] == {"text": "2", "preset": "yes"}


def test_sharing_a_value_is_no_conflict(shelf: Shelf) -> None:
    shelf.apply("t", _build_thing({"text": "1"}), "a")
    shared = shelf.apply("t", _build_thing({"text": "1"}), "b")
    assert (
        _find_owned_fields(shared, "a")
        == _find_owned_fields(shared, "b")
        == {"f:spec": {"f:text": {}}}
    )


def test_an_entry_that_never_changed_anything_has_no_time_and_comes_first(shelf: Shelf) -> None:
    shelf.apply("t", _build_thing({"text": "1"}), "a")
    shared = shelf.apply("t", _build_thing({"text": "1"}), "b")
    entries = shared["metadata"]["managedFields"]
    assert [(e["manager"], "time" in e) for e in entries] == [("b", False), ("a", True)]


def test_changing_a_field_that_another_manager_applies_is_a_conflict(shelf: Shelf) -> None:
    shelf.apply("t", _build_thing({"ports": [{"port": 80, "name": "n"}], "tags": ["x"]}), "a")
    with pytest.raises(ApplyConflict) as refused:
        shelf.apply("t", _build_thing({"ports": [{"port": 80, "name": "m"}], "tags": ["y"]}), "b")
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    field = '.spec.ports[port=80,proto="TCP"].name'
    assert refused.value.message == f'Apply failed with 1 conflict: conflict with "a": {field}'
    assert refused.value.details == {
        "causes": [
            {"reason": "FieldManagerConflict", "message": 'conflict with "a"', "field": field}
        ]
    }


def test_several_conflicts_are_listed_by_owner(shelf: Shelf) -> None:
    shelf.apply("t", _build_thing({"text": "1", "number": 1}), "a")
    shelf.patch("t", MERGE_PATCH, patch={"spec": {"free": {"k": "1"}}}, manager="editor")
    with pytest.raises(ApplyConflict) as refused:
        shelf.apply("t", _build_thing({"text": "2", "number": 2, "free": {"k": "2"}}), "b")
    assert refused.value.message == (
        'Apply failed with 3 conflicts: conflicts with "a":\n'
        "- .spec.number\n"
        "- .spec.text\n"
        'conflicts with "editor" using test.example.com/v1:\n'
        "- .spec.free.k"
    )
    assert len(refused.value.causes) == 3


def test_force_takes_fields_over(shelf: Shelf) -> None:
    shelf.apply("t", _build_thing({"text": "1", "number": 1}), "a")
    forced = shelf.apply("t", _build_thing({"text": "2"}), "b", force=True)
    assert forced["spec"]["text"] == "2"
    assert _find_owned_fields(forced, "a") == {"f:spec": {"f:number": {}}}
    assert _find_owned_fields(forced, "b") == {"f:spec": {"f:text": {}}}


def test_atomic_values_and_free_form_lists_have_one_owner(shelf: Shelf) -> None:
    spec = {"atomic": {"x": "1"}, "plain": ["a"], "any": {"l": [1], "m": {"k": 1}}}
    created = shelf.apply("t", _build_thing(spec), "a")
    assert _find_owned_fields(created, "a") == {
        "f:spec": {
            "f:any": {"f:l": {}, "f:m": {".": {}, "f:k": {}}},
            "f:atomic": {},
            "f:plain": {},
        }
    }
    with pytest.raises(ApplyConflict, match=r"\.spec\.atomic$"):
        shelf.apply("t", _build_thing({"atomic": {"y": "2"}}), "b")


def test_empty_and_null_values_are_owned_by_name(shelf: Shelf) -> None:
    created = shelf.apply("t", _build_thing({"free": {}, "nested": {"a": {}}, "text": None}), "a")
    assert _find_owned_fields(created, "a") == {
        "f:spec": {"f:free": {}, "f:nested": {"f:a": {}}, "f:text": {}}
    }


def test_applied_items_take_their_order_among_the_items_of_other_managers(shelf: Shelf) -> None:
    shelf.apply("t", _build_thing({"tags": ["a", "b", "c"]}), "a")
    merged = shelf.apply("t", _build_thing({"tags": ["c", "x", "a"]}), "b")
    assert merged["spec"]["tags"] == ["b", "c", "x", "a"]


def test_updates_and_applies_of_one_manager_have_entries_of_their_own(shelf: Shelf) -> None:
    shelf.create(_build_thing({"text": "1"}), "a")
    with pytest.raises(ApplyConflict, match='conflict with "a" using test'):
        shelf.apply("t", _build_thing({"text": "2"}), "a")
    forced = shelf.apply("t", _build_thing({"text": "2"}), "a", force=True)
    assert _find_owned_fields(forced, "a") == {"f:spec": {"f:text": {}}}
    assert _find_owned_fields(forced, "a", "Update") == {"f:spec": {".": {}, "f:preset": {}}}


def test_the_first_apply_gives_an_untracked_past_a_name(shelf: Shelf) -> None:
    created = shelf.create(_build_thing({"text": "1", "number": 1}), "a")
    shelf.replace(
        "t", {**created, "metadata": {**created["metadata"], "managedFields": [{}]}}, "a"
    )
    assert "managedFields" not in shelf.objects["t"]["metadata"]
    with pytest.raises(ApplyConflict, match='conflict with "before-first-apply" using'):
        shelf.apply("t", _build_thing({"text": "2"}), "b")
    applied = shelf.apply("t", _build_thing({"text": "1"}), "b")
    assert _find_owned_fields(applied, "before-first-apply", "Update") == {
        "f:spec": {".": {}, "f:number": {}, "f:preset": {}, "f:text": {}}
    }


def test_status_is_owned_through_its_subresource_only(shelf: Shelf) -> None:
    created = shelf.apply("t", {**_build_thing({"text": "1"}), "status": {"phase": "x"}}, "a")
    assert _find_owned_fields(created, "a") == {"f:spec": {"f:text": {}}}
    body = {**_build_thing({"text": "2"}), "status": {"phase": "y"}}
    applied = shelf.apply("t", body, "ctl", subresource="status")
    assert (applied["spec"]["text"], applied["status"]) == ("1", {"phase": "y"})
    assert _find_owned_fields(applied, "ctl") == {"f:status": {"f:phase": {}}}


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"metadata": {"name": "t"}}, 400, "invalid object type: /, Kind="),
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "t"}},
            400,
            "invalid object type: /v1, Kind=ConfigMap",
        ),
        (_build_thing({}, managedFields=[]), 400, "metadata.managedFields must be nil"),
    ],
)
def test_an_object_of_another_type_is_refused(
    shelf: Shelf, body: dict[str, Any], status: int, message: str
) -> None:
    with pytest.raises(PatchError) as refused:
        shelf.apply("t", body, "a")
    assert (refused.value.status, refused.value.message) == (status, message)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"bogus": 1}, ".spec.bogus: field not declared in schema"),
        ({"text": 5}, _STRING + "5"),
        (
            {"text": {"a": [1, "b"]}},
            _STRING + '{"a":[1,"b"]}',
        ),
        ({"number": "1"}, ".spec.number: expected numeric (int or float), got string"),
        ({"free": "x"}, '.spec.free: expected map, got "x"'),
        ({"plain": {"a": 1}}, '.spec.plain: expected list, got {"a":1}'),
        (
            {"plain": ["a", True]},
            ".spec.plain[1]: expected string, got true",
        ),
        ({"tags": ["x", "x"]}, '.spec.tags: duplicate entries for key [="x"]'),
        (
            {"ports": [{"port": 80}, {"port": 80, "proto": "TCP"}]},
            '.spec.ports: duplicate entries for key [port=80,proto="TCP"]',
        ),
        (
            {"ports": [None]},
            ".spec.ports: element 0: associative list with keys may not have a null element",
        ),
    ],
)
def test_an_object_that_does_not_fit_its_schema_is_an_internal_error(
    shelf: Shelf, spec: dict[str, Any], problem: str
) -> None:
    with pytest.raises(PatchError) as refused:
        shelf.apply("t", _build_thing(spec, namespace="ns"), "a")
    assert (refused.value.status, refused.value.reason) == (500, "")
    assert refused.value.message == (
        f"failed to create typed patch object (ns/t; test.example.com/v1, Kind=Thing): {problem}"
    )


def test_a_schema_that_became_atomic_takes_the_parts_together(shelf: Shelf) -> None:
    before = shelf.apply("t", _build_thing({"nested": {"a": {"b": "1", "c": "1"}}}), "a")
    changed = {**SPEC["properties"]["nested"], "x-kubernetes-map-type": "atomic"}
    schema = _build_object_schema(
        spec=_build_object_schema(**{**SPEC["properties"], "nested": changed})
    )
    after = apply(
        before,
        _build_thing({"text": "1"}),
        manager="b",
        force=False,
        fields=FieldModel.from_schema(schema),
        now=shelf.now,
    )
    assert _find_owned_fields(after, "a") == {"f:spec": {"f:nested": {}}}


def test_a_version_that_a_custom_resource_has_lost_ends_apply(shelf: Shelf) -> None:
    before = shelf.apply("t", _build_thing({"text": "1"}), "a")
    entry = before["metadata"]["managedFields"][0]
    entry["apiVersion"] = "test.example.com/v0"
    with pytest.raises(PatchError) as refused:
        shelf.apply("t", _build_thing({"text": "1"}), "b")
    assert (refused.value.status, refused.value.message) == (
        500,
        "request to convert CR to an invalid group/version: test.example.com/v0",
    )


def test_fields_applied_in_another_version_are_pruned_in_that_version(shelf: Shelf) -> None:
    other = "test.example.com/v2"
    versions = Versions(lambda _: shelf.model, lambda obj, to: {**obj, "apiVersion": to})
    before = shelf.apply("t", _build_thing({"text": "1", "number": 1}), "a")
    body = {**_build_thing({"number": 1}), "apiVersion": other}
    after = apply(
        {**before, "apiVersion": other},
        body,
        manager="a",
        force=False,
        fields=shelf.model,
        now=shelf.now,
        versions=versions,
    )
    assert after["apiVersion"] == other
    assert after["spec"] == {"number": 1, "preset": "yes"}
    assert _find_owned_fields(after, "a") == {"f:spec": {"f:number": {}}}
