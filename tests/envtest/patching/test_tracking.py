"""Who owns what after creates, updates and patches, as a real server was seen to answer."""

import copy
from typing import Any

import pytest

from controller.managedfields import get_default_manager, track_update
from controller.managedfields.entries import (
    check_manager,
    find_decoding_error,
    validate_managed_fields,
)
from envtest.patching.builtinmodels import load_builtin_model

CONFIG = load_builtin_model("", "v1", "ConfigMap")
EARLIER, NOW = "2020-01-01T00:00:00Z", "2026-01-01T00:00:00Z"


def _build_config_map(data: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", **metadata},
        "data": data,
    }


def _entry(fields: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        "manager": "z",
        "operation": "Update",
        "time": EARLIER,
        **parts,
    }


def _track(
    live: dict[str, Any] | None, new: dict[str, Any], manager: str = "m", **more: Any
) -> Any:
    track_update(live, new, manager=manager, fields=CONFIG, api_version="v1", now=NOW, **more)
    return new["metadata"].get("managedFields")


def _map_owners(entries: Any) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in entries}


def test_a_creator_owns_all_fields_except_those_that_identify_the_object() -> None:
    assert _track(None, _build_config_map({"k": "v"}, labels={"a": "b"}, uid="u")) == [
        {
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:data": {".": {}, "f:k": {}},
                "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            },
            "manager": "m",
            "operation": "Update",
            "time": NOW,
        }
    ]


def test_a_manager_that_changes_a_field_takes_it_over() -> None:
    live = _build_config_map({"a": "1", "b": "1"})
    _track(None, live, "first")
    entries = _track(live, _build_config_map({"a": "1", "b": "2", "c": "3"}), "second")
    assert _map_owners(entries) == {
        "first": {"f:data": {".": {}, "f:a": {}}},
        "second": {"f:data": {"f:b": {}, "f:c": {}}},
    }


def test_a_removed_field_has_no_owner_and_an_entry_without_fields_is_removed() -> None:
    live = _build_config_map({"a": "1", "b": "1"})
    _track(None, live, "first")
    middle = _build_config_map({"a": "1", "b": "1", "c": "1"})
    _track(live, middle, "second")
    entries = _track(middle, _build_config_map({"a": "1"}), "third")
    assert _map_owners(entries) == {"first": {"f:data": {".": {}, "f:a": {}}}}


def test_a_write_that_changes_nothing_keeps_the_time() -> None:
    live = _build_config_map(
        {"a": "1"}, managedFields=[_entry({"f:data": {"f:a": {}}}, manager="m")]
    )
    assert _track(live, copy.deepcopy(live)) == live["metadata"]["managedFields"]


def test_a_client_that_leaves_managed_fields_out_loses_nothing() -> None:
    live = _build_config_map({"a": "1"})
    entries = _track(None, live)
    assert _track(live, _build_config_map({"a": "1"})) == entries


@pytest.mark.parametrize("reset", [[], [{}], [None], [{"manager": ""}]])
def test_an_empty_list_or_entry_ends_tracking_until_the_next_apply(reset: Any) -> None:
    live = _build_config_map({"a": "1"}, uid="u")
    _track(None, live)
    new = _build_config_map({"a": "2"}, uid="u", managedFields=reset)
    assert _track(live, new) is None
    assert _track(new, _build_config_map({"a": "3"}, uid="u")) is None


@pytest.mark.parametrize("reset", [[], [{}]])
def test_a_new_object_is_tracked_even_so(reset: Any) -> None:
    assert _map_owners(_track(None, _build_config_map({"a": "1"}, managedFields=reset)))["m"]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"operation": "Bogus"}, "operation must be `Apply` or `Update`"),
        ({"apiVersion": ""}, "apiVersion must not be empty"),
        ({"fieldsType": ""}, "missing fieldsType in managed fields entry 0"),
        ({"fieldsType": "V9"}, 'invalid fieldsType "V9" in managed fields entry 0'),
        ({"fieldsV1": "x"}, "fields are objects in objects"),
        ({"fieldsV1": {"x": {}}}, "key must be 2 characters long:"),
        ({"fieldsV1": {"fx:a": {}}}, "missing colon: fx:a"),
        ({"time": "yesterday"}, "Invalid isoformat string: 'yesterday'"),
    ],
)
def test_malformed_entries_of_a_client_are_replaced_by_the_stored_ones(
    entry: dict[str, Any], problem: str
) -> None:
    live = _build_config_map({"a": "1"})
    stored = _track(None, live)
    sent = _build_config_map({"a": "1"}, managedFields=[_entry({"f:data": {}}) | entry])
    assert find_decoding_error(sent) == problem
    assert _track(live, sent) == stored


def test_entries_of_a_client_are_brought_into_the_servers_form() -> None:
    fields: dict[str, Any] = {
        "f:zz": {'k:{ "b": 2, "a": "<" }': {}, "x:new": {}},
        "f:data": {".": {}},
        "v:1": {},
    }
    sent = _entry(fields, time="2020-01-01T02:00:00+02:00")
    entries = _track(
        _build_config_map({"a": "1"}), _build_config_map({"a": "1"}, managedFields=[sent])
    )
    assert entries[0]["time"] == EARLIER
    assert entries[0]["fieldsV1"] == {
        "f:zz": {'k:{"a":"\\u003c","b":2}': {}},
        "f:data": {},
        "v:1": {},
    }


def test_entries_of_versions_that_a_builtin_kind_has_not_are_dropped() -> None:
    sent = _entry({"f:data": {"f:a": {}}}, apiVersion="v9")
    new = _build_config_map({"a": "1", "b": "1"}, managedFields=[sent])
    assert _map_owners(_track(_build_config_map({"a": "1"}), new)) == {
        "m": {"f:data": {"f:b": {}}}
    }


def test_a_subresource_ignores_the_managed_fields_that_it_is_sent() -> None:
    service = load_builtin_model("", "v1", "Service")
    entry = _entry({"f:spec": {"f:type": {}}})
    live: Any = {"metadata": {"name": "s", "managedFields": [entry]}, "spec": {}}
    new: Any = {
        **live,
        "spec": {"type": "NodePort"},
        "metadata": {"name": "s", "managedFields": [{}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}},
    }
    track_update(
        live,
        new,
        manager="ctl",
        fields=service,
        api_version="v1",
        subresource="status",
        now=NOW,
    )
    entries = new["metadata"]["managedFields"]
    assert _map_owners(entries) == {
        "ctl": {"f:status": {".": {}, "f:loadBalancer": {".": {}, "f:ingress": {}}}},
        "z": {"f:spec": {"f:type": {}}},
    }
    assert [entry.get("subresource") for entry in entries] == [None, "status"]


def test_entries_stand_by_operation_then_time_then_name() -> None:
    sent = [
        _entry({"f:data": {"f:a": {}}}, manager=name, operation=operation, time=time)
        for name, operation, time in (
            ("d", "Update", EARLIER),
            ("c", "Update", EARLIER),
            ("b", "Apply", NOW),
            ("a", "Update", NOW),
            ("e", "Apply", None),
        )
    ]
    live = _build_config_map({"a": "1"})
    entries = _track(live, _build_config_map({"a": "1"}, managedFields=sent))
    assert [entry["manager"] for entry in entries] == ["e", "b", "c", "d", "a"]


def test_more_than_ten_updaters_are_merged_into_ancient_changes() -> None:
    live = _build_config_map({"k": "0"})
    _track(None, live, "m00")
    for number in range(1, 13):
        new = _build_config_map({**live["data"], f"k{number}": "v"})
        time = f"2026-01-01T00:00:{number:02d}Z"
        track_update(
            live, new, manager=f"m{number:02d}", fields=CONFIG, api_version="v1", now=time
        )
        live = new
    entries = live["metadata"]["managedFields"]
    names = ["ancient-changes", *(f"m{number:02d}" for number in range(4, 13))]
    assert [entry["manager"] for entry in entries] == names
    assert entries[0]["fieldsV1"] == {
        "f:data": {".": {}, "f:k": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}}
    }
    assert entries[0]["time"] == "2026-01-01T00:00:03Z"


def test_items_of_a_keyed_list_that_are_there_twice_are_owned_as_one() -> None:
    service = load_builtin_model("", "v1", "Service")
    port = {"port": 80, "protocol": "TCP", "name": "x"}
    new: Any = {"metadata": {"name": "s"}, "spec": {"ports": [port, {**port, "name": "y"}]}}
    track_update(None, new, manager="m", fields=service, api_version="v1", now=NOW)
    entries = new["metadata"]["managedFields"]
    assert entries[0]["fieldsV1"] == {
        "f:spec": {"f:ports": {".": {}, 'k:{"port":80,"protocol":"TCP"}': {}}}
    }


def test_an_object_that_cannot_be_taken_apart_has_no_owners_at_all() -> None:
    service = load_builtin_model("", "v1", "Service")
    new: dict[str, Any] = {"metadata": {"name": "s"}, "spec": {"ports": [None]}}
    track_update(None, new, manager="m", fields=service, api_version="v1", now=NOW)
    assert "managedFields" not in new["metadata"]


@pytest.mark.parametrize(
    ("user_agent", "manager"),
    [
        ("kubectl/v1.32 (linux/amd64)", "kubectl"),
        ("", ""),
        ("a\tb\x00c/1", "abc"),
        ("x" * 200, "x" * 128),
        ("é" * 100, "é" * 64),
        ("Mozilla 5", "Mozilla 5"),
    ],
)
def test_a_manager_without_a_name_is_called_by_its_user_agent(
    user_agent: str, manager: str
) -> None:
    assert get_default_manager(user_agent) == manager


def test_a_manager_without_any_name_is_unknown() -> None:
    assert [entry["manager"] for entry in _track(None, _build_config_map({"a": "1"}), "")] == [
        "unknown"
    ]


def test_names_of_managers_are_short_and_printable() -> None:
    assert check_manager("ok") == []
    (long,) = check_manager("x" * 129)
    assert (long.reason, long.message) == (
        "FieldValueTooLong",
        "Too long: may not be more than 128 bytes",
    )
    (odd,) = check_manager("x\ny", "managedFields[0].manager")
    assert (odd.message, odd.field) == (
        'Invalid value: "x\\ny": invalid character U+000A (at position 1)',
        "managedFields[0].manager",
    )


def test_entries_are_validated_field_by_field() -> None:
    entry = _entry({}, manager="x\n", operation="Bogus", fieldsType="V9", subresource="s" * 257)
    problems = validate_managed_fields(_build_config_map({}, managedFields=[entry]))
    assert [problem.field for problem in problems] == [
        f"metadata.managedFields[0].{name}"
        for name in ("operation", "fieldsType", "manager", "subresource")
    ]
