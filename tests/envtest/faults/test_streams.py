"""Faults on watch streams, as the client that reads the watch sees them."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import anyio
import msgspec
import pytest

from controller import NoAnswer, TooManyRequests
from controller.errors import Expired
from envtest.faults import (
    ClosedAtOnce,
    CutAnswer,
    DroppedEvents,
    End,
    LargeEvents,
    Match,
    Proxy,
    SlowAnswer,
    StopAfter,
    SwallowedBookmarks,
    TruncatedEvent,
    insert_error_without_reason,
    insert_expired_event,
    insert_unknown_event,
    refuse_as_expired,
    refuse_as_overloaded,
    silence_watch,
)
from envtest.faults.fault import Fault
from tests.envtest.samples import PATH
from tests.faults.proxied import GAUGES, WATCH, ProxiedPlane, open_transport, run_proxied_plane

ALL = {"watch": "1", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
BOOKMARKS = {**ALL, "allowWatchBookmarks": "true"}


async def read_lines(chunks: AsyncIterator[bytes], enough: int | None = None) -> list[bytes]:
    """Return the lines of a watch until its end, or until there are `enough` lines."""
    data = b""
    async for chunk in chunks:
        data += chunk
        if enough is not None and data.count(b"\n") >= enough:
            break
    return data.splitlines()


def describe_event(line: bytes) -> str:
    """Return an event's type, and the name of its object."""
    event = msgspec.json.decode(line)
    name = (event["object"].get("metadata") or {}).get("name", "")
    return f"{event['type']} {name}".strip()


async def watch_gauges(proxied: ProxiedPlane, enough: int | None = None) -> list[bytes]:
    """Return the lines of a watch of all gauges through the proxy, from the present ones on."""
    async with proxied.transport.stream(PATH, query=BOOKMARKS) as chunks:
        return await read_lines(chunks, enough)


async def must_be_silent(chunks: AsyncIterator[bytes]) -> None:
    """Fail if anything more arrives, or the connection ends."""
    async for chunk in chunks:
        raise AssertionError(f"a silent watch said {chunk!r}")
    raise AssertionError("a silent watch was closed")


async def test_a_proxy_without_faults_passes_a_watch_on() -> None:
    async with run_proxied_plane() as proxied:
        await proxied.create("a")
        events = [describe_event(line) for line in await watch_gauges(proxied, 2)]
        assert events == ["ADDED a", "BOOKMARK"]


async def test_a_half_open_watch_delivers_nothing_more_and_is_not_closed() -> None:
    async with run_proxied_plane() as proxied:
        await proxied.create("a")
        with proxied.proxy.inject(silence_watch(1), Match(times=1)):
            async with proxied.transport.stream(PATH, query=BOOKMARKS) as chunks:
                assert [describe_event(line) for line in (await anext(chunks)).splitlines()] == [
                    "ADDED a"
                ]
                await proxied.create("b")
                async with anyio.create_task_group() as group:
                    group.start_soon(must_be_silent, chunks)
                    # Another watch has delivered the event, so this one would have, too.
                    assert len(await watch_gauges(proxied, 3)) == 3
                    group.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("fault", "events"),
    [
        (StopAfter(1, End.CLOSED), ["ADDED a"]),
        (ClosedAtOnce(), []),
        (insert_unknown_event(), ["RENAMED odd", "ADDED a", "ADDED b", "BOOKMARK"]),
        (insert_unknown_event(1), ["ADDED a", "RENAMED odd", "ADDED b", "BOOKMARK"]),
        (insert_error_without_reason(1), ["ADDED a", "ERROR"]),
        (insert_expired_event(), ["ERROR"]),
        (DroppedEvents(1, 1, End.CLOSED), ["ADDED a"]),
        (DroppedEvents(0, 2, End.CLOSED), []),
    ],
    ids=str,
)
async def test_a_watch_delivers_what_the_fault_leaves_of_it(
    fault: Fault, events: list[str]
) -> None:
    async with run_proxied_plane() as proxied:
        await proxied.create("a")
        await proxied.create("b")
        with proxied.proxy.inject(fault, WATCH):
            assert [
                describe_event(line) for line in await watch_gauges(proxied, max(1, len(events)))
            ] == events


@pytest.mark.parametrize("fault", [DroppedEvents(1, 1), CutAnswer(9, pieces=1)], ids=str)
async def test_a_watch_can_break_in_the_middle(fault: Fault) -> None:
    async with run_proxied_plane() as proxied:
        await proxied.create("a")
        await proxied.create("b")
        with proxied.proxy.inject(fault), pytest.raises(NoAnswer):
            await watch_gauges(proxied)


async def test_a_truncated_event_ends_like_a_whole_one() -> None:
    async with run_proxied_plane() as proxied:
        await proxied.create("a")
        await proxied.create("b")
        with proxied.proxy.inject(TruncatedEvent(events=1, size=12)):
            first, second, third = await watch_gauges(proxied, 3)
        assert describe_event(first) == "ADDED a"
        assert second == b'{"type":"ADD'
        assert describe_event(third) == "BOOKMARK"


async def test_a_made_up_event_does_not_wait_for_a_real_one() -> None:
    async with run_proxied_plane() as proxied:
        query = {
            "watch": "1",
            "resourceVersion": (await proxied.create("a")).metadata.resourceVersion,
        }
        with proxied.proxy.inject(insert_expired_event()):
            async with proxied.transport.stream(PATH, query=query) as chunks:
                assert [describe_event(line) for line in await read_lines(chunks)] == ["ERROR"]


async def test_events_can_be_larger_than_any_object_should_be() -> None:
    async with run_proxied_plane() as proxied:
        await proxied.create("a")
        with proxied.proxy.inject(LargeEvents()):
            event, end = await watch_gauges(proxied, 2)
        assert describe_event(event) == "ADDED a"
        assert len(event) > 5 * 1024 * 1024
        assert describe_event(end) == "BOOKMARK"


@pytest.mark.parametrize("initial_end_only", [True, False])
async def test_bookmarks_can_be_swallowed(*, initial_end_only: bool) -> None:
    async with run_proxied_plane() as proxied:
        await proxied.create("a")
        with proxied.proxy.inject(SwallowedBookmarks(initial_end_only)):
            async with proxied.transport.stream(PATH, query=BOOKMARKS) as chunks:
                assert [describe_event(line) for line in await read_lines(chunks, 1)] == [
                    "ADDED a"
                ]
                await proxied.create("b")
                assert [describe_event(line) for line in await read_lines(chunks, 1)] == [
                    "ADDED b"
                ]


@pytest.mark.parametrize(
    ("make", "error"), [(refuse_as_expired, Expired), (refuse_as_overloaded, TooManyRequests)]
)
async def test_a_watch_can_be_refused_by_its_status(
    make: Callable[[], Fault], error: type[Exception]
) -> None:
    async with run_proxied_plane() as proxied:
        with proxied.proxy.inject(make(), WATCH), pytest.raises(error):
            await watch_gauges(proxied)


async def test_faults_of_watches_leave_other_requests_alone() -> None:
    async with run_proxied_plane() as proxied:
        with proxied.proxy.inject(silence_watch()) as silent, proxied.proxy.inject(ClosedAtOnce()):
            await proxied.client.list(GAUGES)
        assert len(silent.affected_calls) == 0


async def test_several_faults_may_apply_to_one_watch() -> None:
    async with run_proxied_plane() as proxied:
        await proxied.create("a")
        await proxied.create("b")
        with (
            proxied.proxy.inject(insert_unknown_event(1)),
            proxied.proxy.inject(StopAfter(2, End.CLOSED)),
        ):
            events = [describe_event(line) for line in await watch_gauges(proxied)]
        assert events == ["ADDED a", "RENAMED odd", "ADDED b"]
        assert len(proxied.proxy.injected) == 2


@pytest.mark.parametrize("first", [SlowAnswer(100), DroppedEvents(9), SwallowedBookmarks()])
async def test_a_fault_before_the_first_event_applies_whatever_came_before_it(
    first: Fault,
) -> None:
    async with run_proxied_plane() as proxied:
        await proxied.create("a")
        with proxied.proxy.inject(first), proxied.proxy.inject(insert_expired_event()):
            assert [describe_event(line) for line in await watch_gauges(proxied)] == ["ERROR"]


async def test_closing_the_proxy_ends_open_requests_and_watches() -> None:
    async with run_proxied_plane() as proxied, AsyncExitStack() as outer:
        async with Proxy.run_before(proxied.plane) as proxy:
            transport = await outer.enter_async_context(open_transport(proxy))
            outer.enter_context(proxy.inject(silence_watch()))
            chunks = await outer.enter_async_context(transport.stream(PATH, query=BOOKMARKS))
        with pytest.raises(NoAnswer):
            await anext(chunks)


async def test_a_client_that_hangs_up_ends_its_watch_at_the_server_too() -> None:
    async with run_proxied_plane() as proxied:
        async with proxied.transport.stream(PATH, query=BOOKMARKS) as chunks:
            await anext(chunks)
            assert len(proxied.proxy.ended_calls) == 0
        await proxied.proxy.ended_calls.wait(1)
