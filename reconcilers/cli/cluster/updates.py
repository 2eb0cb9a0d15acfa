"""Text that is written again after each change of a cluster: what `follow` runs.

A module of its own, because the informers that it needs take longer to import than a command that
shows something once takes altogether.
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
"""Changes come in groups: who draws each alone draws what is half done."""
CLEAR = "\033[H\033[2J\033[3J"


async def write_updates(
    kubeconfig: Path | None,
    context: str | None,
    not_read: Sequence[NotRead],
    show: Callable[[Objects], str],
) -> None:
    """Write what there is now, as far as it may be read, and again after each change.

    Args:
        kubeconfig: a file; None looks where kubectl looks.
        context: one in the kubeconfig; None takes its current one.
        not_read: what the user may not read.
        show: gives the text.
    """
    clock, changed, last = SystemClock(), anyio.Event(), ""

    def note(_: object) -> None:
        changed.set()

    async with open_transport(kubeconfig, context, user_agent="butler-ipam") as transport:
        watched = PageInformers.over(transport, clock, not_read=not_read)
        watched.on_change(note)
        others = watched.others
        assert others is not None, "all platforms are asked for"
        others.want(inf)
        async with run_in_background([*(informer.run for informer in watched.kinds), others.run]):
            await watched.wait_read()
            await others.looked.wait()
            while True:
                await clock.sleep(GATHER_SECONDS)
                changed = anyio.Event()
                try:
                    page = show(watched.objects())
                except CommandProblem as problem:  # a pool that is named may come again
                    page = f"{escape_lines(problem.format_message())}\n"
                if page != last:
                    before = CLEAR if sys.stdout.isatty() else "\n" if last else ""
                    click.echo(before + page, nl=False)
                    last = page
                await changed.wait()
