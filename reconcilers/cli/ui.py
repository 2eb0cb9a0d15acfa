"""`butler-ipam ui`: the map as a page that stays current, for a browser on this machine."""

import webbrowser
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
import click

from controller import logs
from controller.clock import SystemClock
from controller.config import open_transport
from controller.errors import ConfigurationError
from controller.pages import Bind, parse_bind
from reconcilers.addressmap.objects import read_objects
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.cli.cluster.objects import ReadingScope, report_not_read, run_in_cluster
from reconcilers.cli.flags import option
from reconcilers.cli.interrupts import Interrupted, run_until_interrupted
from reconcilers.cli.problems import CommandProblem
from reconcilers.cli.sharedflags import cluster_options, listen_option, namespace_option
from reconcilers.integrations.core.scopedlists import NotRead
from reconcilers.ui.serving import check_loopback, serve_local_page
from reconcilers.ui.watched import PageInformers


@click.command()
@cluster_options
@namespace_option()
@listen_option("127.0.0.1:8090", "Serve the page at this loopback address")
@option("--open/--no-open", "opens", default=False, help="Open the page in the browser.")
def ui(
    kubeconfig: Path | None, context: str | None, namespace: str, listen: str, opens: bool
) -> None:
    """Serve the map of addresses as a web page that stays current, until Ctrl-C.

    The page shows what you may read in the cluster, and says what you may not. Whoever has the
    printed URL, which contains a token, can open it. With -n, the right to list TenantClusters of
    that namespace suffices.
    """
    logs.configure_logs("console", "error")
    try:
        bind = parse_bind(listen, "the page")
        if bind is not None:
            check_loopback(bind)
    except ConfigurationError as error:
        raise click.BadParameter(str(error), param_hint="--listen") from error
    # parse_bind returns None for 0, which turns an endpoint off. This command serves nothing else.
    if bind is None:
        raise click.BadParameter(
            "0 turns the page off: name a loopback address and a port", param_hint="--listen"
        )
    where = ReadingScope(kubeconfig, context, namespace)
    # The cluster is read once before serving: if that fails, the command ends here. If it cannot
    # be read later, the page reports that, and is still served.
    objects = run_in_cluster(
        where,
        "reading the cluster's objects",
        lambda client: read_objects(client, namespace, required=(TENANT_CLUSTER,)),
    )
    report_not_read(objects)
    try:
        run_until_interrupted(partial(_serve, where, bind, opens, objects.all_not_read))
    except ConfigurationError as error:
        raise CommandProblem(str(error)) from error
    except Interrupted:
        click.echo("stopped")


async def _serve(
    where: ReadingScope, bind: Bind, opens: bool, not_read: Sequence[NotRead]
) -> None:
    """Serve the page until cancelled; print its URL.

    Args:
        opens: whether the browser is started.
        not_read: the LISTs that the user may not read, which are not watched.
    """
    clock = SystemClock()
    connecting = open_transport(where.kubeconfig, where.context, user_agent="butler-ipam")
    async with connecting as transport:
        watched = PageInformers.from_transport(
            transport,
            clock,
            pool_namespace=where.namespace,
            not_read=not_read,
        )
        async with serve_local_page(transport, clock, bind=bind, watched=watched) as url:
            click.echo(f"the map is at {url}\nCtrl-C ends it.")
            if opens:
                # In a thread, because a text browser returns only when it is closed.
                await anyio.to_thread.run_sync(webbrowser.open, url)
            await anyio.sleep_forever()
