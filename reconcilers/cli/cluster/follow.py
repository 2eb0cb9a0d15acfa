"""`--watch`: the output of a command, printed again whenever the cluster changes."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click

from controller.resource import Resource
from reconcilers.addressmap.objects import REQUIRED, Objects, read_objects
from reconcilers.cli.cluster.objects import ReadingScope, report_not_read, run_in_cluster
from reconcilers.cli.forms import Form
from reconcilers.cli.interrupts import Interrupted, run_until_interrupted

Show = Callable[[Objects], str]


def follow(
    where: ReadingScope, form: Form, show: Show, required: Sequence[Resource[Any]] = REQUIRED
) -> None:
    """Print a text about the cluster, and again after each change, until Ctrl-C.

    On a terminal, each text replaces the one before. In a file or a pipe, an empty line separates
    the texts. A text that is equal to the one before is not printed.

    Args:
        where: the cluster.
        form: the form of the output; only the forms for people are allowed.
        show: returns the text.
        required: the kinds that must be readable.

    Raises:
        UsageError: the command reads files, or the form is one for programs.
        CommandProblem: the cluster cannot be read at the start. Later failures do not end the
            command.
    """
    if where.files:
        raise click.UsageError("--watch follows a cluster; it cannot be combined with --filename")
    if form not in {"table", "wide"}:
        raise click.UsageError(
            f"--watch prints tables; it cannot be combined with --output {form}"
        )
    # Imported here, because other commands need neither structlog nor informers.
    from controller import logs
    from reconcilers.cli.cluster.updates import write_updates

    logs.configure_logs("console", "error")
    # This first read ends the command if a required kind cannot be read; informers would retry. It
    # also finds the lists that must not be watched, because the user may not read them.
    reading = "reading the cluster's objects"
    objects = run_in_cluster(
        where, reading, lambda client: read_objects(client, where.namespace, required)
    )
    report_not_read(objects)
    try:
        work = partial(write_updates, where.kubeconfig, where.context, objects.all_not_read, show)
        run_until_interrupted(work)
    except Interrupted:
        raise click.Abort from None
