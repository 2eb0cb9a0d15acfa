"""The feed of the page: its readers are sent what changed, computed once for all of them."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from typing_extensions import override

from controller.errors import Forbidden, NoAnswer
from controller.meta import Key
from controller.resource import Resource
from controller.testing import Request
from reconcilers.addressmap.looks import assign_looks
from reconcilers.addressmap.pagedata import build_page_state
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL, OWN_KINDS, TENANT_CLUSTER
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.core.scopedlists import NotRead
from reconcilers.integrations.live import KEPT_SECONDS, LOOK_SECONDS
from reconcilers.ui.feed import Feed, FeedReader
from reconcilers.ui.watched import READ_EVENTS, PageInformers
from tests.clock import VirtualClock
from tests.reconcilers.addressmap.received import ReceivedState, list_extents
from tests.reconcilers.cli.commandline import make_pool
from tests.reconcilers.cli.saved import make_holder, make_saved_cluster
from tests.reconcilers.ui.cluster import CLUSTER_API, Cluster, make_event

EAST, WEST = "butler-system/east 10.0.0.0/24", "butler-system/west 10.1.0.0/24"


class GuardedCluster(Cluster):
    """A cluster whose user may not read some collections."""

    forbidden_paths: Collection[str] = ()

    @override
    async def request(self, method: str, path: str, **arguments: Any) -> bytes:
        self._refuse_forbidden(path, method)
        return await super().request(method, path, **arguments)

    @override
    @asynccontextmanager
    async def stream(self, path: str, **arguments: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        self._refuse_forbidden(path, "GET")
        async with super().stream(path, **arguments) as chunks:
            yield chunks

    def _refuse_forbidden(self, path: str, method: str) -> None:
        if method == "GET" and path in self.forbidden_paths:
            raise Forbidden(403, "Forbidden", path)


class FeedSetup:
    """A cluster, the feed of its page, and the state that each reader of the feed has received.

    Args:
        forbidden: kinds that may not be listed and watched in all namespaces at once.
        **options: further arguments of `PageInformers.from_transport`.
    """

    def __init__(self, forbidden: Collection[Resource[Any]] = (), **options: Any) -> None:
        self.clock = VirtualClock()
        self.cluster = GuardedCluster(self.clock)
        self.cluster.forbidden_paths = {
            resource.build_collection_path("") for resource in forbidden
        }
        self.watched = PageInformers.from_transport(self.cluster, self.clock, **options)
        self.feed = Feed(self.watched, self.clock)
        self.received_states: dict[FeedReader, ReceivedState] = {}

    @asynccontextmanager
    async def run_with_two_pools(self, *, platforms_are_read: bool = True) -> AsyncIterator[None]:
        """Create the pools EAST and WEST; run the watches and the feed.

        Args:
            platforms_are_read: whether the kinds of other platforms are read before the first
                reader comes, as if there had been an earlier one.
        """
        await self.cluster.create(
            make_pool("east", "10.0.0.0/24"), make_pool("west", "10.1.0.0/24")
        )
        async with anyio.create_task_group() as group:
            for informer in (*self.watched.kinds, self.watched.events):
                group.start_soon(informer.run)
            assert self.watched.others is not None, "the feed watches all platforms"
            group.start_soon(self.watched.others.run)
            group.start_soon(self.feed.run)
            if platforms_are_read:
                self.watched.others.keep_current()
            await self.clock.advance(1)
            yield
            group.cancel_scope.cancel()

    async def read_update(self, reader: FeedReader, seconds: float = 1.0) -> dict[str, Any]:
        """Return the changed parts in the message that a reader is sent within `seconds`."""
        messages: list[str] = []

        async def read() -> None:
            messages.append(await reader.read())

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await self.clock.advance(seconds)
            group.cancel_scope.cancel()
        [message] = messages
        return self.received_states.setdefault(reader, ReceivedState()).apply_message(message)


async def test_a_reader_gets_everything_and_then_only_the_pools_that_changed() -> None:
    harness = FeedSetup()
    async with harness.run_with_two_pools():
        with harness.feed.open_reader() as reader:
            first = await harness.read_update(reader)
            assert first["order"] == [EAST, WEST]
            assert set(first["pools"]) == {EAST, WEST}
            await harness.cluster.create(make_holder("a", "10.0.0.0", "10.0.0.7", pool="east"))
            second = await harness.read_update(reader)
            assert set(second["pools"]) == {EAST}
            assert second["pools"][EAST]["allocated"] == 8
            assert "order" not in second
            assert "style" not in second, "what did not change is not sent"
            await harness.cluster.delete(IP_ALLOCATION, "a")
            assert (await harness.read_update(reader))["pools"][EAST]["allocated"] == 0


async def test_deleted_and_created_pools_change_the_order() -> None:
    harness = FeedSetup()
    async with harness.run_with_two_pools():
        with harness.feed.open_reader() as reader:
            await harness.read_update(reader)
            await harness.cluster.delete(NETWORK_POOL, "east")
            assert (await harness.read_update(reader))["order"] == [WEST]
            await harness.cluster.create(make_pool("east", "10.0.0.0/24"))
            assert (await harness.read_update(reader))["order"] == [EAST, WEST]


async def test_tenants_and_events_are_sent_when_they_change() -> None:
    harness = FeedSetup()
    async with harness.run_with_two_pools():
        with harness.feed.open_reader() as reader:
            await harness.read_update(reader)
            await harness.cluster.create(make_saved_cluster("red", "team"))
            assert list((await harness.read_update(reader))["tenants"]) == ["team/red"]
            foreign_event = make_event("b", "Pulled", "an image", reporter="kubelet")
            await harness.cluster.create(
                make_event("a", "Allocated", "It holds it."), foreign_event
            )
            update = await harness.read_update(reader)
            assert [event["reason"] for event in update["events"]] == ["Allocated"]
            assert update["events"][0]["about"] == "IPAllocation butler-system/a"


async def test_a_tenant_keeps_its_look_when_a_tenant_appears_that_would_get_it() -> None:
    later, earlier = find_tenants_of_one_look()
    harness = FeedSetup()
    async with harness.run_with_two_pools():
        with harness.feed.open_reader() as reader:
            await harness.read_update(reader)
            await harness.cluster.create(
                make_holder("a", "10.0.0.0", "10.0.0.7", tenant=later, pool="east")
            )
            before = (await harness.read_update(reader))["looks"]
            await harness.cluster.create(
                make_holder("b", "10.0.0.8", "10.0.0.15", tenant=earlier, pool="east")
            )
            now = (await harness.read_update(reader))["looks"]
            assert later not in now, "what did not change is not sent"
            assert now[earlier] != before[later]


def find_tenants_of_one_look() -> tuple[str, str]:
    """Return two tenants that get the same look alone; if both appear at once, the second does."""
    first = "team/a"
    names = (f"team/z{number}" for number in range(1000))
    return next(
        name for name in names if assign_looks([name])[name] == assign_looks([first])[first]
    ), first


async def test_a_slow_reader_gets_one_message_for_several_changes() -> None:
    harness = FeedSetup()
    async with harness.run_with_two_pools():
        with harness.feed.open_reader() as slow, harness.feed.open_reader() as fast:
            await harness.read_update(slow)
            await harness.read_update(fast)
            for number in range(5):
                ends = (f"10.0.0.{8 * number}", f"10.0.0.{8 * number + 7}")
                await harness.cluster.create(make_holder(f"a{number}", *ends, pool="east"))
                await harness.read_update(fast)
            assert (await harness.read_update(slow))["pools"][EAST]["allocated"] == 40


async def test_nothing_is_computed_while_no_client_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    harness, calls = FeedSetup(), []

    def count_calls(*arguments: Any, **keywords: Any) -> Any:
        calls.append(arguments)
        return build_page_state(*arguments, **keywords)

    monkeypatch.setattr("reconcilers.ui.feed.build_page_state", count_calls)
    async with harness.run_with_two_pools():
        await harness.cluster.create(make_holder("a", "10.0.0.0", "10.0.0.7", pool="east"))
        await harness.clock.advance(KEPT_SECONDS / 2)
        assert calls == []
        with harness.feed.open_reader() as reader:
            assert (await harness.read_update(reader))["pools"][EAST]["allocated"] == 8
        assert len(calls) == 1


async def test_a_reader_that_comes_after_a_change_without_readers_gets_the_new_state() -> None:
    harness = FeedSetup()
    async with harness.run_with_two_pools():
        with harness.feed.open_reader() as reader:
            await harness.read_update(reader)
        await harness.cluster.create(make_holder("a", "10.0.0.0", "10.0.0.7", pool="east"))
        await harness.clock.advance(60)
        with harness.feed.open_reader() as reader:
            assert (await harness.read_update(reader))["pools"][EAST]["allocated"] == 8


async def test_a_cluster_that_does_not_answer_is_reported_on_the_page() -> None:
    harness = FeedSetup()
    async with harness.run_with_two_pools():
        with harness.feed.open_reader() as reader:
            assert (await harness.read_update(reader))["failures"] == []

            def refuse(_: Request) -> None:
                raise NoAnswer("connection refused")

            harness.cluster.on_request = refuse
            await harness.clock.advance(600)
            failures = (await harness.read_update(reader, 30))["failures"]
            assert any("connection refused" in failure for failure in failures)


async def test_many_changes_at_once_make_few_states() -> None:
    harness = FeedSetup()
    async with harness.run_with_two_pools():
        with harness.feed.open_reader() as reader:
            await harness.read_update(reader)
            before = harness.feed.number
            for number in range(30):
                await harness.cluster.create(
                    make_holder(f"a{number}", f"10.0.0.{number}", f"10.0.0.{number}", pool="east")
                )
            await harness.clock.advance(1)
            assert (await harness.read_update(reader))["pools"][EAST]["allocated"] == 30
            assert harness.feed.number - before <= 3


async def test_the_page_of_a_namespace_shows_its_pools_and_what_may_not_be_read() -> None:
    harness = FeedSetup(pool_namespace="butler-system", not_read=[NotRead("widgets.example.com")])
    async with harness.run_with_two_pools(), anyio.create_task_group():
        pool_elsewhere = make_pool("theirs", "10.9.0.0/24")
        pool_elsewhere["metadata"]["namespace"] = "elsewhere"
        await harness.cluster.create(pool_elsewhere)
        with harness.feed.open_reader() as reader:
            update = await harness.read_update(reader)
    assert sorted(update["pools"]) == [EAST, WEST]
    assert update["failures"] == [
        "you may not read widgets.example.com: what they hold is not shown"
    ]


async def test_the_page_of_a_user_who_may_read_one_namespace_shows_its_objects() -> None:
    kinds = (*OWN_KINDS.values(), READ_EVENTS)
    not_read = [NotRead(resource.full_name, "butler-system") for resource in OWN_KINDS.values()]
    harness = FeedSetup(forbidden=kinds, not_read=not_read)
    async with harness.run_with_two_pools():
        await harness.cluster.create(
            make_holder("a", "10.0.0.0", "10.0.0.7", pool="east"),
            make_event("e", "Served", "a range"),
        )
        with harness.feed.open_reader() as reader:
            update = await harness.read_update(reader)
    assert update["pools"][EAST]["allocated"] == 8
    assert [event["reason"] for event in update["events"]] == ["Served"]


async def test_the_page_of_a_user_who_may_read_tenant_clusters_alone_shows_them() -> None:
    hidden = [kind for kind in OWN_KINDS.values() if kind is not TENANT_CLUSTER]
    limits = [NotRead(kind.full_name) for kind in hidden]
    not_read = [*limits, NotRead(TENANT_CLUSTER.full_name, "team")]
    harness = FeedSetup(
        forbidden=(*OWN_KINDS.values(), READ_EVENTS), pool_namespace="team", not_read=not_read
    )
    async with harness.run_with_two_pools():
        await harness.cluster.create(make_saved_cluster("red", "team"))
        with harness.feed.open_reader() as reader:
            update = await harness.read_update(reader)
    assert list(update["tenants"]) == ["team/red"]
    assert update["failures"][0] == (
        f"you may not read {', '.join(map(str, not_read))}: what they hold is not shown"
    )


async def test_pools_are_shown_as_unknown_while_allocations_may_not_be_read() -> None:
    harness = FeedSetup(forbidden=[IP_ALLOCATION])
    async with harness.run_with_two_pools():
        with harness.feed.open_reader() as reader:
            update = await harness.read_update(reader)
    assert [extent["state"] for extent in list_extents(update["pools"][EAST])] == ["unknown"]
    assert any("list ipallocations" in failure for failure in update["failures"])


async def test_events_that_may_not_be_read_are_reported() -> None:
    harness = FeedSetup(forbidden=[READ_EVENTS])
    async with harness.run_with_two_pools():
        with harness.feed.open_reader() as reader:
            update = await harness.read_update(reader)
    assert any("events" in failure for failure in update["failures"])


async def test_pools_of_a_namespace_are_shown_though_global_pools_may_not_be_read() -> None:
    global_kind, namespaced = clusterapi.GLOBAL_IP_POOL, clusterapi.IN_CLUSTER_IP_POOL
    harness = FeedSetup(
        forbidden=[global_kind],
        pool_namespace="butler-system",
        not_read=[NotRead(global_kind.full_name)],
    )
    harness.cluster.serve_platforms(*CLUSTER_API)
    body = {
        "apiVersion": namespaced.api_version,
        "kind": namespaced.kind,
        "metadata": {"name": "machines", "namespace": "butler-system"},
        "spec": {"addresses": ["10.9.0.10"], "prefix": 24},
    }
    elsewhere = {**body, "metadata": {"name": "machines", "namespace": "elsewhere"}}
    async with harness.run_with_two_pools():
        await harness.cluster.create(body, elsewhere)
        with harness.feed.open_reader() as reader:
            await harness.read_update(reader)
            await harness.clock.advance(15)
            keys = [name.key for name in harness.watched.names if name.kind == namespaced.kind]
    assert keys == [Key("butler-system", "machines")]


async def test_a_pool_of_which_claims_may_not_be_read_is_unknown_on_the_page() -> None:
    claims = clusterapi.get_claim_kind(clusterapi.CONTRACT_VERSIONS[0])
    harness = FeedSetup(not_read=[NotRead(claims.full_name)])
    async with harness.run_with_two_pools():
        with harness.feed.open_reader() as reader:
            pool = (await harness.read_update(reader))["pools"][EAST]
    assert [extent["state"] for extent in list_extents(pool)] == ["unknown"]
    assert pool["notRead"] == [claims.full_name]


async def test_a_pool_becomes_unknown_once_the_list_of_claims_is_forbidden() -> None:
    """At the start the page does not know yet that the list of claims is forbidden.

    The first list, after a reader came, shows it.
    """
    claims = clusterapi.get_claim_kind(clusterapi.CONTRACT_VERSIONS[0])
    harness = FeedSetup(forbidden=[claims])
    harness.cluster.serve_platforms(*CLUSTER_API)
    async with harness.run_with_two_pools(platforms_are_read=False):
        with harness.feed.open_reader() as reader:
            await harness.read_update(reader)
            await harness.clock.advance(3 * LOOK_SECONDS)
            pool = (await harness.read_update(reader, seconds=0))["pools"][EAST]
    assert [extent["state"] for extent in list_extents(pool)] == ["unknown"]
    assert pool["notRead"] == [claims.full_name]


async def test_a_feed_sends_only_the_time_while_nothing_changes() -> None:
    harness = FeedSetup()
    async with harness.run_with_two_pools():
        with harness.feed.open_reader() as reader:
            await harness.read_update(reader)
            await harness.clock.advance(60)
            await harness.read_update(reader, 0)
            update = await harness.read_update(reader, 20)
    assert {name for name, part in update.items() if part} == {"made"}


async def test_a_second_reader_gets_the_newest_state_at_once() -> None:
    harness = FeedSetup()
    async with harness.run_with_two_pools():
        with harness.feed.open_reader() as reader:
            await harness.read_update(reader)
            with harness.feed.open_reader() as second:
                assert (await harness.read_update(second, 0))["order"] == [EAST, WEST]
        with harness.feed.open_reader() as later:
            assert (await harness.read_update(later, 0))["order"] == [EAST, WEST]


async def test_readers_of_one_state_share_one_message() -> None:
    harness = FeedSetup()
    async with harness.run_with_two_pools():
        with harness.feed.open_reader() as first, harness.feed.open_reader() as second:
            await harness.read_update(first)
            await harness.read_update(second)
            await harness.cluster.create(make_holder("a", "10.0.0.0", "10.0.0.7", pool="east"))
            await harness.clock.advance(1)
            assert await first.read() is await second.read()
