"""`butler-ipam run`: the controllers against a cluster, until a signal or a lost lease."""

from pathlib import Path
from typing import Any

import anyio
import click

from controller.clock import SystemClock
from controller.config import open_transport
from controller.errors import ConfigurationError, UnexpectedEnd
from controller.manager import Manager
from controller.options import ManagerOptions
from controller.pages import Bind, check_listeners, parse_bind
from controller.signals import run_until_signal
from reconcilers.api import names
from reconcilers.cli import groups
from reconcilers.cli.flags import GroupedCommand
from reconcilers.cli.garbage import keep_collections_short
from reconcilers.cli.managerflags import (
    build_manager_options,
    configure_logs,
    log_last_error,
    log_options,
    manager_options,
)
from reconcilers.cli.problems import CommandProblem
from reconcilers.cli.settingflags import build_settings, setting_options
from reconcilers.cli.sharedflags import cluster_options
from reconcilers.configuration.settings import Settings, check_names
from reconcilers.wiring import assemble

NOTATION = """
DURATION is a number with its unit: 100ms, 10s, 5m or 1h30m; a number alone means seconds.
HOST:PORT without HOST means all addresses of this machine.
An option is also an environment variable: --pool-resync is BUTLER_IPAM_POOL_RESYNC.
"""


@click.command(cls=GroupedCommand, groups=groups.ORDER, epilog=NOTATION)
@cluster_options
@manager_options
@log_options
@setting_options
def run(kubeconfig: Path | None, context: str | None, **values: Any) -> None:
    """Run the controllers against a cluster, until SIGTERM or SIGINT.

    Install the CustomResourceDefinitions first:
    butler-ipam crds | kubectl apply --server-side -f -

    A second signal ends the process at once. Logs go to stderr. /readyz says what is missing:
    a kind whose CRD is not installed, a server that does not answer.
    """
    with log_last_error(configure_logs(values)):
        _run_or_fail(kubeconfig, context, values)


def _run_or_fail(kubeconfig: Path | None, context: str | None, values: dict[str, Any]) -> None:
    """Run the controllers until a signal.

    Raises:
        CommandProblem: a setting is wrong, or the controllers ended by themselves, for example
            because the lease was lost.
    """
    try:
        settings = check_names(build_settings(values))
        options = build_manager_options(values, settings.namespace)
        bind = parse_bind(values["ui_bind"], "ui bind address")
        # Checked before anything starts: two options with one address are reported by name.
        check_listeners(
            {
                "--metrics-bind-address": parse_bind(options.metrics_bind, "metrics bind address"),
                "--health-probe-bind-address": parse_bind(
                    options.health_bind, "health probe bind address"
                ),
                "--webhook-port": parse_bind(options.webhook_bind, "webhook port"),
                "--ui-bind-address": bind,
            }
        )
        page = (bind, str(values["ui_cert_dir"] or "")) if bind else None
        with keep_collections_short():
            anyio.run(_run_controllers, kubeconfig, context, options, settings, page)
    except (ConfigurationError, UnexpectedEnd) as problem:
        raise CommandProblem(str(problem)) from problem


async def _run_controllers(
    kubeconfig: Path | None,
    context: str | None,
    options: ManagerOptions,
    settings: Settings,
    page: tuple[Bind, str] | None,
) -> None:
    """Connect to the cluster, and run the manager with all controllers until a signal.

    Args:
        page: where the page is served, and the folder of its certificate (empty for none); None
            serves no page.
    """
    async with open_transport(kubeconfig, context, user_agent=names.COMPONENT) as transport:
        clock = SystemClock()
        manager = Manager(transport, clock=clock, options=options)
        tenants = assemble(manager, clock, settings)
        if page is not None:
            # Imported here, because by default no page is served.
            from reconcilers.wiring.page import add_page

            page_bind, certificate_folder = page
            add_page(
                manager,
                transport,
                bind=page_bind,
                cert_dir=certificate_folder,
                integrations=settings.integration,
            )
        try:
            await run_until_signal(manager)
        finally:
            # Shielded, because a cancelled task could not close the connections to tenants.
            with anyio.CancelScope(shield=True):
                await tenants.aclose()
