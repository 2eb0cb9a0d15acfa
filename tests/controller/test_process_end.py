"""A process that its manager ends: its exit status, and the lease that it gives back."""

import os
import subprocess
import sys

import pytest

from tests.program import script

PROGRAM = """
import sys, anyio
from controller import Manager, ManagerOptions, SETTLED, Watch, run_until_signal, to_self
from tests.controller.misbehaviour import WAYS
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
@pytest.mark.parametrize(("how", "code"), [("exit", 3), ("return", 1)])
def test_a_process_ends_with_the_status_that_says_so_and_releases_its_lease(
    how: str, code: int
) -> None:
    ended = subprocess.run(
        script(PROGRAM, how),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert "holder ''" in ended.stdout
    assert ended.returncode == code, ended.stdout
    assert ("SystemExit or" if how == "exit" else "A task returned") in ended.stdout
