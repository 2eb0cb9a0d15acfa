"""Keys that come from no watch: a timer, a webhook, another library's callback."""

from typing_extensions import override

from controller.informer import Registration
from controller.meta import Key
from controller.triggers import Trigger
from controller.workqueue import WorkQueue


class Channel(Trigger):
    """A trigger that is told what to look at.

    What is sent while no controller listens (a standby does not) is kept, each key once, and
    handed to the first that does: nothing waits, and there is no buffer that could be full.
    """

    def __init__(self) -> None:
        self._queues: list[WorkQueue[Key]] = []
        self._kept: dict[Key, int] = {}

    @property
    @override
    def resource(self) -> None:
        return None

    def send(self, key: Key, *, priority: int = 0) -> None:
        """Have `key` looked at; call it on the event loop.

        Args:
            key: what is to be looked at.
            priority: as for WorkQueue.add.
        """
        for queue in self._queues:
            queue.add(key, priority=priority)
        if not self._queues:
            self._kept[key] = max(priority, self._kept.get(key, priority))

    @override
    async def wait_ready(self) -> None:
        """Return at once."""

    @override
    def connect(self, queue: WorkQueue[Key]) -> Registration:
        self._queues.append(queue)
        kept, self._kept = self._kept, {}
        for key, priority in kept.items():
            queue.add(key, priority=priority)

        def close() -> None:
            if queue in self._queues:
                self._queues.remove(queue)

        return Registration(close)
