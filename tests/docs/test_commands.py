"""Every command line in the documents can be typed, and those that need no cluster are run."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import click
import pytest

from controller.meta import Key
from reconcilers.api import names
from reconcilers.cli.main import COMMANDS, cli
from reconcilers.reporting.allocationlabels import build_labels
from tests.docs.text import (
    DOCUMENTS,
    GUIDES,
    ROOT,
    Command,
    commands,
    list_butler_ipam_calls,
    list_fenced_blocks,
    read,
)
from tests.reconcilers.cli.commandline import run

SAMPLES = ROOT / "manifests" / "samples"

CALLS = [
    (call, command)
    for document in GUIDES
    for command in commands(document)
    for call in list_butler_ipam_calls(command)
    if call
]
COPIED = [(call, command) for call, command in CALLS if command.block]
OFFLINE = [
    (call, command)
    for call, command in COPIED
    if (call[0] in {"plan", "crds"} or "-f" in call) and "restore.json" not in call
]


def list_reported_names(calls: Sequence[tuple[list[str], Command]]) -> list[str]:
    """Return the ids of test cases: the place and the arguments of each call."""
    return [f"{command.place}: {' '.join(call)}" for call, command in calls]


def get_command(name: str) -> click.Command:
    """Return a command of butler-ipam; fail if it does not exist."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None, f"there is no command {name}"
    return command


def list_flags(name: str) -> set[str]:
    """Return the flags of a command of butler-ipam."""
    options = (param for param in get_command(name).params if isinstance(param, click.Option))
    return {flag for option in options for flag in (*option.opts, *option.secondary_opts)} | {
        "-h",
        "--help",
    }


@pytest.fixture(scope="module")
def backup_by_format() -> Mapping[str, str]:
    """The output of `plan` for the samples, as a backup, by its format."""
    return {form: run("plan", "-f", SAMPLES, "-o", form).out for form in ("yaml", "json")}


@pytest.fixture
def desk(
    backup_by_format: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The working directory with the manifests and backups of the samples' allocations."""
    (tmp_path / "manifests").symlink_to(ROOT / "manifests")
    for form, saved in backup_by_format.items():
        (tmp_path / f"ipam-backup.{form}").write_text(saved, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_commands_are_found_in_the_documents() -> None:
    assert len(CALLS) > 30
    assert {call[0] for call, _ in CALLS} >= set(COMMANDS) - {
        "apiserver",
        "demo",
    }


@pytest.mark.parametrize(("call", "command"), CALLS, ids=list_reported_names(CALLS))
def test_every_call_of_butler_ipam_names_a_command_and_flags_that_exist(
    call: Sequence[str], command: Command
) -> None:
    known = list_flags(call[0])
    used_flags = {
        word.partition("=")[0] for word in call[1:] if word.startswith("-") and word != "-"
    }
    assert used_flags - known == set(), command.place


@pytest.mark.parametrize(("call", "command"), COPIED, ids=list_reported_names(COPIED))
def test_every_line_that_can_be_copied_parses_as_it_is(
    call: Sequence[str], command: Command, desk: Path
) -> None:
    (desk / "report.yaml").write_text("")
    get_command(call[0]).make_context(call[0], list(call[1:]), resilient_parsing="--help" in call)


@pytest.mark.parametrize(("call", "command"), OFFLINE, ids=list_reported_names(OFFLINE))
def test_every_line_that_needs_no_cluster_does_what_it_should(
    call: Sequence[str], command: Command, desk: Path
) -> None:
    outcome = run(*call)
    assert outcome.code == 0, outcome.err
    assert outcome.out


def test_the_picture_in_the_readme_is_what_the_command_draws(desk: Path) -> None:
    [block] = [
        candidate
        for candidate in list_fenced_blocks("README.md", "")
        if candidate.startswith("NetworkPool ")
    ]
    printed = run("map", "brownfield-pool", "-f", desk / "ipam-backup.json").out
    assert block.splitlines() == [line.rstrip() for line in printed.splitlines()]


def test_a_backup_of_files_is_restored_with_every_range_where_it_was(desk: Path) -> None:
    jq = shutil.which("jq")
    if jq is None:
        pytest.skip("no jq on this machine; the line that makes a restore of a backup is not run")
    [command] = [
        command
        for command in commands("docs/operating/backup-and-restore.md")
        if command.line_text.startswith("jq -s ")
    ]
    subprocess.run(["sh", "-c", command.line_text], cwd=desk, check=True, timeout=30)

    def list_held_ranges(content: str) -> dict[str, tuple[str, str]]:
        return {
            item["metadata"]["name"]: (
                item["status"]["startAddress"],
                item["status"]["endAddress"],
            )
            for item in json.loads(content)["items"]
            if item["kind"] == "IPAllocation"
        }

    restored = (desk / "restore.json").read_text()
    assert "tenant-uid" not in restored
    assert all("status" not in item for item in json.loads(restored)["items"])
    outcome = run("plan", "-f", desk / "restore.json", "-o", "json")
    before = list_held_ranges((desk / "ipam-backup.json").read_text())
    assert len(before) > 5
    assert list_held_ranges(outcome.out) == before


def list_make_targets() -> set[str]:
    """Return the targets of the Makefile."""
    return set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_make_target_exists(document: str) -> None:
    known_commands = {
        word
        for command in commands(document)
        if command.words and command.words[0] == "make"
        for word in command.words[1:]
        if re.fullmatch(r"[a-z-]+", word) and not word.startswith("-")
    }
    assert known_commands - list_make_targets() == set()


def test_make_help_lists_every_target_that_people_need() -> None:
    reported = set(re.findall(r"^([a-z-]+):.*##", read("Makefile"), re.MULTILINE))
    assert list_make_targets() - reported <= {"help"}
    phony = read("Makefile").partition(".PHONY: ")[2].split()
    assert set(phony) == list_make_targets()


def test_every_script_and_module_that_is_run_exists() -> None:
    for document in DOCUMENTS:
        for command in commands(document):
            for module in re.findall(
                r"-m ((?:tests|manifests|reconcilers)[\w.]*)", command.line_text
            ):
                path = ROOT / module.replace(".", "/")
                assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module


def test_the_table_of_commands_is_complete() -> None:
    rows = re.findall(r"^\| `(\w+)[^|]*\|", read("README.md"), re.MULTILINE)
    assert set(rows) >= set(COMMANDS)


def test_the_completion_line_of_the_readme_is_a_script_for_bash() -> None:
    [command] = [command for command in commands("README.md") if "_COMPLETE" in command.line_text]
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash on this machine; the line that switches completion on is not run")
    function = f'butler-ipam() {{ "{sys.executable}" -c "{_RUN_BUTLER_IPAM}" "$@"; }}'
    script = f"{function}; {command.line_text}"
    done = subprocess.run(
        [bash, "-c", f"{script}; complete -p butler-ipam"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "-F _butler_ipam_completion" in done.stdout


_RUN_BUTLER_IPAM = (
    "import sys; sys.argv[0] = 'butler-ipam'; from reconcilers.cli.main import main; main()"
)


def test_commands_that_select_the_allocations_of_a_cluster_select_its_team_too() -> None:
    """Two teams may have a cluster of one name, and some of these commands delete."""
    selecting = [
        command
        for document in DOCUMENTS
        for command in commands(document)
        if f"{names.LABEL_TENANT}=" in command.line_text
    ]
    assert selecting
    for command in selecting:
        words = command.words
        selector = dict(
            part.split("=", 1)
            for option, value in pairwise(words)
            if option in {"-l", "--selector"}
            for part in value.split(",")
        )
        cluster = Key(selector.get(names.LABEL_TEAM, ""), selector[names.LABEL_TENANT])
        for team, is_selected in ((cluster.namespace, True), ("another-team", False)):
            labels = build_labels(Key(team, cluster.name), "lab", "loadbalancer")
            matches = all(labels.get(name) == value for name, value in selector.items())
            assert matches is is_selected, command.place


@pytest.mark.parametrize("document", DOCUMENTS)
def test_logs_are_read_of_all_replicas_and_each_line_names_its_own(document: str) -> None:
    lines = [command.line_text for command in commands(document) if " logs " in command.line_text]
    of_kubectl = [line for line in lines if line.startswith("kubectl")]
    assert [line for line in of_kubectl if " -l " not in line or "--prefix" not in line] == []
