"""What runs beside the controllers of a manager, and is kept running."""

from collections.abc import Awaitable, Callable
from functools import partial

from prometheus_client import Counter

from controller.clock import Clock
from controller.jobs import Task, keep_up

Job = Callable[[], Awaitable[None]]


class Services:
    """Jobs by name, each for the leader alone or for every replica.

    Args:
        clock: for the pauses before a job that failed is started again.
        restarts: counts those, by name.
    """

    def __init__(self, clock: Clock, restarts: Counter) -> None:
        self._clock = clock
        self._restarts = restarts
        self._jobs: dict[str, tuple[Job, bool]] = {}

    def add(self, name: str, run: Job, *, leader_only: bool) -> None:
        """Add a job.

        Args:
            name: for logs and metrics.
            run: the job.
            leader_only: run only while holding the lease, else in every replica.

        Raises:
            ValueError: the name is taken.
        """
        if name in self._jobs:
            raise ValueError(f"there is a service called {name} already")
        self._jobs[name] = (run, leader_only)

    def tasks(self, *, leader_only: bool) -> list[Task]:
        """Return what keeps the jobs of one of the two sorts running."""
        return [
            partial(keep_up, name, run, self._clock, self._restarts)
            for name, (run, only) in self._jobs.items()
            if only == leader_only
        ]
