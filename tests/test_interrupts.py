"""Ctrl-C reaches the programs that tests start, also if the tests themselves ignore it."""

import subprocess
import sys

PARENT = """
import signal
import subprocess
import sys

signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell starts a background command
import tests.conftest

child = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
subprocess.run([sys.executable, "-c", child], check=True)
"""


def test_programs_that_tests_start_in_the_background_receive_ctrl_c() -> None:
    parent = subprocess.run(
        [sys.executable, "-c", PARENT], check=True, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout == "True\n"
