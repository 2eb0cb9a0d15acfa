"""Failures of commands: one sentence on stderr, and an exit code that scripts can test.

0   all is well
1   the input has a fault, or the command found one
2   the options or arguments are wrong
"""

import os
import sys
from typing import IO, Any

import click
from typing_extensions import override

from reconcilers.cli.progress import hide_progress

EXIT_PROBLEM = 1
EXIT_USAGE = 2
WRONG_INPUT = "butler-ipam.wrong-input"
"""The key in click's context that a command sets if it continues without a part of its input."""


class CommandProblem(click.ClickException):
    """A failure that ends a command; its sentence says what is wrong, where, and what to do."""

    exit_code = EXIT_PROBLEM

    @override
    def show(self, file: IO[Any] | None = None) -> None:
        """Print the sentence."""
        _say_failure(self)


def print_problem(kind: str, sentence: str) -> None:
    """Print a sentence on stderr, in one line: control characters of quoted objects are escaped.

    Args:
        kind: `error`, `warning` or `note`; coloured on a terminal.
        sentence: the text after that.
    """
    from controller.plaintext import escape_text  # imported here, so that --help starts faster

    _print(kind, escape_text(sentence))


def _say_failure(failure: click.ClickException) -> None:
    """Print why a command ends. The message may have further lines: the end of a program's log."""
    from controller.plaintext import escape_lines  # imported here, so that --help starts faster

    _print("error", escape_lines(failure.format_message()))


def _print(kind: str, message: str) -> None:
    """Print a message on stderr after its kind, in place of the line of progress."""
    word = click.style(f"{kind}:", fg=_COLOURS[kind], bold=True)
    with hide_progress():
        click.echo(f"{word} {message}", err=True, color=choose_colour())


def choose_colour() -> bool | None:
    """Return whether to use colours, by NO_COLOR and FORCE_COLOR; None if the terminal decides.

    NO_COLOR takes precedence, because it is for people whom colours hinder.
    """
    if os.environ.get("NO_COLOR"):
        return False
    return True if os.environ.get("FORCE_COLOR", "0") not in {"", "0"} else None


_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


def show(failure: click.ClickException) -> int:
    """Print a failure of click in the form of our failures; return its exit code."""
    if isinstance(failure, click.exceptions.NoArgsIsHelpError):
        click.echo(failure.format_message())  # the help, which is no error
        return EXIT_USAGE
    _say_failure(failure)
    if isinstance(failure, click.UsageError) and failure.ctx is not None:
        click.echo(f"try: {failure.ctx.command_path} --help", err=True)
    return failure.exit_code


def drop_output() -> None:
    """Drop buffered output, because it cannot be written, for example to a full disk.

    Else Python would fail again when it flushes standard output at its end.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
