"""The builder of the real servers: what it makes, finds and says, with a `go` that records."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "tests/realservers/build.py"
PROGRAM = "newest/etcd"
METALLB = "newest/metallb-controller"

# It writes a program where `go build` is told to, and a module with one definition.
GO = """#!/bin/sh
echo "$@" >>"$CALLS"
case "$1" in
env) echo go1.26 linux amd64 ;;
build) while [ "$1" != -o ]; do shift; done; echo program >"$2" ;;
mod) echo '{"Dir": "'"$MODULE"'"}' ;;
esac
"""


class Builder:
    """The builder, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.into = folder / "real"
        self.calls = folder / "calls"
        self.calls.touch()
        self.definitions = folder / "module/config/crd/bases"
        self.definitions.mkdir(parents=True)
        (self.definitions / "pools.yaml").write_text("kind: CustomResourceDefinition\n")
        manifests = folder / "module/config/manifests"
        manifests.mkdir()
        (manifests / "native.yaml").write_text("kind: Namespace\n")
        self.tools = folder / "tools"
        self.tools.mkdir()
        go = self.tools / "go"
        go.write_text(GO)
        go.chmod(0o755)
        self.path = f"{self.tools}:/usr/bin:/bin"

    def run(self, *programs: str) -> subprocess.CompletedProcess[str]:
        """Run it for some programs; return how it ended."""
        environ = {
            **os.environ,
            "PATH": self.path,
            "CALLS": str(self.calls),
            "MODULE": str(self.definitions.parents[2]),
        }
        command = [sys.executable, str(BUILD), f"--into={self.into}", *programs]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    def builds(self) -> int:
        """Return how many programs were built so far."""
        return sum(line.startswith("build") for line in self.calls.read_text().splitlines())


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    return Builder(tmp_path)


def test_a_program_that_is_there_is_not_built_again(builder: Builder) -> None:
    first, second = builder.run(PROGRAM), builder.run(PROGRAM)
    assert (first.returncode, second.returncode, builder.builds()) == (0, 0, 1)
    assert second.stdout == f"{PROGRAM}: there\n"


def test_a_program_that_was_emptied_or_removed_is_built_again(builder: Builder) -> None:
    builder.run(PROGRAM)
    (builder.into / PROGRAM).write_text("")
    builder.run(PROGRAM)
    (builder.into / PROGRAM).unlink()
    assert builder.run(PROGRAM).returncode == 0
    assert builder.builds() == 3


def test_a_program_of_other_sources_is_built_again(builder: Builder) -> None:
    builder.run(PROGRAM)
    stamp = builder.into / "newest/.etcd.stamp"
    stamp.write_text(stamp.read_text().replace(stamp.read_text()[:8], "00000000"))
    builder.run(PROGRAM)
    assert builder.builds() == 2


def test_definitions_that_are_missing_come_back_and_old_ones_go(builder: Builder) -> None:
    builder.run(METALLB)
    folder = builder.into / "newest/metallb-crds"
    (folder / "pools.yaml").rename(folder / "gone-in-this-version.yaml")
    assert builder.run(METALLB).returncode == 0
    assert [file.name for file in folder.iterdir()] == ["pools.yaml"]


def test_manifests_that_metallb_ships_are_beside_its_controller(builder: Builder) -> None:
    builder.run(METALLB)
    manifest = builder.into / "newest/metallb-manifests/native.yaml"
    assert manifest.read_text() == "kind: Namespace\n"
    manifest.unlink()
    assert builder.run(METALLB).returncode == 0
    assert manifest.exists()


def test_without_go_it_says_so(builder: Builder) -> None:
    (builder.tools / "go").unlink()
    done = builder.run(PROGRAM)
    assert done.returncode == 1
    assert done.stderr == (
        "build.py: Go is not on this machine, so the real servers cannot be built\n"
    )


def test_a_build_that_fails_is_named_and_tried_again(builder: Builder) -> None:
    go = builder.tools / "go"
    go.write_text(GO.replace("build) ", "build) exit 3; "))
    done = builder.run(PROGRAM)
    go.write_text(GO)
    assert (done.returncode, "ended with 3" in done.stderr) == (1, True)
    assert builder.run(PROGRAM).returncode == 0
    assert (builder.into / PROGRAM).read_text() == "program\n"


def test_an_unknown_program_is_refused_with_those_that_there_are(builder: Builder) -> None:
    done = builder.run("newest/nothing")
    assert done.returncode == 2
    assert "no such program: newest/nothing; there are newest/etcd" in done.stderr


def test_the_newest_and_the_oldest_cilium_are_built_unless_programs_are_named(
    builder: Builder,
) -> None:
    assert builder.run().returncode == 0
    assert (builder.into / "newest/cilium-lbipam").exists()
    assert (builder.into / "oldest/cilium-operator").exists()


def test_the_operator_of_the_oldest_cilium_is_built_with_its_tags_and_told_its_version(
    tmp_path: Path,
) -> None:
    builder = Builder(tmp_path)
    assert builder.run("oldest/cilium-operator").returncode == 0
    [line] = [line for line in builder.calls.read_text().splitlines() if line.startswith("build")]
    assert "-modfile=oldest.mod -tags ipam_provider_operator" in line
    assert "github.com/cilium/cilium/pkg/version.ciliumVersion=1.18." in line
    assert line.endswith("github.com/cilium/cilium/operator")
