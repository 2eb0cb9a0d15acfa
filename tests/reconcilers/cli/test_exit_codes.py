"""What scripts are told by exit codes where input is partly unreadable, or output is not taken."""

import subprocess
from pathlib import Path

import pytest

from tests.reconcilers.cli.commandline import run
from tests.reconcilers.cli.commands import ROOT, butler_ipam, environment

SAMPLE = (ROOT / "manifests/samples/10-single-pool-static.yaml").read_text()


@pytest.mark.parametrize("call", [("pools",), ("tenants",), ("map", "lab-pool")])
def test_what_could_not_be_read_shows_in_the_exit_code_and_the_rest_is_shown(
    call: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "good.yaml").write_text(SAMPLE)
    whole = run(*call, "-f", tmp_path)
    assert whole.code == 0
    (tmp_path / "broken.yaml").write_text("a: [")
    outcome = run(*call, "-f", tmp_path)
    assert (outcome.code, outcome.out) == (1, whole.out)
    assert "broken.yaml" in outcome.err


@pytest.mark.parametrize("call", [("crds",), ("--help",)])
def test_a_full_disk_behind_the_output_is_reported_in_a_sentence(call: tuple[str, ...]) -> None:
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


def test_an_output_that_may_not_grow_is_reported_in_a_sentence(tmp_path: Path) -> None:
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
