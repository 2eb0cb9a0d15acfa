"""Repeated flags: lists of names are joined, and the last single value is used."""

from collections.abc import Iterator

import click
import pytest

from reconcilers.cli.completion import list_choices
from reconcilers.cli.flags import NameList
from reconcilers.cli.main import COMMANDS, cli

NAME_LISTS = {
    "run": (
        ("--pool-namespaces", "pool_namespaces"),
        ("--webhook-configuration", "validating"),
        ("--webhook-cert-name", "names"),
    ),
    "plan": (("--pool-namespaces", "pool_namespaces"),),
}


def parse_values(name: str, *arguments: str) -> dict[str, object]:
    """Return the values of a command's options, as they are passed to its function."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    required = ("-f", "-") if name == "plan" else ()
    return dict(command.make_context(name, [*arguments, *required]).params)


def iterate_name_lists() -> Iterator[tuple[str, str, str]]:
    """Yield command, flag and parameter of each entry of NAME_LISTS."""
    for command, flags in NAME_LISTS.items():
        for flag, parameter in flags:
            yield command, flag, parameter


def iterate_options() -> Iterator[tuple[str, click.Option]]:
    """Yield each option of each command, with the name of the command."""
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        yield from ((name, param) for param in command.params if isinstance(param, click.Option))


@pytest.mark.parametrize(("command", "flag", "parameter"), list(iterate_name_lists()))
def test_names_of_a_repeated_flag_are_joined(command: str, flag: str, parameter: str) -> None:
    values = parse_values(command, flag, " b,a", f"{flag}=c, b,,", flag, "")
    assert values[parameter] == ("b", "a", "c")


def test_integrations_of_repeated_flags_and_comma_separated_lists_are_joined() -> None:
    values = parse_values(
        "run", "--integration=kubermatic,clusterapi", "--integration", "vitistack"
    )
    assert values["integration"] == ("kubermatic", "clusterapi", "vitistack")
    with pytest.raises(click.BadParameter, match="'other' is not one of"):
        parse_values("run", "--integration=clusterapi,other")


def test_given_names_replace_the_default() -> None:
    assert parse_values("run")["validating"] == ("butler-ipam",)
    assert parse_values("run", "--webhook-configuration=mine")["validating"] == ("mine",)


@pytest.mark.parametrize("content", ["a,b", "a b", " a, b "])
def test_a_variable_has_names_separated_by_commas_or_spaces(
    content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUTLER_IPAM_POOL_NAMESPACES", content)
    assert parse_values("run")["pool_namespaces"] == ("a", "b")
    assert parse_values("run", "--pool-namespaces=c")["pool_namespaces"] == ("c",)


def test_every_list_of_names_may_be_repeated() -> None:
    lists = [option for _, option in iterate_options() if isinstance(option.type, NameList)]
    assert lists
    assert all(option.multiple for option in lists)


def test_the_last_value_of_a_repeated_flag_is_used() -> None:
    values = parse_values("run", "--namespace=a", "--shards=3", "--namespace=b", "--shards=0")
    assert (values["namespace"], values["shards"]) == ("b", 0)


def test_completion_offers_the_name_after_the_comma() -> None:
    offered = list_choices(["run", "--integration"], "clusterapi,ku")
    assert [item.value for item in offered] == ["clusterapi,kubermatic"]
