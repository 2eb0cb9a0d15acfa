"""Writes: names, preconditions, finalizers, the status subresource, patches, dry run."""

from typing import Any

import pytest

from controller import (
    AlreadyExists,
    ApiError,
    Client,
    Conflict,
    Invalid,
    NotFound,
    Resource,
    Transport,
    Version,
    add_finalizer,
    remove_finalizer,
)
from controller.testing import FakeApi
from tests.contract.fake_api.gauges import (
    CONFIG_MAPS,
    GAUGES,
    HOLD,
    PLAINS,
    SCALES,
    create_gauge,
    get_version,
    make_gauge_body,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_new_object_gets_its_metadata_and_no_status(client: Client) -> None:
    sent = {**make_gauge_body(), "status": {"count": 7}}
    sent["metadata"] |= {"generation": 9, "deletionTimestamp": "2020-01-01T00:00:00Z"}
    created = await client.create(GAUGES, "default", sent)
    meta = created.metadata
    assert (meta.namespace, meta.name, meta.generation) == ("default", "a", 1)
    assert meta.uid
    assert meta.creationTimestamp is not None
    assert meta.deletionTimestamp is None
    assert created.status == {}
    assert await client.get(GAUGES, meta.key) == created


async def test_an_existing_name_is_refused_and_generated_names_differ(client: Client) -> None:
    await create_gauge(client)
    with pytest.raises(AlreadyExists):
        await create_gauge(client)
    nameless = {"metadata": {"generateName": "b-"}, "spec": {"count": 1}}
    first = await client.create(GAUGES, "default", nameless)
    second = await client.create(GAUGES, "default", nameless)
    assert first.metadata.name != second.metadata.name
    assert first.metadata.name.startswith("b-")
    assert len(first.metadata.name) == len("b-") + 5


@pytest.mark.parametrize(
    ("metadata", "status", "message"),
    [
        ({"name": "a", "namespace": "elsewhere"}, 400, "namespace"),
        ({}, 422, "name or generateName is required"),
    ],
)
async def test_an_object_that_does_not_fit_its_path_is_refused(
    client: Client, metadata: dict[str, str], status: int, message: str
) -> None:
    with pytest.raises(ApiError, match=message) as refused:
        await client.create(GAUGES, "default", {**make_gauge_body(), "metadata": metadata})
    assert refused.value.status == status


async def test_an_object_with_a_resource_version_is_not_created(client: Client) -> None:
    sent = make_gauge_body()
    sent["metadata"]["resourceVersion"] = "12"
    with pytest.raises(ApiError, match="resourceVersion should not be set"):
        await client.create(GAUGES, "default", sent)


async def test_a_body_of_another_kind_is_refused(client: Client) -> None:
    with pytest.raises(ApiError) as refused:
        await client.create(
            GAUGES, "default", {**make_gauge_body(), "kind": "ConfigMap", "apiVersion": "v1"}
        )
    assert refused.value.status == 400


async def test_a_write_needs_the_version_that_the_object_has(client: Client) -> None:
    first = await create_gauge(client)
    second = await client.patch(GAUGES, get_version(first), {"spec": {"count": 2}})
    assert second.metadata.revision > first.metadata.revision
    assert (first.metadata.generation, second.metadata.generation) == (1, 2)
    for write in (
        client.patch(GAUGES, get_version(first), {"spec": {"count": 3}}),
        client.patch_status(GAUGES, first, {"count": 3}),
        client.replace(GAUGES, get_version(first), {"spec": {"count": 3}}),
        client.delete(GAUGES, get_version(first)),
        client.patch(
            GAUGES, get_version(first), [{"op": "replace", "path": "/spec/count", "value": 3}]
        ),
    ):
        with pytest.raises(Conflict):
            await write
    assert await client.get(GAUGES, first.metadata.key) == second


async def test_a_write_needs_the_uid_that_the_object_has(client: Client) -> None:
    first = await create_gauge(client)
    operation = {"op": "replace", "path": "/spec/count", "value": 3}
    other = Version(
        "default",
        "a",
        uid="2dd3e1f7-0000-4000-8000-000000000000",
        resourceVersion=get_version(first).resourceVersion,
    )
    for write, refusal in (
        (client.patch(GAUGES, other, {"spec": {"count": 3}}), Invalid),
        (client.patch(GAUGES, other, [operation]), Invalid),
        (client.replace(GAUGES, other, {"spec": {"count": 3}}), Conflict),
        (client.delete(GAUGES, other), Conflict),
    ):
        with pytest.raises(refusal):
            await write
    assert await client.get(GAUGES, first.metadata.key) == first


async def test_a_write_that_changes_nothing_is_no_new_version(client: Client) -> None:
    first = await create_gauge(client)
    assert await client.patch(GAUGES, get_version(first), {"spec": {"count": 1}}) == first


async def test_the_status_is_written_through_its_subresource_only(client: Client) -> None:
    first = await create_gauge(client)
    unchanged = await client.patch(GAUGES, get_version(first), {"status": {"count": 5}})
    assert unchanged == first
    written = await client.patch_status(GAUGES, first, {"count": 5})
    assert (written.status, written.metadata.generation) == ({"count": 5}, 1)
    both = {"metadata": {"labels": {"a": "b"}}, "spec": {"count": 9}, "status": {"count": 6}}
    again = await client.patch(GAUGES, get_version(written), both, subresource="status")
    assert (again.status, again.spec["count"]) == ({"count": 6}, 1)
    cleared = await client.patch_status(GAUGES, again, {"count": None})
    assert cleared.status == {}
    assert await client.get(GAUGES, cleared.metadata.key, subresource="status") == cleared


async def test_a_replacement_keeps_the_status_and_drops_the_other_fields(client: Client) -> None:
    first = await client.patch_status(GAUGES, await create_gauge(client), {"count": 5})
    second = await client.replace(GAUGES, get_version(first), {"spec": {"count": 4}})
    assert (second.spec, second.status) == ({"count": 4}, {"count": 5})
    assert (second.metadata.uid, second.metadata.generation) == (first.metadata.uid, 2)


async def test_a_kind_without_a_status_has_no_such_subresource(client: Client) -> None:
    config_map = await client.create(CONFIG_MAPS, "default", {"metadata": {"name": "m"}})
    assert config_map.metadata.generation == 0
    with pytest.raises(NotFound):
        await client.patch(
            CONFIG_MAPS, get_version(config_map), {"status": {}}, subresource="status"
        )


async def test_an_object_without_finalizers_is_deleted_at_once(client: Client) -> None:
    first = await create_gauge(client)
    assert await client.delete(GAUGES, get_version(first)) is None
    with pytest.raises(NotFound) as missing:
        await client.get(GAUGES, first.metadata.key)
    assert missing.value.reason == "NotFound"
    with pytest.raises(NotFound):
        await client.delete(GAUGES, get_version(first))


async def test_a_finalizer_keeps_a_deleted_object_until_it_is_removed(client: Client) -> None:
    first = await add_finalizer(client, GAUGES, await create_gauge(client), HOLD)
    kept = await client.delete(GAUGES, get_version(first))
    assert kept is not None
    assert kept.metadata.is_terminating
    assert kept.metadata.generation == first.metadata.generation + 1
    again = await client.delete(GAUGES, get_version(kept))
    assert again == kept
    with pytest.raises(Invalid):
        await client.patch(
            GAUGES, get_version(kept), {"metadata": {"finalizers": [HOLD, "b.example/x"]}}
        )
    last = await remove_finalizer(client, GAUGES, kept, HOLD)
    assert last.metadata.finalizers == ()
    assert last.metadata.resourceVersion == kept.metadata.resourceVersion
    with pytest.raises(NotFound):
        await client.get(GAUGES, first.metadata.key)


async def test_a_deletion_in_the_foreground_waits_for_the_garbage_collector(
    client: Client,
) -> None:
    kept = await client.delete(
        GAUGES, get_version(await create_gauge(client)), propagation="Foreground"
    )
    assert kept is not None
    assert kept.metadata.finalizers == ("foregroundDeletion",)


async def test_a_name_that_is_free_again_gets_another_uid(client: Client) -> None:
    first = await create_gauge(client)
    await client.delete(GAUGES, get_version(first))
    second = await create_gauge(client)
    assert second.metadata.uid != first.metadata.uid
    with pytest.raises(Conflict):
        await client.delete(GAUGES, get_version(first))


async def test_a_json_patch_changes_parts_of_lists(client: Client) -> None:
    first = await add_finalizer(client, GAUGES, await create_gauge(client), HOLD)
    operations: list[dict[str, Any]] = [
        {"op": "test", "path": "/spec/place", "value": "hall"},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "b.example/x"},
        {"op": "add", "path": "/metadata/finalizers/0", "value": "c.example/x"},
        {"op": "move", "from": "/metadata/finalizers/1", "path": "/metadata/finalizers/2"},
        {"op": "copy", "from": "/spec/place", "path": "/metadata/annotations"},
        {"op": "replace", "path": "/metadata/annotations", "value": {"a~b/c": "d"}},
        {"op": "remove", "path": "/metadata/annotations/a~0b~1c"},
        {"op": "replace", "path": "/metadata/labels", "value": {"new": "yes"}},
        {"op": "remove", "path": "/spec/place"},
    ]
    second = await client.patch(GAUGES, get_version(first), operations)
    assert second.metadata.finalizers == ("c.example/x", "b.example/x", HOLD)
    assert second.spec == {"count": 1}
    assert second.metadata.labels == {"new": "yes"}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/spec/place", "value": "cellar"},
        {"op": "remove", "path": "/spec/nothing"},
        {"op": "add", "path": "/metadata/finalizers/7", "value": "b.example/x"},
    ],
)
async def test_a_json_patch_that_does_not_apply_changes_nothing(
    client: Client, operation: dict[str, Any]
) -> None:
    first = await add_finalizer(client, GAUGES, await create_gauge(client), HOLD)
    change = {"op": "replace", "path": "/spec/count", "value": 5}
    with pytest.raises(Invalid):
        await client.patch(GAUGES, get_version(first), [change, operation])
    assert await client.get(GAUGES, first.metadata.key) == first


async def test_a_dry_run_answers_and_stores_nothing(client: Client) -> None:
    first = await create_gauge(client)
    dry = client.with_dry_run()
    assert (await dry.patch(GAUGES, get_version(first), {"spec": {"count": 5}})).spec["count"] == 5
    assert (await dry.create(GAUGES, "default", make_gauge_body("b"))).metadata.name == "b"
    assert await dry.delete(GAUGES, get_version(first)) is None
    with pytest.raises(Conflict):
        await dry.patch(
            GAUGES,
            Version("default", "a", uid=first.metadata.uid, resourceVersion="1"),
            {"spec": {"count": 5}},
        )
    page = await client.list(GAUGES)
    assert page.items == (first,)


async def test_a_subresource_with_objects_of_its_own_is_read_and_written(
    client: Client, transport: Transport
) -> None:
    first = await create_gauge(client)
    if isinstance(transport, FakeApi):
        with pytest.raises(NotFound, match="no scale"):
            await client.get(SCALES, first.metadata.key, subresource="scale")
        return
    scale = await client.get(SCALES, first.metadata.key, subresource="scale")
    assert scale.spec == {"replicas": 1}
    more = {"spec": {"replicas": 3}}
    scale = await client.patch(SCALES, Version.from_object(scale), more, subresource="scale")
    assert scale.spec == {"replicas": 3}
    assert (await client.get(GAUGES, first.metadata.key)).spec["count"] == 3
    with pytest.raises(Conflict):
        await client.patch(SCALES, get_version(first), more, subresource="scale")


@pytest.mark.parametrize("kind", [PLAINS, CONFIG_MAPS], ids=["custom", "built-in"])
async def test_a_404_for_a_status_that_a_kind_does_not_have_says_so(
    client: Client, kind: Resource[Any]
) -> None:
    plain = await client.create(kind, "default", {"metadata": {"name": "a"}})
    with pytest.raises(NotFound) as raised:
        await client.patch_status(kind, plain, {"count": 1})
    assert raised.value.request == f"patch {kind.full_name}/status default/a"
    assert f"{kind.full_name} has no subresource status" in raised.value.hint
    assert raised.value.reason == "NotFound"  # as if the object were gone


async def test_a_404_for_the_status_of_a_deleted_object_says_that_it_is_gone(
    client: Client,
) -> None:
    gone = await create_gauge(client)
    await client.delete(GAUGES, get_version(gone))
    with pytest.raises(NotFound) as raised:
        await client.patch_status(GAUGES, gone, {"count": 1})
    assert raised.value.hint.startswith("the object is gone, or")
