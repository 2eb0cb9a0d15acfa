"""A process that was frozen does nothing from the moment on at which `freeze` returns."""

import subprocess
import sys
from pathlib import Path

from tests.freezing import freeze, thaw

BUSY = """
import threading
def work():
    while True:
        sum(range(1000))
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
"""


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


def test_all_threads_stand_still_once_freeze_returns_and_go_on_after_thaw() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            for _ in range(20):
                freeze(child.pid)
                tasks = Path(f"/proc/{child.pid}/task").iterdir()
                assert {_state(int(task.name)) for task in tasks} == {"T"}
                thaw(child.pid)
        finally:
            child.kill()
