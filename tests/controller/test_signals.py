"""SIGTERM and SIGINT, sent to a real process."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.program import script

PROGRAM = """
import anyio
from controller.manager import Manager
from controller.triggers import Watch, to_self
from controller.outcome import SETTLED
from controller.signals import run_until_signal
from tests.controller.widgets import WIDGETS
from tests.controller.store import StoreTransport, Store

def work():  # said by the thread: until it runs, Python 3.14 ends a dump of all threads at it
    print("begun", flush=True)
    input()

async def reconcile(key):
    await anyio.to_thread.run_sync(work)
    print("ended", flush=True)
    return SETTLED

async def main():
    store = Store()
    path = "/apis/example.com/v1/namespaces/default/widgets/a"
    store.put(path, {"metadata": {"name": "a", "namespace": "default"}})
    manager = Manager(StoreTransport(store))
    watches = [Watch(manager.get_informer(WIDGETS), to_self)]
    manager.add_controller("widget", reconcile, watches=watches)
    await run_until_signal(manager)
    print("left", flush=True)

anyio.run(main)
"""


@contextmanager
def run_working_manager(program: str = PROGRAM) -> Iterator[subprocess.Popen[str]]:
    """Run a manager whose reconciler works until a line is typed."""
    with subprocess.Popen(
        script(program),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        try:
            assert process.stdout is not None
            while "begun" not in process.stdout.readline():
                assert process.poll() is None
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_work_end(number: signal.Signals) -> None:
    with run_working_manager() as process:
        process.send_signal(number)
        rest, _ = process.communicate("\n", timeout=20)
    assert [line for line in rest.splitlines() if line in ("ended", "left")] == ["ended", "left"]
    assert process.returncode == 0


def test_ctrl_c_stops_a_manager_that_a_shell_started_in_the_background() -> None:
    ignoring = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    with run_working_manager(ignoring + PROGRAM) as process:
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate("\n", timeout=20)
    assert [line for line in rest.splitlines() if line in ("ended", "left")] == ["ended", "left"]
    assert process.returncode == 0


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no SIGUSR1")
def test_sigusr1_dumps_every_task_and_thread_and_stops_nothing() -> None:
    with run_working_manager() as process:
        process.send_signal(signal.SIGUSR1)
        assert process.stdout is not None
        output = ""
        while "Dumped tasks and threads" not in output:
            line = process.stdout.readline()
            assert line, output
            output += line
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate("\n", timeout=20)
    assert "in Manager.run" in output
    assert "in Controller._process_keys" in output
    assert ", in reconcile\n" in output
    assert "waiting for" in output
    assert "(most recent call first)" in output
    assert "ended" in rest
    assert process.returncode == 0


def test_the_second_signal_ends_the_process_at_once() -> None:
    with run_working_manager() as process:
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        while "Stopping" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 1


STUBBORN = """
import anyio
from controller import Manager, ManagerOptions, Watch, run_until_signal, to_self
from tests.controller.widgets import WIDGETS
from tests.controller.store import StoreTransport, Store

async def main():
    store = Store()
    path = "/apis/example.com/v1/namespaces/default/widgets/a"
    store.put(path, {"metadata": {"name": "a", "namespace": "default"}})
    transport = StoreTransport(store)

    async def reconcile(key):
        print("begun", flush=True)
        transport.hangs = True
        with anyio.CancelScope(shield=True):
            await anyio.sleep_forever()

    options = ManagerOptions(
        leader_elect=True, lease_namespace="system", lease_name="leader",
        lease_duration=1.0, renew_deadline=0.5, retry_period=0.2,
    )
    manager = Manager(transport, options=options)
    watches = [Watch(manager.get_informer(WIDGETS), to_self)]
    manager.add_controller("widget", reconcile, watches=watches)
    await run_until_signal(manager)

anyio.run(main)
"""


def test_work_that_ignores_a_lost_lease_ends_with_the_process() -> None:
    ended = subprocess.run(
        script(STUBBORN),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert "begun" in ended.stdout
    assert "Lease lost and running work did not end in time" in ended.stdout
    assert ended.returncode == 1


LOSING = """
import anyio
from controller import Manager, ManagerOptions, run_until_signal
from controller.logs import configure_logs
from tests.controller.store import Store, StoreTransport

LEASE = "/apis/coordination.k8s.io/v1/namespaces/system/leases/leader"

async def main():
    store = Store()
    options = ManagerOptions(
        leader_elect=True, lease_namespace="system", lease_name="leader", retry_period=0.1,
        renew_deadline=0.5, lease_duration=1.0,
    )
    manager = Manager(StoreTransport(store), options=options)

    async def steal():
        lease = store.objects[LEASE]
        spec = {**lease["spec"], "holderIdentity": "another"}
        store.put(LEASE, {**lease, "spec": spec})
        await anyio.sleep_forever()

    manager.add_service("thief", steal)
    await run_until_signal(manager)

configure_logs("console")
anyio.run(main)
"""


def test_a_lost_lease_ends_the_process_with_one_line() -> None:
    ended = subprocess.run(
        script(LOSING),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    (line,) = [line for line in ended.stderr.splitlines() if "The lease is lost, exiting" in line]
    assert "lease system/leader: it is held by another process" in line
