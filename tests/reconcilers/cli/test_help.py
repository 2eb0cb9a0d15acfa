"""The output of --help: sentences, groups and defaults in words; shared options are the same."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import reconcilers.cli
from reconcilers.cli import groups
from reconcilers.cli.flags import Option, convert_duration, describe_duration, name_variable
from reconcilers.cli.main import COMMANDS, cli
from reconcilers.cli.run import run as run_command
from tests.docs.text import count_words, split_sentences
from tests.reconcilers.cli.commandline import run

SOURCES = Path(reconcilers.cli.__file__).parent
OPTION_DECORATORS = {
    *("option", "switch_option", "name_list_option", "duration_option"),
    *("_manager_duration_option", "_bind_option", "_certificate_option"),
}
"""The functions by which the code of the command line declares an option."""
VERBS = set(
    re.findall(
        r"\w+",
        """
    Accept Ask Carry Check Collect Compare Complete Connect Count Divide Draw Exit Expect Give
    Grow Hand Install Keep Label Leave Let Listen Load Log Look Make Open Print Read Reconcile
    Record Reject Release Remove Report Request Retry Serve Share Show Stop Try Use Wait Watch
    Work Write
""",
    )
)
"""Verbs with which the help of an option may begin."""


def list_options(command_name: str) -> list[Option]:
    """Return the options of a command."""
    command = cli.get_command(click.Context(cli), command_name)
    assert command is not None
    return [param for param in command.params if isinstance(param, Option)]


EVERY_OPTION = [
    pytest.param(name, option, id=f"{name} {option.opts[-1]}")
    for name in COMMANDS
    for option in list_options(name)
]


@pytest.mark.parametrize(("command_name", "option"), EVERY_OPTION)
def test_the_help_of_an_option_is_a_sentence_that_says_what_the_program_does(
    command_name: str, option: Option
) -> None:
    sentence = option.help or ""
    first, *others = sentence.split()
    assert first in VERBS
    assert len(others) >= 4, f"{command_name} {option.opts[0]} is too short to help"
    assert sentence.endswith(".")


@pytest.mark.parametrize("command_name", COMMANDS)
def test_every_sentence_of_help_has_at_most_30_words(command_name: str) -> None:
    command = cli.get_command(click.Context(cli), command_name)
    assert command is not None
    helps = [command.help, *(option.help for option in list_options(command_name))]
    sentences = [sentence for help_text in helps for sentence in split_sentences(help_text or "")]
    assert [sentence for sentence in sentences if count_words(sentence) > 30] == []


@pytest.mark.parametrize(("command_name", "option"), EVERY_OPTION)
def test_the_variable_of_an_option_is_its_flag_or_named_in_the_help(
    command_name: str, option: Option
) -> None:
    long_flag = next(flag for flag in option.opts if flag.startswith("--"))
    assert option.envvar
    if option.envvar != name_variable(long_flag):
        assert f"[env var: {option.envvar}]" in read_help(command_name)


@pytest.mark.parametrize("command_name", COMMANDS)
def test_help_shows_no_types_of_the_programming_language(command_name: str) -> None:
    for option in list_options(command_name):
        record = option.get_help_record(click.Context(click.Command(command_name)))
        assert record is not None
        assert not re.search(r"\b(TEXT|INTEGER|RANGE|PATH|True|False|None|x>=)", " ".join(record))


def read_help(command_name: str) -> str:
    """Return the output of COMMAND --help in one line."""
    return " ".join(run(command_name, "--help").out.split())


def read_sections() -> dict[str, list[str]]:
    """Return the flags that `run --help` lists under each heading, in its order."""
    flags_by_heading: dict[str, list[str]] = {}
    heading = ""
    for line in run("run", "--help").out.splitlines():
        if match := re.fullmatch(r"(\w.*):", line):
            heading = match[1]
            flags_by_heading[heading] = []
        elif (match := re.match(r"  (--?[-\w, ]+)", line)) and heading:
            flags_by_heading[heading].append(match[1])
    return flags_by_heading


def test_run_lists_each_option_under_the_heading_of_its_subject() -> None:
    flags_by_heading = read_sections()
    assert list(flags_by_heading) == [*groups.ORDER, "Other options"]
    headings = {
        flags.split(",")[0]: heading
        for heading, flags in list_flags_with_headings(flags_by_heading)
    }
    groups_of_options = {option.opts[0]: option.group for option in list_options("run")}
    assert headings == groups_of_options | {"-h": "Other options"}


def list_flags_with_headings(flags_by_heading: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Yield the heading and the first flag of each option, from the flags by heading."""
    for heading, flags in flags_by_heading.items():
        for flag in flags:
            yield heading, flag.split()[0]


@pytest.mark.parametrize(
    ("flag", "heading"),
    [
        ("--leader-elect", groups.LEADER_ELECTION),
        ("--webhook-port", groups.WEBHOOKS),
        ("--ui-bind-address", groups.PAGE),
        ("--kubermatic-observe", groups.INTEGRATIONS),
        ("--pool-resync", groups.INTERVALS),
        ("--tenant-requeue-old", groups.INTERVALS),
        ("--pool-batch", groups.POOLS),
        ("--growth-after", groups.ELASTIC),
        ("--metallb-bundle", groups.BALANCERS),
        ("--tenant-allow-proxy", groups.TENANTS),
        ("--orphans-percent", groups.ORPHANS),
        ("--namespace", groups.CLUSTER),
    ],
)
def test_a_flag_of_run_is_found_under_the_heading(flag: str, heading: str) -> None:
    [option] = [param for param in run_command.params if flag in param.opts]
    assert isinstance(option, Option)
    assert option.group == heading


def test_run_shows_defaults_units_and_limits_in_words() -> None:
    printed = read_help("run")
    for words in (
        "[default: 1 minute]",
        "[default: 100 milliseconds]",
        "[default: false]",
        "[default: 256; 1 or more]",
        "[default: 10; 0 to 100]",
        "DURATION is a number with its unit: 100ms, 10s, 5m or 1h30m",
    ):
        assert words in printed


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("500ms", "500 milliseconds"),
        ("1s", "1 second"),
        ("1h30m", "1 hour 30 minutes"),
        ("1m30s", "1 minute 30 seconds"),
        ("1.5s", "1 second 500 milliseconds"),
        ("0", "0 seconds"),
    ],
)
def test_a_duration_is_described_in_words(content: str, words: str) -> None:
    assert describe_duration(convert_duration(content)) == words


def list_declared_flags() -> Iterator[str]:
    """Yield the long flag of each declaration of an option in the code of the command line."""
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in OPTION_DECORATORS:
                yield from list_flags(node)


def list_flags(call: ast.Call) -> Iterator[str]:
    """Yield the long flags among the arguments of a call."""
    for argument in call.args:
        for node in ast.walk(argument):
            if isinstance(node, ast.Constant) and str(node.value).startswith("--"):
                yield str(node.value)


def test_an_option_of_several_commands_is_declared_in_one_place() -> None:
    declarations_by_flag = Counter(list_declared_flags())
    assert {"--kubeconfig", "--output", "--filename", "--leader-elect", "--ui-cert-dir"} <= set(
        declarations_by_flag
    )
    # --kubeconfig of commands that start API servers names a file that they write.
    assert {flag for flag, number in declarations_by_flag.items() if number > 1} == {
        "--kubeconfig"
    }


def test_an_option_that_several_commands_have_works_the_same_in_each() -> None:
    options_by_flag: dict[str, dict[str, Option]] = {}
    for command_name in COMMANDS:
        for option in list_options(command_name):
            options_by_flag.setdefault(option.opts[-1], {})[command_name] = option
    for command_name in ("up", "apiserver"):  # there, the flag names a file that is written
        del options_by_flag["--kubeconfig"][command_name]
    for flag, options in options_by_flag.items():
        declarations = {
            # --namespace of `run` is a setting, which has no short form.
            (option.name, str(option.envvar), option.multiple, option.is_flag, type(option.type))
            for option in options.values()
        }
        assert len(declarations) == 1, f"{flag} differs among {', '.join(options)}"
