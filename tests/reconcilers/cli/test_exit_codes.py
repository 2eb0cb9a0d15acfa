"""Exit codes if a part of the input cannot be read, or the output cannot be written."""

import subprocess
from pathlib import Path

import pytest

from tests.reconcilers.cli.commandline import run
from tests.reconcilers.cli.commands import ROOT, butler_ipam, environment

SAMPLE = (ROOT / "manifests/samples/10-single-pool-static.yaml").read_text()


@pytest.mark.parametrize("call", [("pools",), ("tenants",), ("map", "lab-pool")])
def test_an_unreadable_file_makes_the_exit_code_1_and_the_other_files_are_shown(
    call: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "good.yaml").write_text(SAMPLE)
    expected = run(*call, "-f", tmp_path)
    assert expected.code == 0
    (tmp_path / "broken.yaml").write_text("a: [")
    outcome = run(*call, "-f", tmp_path)
    assert (outcome.code, outcome.out) == (1, expected.out)
    assert "broken.yaml" in outcome.err


@pytest.mark.parametrize("call", [("crds",), ("--help",)])
def test_a_full_disk_under_standard_output_is_reported(call: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            butler_ipam(*call),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=environment(),
        )
    assert (done.returncode, done.stderr) == (
        1,
        "error: standard output: No space left on device\n",
    )


def test_a_size_limit_on_standard_output_is_reported(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out:
        done = subprocess.run(
            ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *butler_ipam("crds")],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=environment(),
        )
    assert (done.returncode, done.stderr) == (1, "error: standard output: File too large\n")
