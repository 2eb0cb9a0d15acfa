"""Features of the fake API server alone: failures, admission, held requests, withdrawn kinds.

That it answers as a real server does is tested in tests/contract/fake_api.
"""

from typing import Any

import anyio
import pytest

from controller import Client, Conflict, Forbidden, Invalid, Key, NoAnswer, NotFound, Version
from controller.codec import encode
from controller.testing import (
    FakeApi,
    HeldRequest,
    HeldRequests,
    Request,
    VirtualClock,
    settle,
)
from tests.contract.fake_api.gauges import GAUGES, HOLD, Gauge, make_gauge_body

KEY = Key("default", "a")


def create_api(**options: Any) -> FakeApi:
    """Return a fake API server that serves gauges."""
    api = FakeApi(VirtualClock(), **options)
    api.serve(GAUGES)
    return api


async def create_gauge(client: Client) -> Gauge:
    return await client.create(GAUGES, "default", make_gauge_body())


async def test_failures_hit_matching_requests_as_many_times_as_ordered() -> None:
    api = create_api()
    client = Client(api)
    await create_gauge(client)
    api.fail(Forbidden(403, "Forbidden", "no"), times=2, method="GET", name="a")
    for _ in range(2):
        with pytest.raises(Forbidden):
            await client.get(GAUGES, KEY)
    assert (await client.get(GAUGES, KEY)).metadata.name == "a"
    api.fail(Forbidden(403, "Forbidden", "no"), times=9)
    api.recover()
    assert (await client.get(GAUGES, KEY)).metadata.name == "a"
    assert api.count(method="GET", plural="gauges") == 4


async def test_a_request_whose_answer_is_lost_changes_the_stored_object() -> None:
    api = create_api()
    api.lose_answers(method="POST")
    with pytest.raises(NoAnswer):
        await create_gauge(Client(api))
    assert api.get_stored(GAUGES, KEY) is not None


async def test_admission_changes_or_refuses_the_object_to_store() -> None:
    api = create_api()
    client = Client(api)
    seen: list[tuple[str, bool]] = []

    def admit(request: Request, old: Any, new: Any) -> Any:
        seen.append((request.method, old is None))
        if new["spec"]["count"] > 5:
            raise Forbidden(403, "Forbidden", "too many")
        return {**new, "spec": {**new["spec"], "place": "cellar"}}

    api.admit = admit
    gauge = await create_gauge(client)
    assert gauge.spec["place"] == "cellar"
    with pytest.raises(Forbidden, match="too many"):
        await client.patch(GAUGES, Version.from_object(gauge), {"spec": {"count": 6}})
    assert seen == [("POST", True), ("PATCH", False)]
    assert await client.get(GAUGES, KEY) == gauge


async def test_objects_can_be_written_whole_without_requests() -> None:
    api = create_api()
    finalized = {"name": "a", "namespace": "default", "finalizers": [HOLD]}
    api.put_object(GAUGES, {"metadata": finalized, "spec": {"count": 1}, "status": {"count": 2}})
    api.edit_object(GAUGES, KEY, {"spec": {"count": 3}, "status": {"count": 4}})
    stored = api.get_stored(GAUGES, KEY)
    assert stored is not None
    assert (stored["spec"], stored["status"]) == ({"count": 3}, {"count": 4})
    assert stored["metadata"]["generation"] == 2
    api.delete_object(GAUGES, KEY)
    kept = api.find_object(GAUGES, KEY)
    assert kept is not None
    assert "deletionTimestamp" in kept["metadata"]
    api.remove_object(GAUGES, KEY)
    assert api.list_objects(GAUGES) == []
    assert [change.type for change in api.history] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    assert api.requests == []


async def test_a_withdrawn_kind_is_not_found_and_its_objects_come_back_with_it() -> None:
    api = create_api()
    client = Client(api)
    gauge = await create_gauge(client)
    api.withdraw(GAUGES)
    assert not await client.is_served(GAUGES)
    with pytest.raises(NotFound) as missing:
        await client.get(GAUGES, KEY)
    assert missing.value.reason == ""
    api.serve(GAUGES)
    assert await client.get(GAUGES, KEY) == gauge


async def test_objects_have_no_managed_fields_before_an_apply_if_owners_are_not_tracked() -> None:
    api = create_api(track_owners=False)
    client = Client(api)
    await create_gauge(client)
    stored = api.find_object(GAUGES, KEY)
    assert stored is not None
    assert "managedFields" not in stored["metadata"]
    await client.apply(GAUGES, KEY, {"spec": {"count": 1}}, manager="one")
    applied = api.find_object(GAUGES, KEY)
    assert applied is not None
    managers = {entry["manager"] for entry in applied["metadata"]["managedFields"]}
    assert managers == {"one", "before-first-apply"}


async def test_a_held_request_runs_and_is_answered_when_the_test_says_so() -> None:
    api = create_api()
    held_requests: list[HeldRequest] = []
    client = Client(HeldRequests(api, held_requests))
    created: list[Gauge] = []

    async def create_and_note() -> None:
        created.append(await create_gauge(client))

    async with anyio.create_task_group() as group:
        group.start_soon(create_and_note)
        await settle()
        assert (held_requests[0].method, held_requests[0].body["metadata"]["name"]) == (
            "POST",
            "a",
        )
        held_requests[0].run()
        assert api.find_object(GAUGES, KEY) is not None
        await settle()
        assert created == []
        held_requests.pop().land()
        await settle()
        assert [gauge.metadata.name for gauge in created] == ["a"]


async def test_a_held_request_can_run_after_its_caller_got_no_answer() -> None:
    api = create_api()
    held_requests: list[HeldRequest] = []
    client = Client(HeldRequests(api, held_requests))
    gauge = await create_gauge(Client(api))

    async def patch_and_get_no_answer() -> None:
        with pytest.raises(NoAnswer):
            await client.patch(GAUGES, Version.from_object(gauge), {"spec": {"count": 2}})

    async with anyio.create_task_group() as group:
        group.start_soon(patch_and_get_no_answer)
        await settle()
        late = held_requests.pop()
        late.land()
        await settle()
        assert not late.is_awaited
        late.run()
    stored = api.find_object(GAUGES, KEY)
    assert stored is not None
    assert stored["spec"]["count"] == 2


async def test_the_answer_of_a_held_request_can_be_a_failure() -> None:
    api = create_api()
    held_requests: list[HeldRequest] = []
    client = Client(HeldRequests(api, held_requests))
    stale = await create_gauge(Client(api))
    await Client(api).patch(GAUGES, Version.from_object(stale), {"spec": {"count": 2}})
    async with anyio.create_task_group() as group:

        async def patch_stale_gauge() -> None:
            with pytest.raises(Conflict):
                await client.patch(GAUGES, Version.from_object(stale), {"spec": {"count": 3}})

        group.start_soon(patch_stale_gauge)
        await settle()
        held_requests[0].run()
        held_requests[0].land()


async def test_a_restored_object_keeps_its_version_and_later_writes_are_above_it() -> None:
    api = create_api()
    metadata = {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "700"}
    api.restore_object(GAUGES, {"metadata": metadata, "spec": {"count": 1}})
    client = Client(api)
    page = await client.list(GAUGES)
    assert [gauge.metadata.revision for gauge in page.items] == [700]
    written = await client.patch_status(GAUGES, page.items[0], {"count": 2})
    assert written.metadata.revision == 701


async def test_an_object_without_a_version_cannot_be_restored() -> None:
    with pytest.raises(ValueError, match="resourceVersion"):
        create_api().restore_object(GAUGES, {"metadata": {"name": "a", "namespace": "default"}})


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
async def test_an_unknown_dry_run_is_refused_and_changes_nothing(method: str) -> None:
    api = create_api()
    await create_gauge(Client(api))
    path, query = GAUGES.build_collection_path("default"), {"dryRun": "Some"}
    body: dict[str, Any] = make_gauge_body() if method == "POST" else {"spec": {"count": 3}}
    if method == "DELETE":
        query, body = {}, {"dryRun": ["Some"]}
    before = api.get_stored(GAUGES, KEY)
    with pytest.raises(Invalid, match='dryRun: Unsupported value: "Some"'):
        await api.request(
            method,
            path if method == "POST" else f"{path}/a",
            query=query,
            body=encode(body),
            content_type="application/merge-patch+json",
        )
    assert api.get_stored(GAUGES, KEY) == before


@pytest.mark.parametrize(
    ("query", "options", "is_deleted"),
    [
        ({"dryRun": "All"}, None, False),
        ({}, {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}, False),
        ({}, {"dryRun": []}, True),
        ({"dryRun": "All"}, {"dryRun": []}, True),
    ],
    ids=["parameter", "options", "empty", "options-win"],
)
async def test_a_deletion_is_a_dry_run_by_its_options_or_without_options_by_a_parameter(
    query: dict[str, str], options: dict[str, Any] | None, is_deleted: bool
) -> None:
    api = create_api()
    await create_gauge(Client(api))
    body = None if options is None else encode(options)
    await api.request(
        "DELETE", f"{GAUGES.build_collection_path('default')}/a", query=query, body=body
    )
    assert (api.get_stored(GAUGES, KEY) is None) is is_deleted


async def test_an_unknown_dry_run_in_the_options_of_a_deletion_is_refused() -> None:
    api = create_api()
    await create_gauge(Client(api))
    options = encode({"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["Some"]})
    with pytest.raises(Invalid, match="dryRun"):
        await api.request("DELETE", f"{GAUGES.build_collection_path('default')}/a", body=options)
    assert api.get_stored(GAUGES, KEY) is not None
