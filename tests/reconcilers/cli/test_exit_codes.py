"""Exit codes if a part of the input cannot be read, or the output cannot be written."""

import subprocess
from pathlib import Path

import pytest

from tests.reconcilers.cli.commandline import run
from tests.reconcilers.cli.commands import ROOT, make_command_line, make_environment

SAMPLE = (ROOT / "manifests/samples/10-single-pool-static.yaml").read_text()


@pytest.mark.parametrize("command", [("pools",), ("tenants",), ("map", "lab-pool")])
def test_an_unreadable_file_makes_the_exit_code_1_and_the_other_files_are_shown(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "good.yaml").write_text(SAMPLE)
    expected = run(*command, "-f", tmp_path)
    assert expected.code == 0
    (tmp_path / "broken.yaml").write_text("a: [")
    outcome = run(*command, "-f", tmp_path)
    assert (outcome.code, outcome.out) == (1, expected.out)
    assert "broken.yaml" in outcome.err


@pytest.mark.parametrize("command", [("crds",), ("--help",)])
def test_a_full_disk_under_standard_output_is_reported(command: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            make_command_line(*command),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=make_environment(),
        )
    assert (done.returncode, done.stderr) == (
        1,
        "error: standard output: No space left on device\n",
    )


def test_a_size_limit_on_standard_output_is_reported(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out:
        done = subprocess.run(
            ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *make_command_line("crds")],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=make_environment(),
        )
    assert (done.returncode, done.stderr) == (1, "error: standard output: File too large\n")
