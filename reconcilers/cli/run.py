"""`butler-ipam run`: the controllers against a cluster, until a signal or a lost lease."""

from pathlib import Path
from typing import Any

import anyio
import click

from controller.clock import SystemClock
from controller.config import connect
from controller.errors import ConfigurationError, UnexpectedEnd
from controller.leases import LeaderLost
from controller.manager import Manager
from controller.options import ManagerOptions
from controller.signals import run_until_signal
from reconcilers.api import names
from reconcilers.cli.flags import cluster_options, option, setting_options, settings
from reconcilers.cli.managerflags import (
    configure_logs,
    log_options,
    manager_options,
    manager_settings,
)
from reconcilers.cli.problems import Problem
from reconcilers.integrations.clusterapi.serving import CLUSTER_API
from reconcilers.settings import Settings
from reconcilers.wiring import assemble


@click.command()
@cluster_options
@manager_options
@log_options
@option(
    "--integration",
    "integrations",
    type=click.Choice([CLUSTER_API]),
    multiple=True,
    help="Kinds of another platform to serve, too, once they are installed; may be repeated.",
)
@setting_options
def run(
    kubeconfig: Path | None, context: str | None, integrations: tuple[str, ...], **values: Any
) -> None:
    """Run the controllers against a cluster, until SIGTERM or SIGINT.

    A second signal ends the process at once. Logs go to stderr. /readyz says what is missing:
    a kind whose CRD is not installed, a server that does not answer.
    """
    chosen = settings(values)
    configure_logs(values)
    options = manager_settings(values, chosen.namespace)
    try:
        anyio.run(_run, kubeconfig, context, options, chosen, integrations)
    except (ConfigurationError, LeaderLost, UnexpectedEnd) as problem:
        raise Problem(str(problem)) from problem


async def _run(
    kubeconfig: Path | None,
    context: str | None,
    options: ManagerOptions,
    chosen: Settings,
    integrations: tuple[str, ...],
) -> None:
    transport = await connect(kubeconfig, context, user_agent=names.COMPONENT)
    try:
        clock = SystemClock()
        manager = Manager(transport, clock=clock, options=options)
        tenants = assemble(manager, clock, chosen, integrations=integrations)
        try:
            await run_until_signal(manager)
        finally:
            with anyio.CancelScope(shield=True):
                await tenants.aclose()
    finally:
        with anyio.CancelScope(shield=True):
            await transport.aclose()
