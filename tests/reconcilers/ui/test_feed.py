"""What the page is sent: what is new, to who reads, worked out once."""

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
from tests.reconcilers.addressmap.received import Received, ranges
from tests.reconcilers.cli.commandline import make_pool
from tests.reconcilers.cli.saved import make_holder, make_saved_cluster
from tests.reconcilers.ui.cluster import CLUSTER_API, Cluster, event

EAST, WEST = "butler-system/east 10.0.0.0/24", "butler-system/west 10.1.0.0/24"


class GuardedCluster(Cluster):
    """A cluster whose user may not read some collections, by path."""

    forbidden: Collection[str] = ()

    @override
    async def request(self, method: str, path: str, **arguments: Any) -> bytes:
        self._check(path, method)
        return await super().request(method, path, **arguments)

    @override
    @asynccontextmanager
    async def stream(self, path: str, **arguments: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        self._check(path, "GET")
        async with super().stream(path, **arguments) as chunks:
            yield chunks

    def _check(self, path: str, method: str) -> None:
        if method == "GET" and path in self.forbidden:
            raise Forbidden(403, "Forbidden", path)


class Harness:
    """A cluster, a feed of it, the time, and what readers have received.

    Args:
        forbidden: kinds that may not be read in all namespaces.
        **watching: arguments of `Watched.over`.
    """

    def __init__(self, forbidden: Collection[Resource[Any]] = (), **watching: Any) -> None:
        self.clock = VirtualClock()
        self.cluster = GuardedCluster(self.clock)
        self.cluster.forbidden = {resource.build_collection_path("") for resource in forbidden}
        self.watched = PageInformers.from_transport(self.cluster, self.clock, **watching)
        self.feed = Feed(self.watched, self.clock)
        self.received: dict[FeedReader, Received] = {}

    @asynccontextmanager
    async def running(self, *, has_looked: bool = True) -> AsyncIterator[None]:
        """Run watches and feed.

        Args:
            has_looked: whether other platforms have been read already, as for an earlier reader.
        """
        await self.cluster.create(
            make_pool("east", "10.0.0.0/24"), make_pool("west", "10.1.0.0/24")
        )
        async with anyio.create_task_group() as group:
            for informer in (*self.watched.kinds, self.watched.events):
                group.start_soon(informer.run)
            assert self.watched.others is not None, "all platforms are asked for"
            group.start_soon(self.watched.others.run)
            group.start_soon(self.feed.run)
            if has_looked:
                self.watched.others.want()
            await self.clock.advance(1)
            yield
            group.cancel_scope.cancel()

    async def news(self, reader: FeedReader, seconds: float = 1.0) -> dict[str, Any]:
        """Return the updates that a reader is sent within so many seconds."""
        problems: list[str] = []

        async def read() -> None:
            problems.append(await reader.read())

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await self.clock.advance(seconds)
            group.cancel_scope.cancel()
        [message] = problems
        return self.received.setdefault(reader, Received()).take(message)


async def test_a_reader_gets_everything_and_then_only_the_pools_that_changed() -> None:
    harness = Harness()
    async with harness.running():
        with harness.feed.open_reader() as reader:
            first = await harness.news(reader)
            assert first["order"] == [EAST, WEST]
            assert set(first["pools"]) == {EAST, WEST}
            await harness.cluster.create(make_holder("a", "10.0.0.0", "10.0.0.7", pool="east"))
            second = await harness.news(reader)
            assert set(second["pools"]) == {EAST}
            assert second["pools"][EAST]["allocated"] == 8
            assert "order" not in second
            assert "style" not in second, "what did not change is not sent"
            await harness.cluster.delete(IP_ALLOCATION, "a")
            assert (await harness.news(reader))["pools"][EAST]["allocated"] == 0


async def test_pools_that_come_and_go_change_the_order() -> None:
    harness = Harness()
    async with harness.running():
        with harness.feed.open_reader() as reader:
            await harness.news(reader)
            await harness.cluster.delete(NETWORK_POOL, "east")
            assert (await harness.news(reader))["order"] == [WEST]
            await harness.cluster.create(make_pool("east", "10.0.0.0/24"))
            assert (await harness.news(reader))["order"] == [EAST, WEST]


async def test_tenants_and_events_are_sent_when_they_change() -> None:
    harness = Harness()
    async with harness.running():
        with harness.feed.open_reader() as reader:
            await harness.news(reader)
            await harness.cluster.create(make_saved_cluster("red", "team"))
            assert list((await harness.news(reader))["tenants"]) == ["team/red"]
            theirs = event("b", "Pulled", "an image", reporter="kubelet")
            await harness.cluster.create(event("a", "Allocated", "It holds it."), theirs)
            news = await harness.news(reader)
            assert [event["reason"] for event in news["events"]] == ["Allocated"]
            assert news["events"][0]["about"] == "IPAllocation butler-system/a"


async def test_a_tenant_keeps_its_look_when_one_comes_that_would_take_it() -> None:
    later, earlier = colliding()
    harness = Harness()
    async with harness.running():
        with harness.feed.open_reader() as reader:
            await harness.news(reader)
            await harness.cluster.create(
                make_holder("a", "10.0.0.0", "10.0.0.7", tenant=later, pool="east")
            )
            before = (await harness.news(reader))["looks"]
            await harness.cluster.create(
                make_holder("b", "10.0.0.8", "10.0.0.15", tenant=earlier, pool="east")
            )
            now = (await harness.news(reader))["looks"]
            assert later not in now, "what did not change is not sent"
            assert now[earlier] != before[later]


def colliding() -> tuple[str, str]:
    """Return two tenants of one look; the second has it where both come at once."""
    first = "team/a"
    names = (f"team/z{number}" for number in range(1000))
    return next(
        name for name in names if assign_looks([name])[name] == assign_looks([first])[first]
    ), first


async def test_a_reader_that_is_slow_gets_one_difference_for_all_that_happened() -> None:
    harness = Harness()
    async with harness.running():
        with harness.feed.open_reader() as slow, harness.feed.open_reader() as fast:
            await harness.news(slow)
            await harness.news(fast)
            for number in range(5):
                ends = (f"10.0.0.{8 * number}", f"10.0.0.{8 * number + 7}")
                await harness.cluster.create(make_holder(f"a{number}", *ends, pool="east"))
                await harness.news(fast)
            assert (await harness.news(slow))["pools"][EAST]["allocated"] == 40


async def test_nothing_is_computed_while_no_client_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    harness, asked = Harness(), []

    def count_calls(*arguments: Any, **keywords: Any) -> Any:
        asked.append(arguments)
        return build_page_state(*arguments, **keywords)

    monkeypatch.setattr("reconcilers.ui.feed.build_page_state", count_calls)
    async with harness.running():
        await harness.cluster.create(make_holder("a", "10.0.0.0", "10.0.0.7", pool="east"))
        await harness.clock.advance(KEPT_SECONDS / 2)
        assert asked == []
        with harness.feed.open_reader() as reader:
            assert (await harness.news(reader))["pools"][EAST]["allocated"] == 8
        assert len(asked) == 1


async def test_a_reader_that_comes_later_gets_what_is_so_then() -> None:
    harness = Harness()
    async with harness.running():
        with harness.feed.open_reader() as reader:
            await harness.news(reader)
        await harness.cluster.create(make_holder("a", "10.0.0.0", "10.0.0.7", pool="east"))
        await harness.clock.advance(60)
        with harness.feed.open_reader() as reader:
            assert (await harness.news(reader))["pools"][EAST]["allocated"] == 8


async def test_a_cluster_that_does_not_answer_is_reported_on_the_page() -> None:
    harness = Harness()
    async with harness.running():
        with harness.feed.open_reader() as reader:
            assert (await harness.news(reader))["failures"] == []

            def refuse(_: Request) -> None:
                raise NoAnswer("connection refused")

            harness.cluster.on_request = refuse
            await harness.clock.advance(600)
            failures = (await harness.news(reader, 30))["failures"]
            assert any("connection refused" in failure for failure in failures)


async def test_many_changes_at_once_are_one_state() -> None:
    harness = Harness()
    async with harness.running():
        with harness.feed.open_reader() as reader:
            await harness.news(reader)
            before = harness.feed.number
            for number in range(30):
                await harness.cluster.create(
                    make_holder(f"a{number}", f"10.0.0.{number}", f"10.0.0.{number}", pool="east")
                )
            await harness.clock.advance(1)
            assert (await harness.news(reader))["pools"][EAST]["allocated"] == 30
            assert harness.feed.number - before <= 3


async def test_the_page_of_a_namespace_shows_its_pools_and_what_may_not_be_read() -> None:
    harness = Harness(pool_namespace="butler-system", not_read=[NotRead("widgets.example.com")])
    async with harness.running(), anyio.create_task_group():
        theirs = make_pool("theirs", "10.9.0.0/24")
        theirs["metadata"]["namespace"] = "elsewhere"
        await harness.cluster.create(theirs)
        with harness.feed.open_reader() as reader:
            news = await harness.news(reader)
    assert sorted(news["pools"]) == [EAST, WEST]
    assert news["failures"] == [
        "you may not read widgets.example.com: what they hold is not shown"
    ]


async def test_the_page_of_a_user_of_one_namespace_shows_what_that_namespace_has() -> None:
    kinds = (*OWN_KINDS.values(), READ_EVENTS)
    not_read = [NotRead(resource.full_name, "butler-system") for resource in OWN_KINDS.values()]
    harness = Harness(forbidden=kinds, not_read=not_read)
    async with harness.running():
        await harness.cluster.create(
            make_holder("a", "10.0.0.0", "10.0.0.7", pool="east"), event("e", "Served", "a range")
        )
        with harness.feed.open_reader() as reader:
            news = await harness.news(reader)
    assert news["pools"][EAST]["allocated"] == 8
    assert [event["reason"] for event in news["events"]] == ["Served"]


async def test_the_page_of_a_user_who_may_read_tenant_clusters_alone_shows_them() -> None:
    hidden = [kind for kind in OWN_KINDS.values() if kind is not TENANT_CLUSTER]
    limits = [NotRead(kind.full_name) for kind in hidden]
    not_read = [*limits, NotRead(TENANT_CLUSTER.full_name, "team")]
    harness = Harness(
        forbidden=(*OWN_KINDS.values(), READ_EVENTS), pool_namespace="team", not_read=not_read
    )
    async with harness.running():
        await harness.cluster.create(make_saved_cluster("red", "team"))
        with harness.feed.open_reader() as reader:
            news = await harness.news(reader)
    assert list(news["tenants"]) == ["team/red"]
    assert news["failures"][0] == (
        f"you may not read {', '.join(map(str, not_read))}: what they hold is not shown"
    )


async def test_a_kind_that_is_refused_from_the_first_list_on_is_reported_and_hides_nothing() -> (
    None
):
    harness = Harness(forbidden=[IP_ALLOCATION])
    async with harness.running():
        with harness.feed.open_reader() as reader:
            news = await harness.news(reader)
    assert [extent["state"] for extent in ranges(news["pools"][EAST])] == ["unknown"]
    assert any("list ipallocations" in failure for failure in news["failures"])


async def test_events_that_may_not_be_read_are_reported() -> None:
    harness = Harness(forbidden=[READ_EVENTS])
    async with harness.running():
        with harness.feed.open_reader() as reader:
            news = await harness.news(reader)
    assert any("events" in failure for failure in news["failures"])


async def test_a_platform_of_which_a_kind_may_not_be_read_shows_the_rest_of_the_namespace() -> (
    None
):
    whole, namespaced = clusterapi.GLOBAL_IP_POOL, clusterapi.IN_CLUSTER_IP_POOL
    limits = [NotRead(whole.full_name)]
    harness = Harness(forbidden=[whole], pool_namespace="butler-system", not_read=limits)
    harness.cluster.serve_platforms(*CLUSTER_API)
    body = {
        "apiVersion": namespaced.api_version,
        "kind": namespaced.kind,
        "metadata": {"name": "machines", "namespace": "butler-system"},
        "spec": {"addresses": ["10.9.0.10"], "prefix": 24},
    }
    elsewhere = {**body, "metadata": {"name": "machines", "namespace": "elsewhere"}}
    async with harness.running():
        await harness.cluster.create(body, elsewhere)
        with harness.feed.open_reader() as reader:
            await harness.news(reader)
            await harness.clock.advance(15)
            keys = [name.key for name in harness.watched.names if name.kind == namespaced.kind]
    assert keys == [Key("butler-system", "machines")]


async def test_a_pool_of_which_claims_may_not_be_read_is_unknown_on_the_page() -> None:
    claims = clusterapi.claims(clusterapi.CONTRACT_VERSIONS[0])
    harness = Harness(not_read=[NotRead(claims.full_name)])
    async with harness.running():
        with harness.feed.open_reader() as reader:
            pool = (await harness.news(reader))["pools"][EAST]
    assert [extent["state"] for extent in ranges(pool)] == ["unknown"]
    assert pool["notRead"] == [claims.full_name]


async def test_a_pool_becomes_unknown_once_the_list_of_claims_is_forbidden() -> None:
    """At the start the page does not know yet that the list of claims is forbidden.

    The first list, after a reader came, shows it.
    """
    claims = clusterapi.claims(clusterapi.CONTRACT_VERSIONS[0])
    harness = Harness(forbidden=[claims])
    harness.cluster.serve_platforms(*CLUSTER_API)
    async with harness.running(has_looked=False):
        with harness.feed.open_reader() as reader:
            await harness.news(reader)
            await harness.clock.advance(3 * LOOK_SECONDS)
            pool = (await harness.news(reader, seconds=0))["pools"][EAST]
    assert [extent["state"] for extent in ranges(pool)] == ["unknown"]
    assert pool["notRead"] == [claims.full_name]


async def test_a_feed_at_rest_sends_the_time_alone() -> None:
    harness = Harness()
    async with harness.running():
        with harness.feed.open_reader() as reader:
            await harness.news(reader)
            await harness.clock.advance(60)
            await harness.news(reader, 0)
            news = await harness.news(reader, 20)
    assert {name for name, part in news.items() if part} == {"made"}


async def test_a_second_reader_gets_the_newest_state_at_once() -> None:
    harness = Harness()
    async with harness.running():
        with harness.feed.open_reader() as reader:
            await harness.news(reader)
            with harness.feed.open_reader() as second:
                assert (await harness.news(second, 0))["order"] == [EAST, WEST]
        with harness.feed.open_reader() as later:
            assert (await harness.news(later, 0))["order"] == [EAST, WEST]


async def test_readers_of_one_state_share_one_message() -> None:
    harness = Harness()
    async with harness.running():
        with harness.feed.open_reader() as first, harness.feed.open_reader() as second:
            await harness.news(first)
            await harness.news(second)
            await harness.cluster.create(make_holder("a", "10.0.0.0", "10.0.0.7", pool="east"))
            await harness.clock.advance(1)
            assert await first.read() is await second.read()
