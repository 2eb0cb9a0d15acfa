"""`kubectl_complete-ipam`: what kubectl runs when Tab is pressed after `kubectl ipam`.

kubectl (1.26 and newer) runs an executable of this name on the PATH. Its arguments are the words
after `ipam`; the last word is to be completed. The output has the form of cobra's completion: a
line for each choice, with its description after a tab. The last line is a colon and a number, the
directive: it says whether the shell completes names of files or folders, too. Completion for
`butler-ipam` itself is click's: `_BUTLER_IPAM_COMPLETE`.
"""

import sys
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem, ShellComplete

from reconcilers.cli.main import cli

FILES = 0
"""The shell completes names of files."""
NOTHING_ELSE = 4
"""The shell completes nothing besides the printed choices."""
FOLDERS = 16
"""The shell completes names of folders."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the choices for the last word, and the directive for the shell."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    items = list_choices(words[:-1], words[-1] if words else "")
    for item in items:
        # Items of type file and dir have no value: the shell lists the files, by the directive.
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(f":{_choose_directive(items)}")


def list_choices(before: list[str], incomplete: str) -> list[CompletionItem]:
    """Return the choices for `incomplete`, given the words before it."""
    return ShellComplete(cli, {}, "kubectl ipam", "_IPAM").get_completions(before, incomplete)


def _choose_directive(items: Sequence[CompletionItem]) -> int:
    """Return the directive: whether the shell completes names of files or folders, too."""
    kinds = {item.type for item in items}
    if "file" in kinds:
        return FILES
    return FOLDERS if "dir" in kinds else NOTHING_ELSE
