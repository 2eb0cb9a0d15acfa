"""What has very many objects does not keep other tasks waiting: lists, watches, first keys.

Turns of another task are counted, not time: a loop in slices gives it one turn for each slice.
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
from tests.controller.scripted import Scripted, Watch
from tests.controller.widgets import WIDGETS, Widget, bookmark, build_list, build_widget, line

SLICES = 20
COUNT = SLICES * SLICE


def build_widgets(revision: int = 1) -> list[Widget]:
    return [build_widget(f"w{number:04}", revision + number) for number in range(COUNT)]


class OnePage:
    """A server that answers each list with one long page."""

    def __init__(self, count: int) -> None:
        self._data = build_list(
            9, *(build_widget(f"w{number}", number + 1) for number in range(count))
        )

    async def request(self, *_: Any, **__: Any) -> bytes:
        """Return the page."""
        return self._data


class Turns:
    """Another task, which counts its turns and notes what it sees in the cache at each."""

    def __init__(self, cache: Cache[Widget] | None = None) -> None:
        self.count = 0
        self.cache = cache
        self.sizes: list[int] = []
        self.cache_states: set[tuple[bool, int]] = set()
        """For each turn of the loop: whether the cache was synced, and its number of objects."""

    async def take(self) -> None:
        """Take turns until cancelled."""
        while True:
            self.count += 1
            if self.cache is not None:
                self.sizes.append(len(self.cache))
                self.cache_states.add((self.cache.is_synced, len(self.cache)))
            await checkpoint()


@asynccontextmanager
async def count_turns(turns: Turns) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(turns.take)
        yield
        group.cancel_scope.cancel()


async def wait_position(cache: Cache[Widget], revision: int) -> None:
    """Return once the position of a cache is `revision`."""
    while cache.position != revision:
        await checkpoint()


async def test_other_tasks_run_while_a_long_page_is_decoded() -> None:
    turns = Turns()
    server = cast("Transport", OnePage(20 * SLICE))
    async with count_turns(turns):
        page = await list_all(server, WIDGETS, namespace="", query={"resourceVersion": "0"})
    assert len(page.items) == 20 * SLICE
    assert page.items[-1] == build_widget(f"w{20 * SLICE - 1}", 20 * SLICE)
    assert turns.count >= 19


async def test_other_tasks_run_while_a_long_list_enters_the_cache_and_it_counts_at_its_end() -> (
    None
):
    clock = VirtualClock()
    informer = Informer(WIDGETS, Scripted([build_list(COUNT, *build_widgets())]), clock)
    mirror: dict[Key, Widget] = {}

    def note(change: Change[Widget]) -> None:
        assert change.new is not None
        mirror[change.new.metadata.key] = change.new
        assert {cached.metadata.key for cached in informer.cache} >= mirror.keys()

    informer.add_handler(note)
    turns = Turns(informer.cache)
    async with count_turns(turns), anyio.create_task_group() as group:
        group.start_soon(informer.run)
        await informer.wait_synced()
        group.cancel_scope.cancel()
    assert len(mirror) == COUNT
    grown = set(turns.sizes) - {0, COUNT}
    assert len(grown) >= SLICES - 2, "the objects came in slices"
    assert {size for is_synced, size in turns.cache_states if is_synced} <= {COUNT}


async def test_other_tasks_run_while_very_many_unreadable_objects_are_noted_and_logged() -> None:
    items = [
        {"metadata": {"name": f"odd-{number}", "resourceVersion": "1"}, "spec": {"size": "odd"}}
        for number in range(COUNT)
    ]
    data = msgspec.json.encode({"metadata": {"resourceVersion": "9"}, "items": items})
    informer = Informer(WIDGETS, Scripted([data]), VirtualClock())
    noticed: list[Key] = []
    informer.add_unreadable_handler(noticed.append)
    seen, logged = [0], [0]

    async def look() -> None:
        while True:
            seen.append(len(noticed))
            logged.append(len(lines))
            await checkpoint()

    with capture_logs() as lines:
        async with anyio.create_task_group() as group:
            group.start_soon(look)
            group.start_soon(informer.run)
            await informer.wait_synced()
            group.cancel_scope.cancel()
    assert len(noticed) == len(lines) == COUNT
    for counts in (seen, logged):
        assert max(after - before for before, after in pairwise(counts)) <= 2 * SLICE


def test_a_long_list_that_replaces_known_objects_confirms_no_mixed_state() -> None:
    cache = Cache(WIDGETS)
    cache.replace(build_widgets(), COUNT)
    mirror = {cached.metadata.key: cached for cached in cache}
    cache.subscribe(lambda change: put(mirror, change))
    sizes = set[int]()
    for _ in cache.replace_in_slices(build_widgets(COUNT + 1)[SLICE:], 3 * COUNT):
        new = sum(cached.metadata.revision > COUNT for cached in cache)
        sizes.add(new)
        assert {cached.metadata.key: cached for cached in cache} == mirror
        assert cache.position == COUNT
        assert not cache.history_confirmed or (new == 0 and len(cache) == COUNT)
    assert len(sizes) >= SLICES - 2
    assert (cache.position, cache.history_confirmed) == (3 * COUNT, True)
    assert sum(cached.metadata.revision > COUNT for cached in cache) == len(cache) == COUNT - SLICE


def put(mirror: dict[Key, Widget], change: Change[Widget]) -> None:
    """Apply a change to a mirror of a cache."""
    if change.old is not None:
        del mirror[change.old.metadata.key]
    if change.new is not None:
        mirror[change.new.metadata.key] = change.new


async def test_a_list_of_another_history_is_applied_in_one_step() -> None:
    cache = Cache(WIDGETS)
    cache.replace(build_widgets(), COUNT)
    older = [build_widget(f"w{number:04}", 1, color="blue") for number in range(COUNT)]
    seen = set[int]()
    for _ in cache.replace_in_slices(older, 5):
        seen.add(sum(cached.spec.color == "blue" for cached in cache))
    assert seen <= {0, COUNT}
    assert sum(cached.spec.color == "blue" for cached in cache) == COUNT


@pytest.mark.parametrize("streams", [False, True], ids=["events", "initial events"])
async def test_other_tasks_run_while_many_events_that_came_together_are_read(
    streams: bool,
) -> None:
    clock = VirtualClock()
    events = b"".join(line("ADDED", obj) for obj in build_widgets(2))
    end = bookmark(COUNT + 1)
    if streams:
        meta = {
            "resourceVersion": str(COUNT + 1),
            "annotations": {"k8s.io/initial-events-end": "true"},
        }
        end = line("BOOKMARK", {"kind": "Widget", "metadata": meta})
    informer = Informer(
        WIDGETS, Scripted([build_list(1)], [Watch([events + end])]), clock, streams=streams
    )
    turns = Turns(informer.cache)
    async with count_turns(turns), anyio.create_task_group() as group:
        group.start_soon(informer.run)
        await wait_position(informer.cache, COUNT + 1)
        group.cancel_scope.cancel()
    assert len(informer.cache) == COUNT
    # Initial events are collected in slices, then put into the cache in slices.
    assert turns.count >= SLICES * (2 if streams else 1)


async def start(job: ControllerJob, turns: Turns, expected: int, done: list[Key]) -> int:
    """Run a controller until it has reconciled so many keys; return the turns until the first."""
    before = 0
    async with count_turns(turns), anyio.create_task_group() as group:
        group.start_soon(job.run)
        while len(done) < expected:
            before = before if done else turns.count
            await checkpoint()
        group.cancel_scope.cancel()
    return before


def create_controller(
    clock: VirtualClock, done: list[Key], partition: Partition | None
) -> Controller:
    async def reconcile(key: Key) -> Outcome:
        done.append(key)
        return SETTLED

    queue = WorkQueue[Key](clock)
    return Controller("test", reconcile, queue=queue, partition=partition)


async def create_synced_informer(clock: VirtualClock) -> Informer[Widget]:
    informer = Informer(WIDGETS, Scripted([build_list(COUNT, *build_widgets())]), clock)
    async with anyio.create_task_group() as group:
        group.start_soon(informer.run)
        await informer.wait_synced()
        group.cancel_scope.cancel()
    return informer


async def test_other_tasks_run_while_a_controller_gets_its_first_keys() -> None:
    clock = VirtualClock()
    done: list[Key] = []
    informer = await create_synced_informer(clock)
    job = ControllerJob(create_controller(clock, done, None), [Trigger(informer, to_self)])
    assert await start(job, Turns(), expected=COUNT, done=done) >= SLICES - 1
    assert sorted(done) == sorted(cached.metadata.key for cached in informer.cache)


async def test_other_tasks_run_while_a_shard_gets_its_keys_and_no_live_change_is_lost() -> None:
    clock = VirtualClock()
    done: list[Key] = []
    informer = await create_synced_informer(clock)
    shards = Shards(2)
    partition = Partition(shards)
    shards.held.add(0)
    job = ControllerJob(
        create_controller(clock, done, partition), [Trigger(informer, to_self)], partition
    )
    ours = [key for key in map(get_key, informer.cache) if partition.owns(key)]
    turns = Turns()
    async with count_turns(turns), anyio.create_task_group() as group:
        group.start_soon(job.run)
        while len(done) < len(ours):
            await checkpoint()
        done.clear()
        shards.held.add(1)
        before = turns.count
        changed = ours[0]

        async def change() -> None:
            await checkpoint()
            informer.cache.apply_own_write(build_widget(changed.name, COUNT + 1))

        group.start_soon(change)
        await job.enqueue_shard(1)
        assert turns.count - before >= SLICES - 1
        while len(done) < COUNT - len(ours) + 1:
            await checkpoint()
        group.cancel_scope.cancel()
    assert changed in done, "a change of the other shard came between two slices"
    assert sorted(done) == sorted(
        [changed, *(key for key in map(get_key, informer.cache) if key not in ours)]
    )


def get_key(obj: Widget) -> Key:
    return obj.metadata.key


@pytest.mark.survives_bugs
async def test_other_tasks_run_while_changes_are_delivered_again() -> None:
    clock = VirtualClock()
    informer = Informer(WIDGETS, Scripted([build_list(COUNT, *build_widgets())]), clock)
    broken, delivered, seen, begun = True, set[Key](), set[int](), anyio.Event()

    def handle(change: Change[Widget]) -> None:
        if broken:
            raise RuntimeError("a bug")
        assert change.new is not None
        delivered.add(change.new.metadata.key)
        begun.set()

    async def note() -> None:
        await begun.wait()
        while len(delivered) < COUNT:
            seen.add(len(delivered))
            await checkpoint()

    informer.add_handler(handle)
    with capture_logs():
        async with anyio.create_task_group() as group:
            group.start_soon(informer.run)
            group.start_soon(note)
            await informer.wait_synced()
            broken = False
            await clock.advance(REDELIVER_SECONDS)
            group.cancel_scope.cancel()
    assert len(delivered) == COUNT
    assert len(seen) >= SLICES - 1
