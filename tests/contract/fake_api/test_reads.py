"""Reads: selectors, discovery, watches, and a manager over all of it."""

import anyio
import pytest

from controller import (
    ApiError,
    Change,
    Client,
    Key,
    Manager,
    NotFound,
    Resource,
    SystemClock,
    Transport,
    add_finalizer,
    remove_finalizer,
)
from controller.informer import Informer
from controller.testing import FakeApi
from tests.contract.fake_api.gauges import (
    CONFIG_MAPS,
    GAUGES,
    HOLD,
    MISSING,
    Gauge,
    create_gauge,
    get_version,
    list_names,
    make_gauge_body,
)
from tests.envtest.samples import GROUP
from tests.polling import SECONDS

NAMESPACES = Resource("", "v1", "Namespace", "namespaces", Gauge, namespaced=False)
GAUGES_OF_CORE = Resource("", "v1", "Gauge", "gauges", Gauge)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("color=red", ["a"]),
        ("color!=red", ["b", "c"]),
        ("color in (red,blue)", ["a", "b"]),
        ("color notin (red, blue)", ["c"]),
        ("color", ["a", "b"]),
        ("!color", ["c"]),
        ("color==red,size=1", []),
        ("", ["a", "b", "c"]),
    ],
)
async def test_label_selectors_select(client: Client, selector: str, expected: list[str]) -> None:
    for name, labels in (("a", {"color": "red"}), ("b", {"color": "blue"}), ("c", {})):
        await client.create(GAUGES, "default", make_gauge_body(name, labels=labels))
    assert list_names((await client.list(GAUGES, labels=selector)).items) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=b", ["b"]),
        ("metadata.name!=b", ["a"]),
        ("metadata.namespace=default", ["a", "b"]),
        ("spec.place=hall", ["a"]),
        ("spec.place!=hall,metadata.name=b", ["b"]),
    ],
)
async def test_field_selectors_select(client: Client, selector: str, expected: list[str]) -> None:
    await create_gauge(client, "a")
    await create_gauge(client, "b", place="cellar")
    assert list_names((await client.list(GAUGES, fields=selector)).items) == expected


@pytest.mark.parametrize(
    "selectors", [{"labels": "a ~ b"}, {"fields": "spec.count=1"}, {"fields": "spec.place"}]
)
async def test_a_selector_that_cannot_be_evaluated_is_refused(
    client: Client, selectors: dict[str, str]
) -> None:
    with pytest.raises(ApiError) as refused:
        await client.list(GAUGES, **selectors)
    assert refused.value.status == 400


async def test_discovery_finds_only_kinds_that_are_served(client: Client) -> None:
    assert await client.is_served(GAUGES)
    assert await client.is_served(CONFIG_MAPS)
    assert not await client.is_served(MISSING)
    assert await client.find_kind(f"{GROUP}/v1", "Gauge") == ("gauges", True)
    assert await client.find_kind("other.example.com/v1", "Gauge") is None


async def test_a_kind_that_is_not_served_is_not_found(client: Client) -> None:
    with pytest.raises(NotFound) as missing:
        await client.list(MISSING)
    assert missing.value.reason == ""


def describe_change(change: Change[Gauge]) -> str:
    """Return added, modified or deleted."""
    if change.old is None:
        return "added"
    return "deleted" if change.new is None else "modified"


@pytest.mark.parametrize("streams", [True, False])
async def test_a_watch_with_a_field_selector_delivers_changes_of_the_selected_objects(
    transport: Transport, *, streams: bool
) -> None:
    client = Client(transport)
    before = await create_gauge(client, "before")
    watched = Informer(GAUGES, transport, SystemClock(), fields="spec.place=hall", streams=streams)
    seen: list[tuple[str, str]] = []
    last_seen = anyio.Event()

    def note_change(change: Change[Gauge]) -> None:
        obj = change.new or change.old
        assert obj is not None
        seen.append((describe_change(change), obj.metadata.name))
        if obj.metadata.name == "last":
            last_seen.set()

    watched.add_handler(note_change)
    async with anyio.create_task_group() as group:
        group.start_soon(watched.run)
        with anyio.fail_after(SECONDS):
            await watched.wait_synced()
            moved = await client.patch(GAUGES, get_version(before), {"spec": {"place": "cellar"}})
            back = await client.patch(GAUGES, get_version(moved), {"spec": {"place": "hall"}})
            await client.patch_status(GAUGES, back, {"count": 3})
            gone = await add_finalizer(client, GAUGES, await create_gauge(client, "gone"), HOLD)
            kept = await client.delete(GAUGES, get_version(gone))
            assert kept is not None
            await remove_finalizer(client, GAUGES, kept, HOLD)
            await create_gauge(client, "elsewhere", place="cellar")
            await create_gauge(client, "last")
            await last_seen.wait()
        group.cancel_scope.cancel()
    assert seen == [
        ("added", "before"),
        ("deleted", "before"),
        ("added", "before"),
        ("modified", "before"),
        ("added", "gone"),
        ("modified", "gone"),
        ("modified", "gone"),
        ("deleted", "gone"),
        ("added", "last"),
    ]
    assert {gauge.metadata.name for gauge in watched.cache} == {"before", "last"}


async def test_a_manager_runs_on_the_fake_api_and_caches_its_own_writes(
    transport: Transport,
) -> None:
    manager = Manager(transport)
    gauges = manager.get_informer(GAUGES)
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        with anyio.fail_after(SECONDS):
            await gauges.wait_synced()
            created = await create_gauge(manager.client)
            assert gauges.cache.get(Key("default", "a")) == created
            await manager.client.delete(GAUGES, get_version(created))
            assert gauges.cache.get(Key("default", "a")) is None
            dry = manager.client.with_dry_run()
            await dry.create(GAUGES, "default", make_gauge_body("never"))
            assert gauges.cache.get(Key("default", "never")) is None
        manager.stop()


async def test_an_unserved_kind_in_an_existing_namespace_is_not_reported_as_a_missing_object() -> (
    None
):
    api = FakeApi(SystemClock())
    api.serve(NAMESPACES)
    client = Client(api)
    await client.create(NAMESPACES, "", {"metadata": {"name": "default"}})
    assert (await client.get(NAMESPACES, Key("", "default"))).metadata.name == "default"
    with pytest.raises(NotFound, match="has no gauges") as missing:
        await client.get(GAUGES_OF_CORE, Key("default", "a"))
    assert missing.value.reason == ""
