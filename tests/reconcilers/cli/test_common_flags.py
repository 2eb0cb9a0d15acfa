"""-o, -n, -A, --context and --kubeconfig mean the same in every command that reads pools."""

import json
from pathlib import Path

import click
import pytest

from reconcilers.cli.main import cli
from tests.reconcilers.cli.commandline import (
    make_allocation,
    make_held_status,
    make_pool,
    plan,
    plan_text,
    run,
)

READING_COMMANDS = ("pools", "map", "whois", "tenants", "check")


def find_options(name: str) -> dict[str, click.Option]:
    """Return the options of a command by each of their flags."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return {
        flag: param
        for param in command.params
        if isinstance(param, click.Option)
        for flag in param.opts
    }


@pytest.mark.parametrize("name", [*READING_COMMANDS, "plan"])
def test_every_command_has_the_same_output_formats(name: str) -> None:
    kind = find_options(name)["--output"].type
    assert isinstance(kind, click.Choice)
    assert list(kind.choices) == ["table", "wide", "json", "yaml", "name"]
    assert find_options(name)["-o"].default == "table"


@pytest.mark.parametrize("name", READING_COMMANDS)
def test_every_command_has_the_flags_that_choose_cluster_and_namespace(name: str) -> None:
    expected = {"-n", "--namespace", "-A", "--all-namespaces", "--context", "--kubeconfig", "-f"}
    assert expected <= set(find_options(name))


@pytest.fixture
def saved_objects(tmp_path: Path) -> Path:
    """A file with the planned pool `lab` and an allocation that holds eight addresses of it."""
    holder = make_allocation("old", 8, status=make_held_status("10.40.0.8", "10.40.0.15"))
    path = tmp_path / "saved.json"
    path.write_text(plan(make_pool(), holder).out)
    return path


def test_wide_draws_rows_of_twice_as_many_addresses(saved_objects: Path) -> None:
    drawn = {}
    for form in ("table", "wide"):
        lines = (
            run("map", "-f", saved_objects, "-o", form)
            .out.partition("\neach cell")[0]
            .splitlines()
        )
        drawn[form] = [line.split()[-1] for line in lines[1:]]
    assert [len(row) for row in drawn["table"]] == [64] * 4
    assert [len(row) for row in drawn["wide"]] == [128] * 2
    assert "".join(drawn["table"]) == "".join(drawn["wide"])


def test_wide_shows_what_a_repair_would_do(saved_objects: Path) -> None:
    lines = run("check", "-f", saved_objects, "-o", "wide").out.splitlines()
    assert lines[0].split() == ["SEVERITY", "KIND", "OBJECT", "ACTION", "CHOICES", "WHAT"]
    [drift] = [line for line in lines if "LabelDrift" in line]
    assert drift.split()[4:7] == ["label", "none,", "label"]


def test_wide_lists_pools_that_a_plan_leaves_as_they_are() -> None:
    out = plan_text(json.dumps(make_pool()), "-o", "wide").out
    section = out.partition("Before and after\n")[2].splitlines()
    assert section[1].split() == ["butler-system", "lab", "10.40.0.0/24", "0", "256", "256", "0%"]


@pytest.mark.parametrize("name", [*READING_COMMANDS, "plan"])
def test_folders_inside_a_folder_are_read_only_with_recursive(
    saved_objects: Path, tmp_path: Path, name: str
) -> None:
    inner = tmp_path / "folder/inner"
    inner.mkdir(parents=True)
    saved_objects.rename(inner / "saved.json")
    address = ["10.40.0.8"] if name == "whois" else []
    arguments: list[str | Path] = [name, *address, "-f", tmp_path / "folder"]
    assert run(*arguments).code == 1
    assert run(*arguments, "--recursive").err.count("no object of butler-ipam was found") == 0
