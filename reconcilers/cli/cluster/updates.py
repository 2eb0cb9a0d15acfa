"""Writes a text again after each change of a cluster, for the option --watch.

It is a module of its own, because importing the informers takes longer than a whole command that
prints once.
"""

import sys
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path

import anyio
import click

from controller.clock import SystemClock
from controller.config import open_transport
from controller.jobs import run_in_background
from controller.plaintext import escape_lines
from reconcilers.addressmap.objects import Objects
from reconcilers.cli.problems import CommandProblem
from reconcilers.integrations.core.scopedlists import NotRead
from reconcilers.ui.watched import PageInformers

GATHER_SECONDS = 0.2
"""Seconds to gather changes: they come in groups, and a text in between shows half a group."""
CLEAR = "\033[H\033[2J\033[3J"
"""Moves the cursor to the top left, and clears the terminal and its scrollback."""


async def write_updates(
    kubeconfig: Path | None,
    context: str | None,
    not_read: Sequence[NotRead],
    show: Callable[[Objects], str],
) -> None:
    """Write a text about the current objects, and again after each change, until cancelled.

    A text that is equal to the last one is not written again.

    Args:
        kubeconfig: a file; None for the kubeconfig that kubectl finds.
        context: a context of the kubeconfig; None for its current one.
        not_read: the lists that the user may not read.
        show: returns the text.
    """
    clock, changed, last_page = SystemClock(), anyio.Event(), ""

    def wake_loop(_: object) -> None:
        """Wake the loop; `changed` is the event that the loop waits for now."""
        changed.set()

    async with open_transport(kubeconfig, context, user_agent="butler-ipam") as transport:
        watched = PageInformers.from_transport(transport, clock, not_read=not_read)
        watched.on_change(wake_loop)
        others = watched.others
        assert others is not None, "PageInformers.from_transport watches all platforms"
        others.keep_current(
            inf
        )  # pools of other platforms are watched as long as the command runs
        async with run_in_background([*(informer.run for informer in watched.kinds), others.run]):
            # The first text shows all objects, not those that happen to be listed first.
            await watched.wait_until_read()
            await others.looked.wait()
            while True:
                await clock.sleep(GATHER_SECONDS)
                changed = anyio.Event()
                try:
                    page = show(watched.collect_objects())
                except CommandProblem as problem:  # a named pool is gone, and may come again
                    page = f"{escape_lines(problem.format_message())}\n"
                if page != last_page:
                    empty_line = "\n" if last_page else ""
                    separator = CLEAR if sys.stdout.isatty() else empty_line
                    click.echo(separator + page, nl=False)
                    last_page = page
                await changed.wait()
