"""`-w`: what a command shows, shown anew whenever the cluster changes."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any

import anyio
import click

from controller import logs
from controller.clock import SystemClock
from controller.config import open_transport
from controller.jobs import run_in_background
from controller.plaintext import escape_lines
from controller.resource import Resource
from reconcilers.addressmap.objects import Objects, read_objects
from reconcilers.cli.cluster.objects import Scope, in_cluster, report_not_read
from reconcilers.cli.forms import Form
from reconcilers.cli.local.servers import Interrupted, run_until_interrupted
from reconcilers.cli.problems import Problem
from reconcilers.integrations.core.scopedlists import NotRead
from reconcilers.ui.watched import Watched

Show = Callable[[Objects], str]

GATHER_SECONDS = 0.2
"""Changes come in groups: who draws each alone draws what is half done."""
CLEAR = "\033[H\033[2J\033[3J"


def follow(where: Scope, form: Form, show: Show, required: Sequence[Resource[Any]]) -> None:
    """Show what there is, and again after each change, until Ctrl-C.

    On a terminal each takes the place of the one before; elsewhere they follow each other, with an
    empty line between, and what shows no change is not written again.

    Args:
        where: the cluster.
        form: of the output, one for people.
        show: gives the text.
        required: the kinds without which there is no answer.

    Raises:
        UsageError: files or a form for programs are asked for.
        Problem: the cluster cannot be read now; later failures are waited out.
    """
    if where.files:
        raise click.UsageError("--watch is about a cluster, and --filename names files")
    if form not in {"table", "wide"}:
        raise click.UsageError(f"--watch shows tables, and --output asks for {form}")
    logs.configure("console", "error")
    reading = "reading the cluster's objects"
    objects = in_cluster(
        where, reading, lambda client: read_objects(client, where.namespace, required)
    )
    report_not_read(objects)
    try:
        run_until_interrupted(partial(_follow, where, objects.all_not_read, show))
    except Interrupted:
        raise click.Abort from None


async def _follow(where: Scope, not_read: Sequence[NotRead], show: Show) -> None:
    """Show what there is now, as far as it may be read, and again after each change."""
    clock, changed, last = SystemClock(), anyio.Event(), ""

    def note(_: object) -> None:
        changed.set()

    asked = where.kubeconfig, where.context
    async with open_transport(*asked, user_agent="butler-ipam") as transport:
        watched = Watched.over(transport, clock, not_read=not_read)
        watched.on_change(note)
        others = watched.others
        assert others is not None, "all platforms are asked for"
        others.want(inf)
        async with run_in_background([*(one.run for one in watched.kinds), others.run]):
            await watched.wait_read()
            await others.looked.wait()
            while True:
                await clock.sleep(GATHER_SECONDS)
                changed = anyio.Event()
                try:
                    text = show(watched.objects())
                except Problem as problem:  # a pool that is named may come again
                    text = f"{escape_lines(problem.format_message())}\n"
                if text != last:
                    before = CLEAR if sys.stdout.isatty() else "\n" if last else ""
                    click.echo(before + text, nl=False)
                    last = text
                await changed.wait()
