"""`-w`: what a command shows, printed again whenever the cluster changes."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click

from controller.resource import Resource
from reconcilers.addressmap.objects import REQUIRED, Objects, read_objects
from reconcilers.cli.cluster.objects import ReadingScope, in_cluster, report_not_read
from reconcilers.cli.forms import Form
from reconcilers.cli.interrupts import Interrupted, run_until_interrupted

Show = Callable[[Objects], str]


def follow(
    where: ReadingScope, form: Form, show: Show, required: Sequence[Resource[Any]] = REQUIRED
) -> None:
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
        raise click.UsageError("--watch follows a cluster; it cannot be combined with --filename")
    if form not in {"table", "wide"}:
        raise click.UsageError(
            f"--watch prints tables; it cannot be combined with --output {form}"
        )
    from controller import logs  # with structlog
    from reconcilers.cli.cluster.updates import write_updates  # with informers

    logs.configure_logs("console", "error")
    reading = "reading the cluster's objects"
    objects = in_cluster(
        where, reading, lambda client: read_objects(client, where.namespace, required)
    )
    report_not_read(objects)
    try:
        work = partial(write_updates, where.kubeconfig, where.context, objects.all_not_read, show)
        run_until_interrupted(work)
    except Interrupted:
        raise click.Abort from None
