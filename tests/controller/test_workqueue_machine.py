"""The work queue against a model, in ten thousand random steps on a virtual clock."""

import asyncio
import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from typing_extensions import override

from controller.workqueue import QueueShutDown, WorkQueue
from tests.clock import VirtualClock

KEYS = st.sampled_from("abcdef")
DELAYS = st.sampled_from([0.0, 0.001, 0.25, 0.5, 1.0, 7.0, 60.0])
PRIORITIES = st.sampled_from([-100, 0, 0, 5])


class Queue(RuleBasedStateMachine):
    """Per key the model knows when it must be ready at the latest, and whether it is in work."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = VirtualClock()
        self.queue = WorkQueue[str](self.clock, group=lambda key: key in "abc")
        self.due: dict[str, float] = {}
        self.in_work: set[str] = set()
        self.failures: dict[str, int] = {}

    @override
    def teardown(self) -> None:
        """Shut down: what is ready or was added while in work is handed out, and nothing else."""
        now = self.clock.monotonic()
        due_keys = {key for key, due in self.due.items() if due <= now}
        self.queue.shut_down()
        self.queue.add("a late one")
        for key in sorted(self.in_work):
            self.queue.done(key)
        handed_out: list[str] = []
        while len(handed_out) < len(due_keys):
            handed_out.append(self.loop.run_until_complete(self.queue.get()))
            self.queue.done(handed_out[-1])
        assert sorted(handed_out) == sorted(due_keys)
        with pytest.raises(QueueShutDown):
            self.loop.run_until_complete(self.queue.get())
        self.loop.close()

    def expect(self, key: str, seconds: float) -> None:
        """Note that `key` is to be ready in `seconds` at the latest."""
        self.due[key] = min(self.due.get(key, math.inf), self.clock.monotonic() + seconds)

    def ready(self) -> set[str]:
        """Return the keys that a worker could have now."""
        now = self.clock.monotonic()
        return {k for k, due in self.due.items() if due <= now and k not in self.in_work}

    @rule(key=KEYS, priority=PRIORITIES)
    def add(self, key: str, priority: int) -> None:
        self.queue.add(key, priority=priority)
        self.expect(key, 0)

    @rule(key=KEYS, seconds=DELAYS, priority=PRIORITIES)
    def add_after(self, key: str, seconds: float, priority: int) -> None:
        self.queue.add_after(key, seconds, priority=priority)
        self.expect(key, seconds)

    @rule(key=KEYS)
    def add_rate_limited(self, key: str) -> None:
        before = self.failures.get(key, 0)
        self.queue.add_rate_limited(key)
        self.failures[key] = before + 1
        self.expect(key, min(1000.0, 0.005 * 2**before))

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.failures.pop(key, None)

    @rule(seconds=DELAYS)
    def time_passes(self, seconds: float) -> None:
        self.loop.run_until_complete(self.clock.advance(seconds))

    @precondition(lambda self: self.ready())
    @rule()
    def take(self) -> None:
        key = self.loop.run_until_complete(self.queue.get())
        assert key in self.ready(), "handed out too early, twice at once, or for no reason"
        del self.due[key]
        self.in_work.add(key)

    @precondition(lambda self: self.in_work)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.in_work)))
        self.queue.done(key)
        self.in_work.remove(key)

    @invariant()
    def nothing_is_lost_and_nothing_is_invented(self) -> None:
        now = self.queue.get_statistics()
        assert sum(now.ready.values()) == len(self.ready())
        assert now.processing == len(self.in_work)
        assert now.failing == len(self.failures)
        assert now.delayed == sum(due > self.clock.monotonic() for due in self.due.values())


TestQueue = pytest.mark.slow(Queue.TestCase)
TestQueue.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
