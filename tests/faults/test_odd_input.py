"""Answers that no API server should give, or gives under load, stop no informer."""

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
    insert_error_without_reason,
    insert_expired_event,
    insert_unknown_event,
    refuse_as_expired,
    refuse_as_internal_error,
    refuse_as_overloaded,
    refuse_as_unavailable,
)
from envtest.faults.fault import Fault, encode_event
from tests.faults.proxied import (
    GAUGES,
    Gauge,
    ObservedInformer,
    ProxiedPlane,
    run_informer,
    run_proxied_plane,
)

WATCH_ONCE = Match(verb="watch", resource="gauges", times=1)
LIST_ONCE = Match(verb="list", resource="gauges", times=1)
RELISTED, CONTINUED, UNTROUBLED = (2, 2), (1, 2), (1, 1)
"""How many lists and how many watches an informer has sent after a fault that strikes its watch.

After a fault of the first kind it lists again, after one of the second kind only the watch starts
again, and a fault of the third kind does not end the watch.
"""


@pytest.mark.parametrize(
    ("fault", "request_counts"),
    [
        (GatewayPage(), RELISTED),
        (refuse_as_internal_error(), RELISTED),
        (TruncatedEvent(), RELISTED),
        (insert_error_without_reason(), RELISTED),
        (RefusedConnection(), CONTINUED),
        (LostAnswer(), CONTINUED),
        (CutAnswer(15), CONTINUED),
        (refuse_as_overloaded(), CONTINUED),
        (insert_unknown_event(), UNTROUBLED),
        (LargeEvents(), UNTROUBLED),
        (SlowAnswer(3), UNTROUBLED),
        (SwallowedBookmarks(), UNTROUBLED),
    ],
    ids=str,
)
async def test_a_watch_with_odd_input_loses_nothing(
    fault: Fault, request_counts: tuple[int, int]
) -> None:
    async with run_proxied_plane() as proxied:
        await proxied.create("a")
        with proxied.proxy.inject(fault, WATCH_ONCE) as injected:
            async with run_informer(proxied) as observed:
                await injected.affected_calls.wait()
                await proxied.create("b")
                changes = await observed.wait_for_changes(2)
                await proxied.proxy.calls.wait(
                    request_counts[1], lambda call: call.verb == "watch"
                )
        assert [name_new_object(change) for change in changes] == ["a", "b"]
        assert (
            len(proxied.list_calls("list")),
            len(proxied.list_calls("watch")),
        ) == request_counts
        if request_counts == CONTINUED:
            assert len(set(proxied.list_revisions("watch"))) == 1


@pytest.mark.parametrize(
    "fault",
    [
        GatewayPage(),
        refuse_as_internal_error(),
        refuse_as_unavailable(),
        refuse_as_overloaded(),
        refuse_as_expired(),
        RefusedConnection(),
        LostAnswer(),
        CutAnswer(),
        CutAnswer(end=End.CLOSED),
    ],
    ids=str,
)
async def test_a_list_with_odd_input_is_asked_for_again(fault: Fault) -> None:
    async with run_proxied_plane() as proxied:
        await proxied.create("a")
        with proxied.proxy.inject(fault, LIST_ONCE):
            async with run_informer(proxied) as observed:
                assert observed.names == ["a"]
                assert observed.informer.last_error is None
        assert len(proxied.list_calls("list")) == 2
        assert [name_new_object(change) for change in observed.changes] == ["a"]


@pytest.mark.parametrize("match", [LIST_ONCE, WATCH_ONCE], ids=["list", "watch"])
async def test_the_time_that_an_overloaded_server_asks_for_is_given(match: Match) -> None:
    async with run_proxied_plane() as proxied:
        with proxied.proxy.inject(refuse_as_overloaded(7), match):
            async with run_informer(proxied) as observed:
                await proxied.proxy.calls.wait(3)
                await proxied.create("a")
                await observed.wait_for_changes(1)
        assert proxied.clock.sleeps[0] >= 7


async def test_a_server_that_takes_no_watches_for_a_while_is_not_asked_for_lists() -> None:
    async with run_proxied_plane() as proxied:
        revision = (await proxied.create("a")).metadata.resourceVersion
        bookmark = encode_event("BOOKMARK", {"metadata": {"resourceVersion": revision}})
        refused = Match(verb="watch", resource="gauges", nth=2, times=4)
        with (
            proxied.proxy.inject(InsertedEvent(bookmark, end=End.CLOSED), WATCH_ONCE),
            proxied.proxy.inject(refuse_as_overloaded(), refused),
        ):
            async with run_informer(proxied) as observed:
                await proxied.proxy.calls.wait(6, lambda call: call.verb == "watch")
                await proxied.create("b")
                await observed.wait_for_changes(2)
        assert proxied.list_revisions("list") == ["0"]


def name_new_object(change: Change[Gauge]) -> str:
    """Return the name of the object that a change adds; fail if the change is of another kind."""
    assert change.old is None
    assert change.new is not None
    return change.new.metadata.name


def list_storm_faults() -> list[tuple[Fault, Match]]:
    """Return faults of all kinds, each of which strikes some of the requests at random."""
    watch = [
        StopAfter(1, End.CLOSED),
        StopAfter(2, End.RESET),
        DroppedEvents(1, 2),
        TruncatedEvent(1),
        insert_unknown_event(1),
        insert_error_without_reason(2),
        insert_expired_event(1),
        refuse_as_expired(),
        SlowAnswer(50),
    ]
    any_read = [GatewayPage(), RefusedConnection(), CutAnswer(), refuse_as_internal_error()]
    # Each watch ends after five events. Else the first one without a fault would last.
    short_watches = (StopAfter(5, End.CLOSED), Match(verb="watch"))
    return (
        [short_watches]
        + [(fault, Match(verb="watch", chance=0.3)) for fault in watch]
        + [
            (fault, Match(where=lambda call: call.method == "GET", chance=0.1))
            for fault in any_read
        ]
    )


async def change_gauges(proxied: ProxiedPlane, choices: random.Random) -> None:
    """Create, change and delete gauges until 50 faults were injected."""
    existing: list[Gauge] = []
    number = 0
    while len(proxied.proxy.injected) < 50:
        number += 1
        if existing and choices.random() < 0.4:
            await proxied.delete(existing.pop(choices.randrange(len(existing))))
        elif existing and choices.random() < 0.5:
            index = choices.randrange(len(existing))
            patch = {"spec": {"count": number}}
            existing[index] = await proxied.direct.patch(
                GAUGES, Version.from_object(existing[index]), patch
            )
        else:
            existing.append(
                await proxied.create(f"g{number % 20}-{choices.randrange(3)}-{number}")
            )


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_cache_comes_to_equal_the_server_through_any_storm(seed: int) -> None:
    async with run_proxied_plane(seed) as proxied, run_informer(proxied) as observed:
        with ExitStack() as faults:
            for fault, match in list_storm_faults():
                faults.enter_context(proxied.proxy.inject(fault, match))
            await change_gauges(proxied, random.Random(seed))
        last = await proxied.create("last")
        while observed.informer.cache.get(last.metadata.key) is None:
            await observed.wait_for_changes(len(observed.changes) + 1)

        expected = {
            gauge.metadata.key: gauge for gauge in (await proxied.direct.list(GAUGES)).items
        }
        assert {gauge.metadata.key: gauge for gauge in observed.informer.cache} == expected
        assert replay_changes(observed) == expected


def replay_changes(observed: ObservedInformer) -> dict[Key, Gauge]:
    """Apply the changes that a handler received; each must start from the object of the last."""
    objects: dict[Key, Gauge] = {}
    for change in observed.changes:
        gauge = change.old or change.new
        assert gauge is not None
        assert objects.pop(gauge.metadata.key, None) == change.old
        if change.new is not None:
            objects[gauge.metadata.key] = change.new
    return objects
