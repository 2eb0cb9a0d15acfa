"""What only the fake API server has: failures, admission, users, held requests, withdrawn kinds.

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
    api = FakeApi(VirtualClock(), **options)
    api.serve(GAUGES)
    return api


async def create(client: Client) -> Gauge:
    return await client.create(GAUGES, "default", make_gauge_body())


async def test_ordered_failures_hit_the_requests_that_fit_and_no_further_ones() -> None:
    api = create_api()
    client = Client(api)
    await create(client)
    api.fail(Forbidden(403, "Forbidden", "no"), times=2, method="GET", name="a")
    for _ in range(2):
        with pytest.raises(Forbidden):
            await client.get(GAUGES, KEY)
    assert (await client.get(GAUGES, KEY)).metadata.name == "a"
    api.fail(Forbidden(403, "Forbidden", "no"), times=9)
    api.recover()
    assert (await client.get(GAUGES, KEY)).metadata.name == "a"
    assert api.count(method="GET", plural="gauges") == 4


async def test_a_request_whose_answer_is_lost_has_run() -> None:
    api = create_api()
    api.lose_answers(method="POST")
    with pytest.raises(NoAnswer):
        await create(Client(api))
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
    gauge = await create(client)
    assert gauge.spec["place"] == "cellar"
    with pytest.raises(Forbidden, match="too many"):
        await client.patch(GAUGES, Version.from_object(gauge), {"spec": {"count": 6}})
    assert seen == [("POST", True), ("PATCH", False)]
    assert await client.get(GAUGES, KEY) == gauge


async def test_a_user_writes_whole_objects_without_requests() -> None:
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
    gauge = await create(client)
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
    await create(client)
    stored = api.find_object(GAUGES, KEY)
    assert stored is not None
    assert "managedFields" not in stored["metadata"]
    await client.apply(GAUGES, KEY, {"spec": {"count": 1}}, manager="one")
    applied = api.find_object(GAUGES, KEY)
    assert applied is not None
    managers = {entry["manager"] for entry in applied["metadata"]["managedFields"]}
    assert managers == {"one", "before-first-apply"}


async def test_a_held_request_runs_when_the_test_says_so_even_if_nobody_waits_any_more() -> None:
    api = create_api()
    waiting: list[HeldRequest] = []
    client = Client(HeldRequests(api, waiting))
    created: list[Gauge] = []

    async def ask() -> None:
        created.append(await create(client))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await settle()
        assert (waiting[0].method, waiting[0].body["metadata"]["name"]) == ("POST", "a")
        waiting[0].run()
        assert api.find_object(GAUGES, KEY) is not None
        await settle()
        assert created == []
        waiting.pop().land()
        await settle()
        assert [change.metadata.name for change in created] == ["a"]

        async def give_up() -> None:
            with pytest.raises(NoAnswer):
                await client.patch(GAUGES, Version.from_object(created[0]), {"spec": {"count": 2}})

        group.start_soon(give_up)
        await settle()
        late = waiting.pop()
        late.land()
        await settle()
        assert not late.is_awaited
        late.run()
    stored = api.find_object(GAUGES, KEY)
    assert stored is not None
    assert stored["spec"]["count"] == 2


async def test_the_answer_of_a_held_request_can_be_a_failure() -> None:
    api = create_api()
    waiting: list[HeldRequest] = []
    client = Client(HeldRequests(api, waiting))
    stale = await create(Client(api))
    await Client(api).patch(GAUGES, Version.from_object(stale), {"spec": {"count": 2}})
    async with anyio.create_task_group() as group:

        async def write() -> None:
            with pytest.raises(Conflict):
                await client.patch(GAUGES, Version.from_object(stale), {"spec": {"count": 3}})

        group.start_soon(write)
        await settle()
        waiting[0].run()
        waiting[0].land()


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
async def test_a_dry_run_that_is_not_all_is_refused_and_changes_nothing(method: str) -> None:
    api = create_api()
    await create(Client(api))
    path, query = GAUGES.build_collection_path("default"), {"dryRun": "Some"}
    sent: dict[str, Any] = make_gauge_body() if method == "POST" else {"spec": {"count": 3}}
    if method == "DELETE":
        query, sent = {}, {"dryRun": ["Some"]}
    before = api.get_stored(GAUGES, KEY)
    with pytest.raises(Invalid, match='dryRun: Unsupported value: "Some"'):
        await api.request(
            method,
            path if method == "POST" else f"{path}/a",
            query=query,
            body=encode(sent),
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
async def test_the_dry_run_of_a_deletion_is_in_its_options_or_without_them_a_parameter(
    query: dict[str, str], options: dict[str, Any] | None, is_deleted: bool
) -> None:
    api = create_api()
    await create(Client(api))
    sent = None if options is None else encode(options)
    await api.request(
        "DELETE", f"{GAUGES.build_collection_path('default')}/a", query=query, body=sent
    )
    assert (api.get_stored(GAUGES, KEY) is None) is is_deleted


async def test_options_of_a_deletion_with_their_kind_are_checked_for_dry_runs() -> None:
    api = create_api()
    await create(Client(api))
    options = encode({"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["Some"]})
    with pytest.raises(Invalid, match="dryRun"):
        await api.request("DELETE", f"{GAUGES.build_collection_path('default')}/a", body=options)
    assert api.get_stored(GAUGES, KEY) is not None
