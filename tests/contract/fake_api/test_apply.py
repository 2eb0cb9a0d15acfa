"""Server-side apply: owners of fields, conflicts, force, and fields that are no longer applied."""

from collections.abc import Mapping
from typing import Any

import pytest

from controller import (
    ApiError,
    Client,
    Conflict,
    FieldManagerConflict,
    Invalid,
    Key,
    NotFound,
    Transport,
)
from controller.client import APPLY_PATCH
from controller.codec import decode_json, encode
from controller.errors import BadRequest
from tests.contract.fake_api.gauges import (
    CONFIG_MAPS,
    HOLD,
    SHELVES,
    get_version,
)
from tests.envtest.samples import GROUP

pytestmark = pytest.mark.asyncio(loop_scope="module")

Json = dict[str, Any]
PATH = f"/apis/{GROUP}/v1/namespaces/default/shelves/a"


async def apply(
    transport: Transport,
    manager: str,
    content: Mapping[str, Any],
    *,
    metadata: Mapping[str, Any] | None = None,
    subresource: str = "",
    **query: str,
) -> Json:
    """Apply `content` to the shelf `a` as a field manager; return the object as stored."""
    sent = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Shelf",
        "metadata": {"name": "a", **(metadata or {})},
        **content,
    }
    answer: Json = decode_json(
        await transport.request(
            "PATCH",
            f"{PATH}/{subresource}" if subresource else PATH,
            query={"fieldManager": manager, **query},
            body=encode(sent),
            content_type=APPLY_PATCH,
        )
    )
    return answer


async def read_stored(transport: Transport) -> Json:
    """Return the shelf `a` as it is stored."""
    answer: Json = decode_json(await transport.request("GET", PATH))
    return answer


def read_owned_fields(obj: Json) -> dict[tuple[str, str, str], Json]:
    """Return the fields of each manager, by name, operation and subresource."""
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in obj["metadata"].get("managedFields") or ()
    }


async def test_apply_creates_an_object_whose_manager_owns_what_it_applied(
    transport: Transport,
) -> None:
    applied = await apply(transport, "one", {"spec": {"place": "hall", "count": 2}})
    assert applied["metadata"]["generation"] == 1
    assert applied["metadata"]["uid"]
    assert applied["spec"] == {"place": "hall", "count": 2}
    [entry] = applied["metadata"]["managedFields"]
    assert entry["time"]
    assert {name: value for name, value in entry.items() if name != "time"} == {
        "manager": "one",
        "operation": "Apply",
        "apiVersion": f"{GROUP}/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:place": {}, "f:count": {}}},
    }
    assert await read_stored(transport) == applied


async def test_the_same_apply_again_is_no_new_version(transport: Transport) -> None:
    first = await apply(transport, "one", {"spec": {"place": "hall", "count": 2}})
    assert await apply(transport, "one", {"spec": {"place": "hall", "count": 2}}) == first


async def test_a_field_of_another_manager_is_a_conflict_that_names_it(
    transport: Transport,
) -> None:
    before = await apply(transport, "one", {"spec": {"place": "hall", "count": 2}})
    with pytest.raises(FieldManagerConflict) as refused:
        await apply(transport, "two", {"spec": {"place": "cellar", "count": 3}})
    assert refused.value.status == 409
    assert refused.value.reason == "Conflict"
    assert refused.value.message == (
        'Apply failed with 2 conflicts: conflicts with "one":\n- .spec.count\n- .spec.place'
    )
    assert [(cause.reason, cause.message, cause.field) for cause in refused.value.causes] == [
        ("FieldManagerConflict", 'conflict with "one"', ".spec.count"),
        ("FieldManagerConflict", 'conflict with "one"', ".spec.place"),
    ]
    assert await read_stored(transport) == before


async def test_a_forced_apply_takes_over_the_field_of_another_manager(
    transport: Transport,
) -> None:
    await apply(transport, "one", {"spec": {"place": "hall", "count": 2}})
    forced = await apply(transport, "two", {"spec": {"place": "cellar"}}, force="true")
    assert forced["spec"] == {"place": "cellar", "count": 2}
    assert read_owned_fields(forced) == {
        ("one", "Apply", ""): {"f:spec": {"f:count": {}}},
        ("two", "Apply", ""): {"f:spec": {"f:place": {}}},
    }


async def test_managers_that_apply_the_same_value_both_own_it_until_neither_applies_it(
    transport: Transport,
) -> None:
    await apply(transport, "one", {"spec": {"place": "hall", "count": 2}})
    both = await apply(transport, "two", {"spec": {"place": "hall"}})
    assert read_owned_fields(both) == {
        ("one", "Apply", ""): {"f:spec": {"f:place": {}, "f:count": {}}},
        ("two", "Apply", ""): {"f:spec": {"f:place": {}}},
    }
    kept = await apply(transport, "one", {"spec": {"count": 2}})
    assert kept["spec"] == {"place": "hall", "count": 2}
    gone = await apply(transport, "two", {"metadata": {"name": "a"}})
    assert gone["spec"] == {"count": 2}
    assert read_owned_fields(gone) == {("one", "Apply", ""): {"f:spec": {"f:count": {}}}}


async def test_a_field_that_its_only_manager_no_longer_applies_is_removed(
    transport: Transport,
) -> None:
    labels = {"color": "red", "size": "1"}
    await apply(transport, "one", {"spec": {"place": "hall"}}, metadata={"labels": labels})
    remaining = await apply(
        transport, "one", {"spec": {"place": "hall"}}, metadata={"labels": {"size": "1"}}
    )
    assert remaining["metadata"]["labels"] == {"size": "1"}
    assert remaining["spec"] == {"place": "hall"}


async def test_items_of_a_map_list_are_owned_by_their_keys(transport: Transport) -> None:
    await apply(transport, "one", {"spec": {"boards": [{"name": "a", "width": 1}]}})
    two = await apply(
        transport, "two", {"spec": {"boards": [{"name": "b", "width": 2}, {"name": "c"}]}}
    )
    assert two["spec"]["boards"] == [
        {"name": "a", "width": 1},
        {"name": "b", "width": 2},
        {"name": "c"},
    ]
    assert read_owned_fields(two)["one", "Apply", ""] == {
        "f:spec": {"f:boards": {'k:{"name":"a"}': {".": {}, "f:name": {}, "f:width": {}}}}
    }
    with pytest.raises(FieldManagerConflict) as refused:
        await apply(transport, "two", {"spec": {"boards": [{"name": "a", "width": 7}]}})
    assert [cause.field for cause in refused.value.causes] == ['.spec.boards[name="a"].width']
    remaining = await apply(transport, "two", {"spec": {"boards": [{"name": "c"}]}})
    assert remaining["spec"]["boards"] == [{"name": "a", "width": 1}, {"name": "c"}]


async def test_items_of_a_set_are_owned_one_by_one(transport: Transport) -> None:
    await apply(transport, "one", {"spec": {"tags": ["x", "y"]}})
    two = await apply(transport, "two", {"spec": {"tags": ["z", "x"]}})
    assert sorted(two["spec"]["tags"]) == ["x", "y", "z"]
    assert read_owned_fields(two)["two", "Apply", ""] == {
        "f:spec": {"f:tags": {'v:"x"': {}, 'v:"z"': {}}}
    }
    remaining = await apply(transport, "one", {"metadata": {"name": "a"}})
    assert sorted(remaining["spec"]["tags"]) == ["x", "z"]


async def test_an_atomic_list_has_one_owner(transport: Transport) -> None:
    await apply(transport, "one", {"spec": {"rows": ["x", "y"]}})
    with pytest.raises(FieldManagerConflict) as refused:
        await apply(transport, "two", {"spec": {"rows": ["z"]}})
    assert [cause.field for cause in refused.value.causes] == [".spec.rows"]
    forced = await apply(transport, "two", {"spec": {"rows": ["z"]}}, force="true")
    assert forced["spec"]["rows"] == ["z"]
    assert read_owned_fields(forced) == {("two", "Apply", ""): {"f:spec": {"f:rows": {}}}}


async def test_finalizers_of_several_managers_are_a_set(transport: Transport) -> None:
    content = {"spec": {"count": 1}}
    await apply(transport, "one", content, metadata={"finalizers": [HOLD]})
    two = await apply(transport, "two", content, metadata={"finalizers": ["b.example/x"]})
    assert sorted(two["metadata"]["finalizers"]) == ["b.example/x", HOLD]
    first = await apply(transport, "one", content)
    assert first["metadata"]["finalizers"] == ["b.example/x"]
    await apply(transport, "two", content)


async def test_updates_and_patches_own_what_they_change(
    transport: Transport, client: Client
) -> None:
    await apply(transport, "one", {"spec": {"place": "hall", "count": 2}})
    person = client.with_field_manager("person")
    shelf = await person.get(SHELVES, Key("default", "a"))
    await person.patch(SHELVES, get_version(shelf), {"spec": {"count": 5}})
    edited = await read_stored(transport)
    assert read_owned_fields(edited) == {
        ("one", "Apply", ""): {"f:spec": {"f:place": {}}},
        ("person", "Update", ""): {"f:spec": {"f:count": {}}},
    }
    with pytest.raises(FieldManagerConflict) as refused:
        await apply(transport, "one", {"spec": {"place": "hall", "count": 2}})
    assert refused.value.message == (
        'Apply failed with 1 conflict: conflict with "person" using lab.example.com/v1:'
        " .spec.count"
    )
    remaining = await apply(transport, "one", {"spec": {"place": "hall"}})
    assert remaining["spec"] == {"place": "hall", "count": 5}


async def test_a_creation_owns_its_fields(transport: Transport, client: Client) -> None:
    person = client.with_field_manager("person")
    sent = {"metadata": {"name": "a", "labels": {"color": "red"}}, "spec": {"count": 1}}
    await person.create(SHELVES, "default", sent)
    assert read_owned_fields(await read_stored(transport)) == {
        ("person", "Update", ""): {
            "f:metadata": {"f:labels": {".": {}, "f:color": {}}},
            "f:spec": {".": {}, "f:count": {}},
        }
    }


async def test_the_status_has_managers_of_its_own(transport: Transport) -> None:
    await apply(transport, "one", {"spec": {"count": 2}, "status": {"count": 9}})
    condition = {"type": "Ready", "status": "True"}
    written = await apply(
        transport,
        "one",
        {"spec": {"count": 7}, "status": {"conditions": [condition]}},
        subresource="status",
    )
    assert written["spec"] == {"count": 2}
    assert written["status"] == {"conditions": [condition]}
    assert written["metadata"]["generation"] == 1
    assert read_owned_fields(written) == {
        ("one", "Apply", ""): {"f:spec": {"f:count": {}}},
        ("one", "Apply", "status"): {
            "f:status": {
                "f:conditions": {'k:{"type":"Ready"}': {".": {}, "f:type": {}, "f:status": {}}}
            }
        },
    }
    with pytest.raises(FieldManagerConflict) as refused:
        await apply(
            transport,
            "two",
            {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            subresource="status",
        )
    assert refused.value.message == (
        'Apply failed with 1 conflict: conflict with "one" with subresource "status":'
        ' .status.conditions[type="Ready"].status'
    )


async def test_the_status_of_a_missing_object_is_not_created(transport: Transport) -> None:
    with pytest.raises(NotFound) as missing:
        await apply(transport, "one", {"status": {"count": 9}}, subresource="status")
    assert missing.value.reason == "NotFound"


async def test_a_dry_run_of_an_apply_stores_nothing(transport: Transport) -> None:
    dry = await apply(transport, "one", {"spec": {"count": 2}}, dryRun="All")
    assert dry["spec"] == {"count": 2}
    with pytest.raises(NotFound):
        await read_stored(transport)
    before = await apply(transport, "one", {"spec": {"count": 2}})
    dry = await apply(transport, "two", {"spec": {"count": 3}}, dryRun="All", force="true")
    assert dry["spec"] == {"count": 3}
    with pytest.raises(FieldManagerConflict):
        await apply(transport, "two", {"spec": {"count": 3}}, dryRun="All")
    assert await read_stored(transport) == before


async def test_an_apply_to_one_version_or_uid_touches_no_other(transport: Transport) -> None:
    other = "2dd3e1f7-0000-4000-8000-000000000000"
    with pytest.raises(Conflict):
        await apply(transport, "one", {"spec": {"count": 2}}, metadata={"uid": other})
    with pytest.raises(NotFound):
        await read_stored(transport)
    first = await apply(transport, "one", {"spec": {"count": 2}})
    version = {"resourceVersion": first["metadata"]["resourceVersion"]}
    second = await apply(transport, "one", {"spec": {"count": 3}}, metadata=version)
    with pytest.raises(Conflict):
        await apply(transport, "one", {"spec": {"count": 4}}, metadata=version)
    with pytest.raises(ApiError) as refused:
        await apply(transport, "one", {"spec": {"count": 4}}, metadata={"uid": other})
    assert refused.value.status in {409, 422}
    assert await read_stored(transport) == second


async def test_an_apply_needs_a_manager_and_a_body_without_managed_fields(
    transport: Transport,
) -> None:
    with pytest.raises(Invalid, match="fieldManager"):
        await apply(transport, "", {"spec": {"count": 2}})
    with pytest.raises(Invalid, match="fieldManager"):
        await apply(transport, "x" * 129, {"spec": {"count": 2}})
    first = await apply(transport, "one", {"spec": {"count": 2}})
    managed = {"managedFields": first["metadata"]["managedFields"]}
    with pytest.raises(BadRequest, match="managedFields must be nil"):
        await apply(transport, "one", {"spec": {"count": 3}}, metadata=managed)


async def test_fields_without_an_owner_belong_to_the_manager_before_first_apply(
    transport: Transport, client: Client
) -> None:
    """The API server gives that name to the owner of all fields that have none."""
    person = client.with_field_manager("person")
    await person.create(SHELVES, "default", {"metadata": {"name": "a"}, "spec": {"count": 1}})
    shelf = await person.get(SHELVES, Key("default", "a"))
    await person.patch(SHELVES, get_version(shelf), {"metadata": {"managedFields": [{}]}})
    assert read_owned_fields(await read_stored(transport)) == {}
    with pytest.raises(FieldManagerConflict) as refused:
        await apply(transport, "one", {"spec": {"count": 2}})
    assert refused.value.causes[0].message == (
        'conflict with "before-first-apply" using lab.example.com/v1'
    )


async def test_members_of_a_map_are_owned_one_by_one(
    client: Client,
) -> None:
    data = {"data": {"a": "1"}}
    key = Key("default", "a")
    await client.apply(CONFIG_MAPS, key, data, manager="one")
    second = await client.apply(CONFIG_MAPS, key, {"data": {"b": "2"}}, manager="two")
    assert second.data == {"a": "1", "b": "2"}
    with pytest.raises(FieldManagerConflict):
        await client.apply(CONFIG_MAPS, key, {"data": {"a": "2"}}, manager="two")
    third = await client.apply(CONFIG_MAPS, key, {"metadata": {}}, manager="one")
    assert third.data == {"b": "2"}


async def test_an_object_keeps_its_owners_when_another_kind_of_write_changes_nothing(
    transport: Transport, client: Client
) -> None:
    first = await apply(transport, "one", {"spec": {"count": 2}})
    shelf = await client.get(SHELVES, Key("default", "a"))
    await client.with_field_manager("person").patch(
        SHELVES, get_version(shelf), {"spec": {"count": 2}}
    )
    assert await read_stored(transport) == first
