"""`butler-ipam crds`, and the shipped CRDs, which are generated from the models."""

import os
import subprocess
from pathlib import Path

import pytest

from manifests import documents, get_folder, read_definitions
from reconcilers.api import crd
from tests.reconcilers.cli.commandline import run
from tests.reconcilers.cli.commands import make_command_line, make_environment
from tests.yamls import read_all_yaml


def test_all_kinds_are_printed_as_documents_for_kubectl() -> None:
    outcome = run("crds")
    assert outcome.code == 0
    printed = list(read_all_yaml(outcome.out))
    assert printed == crd.build_crds()
    assert {definition["kind"] for definition in printed} == {"CustomResourceDefinition"}


@pytest.mark.parametrize("name", ["np", "networkpools", "NetworkPool", "NETWORKPOOL"])
def test_a_kind_is_found_by_any_of_its_names(name: str) -> None:
    [printed] = read_all_yaml(run("crds", name).out)
    assert printed["metadata"]["name"] == "networkpools.butler.butlerlabs.dev"


def test_the_error_about_an_unknown_kind_lists_the_known_kinds() -> None:
    outcome = run("crds", "pods")
    assert outcome.code == 1
    assert outcome.out == ""
    [error] = outcome.errors
    assert error.startswith("there is no kind 'pods'; these are: networkpools (np), ")


def test_the_shipped_files_are_what_the_command_writes(tmp_path: Path) -> None:
    assert run("crds", "--directory", tmp_path).code == 0
    content_by_name = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    shipped = {
        path.name: path.read_text(encoding="utf-8")
        for path in get_folder("crds").iterdir()
        if path.name.endswith(".yaml")
    }
    assert content_by_name == shipped, "the models have changed: run `make crds`"


def test_the_shipped_list_of_definitions_equals_the_shipped_files() -> None:
    shipped = sorted(read_definitions(), key=lambda definition: definition["metadata"]["name"])
    assert shipped == documents("crds"), "the models have changed: run `make crds`"


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    outcome = run("crds", "-d", tmp_path / "file" / "below")
    assert outcome.code == 1
    assert "cannot be written" in outcome.errors[0]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "butler.butlerlabs.dev_networkpools.yaml").symlink_to("/dev/full")
    outcome = run("crds", "-d", tmp_path)
    assert outcome.code == 1
    name = tmp_path / "butler.butlerlabs.dev_networkpools.yaml"
    assert outcome.errors == [f"{name}: this cannot be written: No space left on device"]


def test_a_closed_standard_output_is_not_reported_as_an_error(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        make_command_line("crds", "-d", str(tmp_path)),
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=make_environment(),
    )
    os.close(writer)
    assert done.stderr == ""
