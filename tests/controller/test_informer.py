"""The informer: handlers, late ones, bad ones, and own answers under a scope."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import pytest
from structlog.testing import capture_logs

from controller.cache import Change
from controller.errors import Forbidden, NoAnswer
from controller.informer import LAG_SECONDS, MOST_OWN_WRITES, Informer
from controller.meta import Key
from tests.clock import VirtualClock
from tests.controller.scripted import Scripted, Watch
from tests.controller.widgets import (
    WIDGETS,
    Widget,
    bookmark,
    build_list,
    build_widget,
    line,
)


@asynccontextmanager
async def run_informer(informer: Informer[Widget], clock: VirtualClock) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(informer.run)
        await clock.advance(0)
        yield
        group.cancel_scope.cancel()


async def test_wait_synced_returns_when_handlers_have_got_the_first_list() -> None:
    clock = VirtualClock()
    server = Scripted([Forbidden(403, "Forbidden", "no"), build_list(5, build_widget("a", 1))])
    informer = Informer(WIDGETS, server, clock)
    seen: list[Change[Widget]] = []
    informer.add_handler(seen.append)
    synced_after: list[int] = []

    async def wait() -> None:
        await informer.wait_synced()
        synced_after.append(len(seen))

    async with run_informer(informer, clock), anyio.create_task_group() as group:
        group.start_soon(wait)
        await clock.advance(0)
        assert "list widgets.example.com: not allowed" in str(informer.last_error)
        assert synced_after == []
        await clock.advance(5)
        assert synced_after == [1]
    assert seen == [Change(None, build_widget("a", 1), initial=True)]


async def test_a_late_handler_gets_every_object_once_and_then_the_changes() -> None:
    clock = VirtualClock()
    watch = Watch([line("ADDED", build_widget("b", 6))])
    informer = Informer(WIDGETS, Scripted([build_list(5, build_widget("a", 1))], [watch]), clock)
    late: list[Change[Widget]] = []
    async with run_informer(informer, clock):
        informer.add_handler(late.append)
        watch.say(line("MODIFIED", build_widget("a", 7)))
        await clock.advance(0)
    assert late == [
        Change(None, build_widget("a", 1), initial=True),
        Change(None, build_widget("b", 6), initial=True),
        Change(build_widget("a", 1), build_widget("a", 7)),
    ]


async def test_a_closed_registration_gets_nothing_more() -> None:
    clock = VirtualClock()
    watch = Watch()
    informer = Informer(WIDGETS, Scripted([build_list(5)], [watch]), clock)
    seen: list[Change[Widget]] = []
    async with run_informer(informer, clock):
        registration = informer.add_handler(seen.append)
        registration.close()
        registration.close()
        watch.say(line("ADDED", build_widget("a", 6)))
        await clock.advance(0)
    assert seen == []


@pytest.mark.survives_bugs
async def test_a_handler_that_raises_stops_no_other_and_is_called_again() -> None:
    clock = VirtualClock()
    informer = Informer(
        WIDGETS, Scripted([build_list(5, build_widget("a", 1), build_widget("b", 2))]), clock
    )
    bad: list[str] = []
    good: list[str] = []

    def fails(change: Change[Widget]) -> None:
        assert change.new is not None
        bad.append(change.new.metadata.name)
        raise KeyError("a bug")

    def works(change: Change[Widget]) -> None:
        assert change.new is not None
        good.append(change.new.metadata.name)

    informer.add_handler(fails)
    informer.add_handler(works)
    with capture_logs() as logs:
        async with run_informer(informer, clock):
            assert (bad, good) == (["a", "b"], ["a", "b"])
    assert [entry["event"] for entry in logs] == ["event handler raised", "event handler raised"]


async def test_an_unexpected_exception_is_logged_and_the_kind_listed_again() -> None:
    clock = VirtualClock()
    watch = Watch(end=RuntimeError("not foreseen"))
    after = build_list(7, build_widget("a", 1), build_widget("b", 6))
    server = Scripted([build_list(5, build_widget("a", 1)), after], [watch])
    informer = Informer(WIDGETS, server, clock)
    with capture_logs() as logs:
        async with run_informer(informer, clock):
            assert "not foreseen" in str(informer.last_error)
            await clock.advance(6)
            assert informer.last_error is None
            assert sorted(o.metadata.name for o in informer.cache) == ["a", "b"]
    assert "list/watch loop raised, restarting" in [entry["event"] for entry in logs]


@pytest.mark.parametrize("selector", [{"namespace": "other"}, {"labels": "a=b"}])
async def test_own_writes_outside_the_scope_do_not_enter_the_cache(
    selector: dict[str, str],
) -> None:
    clock = VirtualClock()
    informer = Informer(WIDGETS, Scripted([build_list(5)]), clock, **selector)  # type: ignore[arg-type]  # the same keywords
    async with run_informer(informer, clock):
        informer.cache.apply_own_write(build_widget("a", 9))
        assert len(informer.cache) == 0


@pytest.mark.parametrize(
    ("selector", "enters"),
    [
        ({"labels": "color=red"}, True),
        ({"labels": "color in (red, blue),!size"}, True),
        ({"labels": "color!=red"}, False),
        ({"labels": "size"}, False),
        ({"labels": "color>5"}, False),
        ({"labels": "color=red", "namespace": "other"}, False),
        ({"labels": "color=red", "fields": "spec.size=1"}, False),
    ],
)
async def test_an_object_that_we_made_enters_the_cache_if_its_labels_are_selected(
    selector: dict[str, str], enters: bool
) -> None:
    clock = VirtualClock()
    informer = Informer(WIDGETS, Scripted([build_list(5)]), clock, **selector)  # type: ignore[arg-type]  # the same keywords
    metadata = replace(build_widget("a", 9).metadata, labels={"color": "red"})
    async with run_informer(informer, clock):
        informer.apply_own_write(Widget(metadata))
        assert (Key("default", "a") in informer.cache) == enters


async def test_own_writes_to_selected_objects_enter_the_cache() -> None:
    clock = VirtualClock()
    server = Scripted([build_list(5, build_widget("a", 1))])
    informer = Informer(WIDGETS, server, clock, namespace="default", labels="a=b")
    async with run_informer(informer, clock):
        informer.cache.apply_own_write(build_widget("a", 9))
        assert informer.cache.get(Key("default", "a")) == build_widget("a", 9)


async def test_a_shorter_deadline_ends_a_silent_watch_earlier() -> None:
    clock = VirtualClock()
    server = Scripted([build_list(5)], [Watch([bookmark(6)]), Watch()])
    informer = Informer(WIDGETS, server, clock, deadline_seconds=10)
    async with run_informer(informer, clock):
        await clock.advance(13)
        assert [query["resourceVersion"] for query in server.watched] == ["5", "6"]


async def test_a_write_of_a_replaced_history_does_not_count_as_lagging() -> None:
    clock = VirtualClock()
    server = Scripted([build_list(5), build_list(3)], [NoAnswer("refused"), Watch()])
    informer = Informer(WIDGETS, server, clock)
    async with run_informer(informer, clock):
        informer.apply_own_write(build_widget("a", 9))
        await clock.advance(LAG_SECONDS + 1)
        assert informer.cache.position == 3
        assert informer.lag_seconds == 0
        assert informer.last_error is None


async def test_delivered_own_writes_are_forgotten_though_nobody_asks_for_the_lag() -> None:
    informer = Informer(WIDGETS, Scripted([]), VirtualClock())
    informer.cache.replace([], 1)
    for revision in range(2, 1000):
        informer.apply_own_write(build_widget("a", revision))
        informer.cache.apply_bookmark(revision)
    assert len(informer._own_writes) <= 1


async def test_own_writes_are_bounded_while_the_watch_delivers_nothing() -> None:
    clock = VirtualClock()
    informer = Informer(WIDGETS, Scripted([]), clock)
    informer.cache.replace([], 1)
    informer.apply_own_write(build_widget("a", 2))
    await clock.advance(60)
    for revision in range(3, MOST_OWN_WRITES + 100):
        informer.apply_own_write(build_widget("a", revision))
    assert len(informer._own_writes) == MOST_OWN_WRITES
    assert informer.lag_seconds == 60
