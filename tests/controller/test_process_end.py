"""A process that ends without a signal: its exit status, and its released lease."""

import os
import subprocess
import sys

import pytest

from tests.program import script

PROGRAM = """
import sys, anyio
from controller import Manager, ManagerOptions, SETTLED, Watch, run_until_signal, to_self
from tests.controller.store import Store, StoreTransport
from tests.controller.widgets import WIDGETS

async def main():
    store = Store()
    path = "/apis/example.com/v1/namespaces/default/widgets/a"
    store.put(path, {"metadata": {"name": "a", "namespace": "default"}})
    options = ManagerOptions(leader_elect=True, lease_namespace="system", lease_name="leader")
    manager = Manager(StoreTransport(store), options=options)

    async def reconcile(key):
        if sys.argv[1] == "exit":
            sys.exit(3)
        return SETTLED

    async def serve():
        if sys.argv[1] == "exit":
            await anyio.sleep_forever()

    watches = [Watch(manager.get_informer(WIDGETS), to_self)]
    manager.add_controller("widget", reconcile, watches=watches)
    manager.add_service("job", serve)
    try:
        await run_until_signal(manager)
    finally:
        lease = store.objects["/apis/coordination.k8s.io/v1/namespaces/system/leases/leader"]
        print("holder", repr(lease["spec"]["holderIdentity"]), flush=True)

anyio.run(main)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "code"), [("exit", 3), ("return", 1)])
def test_a_process_that_a_task_ends_has_an_exit_status_and_releases_its_lease(
    ending: str, code: int
) -> None:
    result = subprocess.run(
        script(PROGRAM, ending),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert "holder ''" in result.stdout
    assert result.returncode == code, result.stdout
    assert ("SystemExit or" if ending == "exit" else "A task returned") in result.stdout
