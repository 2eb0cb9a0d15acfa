"""What a small operator needs of a manager beside its controllers."""

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from controller.errors import BadRequest, Invalid, NoAnswer
from controller.manager import Manager
from controller.meta import Key
from controller.metrics import Metrics
from controller.outcome import SETTLED, Outcome
from controller.runner import Controller
from controller.workqueue import WorkQueue
from tests.clock import VirtualClock
from tests.controller.store import Store, StoreTransport
from tests.controller.widgets import WIDGETS, build_widget
from tests.program import script

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


async def test_a_recorder_of_the_manager_writes_events_while_the_manager_runs() -> None:
    clock, store = VirtualClock(), Store()
    manager = Manager(StoreTransport(store), clock=clock)
    assert manager.clock is clock
    recorder = manager.add_recorder("example.com/widgets")
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        recorder.record(
            WIDGETS, build_widget("a", 1), "Normal", "Made", "It is made.", action="Make"
        )
        await clock.advance(1)
        (event,) = [stored for path, stored in store.objects.items() if path.startswith(EVENTS)]
        assert event["reportingController"] == "example.com/widgets"
        assert event["note"] == "It is made."
        manager.stop()
    with pytest.raises(RuntimeError, match="runs already"):
        manager.add_recorder("example.com/other")


PROGRAM = """
import anyio, os, signal
from controller import Manager, run_until_signal
from tests.controller.store import Store, StoreTransport

class Closed(StoreTransport):
    async def aclose(self):
        print("closed", flush=True)

async def main():
    manager = Manager(Closed(Store()))

    async def serve():
        os.kill(os.getpid(), signal.SIGTERM)
        await anyio.sleep_forever()

    manager.add_service("job", serve)
    await run_until_signal(manager)
    print("left", flush=True)

anyio.run(main)
"""


def test_the_connections_are_closed_when_a_signal_has_stopped_the_manager() -> None:
    ended = subprocess.run(
        script(PROGRAM),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    lines = [line for line in ended.stdout.splitlines() if line in ("closed", "left")]
    assert lines == ["closed", "left"]


def create_failing_reconciler(error: Exception) -> Callable[[Key], Awaitable[Outcome]]:
    """Return a reconciler that raises `error` once."""
    errors = [error]

    async def reconcile(_: Key) -> Outcome:
        if errors:
            raise errors.pop()
        return SETTLED

    return reconcile


class CloudError(Exception):
    """An error of the library with which a reconciler works."""


@pytest.mark.survives_bugs
@pytest.mark.parametrize(
    ("error", "panics"),
    [
        (TypeError("x"), 1),
        (KeyError("x"), 1),
        (ExceptionGroup("x", [CloudError("x"), AttributeError("x")]), 1),
        (CloudError("x"), 0),
        (ConnectionResetError("x"), 0),
        (TimeoutError("x"), 0),
        (RuntimeError("the cloud says no"), 0),
        (ExceptionGroup("x", [CloudError("x")]), 0),
        (NoAnswer("x"), 0),
        (Invalid(422, "Invalid", "x"), 0),
        (BadRequest(400, "BadRequest", "x"), 0),
    ],
)
async def test_every_error_is_retried_and_only_mistakes_in_code_count_as_panics(
    error: Any, panics: int
) -> None:
    clock, metrics = VirtualClock(), Metrics()
    queue = WorkQueue[Key](clock)
    controller = Controller(
        "pools",
        create_failing_reconciler(error),
        queue=queue,
        metrics=metrics.create_reconcile_metrics("pools", 1),
    )
    async with anyio.create_task_group() as group:
        group.start_soon(controller.run)
        queue.add(Key("", "a"))
        await clock.advance(1)
        group.cancel_scope.cancel()

    def count(name: str, **labels: str) -> float | None:
        labels |= {"controller": "pools"}
        return metrics.registry.get_sample_value(f"controller_runtime_{name}", labels)

    assert count("reconcile_panics_total") == panics
    assert count("reconcile_total", result="error") == 1
    assert count("reconcile_total", result="success") == 1
