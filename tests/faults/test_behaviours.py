"""Connections, answers and histories that fail: an informer loses no change."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from controller import Change, Key
from controller.lists import STREAM_SECONDS
from envtest.faults import (
    ClosedAtOnce,
    DroppedEvents,
    End,
    LateRequest,
    Match,
    Pause,
    Refusal,
    StopAfter,
    SwallowedBookmarks,
    insert_expired_event,
    refuse_as_expired,
    silence_watch,
)
from envtest.faults.fault import Fault
from tests.envtest.samples import build_gauge
from tests.faults.proxied import (
    GAUGES,
    WATCH,
    Gauge,
    ObservedInformer,
    ProxiedPlane,
    run_informer,
    run_proxied_plane,
)
from tests.polling import make_awaitable, until

FIRST_WATCH = Match(verb="watch", resource="gauges", times=1)
SILENCE_SECONDS = 90.0
"""A watch is replaced after so many seconds without an event or a bookmark."""
FORMS_OF_410 = pytest.mark.parametrize(
    "form", [insert_expired_event(), refuse_as_expired()], ids=["event", "HTTP"]
)
"""Run a test with 410 as an event of a watch, and with 410 as the status of the answer."""


def describe_change(change: Change[Gauge]) -> str:
    """Return "OLD NEW" with the names of both objects, `-` for none, and the change's flags."""
    old, new = (gauge.metadata.name if gauge else "-" for gauge in (change.old, change.new))
    unknown = " unknown" if change.final_state_unknown else ""
    return f"{old} {new}{' initial' if change.initial else ''}{unknown}"


@asynccontextmanager
async def observe_gap(proxied: ProxiedPlane, fault: Fault) -> AsyncIterator[ObservedInformer]:
    """Run an informer whose watch misses the changes of the context, and then ends with a fault.

    At the end the informer has received these changes by other requests.
    """
    gate = anyio.Event()
    late = LateRequest(Pause(until=gate))
    with (
        proxied.proxy.inject(late, FIRST_WATCH) as injected,
        proxied.proxy.inject(fault, FIRST_WATCH),
    ):
        async with run_informer(proxied) as observed:
            await injected.affected_calls.wait()
            change_count = len(observed.changes)
            yield observed
            gate.set()
            await observed.wait_for_changes(change_count + 1)
            # The watch that follows delivers nothing more.
            await proxied.proxy.calls.wait(2, lambda call: call.verb == "watch")


async def test_a_watch_that_falls_silent_is_replaced_without_a_list() -> None:
    async with run_proxied_plane() as proxied:
        await proxied.create("a")
        with proxied.proxy.inject(silence_watch(), FIRST_WATCH):
            async with run_informer(proxied) as observed:
                await observed.wait_for_changes(1)
                await proxied.clock.timeouts.wait(1)
                await proxied.create("b")
                assert observed.names == ["a"]
                await proxied.clock.advance(SILENCE_SECONDS - 1)
                assert observed.count_restarts() == {}
                last_event_age = observed.read_metric("controller_watch_last_event_age_seconds")
                assert last_event_age == pytest.approx(SILENCE_SECONDS - 1)
                await proxied.clock.advance(1)
                await observed.wait_for_changes(2)
                last_event_age = observed.read_metric("controller_watch_last_event_age_seconds")
                assert last_event_age is not None
                assert last_event_age < 1
                assert observed.count_restarts() == {"idle": 1}
                assert observed.read_metric("controller_lists_total") == 1

        assert observed.names == ["a", "b"]
        assert len(proxied.list_calls("list")) == 1
        first, second = proxied.list_revisions("watch")
        assert first == second
        # The dead connection is not left open beside the new one.
        await proxied.proxy.ended_calls.wait(2, lambda call: call.verb == "watch")


@asynccontextmanager
async def observe_under_fault(
    proxied: ProxiedPlane, fault: Fault, match: Match = WATCH
) -> AsyncIterator[ObservedInformer]:
    """Run an informer while a fault is in force."""
    with proxied.proxy.inject(fault, match):
        async with run_informer(proxied) as observed:
            yield observed


@FORMS_OF_410
async def test_410_is_answered_by_one_list_that_shows_what_was_deleted(form: Fault) -> None:
    async with run_proxied_plane() as proxied:
        gone, stays = await proxied.create("gone"), await proxied.create("stays")
        async with observe_gap(proxied, form) as observed:
            await proxied.delete(gone)
        descriptions = [describe_change(change) for change in observed.changes]
        assert sorted(descriptions[:2]) == ["- gone initial", "- stays initial"]
        assert descriptions[2:] == ["gone - unknown"]
        assert proxied.list_revisions("list") == ["0", None]
        assert observed.informer.cache.get(stays.metadata.key) == stays


@FORMS_OF_410
async def test_an_object_recreated_in_a_gap_is_an_update_with_another_uid(form: Fault) -> None:
    async with run_proxied_plane() as proxied:
        first = await proxied.create("a")
        async with observe_gap(proxied, form) as observed:
            await proxied.delete(first)
            second = await proxied.create("a")
        _, change = observed.changes
        assert (change.old, change.new) == (first, second)
        assert first.metadata.uid != second.metadata.uid
        assert observed.informer.cache.list_by_index("uid", first.metadata.uid) == ()
        assert observed.informer.cache.list_by_index("uid", second.metadata.uid) == (second,)


async def test_a_server_that_closes_each_watch_at_once_gets_few_requests() -> None:
    async with run_proxied_plane() as proxied, observe_under_fault(proxied, ClosedAtOnce()):
        pauses = proxied.clock.sleeps
        while sum(pauses) < 5:
            await pauses.wait(len(pauses) + 1)
        assert len(proxied.proxy.calls) < 10
        assert len(proxied.list_calls("list")) > 1
        await pauses.wait(5)
        for number, pause in enumerate(pauses[:5]):
            assert 0.8 * 2**number <= pause <= 1.6 * 2**number
        assert len(set(pauses[:5])) == 5


async def test_a_list_that_expires_between_its_parts_is_asked_for_in_one_piece() -> None:
    async with run_proxied_plane() as proxied:
        names = [f"g{number:04}" for number in range(1201)]
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(proxied.direct.create, GAUGES, "default", build_gauge(name))
        second_part = Match(verb="list", where=lambda call: "continue" in call.query, times=1)
        with (
            proxied.proxy.inject(insert_expired_event(), FIRST_WATCH),
            proxied.proxy.inject(refuse_as_expired(), second_part) as injected,
        ):
            async with run_informer(proxied) as observed:
                await proxied.proxy.calls.wait(2, lambda call: call.verb == "watch")
                assert observed.names == names
        assert len(injected.affected_calls) == 1
        _, first, second, whole = (dict(call.query) for call in proxied.list_calls("list"))
        assert first == {"limit": "500"}
        assert sorted(second) == ["continue", "limit"]
        assert whole == {}
        assert len(observed.changes) == 1201


async def test_what_changes_between_the_parts_of_a_list_is_known_once_and_as_it_is_now() -> None:
    async with run_proxied_plane() as proxied:
        gauges = dict[str, Gauge]()

        async def make(name: str) -> None:
            gauges[name] = await proxied.create(name)

        async with anyio.create_task_group() as group:
            for number in range(1001):
                group.start_soon(make, f"g{number:04}")
        gate = anyio.Event()
        next_part = Match(verb="list", where=lambda call: "continue" in call.query, times=1)
        with (
            proxied.proxy.inject(insert_expired_event(), FIRST_WATCH),
            proxied.proxy.inject(LateRequest(Pause(until=gate)), next_part) as injected,
        ):
            async with run_informer(proxied) as observed:
                await injected.affected_calls.wait()
                # One of the first part, two of a part that is not read yet, and a new one.
                await proxied.delete(gauges.pop("g0000"))
                await proxied.delete(gauges.pop("g0999"))
                await proxied.delete(gauges.pop("g0700"))
                await make("g0700")
                await make("g0000a")
                gate.set()
                await proxied.proxy.calls.wait(2, lambda call: call.verb == "watch")
                await until(
                    make_awaitable(lambda: observed.names), lambda names: names == sorted(gauges)
                )
                again = observed.informer.cache.get(Key("default", "g0700"))
                assert again == gauges["g0700"]


async def test_parts_after_the_first_carry_no_resource_version() -> None:
    async with run_proxied_plane() as proxied:
        async with anyio.create_task_group() as group:
            for number in range(501):
                group.start_soon(
                    proxied.direct.create, GAUGES, "default", build_gauge(f"g{number}")
                )
        assert len((await proxied.client.list(GAUGES)).items) == 501
        first, second = (sorted(call.query) for call in proxied.list_calls("list"))
        assert (first, second) == (["limit"], ["continue", "limit"])


@pytest.mark.parametrize(
    ("end", "expected_change"), [(End.RESET, "a -"), (End.CLOSED, "a - unknown")]
)
async def test_events_of_a_broken_connection_are_delivered_by_the_next_watch(
    end: End, expected_change: str
) -> None:
    async with run_proxied_plane() as proxied:
        first = await proxied.create("a")
        async with observe_under_fault(proxied, DroppedEvents(0, 2, end), FIRST_WATCH) as observed:
            await proxied.delete(first)
            await proxied.create("b")
            await observed.wait_for_changes(3)
        assert [describe_change(change) for change in observed.changes] == [
            "- a initial",
            expected_change,
            "- b",
        ]


async def test_a_streamed_list_without_its_end_is_given_up_for_a_list_and_never_tried_again() -> (
    None
):
    async with run_proxied_plane(streams=True) as proxied:
        await proxied.create("a")
        without_end = SwallowedBookmarks(initial_end_only=True)
        with proxied.proxy.inject(without_end, WATCH):
            async with anyio.create_task_group() as group:
                watcher = ObservedInformer(proxied, streams=True)
                group.start_soon(watcher.informer.run)
                await proxied.clock.timeouts.wait(1)
                await proxied.proxy.calls.wait(1)
                await proxied.clock.advance(STREAM_SECONDS - 1)
                assert not watcher.informer.cache.is_synced
                assert proxied.list_calls("list") == []
                await proxied.clock.advance(1)
                await watcher.informer.wait_synced()
                assert watcher.names == ["a"]
                assert proxied.list_revisions("list") == ["0"]

                # The stream is not tried again for the next list, either.
                with proxied.proxy.inject(insert_expired_event(), FIRST_WATCH):
                    await proxied.create("b")
                    await proxied.clock.advance(SILENCE_SECONDS)
                    await watcher.wait_for_changes(2)
                    await proxied.proxy.calls.wait(2, lambda call: call.verb == "list")
                group.cancel_scope.cancel()
        streamed = [
            call for call in proxied.list_calls("watch") if "sendInitialEvents" in call.query
        ]
        assert len(streamed) == 1


async def test_a_streamed_list_goes_on_as_the_watch_without_another_request() -> None:
    async with run_proxied_plane(streams=True) as proxied:
        await proxied.create("a")
        async with run_informer(proxied, streams=True) as observed:
            await proxied.create("b")
            await observed.wait_for_changes(2)
        assert [describe_change(change) for change in observed.changes] == ["- a initial", "- b"]
        assert proxied.list_calls("list") == []
        (only,) = proxied.list_calls("watch")
        assert only.query["sendInitialEvents"] == "true"
        assert only.query["resourceVersionMatch"] == "NotOlderThan"
        assert only.query["resourceVersion"] == ""


@pytest.mark.parametrize("end", [End.RESET, End.CLOSED])
async def test_a_streamed_list_cut_midway_is_no_position_to_come_back_to(end: End) -> None:
    async with run_proxied_plane(streams=True) as proxied:
        # By name, the resourceVersions descend.
        created = [await proxied.create(name) for name in ("c", "b", "a")]
        numbers = {gauge.metadata.resourceVersion for gauge in created}
        with proxied.proxy.inject(StopAfter(2, end), FIRST_WATCH) as cut:
            async with run_informer(proxied, streams=True) as observed:
                await cut.affected_calls.wait()
                assert observed.names == ["a", "b", "c"]
                assert [change.initial for change in observed.changes] == [True] * 3
        first, second = proxied.list_revisions("watch")
        assert first == second == ""
        assert numbers.isdisjoint({first, second})


async def test_a_server_without_streamed_lists_is_asked_for_lists() -> None:
    async with run_proxied_plane() as proxied:
        await proxied.create("a")
        message = "sendInitialEvents: Forbidden: forbidden unless WatchList is enabled"
        refused = Refusal(422, "Invalid", message)
        with proxied.proxy.inject(refused, FIRST_WATCH):
            async with run_informer(proxied, streams=True) as observed:
                assert observed.names == ["a"]
                assert proxied.clock.sleeps[:] == []
        assert proxied.list_revisions("list") == ["0"]


async def test_a_streamed_list_shows_what_was_deleted_in_a_gap() -> None:
    async with run_proxied_plane(streams=True) as proxied:
        gone = await proxied.create("gone")
        stays = await proxied.create("stays")
        with proxied.proxy.inject(silence_watch(3), FIRST_WATCH):
            async with run_informer(proxied, streams=True) as observed:
                await proxied.delete(gone)
                late = Match(verb="watch", resource="gauges", times=1)
                with proxied.proxy.inject(refuse_as_expired(), late):
                    await proxied.clock.advance(SILENCE_SECONDS)
                    await observed.wait_for_changes(3)
        assert describe_change(observed.changes[-1]) == "gone - unknown"
        assert observed.informer.cache.get(stays.metadata.key) == stays
        assert proxied.list_calls("list") == []
        assert observed.count_restarts() == {"idle": 1, "expired": 1}
