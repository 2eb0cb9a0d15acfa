"""A number that a test measured is shown in the end, also by workers of pytest-xdist."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SUITE = """
def test_measured(record_property):
    record_property("from here to there", "30.2 s")

def test_plain():
    pass
"""


@pytest.mark.parametrize("workers", [0, 1])
def test_numbers_are_shown_below_the_results(tmp_path: Path, workers: int) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "tests.numbers", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [*command, f"-n{workers}", "test_suite.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "from here to there: 30.2 s  (test_measured)" in run.stdout
    assert "test_plain" not in run.stdout
