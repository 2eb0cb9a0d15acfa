"""The informer: its handlers, its scope, and its own writes."""

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
from tests.controller.scripted import ScriptedTransport, ScriptedWatch
from tests.controller.widgets import (
    WIDGETS,
    Widget,
    build_bookmark_line,
    build_event_line,
    build_list,
    build_widget,
)


@asynccontextmanager
async def run_informer(informer: Informer[Widget], clock: VirtualClock) -> AsyncIterator[None]:
    """Run an informer while the context lasts."""
    async with anyio.create_task_group() as group:
        group.start_soon(informer.run)
        await clock.advance(0)
        yield
        group.cancel_scope.cancel()


async def test_wait_synced_returns_once_handlers_got_the_first_list() -> None:
    clock = VirtualClock()
    server = ScriptedTransport(
        [Forbidden(403, "Forbidden", "no"), build_list(5, build_widget("a", 1))]
    )
    informer = Informer(WIDGETS, server, clock)
    changes: list[Change[Widget]] = []
    informer.add_handler(changes.append)
    synced_after: list[int] = []

    async def note_when_synced() -> None:
        await informer.wait_synced()
        synced_after.append(len(changes))

    async with run_informer(informer, clock), anyio.create_task_group() as group:
        group.start_soon(note_when_synced)
        await clock.advance(0)
        assert "list widgets.example.com: not allowed" in str(informer.last_error)
        assert synced_after == []
        await clock.advance(5)
        assert synced_after == [1]
    assert changes == [Change(None, build_widget("a", 1), initial=True)]


async def test_a_late_handler_gets_every_object_once_and_then_the_changes() -> None:
    clock = VirtualClock()
    watch = ScriptedWatch([build_event_line("ADDED", build_widget("b", 6))])
    informer = Informer(
        WIDGETS, ScriptedTransport([build_list(5, build_widget("a", 1))], [watch]), clock
    )
    late_changes: list[Change[Widget]] = []
    async with run_informer(informer, clock):
        informer.add_handler(late_changes.append)
        watch.send(build_event_line("MODIFIED", build_widget("a", 7)))
        await clock.advance(0)
    assert late_changes == [
        Change(None, build_widget("a", 1), initial=True),
        Change(None, build_widget("b", 6), initial=True),
        Change(build_widget("a", 1), build_widget("a", 7)),
    ]


async def test_a_closed_registration_gets_nothing_more() -> None:
    clock = VirtualClock()
    watch = ScriptedWatch()
    informer = Informer(WIDGETS, ScriptedTransport([build_list(5)], [watch]), clock)
    changes: list[Change[Widget]] = []
    async with run_informer(informer, clock):
        registration = informer.add_handler(changes.append)
        registration.close()
        registration.close()
        watch.send(build_event_line("ADDED", build_widget("a", 6)))
        await clock.advance(0)
    assert changes == []


@pytest.mark.survives_bugs
async def test_a_handler_that_raises_is_called_for_further_objects_as_are_other_handlers() -> None:
    clock = VirtualClock()
    informer = Informer(
        WIDGETS,
        ScriptedTransport([build_list(5, build_widget("a", 1), build_widget("b", 2))]),
        clock,
    )
    names_of_raising_handler: list[str] = []
    names_of_other_handler: list[str] = []

    def note_and_raise(change: Change[Widget]) -> None:
        assert change.new is not None
        names_of_raising_handler.append(change.new.metadata.name)
        raise KeyError("a bug")

    def note_name(change: Change[Widget]) -> None:
        assert change.new is not None
        names_of_other_handler.append(change.new.metadata.name)

    informer.add_handler(note_and_raise)
    informer.add_handler(note_name)
    with capture_logs() as logs:
        async with run_informer(informer, clock):
            assert (names_of_raising_handler, names_of_other_handler) == (["a", "b"], ["a", "b"])
    assert [entry["event"] for entry in logs] == ["event handler raised", "event handler raised"]


async def test_an_unexpected_exception_is_logged_and_the_kind_listed_again() -> None:
    clock = VirtualClock()
    watch = ScriptedWatch(end=RuntimeError("not foreseen"))
    after = build_list(7, build_widget("a", 1), build_widget("b", 6))
    server = ScriptedTransport([build_list(5, build_widget("a", 1)), after], [watch])
    informer = Informer(WIDGETS, server, clock)
    with capture_logs() as logs:
        async with run_informer(informer, clock):
            assert "not foreseen" in str(informer.last_error)
            await clock.advance(6)
            assert informer.last_error is None
            assert sorted(widget.metadata.name for widget in informer.cache) == ["a", "b"]
    assert "list/watch loop raised, restarting" in [entry["event"] for entry in logs]


@pytest.mark.parametrize("selector", [{"namespace": "other"}, {"labels": "a=b"}])
async def test_own_writes_outside_the_scope_are_not_cached(
    selector: dict[str, str],
) -> None:
    clock = VirtualClock()
    informer = Informer(WIDGETS, ScriptedTransport([build_list(5)]), clock, **selector)  # type: ignore[arg-type]  # the same keywords
    async with run_informer(informer, clock):
        informer.cache.apply_own_write(build_widget("a", 9))
        assert len(informer.cache) == 0


@pytest.mark.parametrize(
    ("selector", "is_cached"),
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
async def test_an_own_created_object_is_cached_if_its_labels_match_the_selectors(
    selector: dict[str, str], is_cached: bool
) -> None:
    clock = VirtualClock()
    informer = Informer(WIDGETS, ScriptedTransport([build_list(5)]), clock, **selector)  # type: ignore[arg-type]  # the same keywords
    metadata = replace(build_widget("a", 9).metadata, labels={"color": "red"})
    async with run_informer(informer, clock):
        informer.apply_own_write(Widget(metadata))
        assert (Key("default", "a") in informer.cache) == is_cached


async def test_own_writes_to_objects_that_are_cached_are_cached_without_their_labels() -> None:
    clock = VirtualClock()
    server = ScriptedTransport([build_list(5, build_widget("a", 1))])
    informer = Informer(WIDGETS, server, clock, namespace="default", labels="a=b")
    async with run_informer(informer, clock):
        informer.cache.apply_own_write(build_widget("a", 9))
        assert informer.cache.get(Key("default", "a")) == build_widget("a", 9)


async def test_a_shorter_deadline_ends_a_silent_watch_earlier() -> None:
    clock = VirtualClock()
    server = ScriptedTransport(
        [build_list(5)], [ScriptedWatch([build_bookmark_line(6)]), ScriptedWatch()]
    )
    informer = Informer(WIDGETS, server, clock, deadline_seconds=10)
    async with run_informer(informer, clock):
        await clock.advance(13)
        assert [query["resourceVersion"] for query in server.watch_queries] == ["5", "6"]


async def test_an_own_write_from_before_a_restored_backup_does_not_count_as_lag() -> None:
    clock = VirtualClock()
    server = ScriptedTransport(
        [build_list(5), build_list(3)], [NoAnswer("refused"), ScriptedWatch()]
    )
    informer = Informer(WIDGETS, server, clock)
    async with run_informer(informer, clock):
        informer.apply_own_write(build_widget("a", 9))
        await clock.advance(LAG_SECONDS + 1)
        assert informer.cache.position == 3
        assert informer.lag_seconds == 0
        assert informer.last_error is None


async def test_delivered_own_writes_are_forgotten_without_a_read_of_the_lag() -> None:
    informer = Informer(WIDGETS, ScriptedTransport([]), VirtualClock())
    informer.cache.replace([], 1)
    for revision in range(2, 1000):
        informer.apply_own_write(build_widget("a", revision))
        informer.cache.apply_bookmark(revision)
    assert len(informer._own_writes) <= 1


async def test_undelivered_own_writes_are_limited_and_the_lag_counts_from_the_oldest() -> None:
    clock = VirtualClock()
    informer = Informer(WIDGETS, ScriptedTransport([]), clock)
    informer.cache.replace([], 1)
    informer.apply_own_write(build_widget("a", 2))
    await clock.advance(60)
    for revision in range(3, MOST_OWN_WRITES + 100):
        informer.apply_own_write(build_widget("a", revision))
    assert len(informer._own_writes) == MOST_OWN_WRITES
    assert informer.lag_seconds == 60
