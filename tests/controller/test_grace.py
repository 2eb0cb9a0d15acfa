"""A process ends after its grace period whatever runs, and logs what blocks its event loop."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.program import script

PROGRAM = """
import asyncio, sys, threading, time
import anyio
from controller import Manager, ManagerOptions, SETTLED, Watch, run_until_signal, to_self
from controller import signals
from tests.controller.store import Store, StoreTransport
from tests.controller.widgets import WIDGETS

signals.ENDING_SECONDS = 0.5
hang = sys.argv[1]

async def swallow():
    while True:
        try:
            await anyio.sleep_forever()
        except BaseException:
            pass

def block():
    end = time.monotonic() + 600
    while time.monotonic() < end:
        time.sleep(0.05)

async def reconcile(key):
    print("begun", flush=True)
    if hang == "swallows its cancellation":
        await swallow()
    elif hang == "waits for a thread of anyio":
        await anyio.to_thread.run_sync(threading.Event().wait)
    elif hang == "leaves a thread of asyncio":
        await asyncio.to_thread(threading.Event().wait)
    elif hang == "blocks the event loop":
        block()
    return SETTLED

async def main():
    store = Store()
    path = "/apis/example.com/v1/namespaces/default/widgets/a"
    store.put(path, {"metadata": {"name": "a", "namespace": "default"}})
    manager = Manager(StoreTransport(store), options=ManagerOptions(grace_seconds=0.5))
    watches = [Watch(manager.get_informer(WIDGETS), to_self)]
    manager.add_controller("widget", reconcile, watches=watches)
    await run_until_signal(manager)

anyio.run(main)
"""
HANGS = [
    "swallows its cancellation",
    "waits for a thread of anyio",
    "leaves a thread of asyncio",
    "blocks the event loop",
]
"""Ways in which the reconciler of PROGRAM does not end."""


def start_manager(hang: str) -> subprocess.Popen[str]:
    """Start a manager whose reconciler does not end, and wait until it has begun."""
    process = subprocess.Popen(
        script(PROGRAM, hang),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    while "begun" not in process.stdout.readline():
        assert process.poll() is None
    return process


@pytest.mark.parametrize("hang", HANGS)
def test_a_process_ends_after_its_grace_period_whatever_still_runs(hang: str) -> None:
    with start_manager(hang) as process:
        try:
            process.send_signal(signal.SIGTERM)
            rest, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert "The process has not ended after the signal" in rest
    assert process.returncode == 1


def test_code_that_blocks_the_event_loop_is_logged_with_its_stack() -> None:
    with start_manager("blocks the event loop") as process:
        try:
            assert process.stdout is not None
            output, deadline = "", time.monotonic() + 60
            while "in block" not in output and time.monotonic() < deadline:
                output += process.stdout.readline()
        finally:
            process.kill()
    assert "The event loop is blocked" in output
    assert "in reconcile" in output
