"""Events: their JSON, repetitions that become a series, and events that are dropped."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from prometheus_client import CollectorRegistry

from controller.client import Client
from controller.errors import AlreadyExists, Forbidden, NoAnswer
from controller.eventkind import shorten
from controller.events import (
    FLUSH_SECONDS,
    MAX_BUCKETS,
    QUEUE_LENGTH,
    REFRESH_SECONDS,
    Recorder,
    SpamFilter,
)
from controller.meta import ObjectMeta
from controller.metrics import Metrics
from tests.calls import calls_of
from tests.clock import VirtualClock
from tests.controller.store import Store, StoreTransport
from tests.controller.widgets import WIDGETS, Widget, build_widget


class RecorderHarness:
    """A recorder that writes to a store; each retry waits for half of its longest pause, 5 s."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = Store()
        self.transport = StoreTransport(self.store)
        self.registry = CollectorRegistry()
        self.recorder = Recorder(
            Client(self.transport),
            self.clock,
            "test/widgets",
            dropped=Metrics(self.registry).events_dropped,
            jitter=lambda: 0.5,
        )

    def record(self, name: str = "a", reason: str = "Grown", message: str = "It grew") -> None:
        """Record an event about a widget."""
        self.recorder.record(
            WIDGETS, build_widget(name, 7), "Normal", reason, message, action="Grow"
        )

    @property
    def events(self) -> list[dict[str, Any]]:
        return list(self.store.objects.values())

    def list_counts(self) -> list[int]:
        """Return how often each stored event happened, as its series says; 1 without a series."""
        return [event.get("series", {}).get("count", 1) for event in self.events]

    def count_dropped(self, reason: str) -> float | None:
        return self.registry.get_sample_value(
            "controller_events_dropped_total", {"reason": reason}
        )


@asynccontextmanager
async def run_recorder(harness: RecorderHarness) -> AsyncIterator[None]:
    """Run the recorder, and cancel it when the context ends."""
    async with anyio.create_task_group() as group:
        group.start_soon(harness.recorder.run)
        await harness.clock.advance(0)
        yield
        group.cancel_scope.cancel()


async def test_an_event_has_the_object_the_reason_and_the_reporter() -> None:
    harness = RecorderHarness()
    async with run_recorder(harness):
        harness.record()
        await harness.clock.advance(0)
    (event,) = harness.events
    instance = event.pop("reportingInstance")
    assert instance.startswith("test/widgets-")
    name = event.pop("metadata")["name"]
    assert name.startswith("a.")
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Normal",
        "reason": "Grown",
        "action": "Grow",
        "note": "It grew",
        "regarding": {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "namespace": "default",
            "name": "a",
            "uid": "a",
        },
        "reportingController": "test/widgets",
    }


async def test_an_event_that_happens_again_becomes_a_series_whatever_its_note() -> None:
    harness = RecorderHarness()
    async with run_recorder(harness):
        harness.record(message="It grew by 1")
        await harness.clock.advance(5)
        harness.record(message="It grew by 2")
        await harness.clock.advance(0)
        assert harness.list_counts() == [2]
        assert harness.events[0]["note"] == "It grew by 1"
        assert harness.events[0]["series"]["lastObservedTime"] == "2026-01-01T00:00:05.000000Z"


async def test_different_objects_or_reasons_are_different_events() -> None:
    harness = RecorderHarness()
    async with run_recorder(harness):
        harness.record("a")
        harness.record("b")
        harness.record("a", reason="Shrunk")
        await harness.clock.advance(0)
    assert harness.list_counts() == [1, 1, 1]


async def test_different_related_objects_are_different_events() -> None:
    harness = RecorderHarness()
    async with run_recorder(harness):
        for name in ("b", "c", "c"):
            harness.recorder.record(
                WIDGETS,
                build_widget("a", 7),
                "Normal",
                "Lent",
                f"Lent some to {name}",
                action="Lend",
                related=(WIDGETS, build_widget(name, 9)),
            )
        await harness.clock.advance(0)
    assert harness.list_counts() == [1, 2]
    assert [event["note"] for event in harness.events] == ["Lent some to b", "Lent some to c"]
    assert harness.events[0]["regarding"]["name"] == "a"
    assert harness.events[0]["related"] == {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "namespace": "default",
        "name": "b",
        "uid": "b",
    }


async def test_an_event_without_related_object_has_no_such_field() -> None:
    harness = RecorderHarness()
    async with run_recorder(harness):
        harness.record()
        await harness.clock.advance(0)
    assert "related" not in harness.events[0]


async def test_further_occurrences_are_counted_and_written_when_the_series_ends() -> None:
    harness = RecorderHarness()
    async with run_recorder(harness):
        for _ in range(50):
            harness.record()
            await harness.clock.advance(1)
        assert harness.list_counts() == [2]
        assert len(harness.transport.sent) == 2
        await harness.clock.advance(360)
        assert harness.list_counts() == [50]
        harness.record()
        await harness.clock.advance(0)
        assert harness.list_counts() == [50, 1]


async def test_a_count_whose_writing_raised_is_written_once_the_recorder_runs_again() -> None:
    harness = RecorderHarness()
    async with run_recorder(harness):
        for _ in range(3):
            harness.record()
            await harness.clock.advance(0)
    harness.record()
    harness.transport.errors_by_method["PATCH"] = RuntimeError("a defect")
    with pytest.raises(BaseExceptionGroup):
        async with run_recorder(harness):
            await harness.clock.advance(400)
    harness.transport.errors_by_method.clear()
    async with run_recorder(harness):
        await harness.clock.advance(0)
        assert harness.list_counts() == [4]


async def test_the_count_of_a_series_that_never_ends_is_written_once_per_refresh_interval() -> (
    None
):
    """The interval begins with the second occurrence, which makes the event a series."""
    occurrences = int(REFRESH_SECONDS / 60) + 1
    harness = RecorderHarness()
    async with run_recorder(harness):
        for _ in range(occurrences):
            harness.record()
            await harness.clock.advance(60)
        assert harness.list_counts() == [occurrences]
        # The event is created, becomes a series of two, and is refreshed with the whole count.
        assert [method for method, *_ in harness.transport.sent] == ["POST", "PATCH", "PATCH"]


async def test_the_recorder_is_idle_once_all_series_have_ended() -> None:
    harness = RecorderHarness()
    async with run_recorder(harness):
        harness.record()
        await harness.clock.advance(400)
        sent = len(harness.transport.sent)
        await harness.clock.advance(86400)
        assert len(harness.transport.sent) == sent
        assert harness.clock.waiting == 0


async def test_events_are_retried_in_their_order_until_an_outage_ends() -> None:
    harness = RecorderHarness()
    harness.transport.errors_by_method["POST"] = NoAnswer("reset")
    async with run_recorder(harness):
        harness.record("a")
        harness.record("b")
        await harness.clock.advance(4.9)
        assert len(harness.transport.sent) == 1
        await harness.clock.advance(0.1)
        assert len(harness.transport.sent) == 2
        await harness.clock.advance(25)
        assert harness.events == []
        harness.transport.errors_by_method.clear()
        await harness.clock.advance(15)
    assert [event["regarding"]["name"] for event in harness.events] == ["a", "b"]


async def test_a_refused_event_is_dropped_and_counted_and_the_next_is_written() -> None:
    harness = RecorderHarness()
    harness.transport.errors_by_method["POST"] = Forbidden(403)
    async with run_recorder(harness):
        harness.record("a")
        await harness.clock.advance(0)
        harness.transport.errors_by_method.clear()
        harness.record("b")
        await harness.clock.advance(0)
    assert [event["regarding"]["name"] for event in harness.events] == ["b"]
    assert harness.count_dropped("refused") == 1


@pytest.mark.survives_bugs
async def test_an_event_that_cannot_be_written_does_not_keep_back_the_next() -> None:
    harness = RecorderHarness()
    async with run_recorder(harness):
        harness.record(reason="\udcff")
        harness.record(message="cannot read \udcff")
        await harness.clock.advance(0)
        assert [event["note"] for event in harness.events] == ["cannot read \\udcff"]
        assert harness.count_dropped("refused") == 1


async def test_an_event_that_exists_already_is_not_counted_as_dropped() -> None:
    harness = RecorderHarness()
    harness.transport.errors_by_method["POST"] = AlreadyExists(409)
    async with run_recorder(harness):
        harness.record("a")
        await harness.clock.advance(0)
    assert harness.count_dropped("refused") == 0


async def test_an_event_is_dropped_after_twelve_attempts() -> None:
    harness = RecorderHarness()
    harness.transport.errors_by_method["POST"] = NoAnswer("reset")
    async with run_recorder(harness):
        harness.record("a")
        await harness.clock.advance(3600)
    assert len(harness.transport.sent) == 12
    assert harness.count_dropped("refused") == 1


async def test_a_full_queue_drops_events_and_never_blocks() -> None:
    harness = RecorderHarness()
    for number in range(QUEUE_LENGTH + 3):
        harness.record(str(number))
    assert harness.count_dropped("full") == 3
    async with run_recorder(harness):
        await harness.clock.advance(0)
    assert len(harness.events) == QUEUE_LENGTH


async def test_an_event_is_written_though_the_recorder_is_cancelled_at_once() -> None:
    harness = RecorderHarness()
    async with run_recorder(harness):
        harness.record()
    assert len(harness.events) == 1


async def test_unwritten_counts_are_written_when_the_recorder_is_cancelled() -> None:
    harness = RecorderHarness()
    async with run_recorder(harness):
        for _ in range(9):
            harness.record()
        await harness.clock.advance(1)
        assert harness.list_counts() == [2]
    assert harness.list_counts() == [9]


async def test_a_cancelled_recorder_waits_at_most_two_seconds_for_a_server_that_hangs() -> None:
    harness = RecorderHarness()
    harness.transport.hangs = True
    ended: list[float] = []

    async def run() -> None:
        try:
            await harness.recorder.run()
        finally:
            ended.append(harness.clock.monotonic())

    async with anyio.create_task_group() as group, anyio.create_task_group() as inner:
        inner.start_soon(run)
        harness.record()
        await harness.clock.advance(1)
        inner.cancel_scope.cancel()
        group.start_soon(harness.clock.advance, 10)
    assert ended == [1 + FLUSH_SECONDS]


async def test_a_series_whose_event_has_expired_becomes_a_new_event() -> None:
    harness = RecorderHarness()
    async with run_recorder(harness):
        # The event is created, and then expires on the server.
        harness.record()
        await harness.clock.advance(1)
        harness.store.objects.clear()
        # The recorder patches the event, which does not exist any more.
        harness.record()
        await harness.clock.advance(1)
        # The recorder creates a new event.
        harness.record()
        await harness.clock.advance(1)
    assert harness.list_counts() == [1]


async def test_the_event_of_a_cluster_scoped_object_is_in_namespace_default() -> None:
    harness = RecorderHarness()
    async with run_recorder(harness):
        clusterwide = Widget(ObjectMeta(name="x" * 253, uid="u"))
        harness.recorder.record(WIDGETS, clusterwide, "Warning", "Odd", "…", action="Look")
        await harness.clock.advance(0)
    ((path, event),) = harness.store.objects.items()
    assert "/namespaces/default/" in path
    assert "namespace" not in event["regarding"]
    assert len(event["metadata"]["name"]) <= 253


@pytest.mark.parametrize("note", ["x" * 2000, "ü" * 1000, "x" + "€" * 500])
def test_a_long_note_is_shortened_to_the_1024_bytes_that_the_server_accepts(note: str) -> None:
    shortened = shorten(note)
    assert 1020 <= len(shortened.encode()) <= 1024
    assert note.startswith(shortened.removesuffix("…"))


async def test_an_object_that_flaps_gets_25_events_and_then_one_every_five_minutes() -> None:
    harness = RecorderHarness()
    async with run_recorder(harness):
        for number in range(30):
            harness.record(reason=f"Reason{number}")
        harness.record("b")
        await harness.clock.advance(0)
        names = [event["regarding"]["name"] for event in harness.events]
        assert (names.count("a"), names.count("b")) == (25, 1)
        assert harness.count_dropped("limited") == 5
        await harness.clock.advance(299)
        harness.record(reason="Reason30")
        await harness.clock.advance(1)
        harness.record(reason="Reason31")
        await harness.clock.advance(0)
        assert [event["reason"] for event in harness.events][26:] == ["Reason31"]
        assert harness.count_dropped("limited") == 6


async def test_repetitions_do_not_count_against_the_limit() -> None:
    harness = RecorderHarness()
    async with run_recorder(harness):
        for _ in range(100):
            harness.record()
        await harness.clock.advance(360)
        harness.record(reason="Shrunk")
        await harness.clock.advance(0)
    assert harness.list_counts() == [100, 1]
    assert harness.count_dropped("limited") == 0


def test_buckets_of_objects_without_events_are_removed() -> None:
    limits: SpamFilter[int] = SpamFilter(VirtualClock())
    assert all(limits.take_token(number) for number in range(MAX_BUCKETS + 100))
    assert len(limits) == MAX_BUCKETS


async def test_recording_an_event_costs_as_many_calls_with_500_series_as_with_20() -> None:
    calls_by_series = {}
    for count in (20, 500):
        harness = RecorderHarness()

        async def record_new(harness: RecorderHarness = harness) -> None:
            harness.record("new")
            await harness.clock.advance(0)

        async with run_recorder(harness):
            for number in range(count):
                harness.record(f"widget-{number:03}")
                await harness.clock.advance(0)
            calls_by_series[count] = await calls_of(record_new)
        assert len(harness.events) == count + 1
    assert calls_by_series[500] <= 1.1 * calls_by_series[20], calls_by_series


async def test_many_series_are_each_written_when_they_are_due() -> None:
    harness = RecorderHarness()
    async with run_recorder(harness):
        for number in range(30):
            for _ in range(4):
                harness.record(f"widget-{number:02}")
            await harness.clock.advance(1)
        await harness.clock.advance(REFRESH_SECONDS)
        assert harness.list_counts() == [4] * 30
        harness.record("widget-00")
        await harness.clock.advance(0)
    assert len(harness.events) == 31, "the series had ended"
