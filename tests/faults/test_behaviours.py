"""What a controller must go through unharmed: connections, answers and histories that fail."""

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
    expired_event,
    half_open,
    refuse_as_expired,
)
from envtest.faults.fault import Fault
from tests.envtest.samples import build_gauge
from tests.faults.proxied import (
    GAUGES,
    WATCH,
    Gauge,
    Observed,
    ProxiedPlane,
    observe,
    proxied_plane,
)
from tests.polling import make_awaitable, until

FIRST_WATCH = Match(verb="watch", resource="gauges", times=1)
SILENCE = 90.0
FORMS_OF_410 = pytest.mark.parametrize(
    "form", [expired_event(), refuse_as_expired()], ids=["event", "HTTP"]
)


def short(change: Change[Gauge]) -> str:
    """Return a change in a few words."""
    old, new = (gauge.metadata.name if gauge else "-" for gauge in (change.old, change.new))
    unknown = " unknown" if change.final_state_unknown else ""
    return f"{old} {new}{' initial' if change.initial else ''}{unknown}"


@asynccontextmanager
async def gap(here: ProxiedPlane, fault: Fault) -> AsyncIterator[Observed]:
    """Keep an informer from seeing what the body does; then let its watch end with a fault.

    It is stopped when it has seen all there is to see after that.
    """
    gate = anyio.Event()
    late = LateRequest(Pause(until=gate))
    with here.proxy.inject(late, FIRST_WATCH) as injected, here.proxy.inject(fault, FIRST_WATCH):
        async with observe(here) as seen:
            await injected.struck.wait()
            reported = len(seen.changes)
            yield seen
            gate.set()
            await seen.wait(reported + 1)
            # The watch that follows has nothing more to tell.
            await here.proxy.calls.wait(2, lambda call: call.verb == "watch")


async def test_a_watch_that_falls_silent_is_replaced_without_a_list() -> None:
    async with proxied_plane() as here:
        await here.create("a")
        with here.proxy.inject(half_open(), FIRST_WATCH):
            async with observe(here) as seen:
                await seen.wait(1)
                await here.clock.deadlines.wait(1)
                await here.create("b")
                assert seen.names == ["a"]
                await here.clock.advance(SILENCE - 1)
                assert seen.restarts() == {}
                age = seen.metric("controller_watch_last_event_age_seconds")
                assert age == pytest.approx(SILENCE - 1)
                await here.clock.advance(1)
                await seen.wait(2)
                recorded = seen.metric("controller_watch_last_event_age_seconds")
                assert recorded is not None
                assert recorded < 1
                assert seen.restarts() == {"idle": 1}
                assert seen.metric("controller_lists_total") == 1

        assert seen.names == ["a", "b"]
        assert len(here.list_calls("list")) == 1
        first, second = here.revisions("watch")
        assert first == second
        # The dead connection is not left open beside the new one.
        await here.proxy.done.wait(2, lambda call: call.verb == "watch")


@asynccontextmanager
async def observed_under(
    here: ProxiedPlane, fault: Fault, match: Match = WATCH
) -> AsyncIterator[Observed]:
    """Run an informer while a fault is in force."""
    with here.proxy.inject(fault, match):
        async with observe(here) as seen:
            yield seen


@FORMS_OF_410
async def test_410_is_answered_by_one_list_that_shows_what_was_deleted(form: Fault) -> None:
    async with proxied_plane() as here:
        gone, stays = await here.create("gone"), await here.create("stays")
        async with gap(here, form) as seen:
            await here.delete(gone)
        reported = [short(change) for change in seen.changes]
        assert sorted(reported[:2]) == ["- gone initial", "- stays initial"]
        assert reported[2:] == ["gone - unknown"]
        assert here.revisions("list") == ["0", None]
        assert seen.informer.cache.get(stays.metadata.key) == stays


@FORMS_OF_410
async def test_an_object_recreated_in_a_gap_is_an_update_with_another_uid(form: Fault) -> None:
    async with proxied_plane() as here:
        first = await here.create("a")
        async with gap(here, form) as seen:
            await here.delete(first)
            second = await here.create("a")
        _, change = seen.changes
        assert (change.old, change.new) == (first, second)
        assert first.metadata.uid != second.metadata.uid
        assert seen.informer.cache.by_index("uid", first.metadata.uid) == ()
        assert seen.informer.cache.by_index("uid", second.metadata.uid) == (second,)


async def test_a_server_that_closes_each_watch_at_once_gets_few_requests() -> None:
    async with proxied_plane() as here, observed_under(here, ClosedAtOnce()):
        pauses = here.clock.pauses
        while sum(pauses) < 5:
            await pauses.wait(len(pauses) + 1)
        assert len(here.proxy.calls) < 10
        assert len(here.list_calls("list")) > 1
        await pauses.wait(5)
        for number, pause in enumerate(pauses[:5]):
            assert 0.8 * 2**number <= pause <= 1.6 * 2**number
        assert len(set(pauses[:5])) == 5


async def test_a_list_that_expires_between_its_parts_is_asked_for_in_one_piece() -> None:
    async with proxied_plane() as here:
        names = [f"g{number:04}" for number in range(1201)]
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(here.direct.create, GAUGES, "default", build_gauge(name))
        second_part = Match(verb="list", where=lambda call: "continue" in call.query, times=1)
        with (
            here.proxy.inject(expired_event(), FIRST_WATCH),
            here.proxy.inject(refuse_as_expired(), second_part) as struck,
        ):
            async with observe(here) as seen:
                await here.proxy.calls.wait(2, lambda call: call.verb == "watch")
                assert seen.names == names
        assert len(struck.struck) == 1
        _, first, second, whole = (dict(call.query) for call in here.list_calls("list"))
        assert first == {"limit": "500"}
        assert sorted(second) == ["continue", "limit"]
        assert whole == {}
        assert len(seen.changes) == 1201


async def test_what_changes_between_the_parts_of_a_list_is_known_once_and_as_it_is_now() -> None:
    async with proxied_plane() as here:
        gauges = dict[str, Gauge]()

        async def make(name: str) -> None:
            gauges[name] = await here.create(name)

        async with anyio.create_task_group() as group:
            for number in range(1001):
                group.start_soon(make, f"g{number:04}")
        gate = anyio.Event()
        next_part = Match(verb="list", where=lambda call: "continue" in call.query, times=1)
        with (
            here.proxy.inject(expired_event(), FIRST_WATCH),
            here.proxy.inject(LateRequest(Pause(until=gate)), next_part) as injected,
        ):
            async with observe(here) as seen:
                await injected.struck.wait()
                # One of the first part, two of a part that is not read yet, and a new one.
                await here.delete(gauges.pop("g0000"))
                await here.delete(gauges.pop("g0999"))
                await here.delete(gauges.pop("g0700"))
                await make("g0700")
                await make("g0000a")
                gate.set()
                await here.proxy.calls.wait(2, lambda call: call.verb == "watch")
                await until(
                    make_awaitable(lambda: seen.names), lambda names: names == sorted(gauges)
                )
                again = seen.informer.cache.get(Key("default", "g0700"))
                assert again == gauges["g0700"]


async def test_parts_after_the_first_carry_no_resource_version() -> None:
    async with proxied_plane() as here:
        async with anyio.create_task_group() as group:
            for number in range(501):
                group.start_soon(here.direct.create, GAUGES, "default", build_gauge(f"g{number}"))
        assert len((await here.client.list(GAUGES)).items) == 501
        first, second = (sorted(call.query) for call in here.list_calls("list"))
        assert (first, second) == (["limit"], ["continue", "limit"])


@pytest.mark.parametrize(("end", "reported"), [(End.RESET, "a -"), (End.CLOSED, "a - unknown")])
async def test_events_of_a_broken_connection_are_delivered_by_the_next_watch(
    end: End, reported: str
) -> None:
    async with proxied_plane() as here:
        first = await here.create("a")
        async with observed_under(here, DroppedEvents(0, 2, end), FIRST_WATCH) as seen:
            await here.delete(first)
            await here.create("b")
            await seen.wait(3)
        assert [short(change) for change in seen.changes] == ["- a initial", reported, "- b"]


async def test_a_streamed_list_without_its_end_is_given_up_for_a_list_and_never_tried_again() -> (
    None
):
    async with proxied_plane(streams=True) as here:
        await here.create("a")
        eaten = SwallowedBookmarks(initial_end_only=True)
        with here.proxy.inject(eaten, WATCH):
            async with anyio.create_task_group() as group:
                watcher = Observed(here, streams=True)
                group.start_soon(watcher.informer.run)
                await here.clock.deadlines.wait(1)
                await here.proxy.calls.wait(1)
                await here.clock.advance(STREAM_SECONDS - 1)
                assert not watcher.informer.cache.synced
                assert here.list_calls("list") == []
                await here.clock.advance(1)
                await watcher.informer.wait_synced()
                assert watcher.names == ["a"]
                assert here.revisions("list") == ["0"]

                # Not again, either, when everything has to be asked for anew.
                with here.proxy.inject(expired_event(), FIRST_WATCH):
                    await here.create("b")
                    await here.clock.advance(SILENCE)
                    await watcher.wait(2)
                    await here.proxy.calls.wait(2, lambda call: call.verb == "list")
                group.cancel_scope.cancel()
        streamed = [call for call in here.list_calls("watch") if "sendInitialEvents" in call.query]
        assert len(streamed) == 1


async def test_a_streamed_list_goes_on_as_the_watch_without_another_request() -> None:
    async with proxied_plane(streams=True) as here:
        await here.create("a")
        async with observe(here, streams=True) as seen:
            await here.create("b")
            await seen.wait(2)
        assert [short(change) for change in seen.changes] == ["- a initial", "- b"]
        assert here.list_calls("list") == []
        (only,) = here.list_calls("watch")
        assert only.query["sendInitialEvents"] == "true"
        assert only.query["resourceVersionMatch"] == "NotOlderThan"
        assert only.query["resourceVersion"] == ""


@pytest.mark.parametrize("end", [End.RESET, End.CLOSED])
async def test_a_streamed_list_cut_midway_is_no_position_to_come_back_to(end: End) -> None:
    async with proxied_plane(streams=True) as here:
        # The revisions descend by name.
        created = [await here.create(name) for name in ("c", "b", "a")]
        numbers = {gauge.metadata.resourceVersion for gauge in created}
        with here.proxy.inject(StopAfter(2, end), FIRST_WATCH) as cut:
            async with observe(here, streams=True) as seen:
                await cut.struck.wait()
                assert seen.names == ["a", "b", "c"]
                assert [change.initial for change in seen.changes] == [True] * 3
        first, second = here.revisions("watch")
        assert first == second == ""
        assert numbers.isdisjoint({first, second})


async def test_a_server_without_streamed_lists_is_asked_for_lists() -> None:
    async with proxied_plane() as here:
        await here.create("a")
        message = "sendInitialEvents: Forbidden: forbidden unless WatchList is enabled"
        refused = Refusal(422, "Invalid", message)
        with here.proxy.inject(refused, FIRST_WATCH):
            async with observe(here, streams=True) as seen:
                assert seen.names == ["a"]
                assert here.clock.pauses[:] == []
        assert here.revisions("list") == ["0"]


async def test_a_streamed_list_shows_what_was_deleted_in_a_gap() -> None:
    async with proxied_plane(streams=True) as here:
        gone = await here.create("gone")
        stays = await here.create("stays")
        with here.proxy.inject(half_open(3), FIRST_WATCH):
            async with observe(here, streams=True) as seen:
                await here.delete(gone)
                late = Match(verb="watch", resource="gauges", times=1)
                with here.proxy.inject(refuse_as_expired(), late):
                    await here.clock.advance(SILENCE)
                    await seen.wait(3)
        assert short(seen.changes[-1]) == "gone - unknown"
        assert seen.informer.cache.get(stays.metadata.key) == stays
        assert here.list_calls("list") == []
        assert seen.restarts() == {"idle": 1, "expired": 1}
