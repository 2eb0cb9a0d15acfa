"""Answers that no API server should give, and those it gives under load: nothing dies of them."""

import random
from contextlib import ExitStack

import pytest

from controller import Change, Key, Version
from envtest.faults import (
    CutAnswer,
    DroppedEvents,
    End,
    GatewayPage,
    InsertedEvent,
    LargeEvents,
    LostAnswer,
    Match,
    RefusedConnection,
    SlowAnswer,
    StopAfter,
    SwallowedBookmarks,
    TruncatedEvent,
    error_without_reason,
    expired_event,
    internal_error,
    refuse_as_expired,
    too_many_requests,
    unavailable,
    unknown_event,
)
from envtest.faults.fault import Fault, encode_event
from tests.faults.proxied import GAUGES, Gauge, Observed, ProxiedPlane, observe, proxied_plane

WATCH_ONCE = Match(verb="watch", resource="gauges", times=1)
LIST_ONCE = Match(verb="list", resource="gauges", times=1)
RELISTED, CONTINUED, UNTROUBLED = (2, 2), (1, 2), (1, 1)
"""How many lists and watches there were in the end."""


@pytest.mark.parametrize(
    ("fault", "policy"),
    [
        (GatewayPage(), RELISTED),
        (internal_error(), RELISTED),
        (TruncatedEvent(), RELISTED),
        (error_without_reason(), RELISTED),
        (RefusedConnection(), CONTINUED),
        (LostAnswer(), CONTINUED),
        (CutAnswer(15), CONTINUED),
        (too_many_requests(), CONTINUED),
        (unknown_event(), UNTROUBLED),
        (LargeEvents(), UNTROUBLED),
        (SlowAnswer(3), UNTROUBLED),
        (SwallowedBookmarks(), UNTROUBLED),
    ],
    ids=str,
)
async def test_a_watch_with_odd_input_loses_nothing(fault: Fault, policy: tuple[int, int]) -> None:
    async with proxied_plane() as here:
        await here.create("a")
        with here.proxy.inject(fault, WATCH_ONCE) as odd:
            async with observe(here) as seen:
                await odd.struck.wait()
                await here.create("b")
                changes = await seen.wait(2)
                await here.proxy.calls.wait(policy[1], lambda call: call.verb == "watch")
        assert [name_new_object(change) for change in changes] == ["a", "b"]
        assert (len(here.list_calls("list")), len(here.list_calls("watch"))) == policy
        if policy == CONTINUED:
            assert len(set(here.revisions("watch"))) == 1


@pytest.mark.parametrize(
    "fault",
    [
        GatewayPage(),
        internal_error(),
        unavailable(),
        too_many_requests(),
        refuse_as_expired(),
        RefusedConnection(),
        LostAnswer(),
        CutAnswer(),
        CutAnswer(end=End.CLOSED),
    ],
    ids=str,
)
async def test_a_list_with_odd_input_is_asked_for_again(fault: Fault) -> None:
    async with proxied_plane() as here:
        await here.create("a")
        with here.proxy.inject(fault, LIST_ONCE):
            async with observe(here) as seen:
                assert seen.names == ["a"]
                assert seen.informer.last_error is None
        assert len(here.list_calls("list")) == 2
        assert [name_new_object(change) for change in seen.changes] == ["a"]


@pytest.mark.parametrize("match", [LIST_ONCE, WATCH_ONCE], ids=["list", "watch"])
async def test_the_time_that_an_overloaded_server_asks_for_is_given(match: Match) -> None:
    async with proxied_plane() as here:
        with here.proxy.inject(too_many_requests(7), match):
            async with observe(here) as seen:
                await here.proxy.calls.wait(3)
                await here.create("a")
                await seen.wait(1)
        assert here.clock.pauses[0] >= 7


async def test_a_server_that_takes_no_watches_for_a_while_is_not_asked_for_lists() -> None:
    async with proxied_plane() as here:
        known = (await here.create("a")).metadata.resourceVersion
        bookmark = encode_event("BOOKMARK", {"metadata": {"resourceVersion": known}})
        refused = Match(verb="watch", resource="gauges", nth=2, times=4)
        with (
            here.proxy.inject(InsertedEvent(bookmark, end=End.CLOSED), WATCH_ONCE),
            here.proxy.inject(too_many_requests(), refused),
        ):
            async with observe(here) as seen:
                await here.proxy.calls.wait(6, lambda call: call.verb == "watch")
                await here.create("b")
                await seen.wait(2)
        assert here.revisions("list") == ["0"]


def name_new_object(change: Change[Gauge]) -> str:
    """Return the name of a new object."""
    assert change.old is None
    assert change.new is not None
    return change.new.metadata.name


def storm() -> list[tuple[Fault, Match]]:
    """Return faults of all sorts, each of which strikes every few requests."""
    often, seldom = 0.3, 0.1
    watch = [
        StopAfter(1, End.CLOSED),
        StopAfter(2, End.RESET),
        DroppedEvents(1, 2),
        TruncatedEvent(1),
        unknown_event(1),
        error_without_reason(2),
        expired_event(1),
        refuse_as_expired(),
        SlowAnswer(50),
    ]
    any_read = [GatewayPage(), RefusedConnection(), CutAnswer(), internal_error()]
    # No watch lives for long, so that the storm does not end with a lucky one.
    brief = (StopAfter(5, End.CLOSED), Match(verb="watch"))
    return (
        [brief]
        + [(fault, Match(verb="watch", chance=often)) for fault in watch]
        + [
            (fault, Match(where=lambda call: call.method == "GET", chance=seldom))
            for fault in any_read
        ]
    )


async def churn(here: ProxiedPlane, rng: random.Random) -> None:
    """Create, change and delete gauges until the storm has done its worst."""
    living: list[Gauge] = []
    number = 0
    while len(here.proxy.injected) < 50:
        number += 1
        if living and rng.random() < 0.4:
            await here.delete(living.pop(rng.randrange(len(living))))
        elif living and rng.random() < 0.5:
            chosen = rng.randrange(len(living))
            patch = {"spec": {"count": number}}
            living[chosen] = await here.direct.patch(
                GAUGES, Version.from_object(living[chosen]), patch
            )
        else:
            living.append(await here.create(f"g{number % 20}-{rng.randrange(3)}-{number}"))


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_cache_comes_to_equal_the_server_through_any_storm(seed: int) -> None:
    async with proxied_plane(seed) as here, observe(here) as seen:
        with ExitStack() as faults:
            for fault, match in storm():
                faults.enter_context(here.proxy.inject(fault, match))
            await churn(here, random.Random(seed))
        last = await here.create("last")
        while seen.informer.cache.get(last.metadata.key) is None:
            await seen.wait(len(seen.changes) + 1)

        expected = {gauge.metadata.key: gauge for gauge in (await here.direct.list(GAUGES)).items}
        assert {gauge.metadata.key: gauge for gauge in seen.informer.cache} == expected
        assert replay_changes(seen) == expected


def replay_changes(seen: Observed) -> dict[Key, Gauge]:
    """Return the objects that a handler of every change knows, each from where it was."""
    believed: dict[Key, Gauge] = {}
    for change in seen.changes:
        gauge = change.old or change.new
        assert gauge is not None
        assert believed.pop(gauge.metadata.key, None) == change.old
        if change.new is not None:
            believed[gauge.metadata.key] = change.new
    return believed
