"""`butler-ipam`: the list of commands, and their start.

A command is one line in COMMANDS: its name and its summary for --help. Its function and its module
have the same name, unless MODULES names another module. The module is imported only when the
command runs or prints its own --help.
"""

import errno
import gc
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import PurePath
from types import ModuleType

import click
from click.shell_completion import CompletionItem
from typing_extensions import override

from reconcilers.cli import problems

COMMANDS: Mapping[str, str] = {
    "run": "Run the controllers against a cluster.",
    "apiserver": "Serve the embedded Kubernetes API alone.",
    "up": "Start local API servers and controllers, until Ctrl-C.",
    "demo": "Play a tour on local API servers, and check each step.",
    "plan": "Work out what manifests would get, without a cluster.",
    "pools": "Show how full every pool is.",
    "map": "Draw who holds the addresses of each pool.",
    "whois": "Show who holds an address.",
    "ui": "Serve the map as a web page that stays current.",
    "status": "Show what waits or fails, on one page.",
    "explain": "Say why a tenant or an allocation has what it has, or waits.",
    "tenants": "Show what every tenant holds.",
    "release": "Release the ranges of a tenant that is gone for good.",
    "check": "Look for overlaps, orphans and drift; repair them.",
    "crds": "Print the CustomResourceDefinitions.",
}
MODULES: Mapping[str, str] = dict.fromkeys(("pools", "tenants", "whois"), "tables")


def _import_module(name: str) -> ModuleType:
    """Import a module, and return it.

    Garbage is not collected during the import: that saves a tenth of a short command's CPU time.
    """
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.enable()


class LazyGroup(click.Group):
    """A group whose commands are imported one at a time."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of --help."""
        return list(COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command after importing its module; None if there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        module = _import_module(f"reconcilers.cli.{MODULES.get(cmd_name, cmd_name)}")
        # The function of `map` is called `draw`, because `map` is a function of Python.
        command: click.Command = getattr(module, "draw" if cmd_name == "map" else cmd_name)
        return command

    @override
    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin with a text, without importing their modules."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [
            CompletionItem(name, help=summary)
            for name, summary in COMMANDS.items()
            if name.startswith(incomplete)
        ]

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return name, command and further arguments.

        If there is no such command, raise UsageError with the name of a similar command.
        """
        name = args[0]
        # click reports an unknown option. During completion, the name may be incomplete.
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            near = get_close_matches(name, COMMANDS, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"there is no command {name!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries from COMMANDS, without importing the modules of the commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="butler-ipam", message="%(prog)s %(version)s")
def cli() -> None:
    """Hand out contiguous IP ranges to tenant Kubernetes clusters.

    A NetworkPool has the addresses, a TenantCluster is a tenant that asks for some, and an
    IPAllocation holds a range of a pool for a tenant. These objects are in the management cluster,
    to which the commands connect with your kubeconfig, as kubectl does.

    Every option can also be given as environment variable BUTLER_IPAM_<OPTION>: --log-level is
    BUTLER_IPAM_LOG_LEVEL.
    """


@cli.result_callback()
def find_exit_code(*_: object, **__: object) -> int:
    """Return the exit code of a command that ran to its end: 1 if its input has errors, else 0."""
    has_wrong_input = click.get_current_context().meta.get(problems.WRONG_INPUT)
    return problems.EXIT_PROBLEM if has_wrong_input else 0


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    The exit code is 0 if all is well, 1 if there is a problem, 2 if the arguments are wrong, and
    130 after Ctrl-C.
    """
    try:
        code = cli.main(
            args=None if arguments is None else list(arguments),
            prog_name=find_program_name(),
            standalone_mode=False,
            color=problems.choose_colour(),
        )
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as failure:
        sys.exit(problems.show(failure))
    except click.Abort:
        sys.exit(130)  # as a shell reports an interrupt
    except OSError as failure:
        if failure.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}:
            raise  # a defect of ours; the other errors mean that output cannot be written
        problems.drop_output()
        problems.print_problem(
            "error", f"{failure.filename or 'standard output'}: {failure.strerror}"
        )
        sys.exit(problems.EXIT_PROBLEM)


def find_program_name() -> str:
    """Return the name of the program for messages; `kubectl ipam` if kubectl started it."""
    file_name = PurePath(sys.argv[0]).stem
    return "kubectl ipam" if file_name.startswith("kubectl-") else "butler-ipam"
