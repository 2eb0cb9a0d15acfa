"""Lists, watches and controllers of very many objects let other tasks run meanwhile.

The turns of another task are counted, not time: a loop that works in slices of SLICE objects gives
the other task a turn after each slice.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, cast

import anyio
import msgspec
import pytest
from anyio.lowlevel import checkpoint
from structlog.testing import capture_logs

from controller.cache import Cache, Change
from controller.informer import Informer
from controller.jobs import ControllerJob
from controller.lists import list_all
from controller.meta import Key
from controller.outcome import SETTLED, Outcome
from controller.redelivery import REDELIVER_SECONDS
from controller.runner import Controller
from controller.shards import Partition, Shards
from controller.slices import SLICE
from controller.transport import Transport
from controller.triggers import Watch as Trigger
from controller.triggers import to_self
from controller.workqueue import WorkQueue
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

SLICES = 20
COUNT = SLICES * SLICE
"""The number of widgets in a list."""


def build_widgets(revision: int = 1) -> list[Widget]:
    """Return COUNT widgets whose revisions count up from `revision`."""
    return [build_widget(f"w{number:04}", revision + number) for number in range(COUNT)]


class OnePageServer:
    """A server that answers each list with one long page."""

    def __init__(self, count: int) -> None:
        self._data = build_list(
            9, *(build_widget(f"w{number}", number + 1) for number in range(count))
        )

    async def request(self, *_: Any, **__: Any) -> bytes:
        """Return the page."""
        return self._data


class TurnCounter:
    """Another task: counts its turns, and records the number of cached objects at each turn."""

    def __init__(self, cache: Cache[Widget] | None = None) -> None:
        self.count = 0
        self.cache = cache
        self.sizes: list[int] = []
        self.cache_states: set[tuple[bool, int]] = set()
        """Whether the cache was synced at a turn, and with how many objects."""

    async def take_turns(self) -> None:
        """Take turns until cancelled."""
        while True:
            self.count += 1
            if self.cache is not None:
                self.sizes.append(len(self.cache))
                self.cache_states.add((self.cache.is_synced, len(self.cache)))
            await checkpoint()


@asynccontextmanager
async def run_turn_counter(counter: TurnCounter) -> AsyncIterator[None]:
    """Let the counter take turns while the context lasts."""
    async with anyio.create_task_group() as group:
        group.start_soon(counter.take_turns)
        yield
        group.cancel_scope.cancel()


async def wait_position(cache: Cache[Widget], revision: int) -> None:
    """Return once the position of a cache is `revision`."""
    while cache.position != revision:
        await checkpoint()


async def test_other_tasks_run_while_a_long_page_is_decoded() -> None:
    counter = TurnCounter()
    server = cast("Transport", OnePageServer(COUNT))
    async with run_turn_counter(counter):
        page = await list_all(server, WIDGETS, namespace="", query={"resourceVersion": "0"})
    assert len(page.items) == COUNT
    assert page.items[-1] == build_widget(f"w{COUNT - 1}", COUNT)
    assert counter.count >= SLICES - 1


async def test_other_tasks_run_while_a_long_list_enters_the_cache_which_is_synced_at_its_end() -> (
    None
):
    clock = VirtualClock()
    informer = Informer(WIDGETS, ScriptedTransport([build_list(COUNT, *build_widgets())]), clock)
    mirror: dict[Key, Widget] = {}

    def add_to_mirror(change: Change[Widget]) -> None:
        assert change.new is not None
        mirror[change.new.metadata.key] = change.new
        assert {cached.metadata.key for cached in informer.cache} >= mirror.keys()

    informer.add_handler(add_to_mirror)
    counter = TurnCounter(informer.cache)
    async with run_turn_counter(counter), anyio.create_task_group() as group:
        group.start_soon(informer.run)
        await informer.wait_synced()
        group.cancel_scope.cancel()
    assert len(mirror) == COUNT
    partial_sizes = set(counter.sizes) - {0, COUNT}
    assert len(partial_sizes) >= SLICES - 2, "the objects came in slices"
    assert {size for is_synced, size in counter.cache_states if is_synced} <= {COUNT}


async def test_other_tasks_run_while_very_many_unreadable_objects_are_noted_and_logged() -> None:
    items = [
        {"metadata": {"name": f"odd-{number}", "resourceVersion": "1"}, "spec": {"size": "odd"}}
        for number in range(COUNT)
    ]
    data = msgspec.json.encode({"metadata": {"resourceVersion": "9"}, "items": items})
    informer = Informer(WIDGETS, ScriptedTransport([data]), VirtualClock())
    unreadable_keys: list[Key] = []
    informer.add_unreadable_handler(unreadable_keys.append)
    seen_counts, line_counts = [0], [0]

    async def note_progress() -> None:
        while True:
            seen_counts.append(len(unreadable_keys))
            line_counts.append(len(lines))
            await checkpoint()

    with capture_logs() as lines:
        async with anyio.create_task_group() as group:
            group.start_soon(note_progress)
            group.start_soon(informer.run)
            await informer.wait_synced()
            group.cancel_scope.cancel()
    assert len(unreadable_keys) == len(lines) == COUNT
    for counts in (seen_counts, line_counts):
        assert max(after - before for before, after in pairwise(counts)) <= 2 * SLICE


def test_the_history_is_not_confirmed_while_a_long_list_replaces_cached_objects() -> None:
    cache = Cache(WIDGETS)
    cache.replace(build_widgets(), COUNT)
    mirror = {cached.metadata.key: cached for cached in cache}
    cache.subscribe(lambda change: apply_change(mirror, change))
    sizes = set[int]()
    for _ in cache.replace_in_slices(build_widgets(COUNT + 1)[SLICE:], 3 * COUNT):
        new = sum(cached.metadata.revision > COUNT for cached in cache)
        sizes.add(new)
        assert {cached.metadata.key: cached for cached in cache} == mirror
        assert cache.position == COUNT
        assert not cache.is_history_confirmed or (new == 0 and len(cache) == COUNT)
    assert len(sizes) >= SLICES - 2
    assert (cache.position, cache.is_history_confirmed) == (3 * COUNT, True)
    assert sum(cached.metadata.revision > COUNT for cached in cache) == len(cache) == COUNT - SLICE


def apply_change(mirror: dict[Key, Widget], change: Change[Widget]) -> None:
    """Apply a change to a mirror: the objects of a cache by its reported changes."""
    if change.old is not None:
        del mirror[change.old.metadata.key]
    if change.new is not None:
        mirror[change.new.metadata.key] = change.new


async def test_a_list_of_another_history_is_applied_in_one_step() -> None:
    cache = Cache(WIDGETS)
    cache.replace(build_widgets(), COUNT)
    restored = [build_widget(f"w{number:04}", 1, color="blue") for number in range(COUNT)]
    seen_counts = set[int]()
    for _ in cache.replace_in_slices(restored, 5):
        seen_counts.add(sum(cached.spec.color == "blue" for cached in cache))
    assert seen_counts <= {0, COUNT}
    assert sum(cached.spec.color == "blue" for cached in cache) == COUNT


@pytest.mark.parametrize("streams", [False, True], ids=["events", "initial events"])
async def test_other_tasks_run_while_many_events_that_arrived_in_one_chunk_are_read(
    streams: bool,
) -> None:
    clock = VirtualClock()
    events = b"".join(build_event_line("ADDED", obj) for obj in build_widgets(2))
    end = build_bookmark_line(COUNT + 1)
    if streams:
        meta = {
            "resourceVersion": str(COUNT + 1),
            "annotations": {"k8s.io/initial-events-end": "true"},
        }
        end = build_event_line("BOOKMARK", {"kind": "Widget", "metadata": meta})
    informer = Informer(
        WIDGETS,
        ScriptedTransport([build_list(1)], [ScriptedWatch([events + end])]),
        clock,
        streams=streams,
    )
    counter = TurnCounter(informer.cache)
    async with run_turn_counter(counter), anyio.create_task_group() as group:
        group.start_soon(informer.run)
        await wait_position(informer.cache, COUNT + 1)
        group.cancel_scope.cancel()
    assert len(informer.cache) == COUNT
    # Initial events are collected in slices, then put into the cache in slices.
    assert counter.count >= SLICES * (2 if streams else 1)


async def count_turns_before_first_key(
    job: ControllerJob, counter: TurnCounter, key_count: int, reconciled: list[Key]
) -> int:
    """Run a controller; return the turns of another task before the first reconciled key.

    Args:
        job: the controller with its watches.
        counter: the other task.
        key_count: the number of keys after which the controller is stopped.
        reconciled: the list to which the reconciler adds its keys.
    """
    before = 0
    async with run_turn_counter(counter), anyio.create_task_group() as group:
        group.start_soon(job.run)
        while len(reconciled) < key_count:
            before = before if reconciled else counter.count
            await checkpoint()
        group.cancel_scope.cancel()
    return before


def create_controller(
    clock: VirtualClock, reconciled: list[Key], partition: Partition | None
) -> Controller:
    """Return a controller whose reconciler adds its keys to `reconciled`."""

    async def reconcile(key: Key) -> Outcome:
        reconciled.append(key)
        return SETTLED

    queue = WorkQueue[Key](clock)
    return Controller("test", reconcile, queue=queue, partition=partition)


async def create_synced_informer(clock: VirtualClock) -> Informer[Widget]:
    """Return an informer that is stopped, and has COUNT widgets in its cache."""
    informer = Informer(WIDGETS, ScriptedTransport([build_list(COUNT, *build_widgets())]), clock)
    async with anyio.create_task_group() as group:
        group.start_soon(informer.run)
        await informer.wait_synced()
        group.cancel_scope.cancel()
    return informer


async def test_other_tasks_run_while_a_controller_gets_its_first_keys() -> None:
    clock = VirtualClock()
    reconciled: list[Key] = []
    informer = await create_synced_informer(clock)
    job = ControllerJob(create_controller(clock, reconciled, None), [Trigger(informer, to_self)])
    turns_before = await count_turns_before_first_key(
        job, TurnCounter(), key_count=COUNT, reconciled=reconciled
    )
    assert turns_before >= SLICES - 1
    assert sorted(reconciled) == sorted(cached.metadata.key for cached in informer.cache)


async def test_other_tasks_run_and_changes_are_reconciled_while_a_shard_gets_its_first_keys() -> (
    None
):
    clock = VirtualClock()
    reconciled: list[Key] = []
    informer = await create_synced_informer(clock)
    shards = Shards(2)
    partition = Partition(shards)
    shards.held.add(0)
    job = ControllerJob(
        create_controller(clock, reconciled, partition), [Trigger(informer, to_self)], partition
    )
    keys_of_shard_0 = [key for key in map(get_key, informer.cache) if partition.owns(key)]
    counter = TurnCounter()
    async with run_turn_counter(counter), anyio.create_task_group() as group:
        group.start_soon(job.run)
        while len(reconciled) < len(keys_of_shard_0):
            await checkpoint()
        reconciled.clear()
        shards.held.add(1)
        before = counter.count
        changed = keys_of_shard_0[0]

        async def write_changed_widget() -> None:
            await checkpoint()
            informer.cache.apply_own_write(build_widget(changed.name, COUNT + 1))

        group.start_soon(write_changed_widget)
        await job.enqueue_shard(1)
        assert counter.count - before >= SLICES - 1
        while len(reconciled) < COUNT - len(keys_of_shard_0) + 1:
            await checkpoint()
        group.cancel_scope.cancel()
    assert changed in reconciled, (
        "the change of a key of shard 0 was reconciled between two slices"
    )
    assert sorted(reconciled) == sorted(
        [changed, *(key for key in map(get_key, informer.cache) if key not in keys_of_shard_0)]
    )


def get_key(obj: Widget) -> Key:
    return obj.metadata.key


@pytest.mark.survives_bugs
async def test_other_tasks_run_while_changes_are_delivered_again() -> None:
    clock = VirtualClock()
    informer = Informer(WIDGETS, ScriptedTransport([build_list(COUNT, *build_widgets())]), clock)
    is_broken = True
    delivered, seen_counts = set[Key](), set[int]()
    first_delivered = anyio.Event()

    def deliver_or_raise(change: Change[Widget]) -> None:
        if is_broken:
            raise RuntimeError("a bug")
        assert change.new is not None
        delivered.add(change.new.metadata.key)
        first_delivered.set()

    async def note_count() -> None:
        await first_delivered.wait()
        while len(delivered) < COUNT:
            seen_counts.add(len(delivered))
            await checkpoint()

    informer.add_handler(deliver_or_raise)
    with capture_logs():
        async with anyio.create_task_group() as group:
            group.start_soon(informer.run)
            group.start_soon(note_count)
            await informer.wait_synced()
            is_broken = False
            await clock.advance(REDELIVER_SECONDS)
            group.cancel_scope.cancel()
    assert len(delivered) == COUNT
    assert len(seen_counts) >= SLICES - 1
