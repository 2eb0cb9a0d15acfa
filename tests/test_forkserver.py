"""Programs that are started as forks behave as those that are started on their own."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forkserver
from tests.program import script

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux")

SEEN = """
import os, sys
leads = os.getsid(0) == os.getpid()
print(sys.argv[1:], os.getcwd(), os.environ.get("GIVEN"), os.getppid(), leads)
print("an error", file=sys.stderr)
sys.exit(int(sys.stdin.read()))
"""


@pytest.fixture
def own_start(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Starts are no forks for the time of a test."""
    with monkeypatch.context() as patch:
        patch.setattr(subprocess.Popen, "_execute_child", forkserver._execute)
        yield


def run_program(folder: Path) -> tuple[int, str, str]:
    """Start a program with everything that can be handed over; return how it ended."""
    done = subprocess.run(
        script(SEEN, "a", "b c"),
        input="7",
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(forkserver.ROOT), "GIVEN": "x"},
        start_new_session=True,
    )
    return done.returncode, done.stdout, done.stderr


EXPECTED = "['a', 'b c'] {} x {} True\n"


def test_a_fork_is_a_child_with_what_it_was_given(tmp_path: Path) -> None:
    assert run_program(tmp_path) == (7, EXPECTED.format(tmp_path, os.getpid()), "an error\n")
    assert forkserver.processes(), "it was a fork"


def test_a_program_that_is_not_forked_behaves_the_same(tmp_path: Path, own_start: None) -> None:
    assert run_program(tmp_path) == (7, EXPECTED.format(tmp_path, os.getpid()), "an error\n")


def test_a_fork_ends_by_a_signal_as_any_child() -> None:
    with subprocess.Popen(script("input()"), stdin=subprocess.PIPE) as process:
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL


def test_the_server_takes_no_packages_from_the_folder_that_a_test_works_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests/__init__.py").write_text("raise SystemExit('not ours')\n")
    monkeypatch.chdir(tmp_path)
    forkserver.uninstall()  # a new one is started, here
    forkserver.install()
    command = [sys.executable, "-m", "reconcilers", "crds", "networkpool"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert (done.returncode, done.stderr) == (0, "")


def test_who_sets_what_only_a_new_interpreter_reads_gets_one(tmp_path: Path) -> None:
    program_text = "import sys; print(sys.flags.dev_mode)"
    for mode, expected in (("", "False\n"), ("1", "True\n")):
        done = subprocess.run(
            script(program_text),
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(forkserver.ROOT), "PYTHONDEVMODE": mode},
        )
        assert done.stdout == expected
