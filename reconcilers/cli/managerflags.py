"""Options about the process: lease, ports, certificates, logs.

If controller-runtime has an option, its name and its default are used.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click

from controller import logs
from controller.loggers import get_logger
from controller.options import ManagerOptions, SelfSigned
from reconcilers.api import names
from reconcilers.cli import groups
from reconcilers.cli.flags import (
    duration_option,
    group_options,
    name_list_option,
    option,
    switch_option,
    with_options,
)
from reconcilers.cli.problems import EXIT_PROBLEM
from reconcilers.cli.sharedflags import log_level_option

F = TypeVar("F", bound=Callable[..., Any])
Decorator = Callable[[F], F]

_log = get_logger(__name__)

LEASE_NAME = names.LEASE_NAME
_FOLDER = click.Path(path_type=Path)


def _manager_duration_option(flag: str, name: str, **attributes: Any) -> Decorator[F]:
    """Return an option for a field of ManagerOptions that is a number of seconds.

    The option's default is the default of the field.

    Args:
        name: the name of the field.
    """
    return duration_option(flag, name, default=getattr(ManagerOptions(), name), **attributes)


def _bind_option(flag: str, name: str, default: str, endpoint: str) -> Decorator[F]:
    """Return an option for the address at which an endpoint is served."""
    sentence = f"Serve {endpoint} at this address; 0 turns it off."
    return option(flag, name, default=default, metavar="HOST:PORT", help=sentence)


def _certificate_option(flag: str, endpoint: str) -> Decorator[F]:
    """Return an option for the folder with the TLS certificate and key of an endpoint."""
    sentence = (
        f"Read tls.crt and tls.key for {endpoint} from this folder; without it, the controller"
        " makes a certificate that clients do not trust."
    )
    return option(flag, type=_FOLDER, metavar="FOLDER", help=sentence)


def manager_options(function: F) -> F:
    """Give a command the options that `build_manager_options` reads.

    An option for a field of ManagerOptions or SelfSigned has the name of that field, because
    `build_manager_options` copies values by name.
    """
    return with_options(
        function, _election_options, _metrics_options, _page_options, _grace, _webhook_options
    )


_election_options: Decorator[Any] = group_options(
    groups.LEADER_ELECTION,
    switch_option(
        "--leader-elect",
        default=False,
        help="Reconcile only while holding a Lease (butler-ipam in --namespace), so that several"
        " replicas can run.",
    ),
    _manager_duration_option(
        *("--leader-elect-lease-duration", "lease_duration"),
        help="Let another replica take over a lease that was not renewed for this time.",
    ),
    _manager_duration_option(
        *("--leader-elect-renew-deadline", "renew_deadline"),
        help="Stop reconciling if the lease could not be renewed for this time.",
    ),
    _manager_duration_option(
        *("--leader-elect-retry-period", "retry_period"),
        help="Try this often to acquire or renew the lease.",
    ),
    option(
        "--shards",
        type=click.IntRange(0, 256),
        default=0,
        metavar="NUMBER",
        help="Divide the work among all replicas by this many leases, which needs --leader-elect;"
        " 0 lets one replica do all of it.",
    ),
)

_metrics_options: Decorator[Any] = group_options(
    groups.METRICS,
    _bind_option("--metrics-bind-address", "metrics_bind", default=":8080", endpoint="/metrics"),
    switch_option(
        "--metrics-secure",
        default=False,
        help="Serve /metrics over HTTPS, and only to clients that RBAC allows to get /metrics.",
    ),
    _certificate_option("--metrics-cert-dir", "/metrics"),
    option(
        *("--diagnostics-address", "diagnostics"),
        metavar="HOST:PORT",
        help="Serve /metrics over HTTPS at this address instead of --metrics-bind-address;"
        " Cluster API's operator sets this flag.",
    ),
    switch_option(
        *("--insecure-diagnostics", "insecure"),
        default=False,
        help="Serve /metrics at --diagnostics-address over plain HTTP, without authentication.",
    ),
    _bind_option(
        "--health-probe-bind-address",
        "health_bind",
        default=":8081",
        endpoint="/healthz and /readyz",
    ),
)

_page_options: Decorator[Any] = group_options(
    groups.PAGE,
    _bind_option(
        "--ui-bind-address",
        "ui_bind",
        default="0",
        endpoint="the map of addresses as a page, over HTTPS,",
    ),
    _certificate_option("--ui-cert-dir", "the page"),
)

_grace: Decorator[Any] = group_options(
    groups.PROCESS,
    _manager_duration_option(
        *("--graceful-shutdown-timeout", "grace_seconds"),
        help="Let running work take this long to end after a signal.",
    ),
)

_webhook_options: Decorator[Any] = group_options(
    groups.WEBHOOKS,
    option(
        "--webhook-port",
        type=click.IntRange(0, 65535),
        default=0,
        metavar="PORT",
        help="Serve admission webhooks at this port; 0 serves none.",
    ),
    option(
        "--webhook-cert-dir",
        type=_FOLDER,
        metavar="FOLDER",
        help="Read tls.crt and tls.key for webhooks from this folder; without it, the controller"
        " makes a certificate and lets the API server trust it.",
    ),
    option(
        *("--webhook-service-name", "service"),
        default="butler-ipam-webhook",
        metavar="NAME",
        help="Make the certificate of webhooks for this Service, by which the API server reaches"
        " them.",
    ),
    option(
        "--webhook-service-namespace",
        metavar="NAMESPACE",
        help="Use this namespace for the Service and the Secret of webhooks; without it, they are"
        " in that of --namespace.",
    ),
    option(
        *("--webhook-secret-name", "secret"),
        default="butler-ipam-webhook-certificates",
        metavar="NAME",
        help="Keep the certificate that the controller makes in this Secret, which all replicas"
        " share.",
    ),
    name_list_option(
        *("--webhook-configuration", "validating"),
        default=["butler-ipam"],
        metavar="NAME,...",
        help="Write the authority of the certificate that the controller makes into these"
        " ValidatingWebhookConfigurations, separated by commas.",
    ),
    name_list_option(
        *("--webhook-cert-name", "names"),
        metavar="NAME,...",
        help="Make the certificate of webhooks for these names or addresses, too, separated by"
        " commas: for webhooks that are called by URL.",
    ),
)


def log_options(function: F) -> F:
    """Give a command the options that `configure_logs` reads."""
    return with_options(
        function,
        group_options(
            groups.LOGS,
            log_level_option(default="info"),
            option(
                "--log-format",
                type=click.Choice(["auto", "json", "console"]),
                default="auto",
                help="Write logs in this format; auto means console on a terminal, else json.",
            ),
        ),
    )


def build_manager_options(values: Mapping[str, Any], namespace: str) -> ManagerOptions:
    """Return the values of `manager_options` as the options of a manager.

    Args:
        values: the values of the options, by name.
        namespace: the namespace of the lease, and of the webhooks' Service and Secret if
            --webhook-service-namespace is absent.
    """
    # --diagnostics-address replaces both --metrics-bind-address and --metrics-secure.
    if values["diagnostics"]:
        secure = not values["insecure"]
        values = {**values, "metrics_bind": values["diagnostics"], "metrics_secure": secure}
    port = values["webhook_port"]
    webhook_namespace = values["webhook_service_namespace"] or namespace
    return ManagerOptions(
        lease_namespace=namespace,
        lease_name=LEASE_NAME,
        webhook_bind=f":{port}" if port else "",  # empty turns webhooks off
        webhook_self_signed=SelfSigned(
            **_select_fields(SelfSigned, values) | {"namespace": webhook_namespace}
        ),
        **_select_fields(ManagerOptions, values),
    )


def _select_fields(model: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that have the name of a field of a dataclass.

    A folder becomes a text, which is empty if the option is absent.
    """
    values_of_fields = {
        field.name: values[field.name] for field in fields(model) if field.name in values
    }
    return {
        name: str(value or "") if name.endswith("_dir") else value
        for name, value in values_of_fields.items()
    }


def configure_logs(values: Mapping[str, Any]) -> logs.Format:
    """Send the logs to standard error, by the values of `log_options`; return their format."""
    automatic_format: logs.Format = "console" if sys.stderr.isatty() else "json"
    requested_format = values["log_format"]
    log_format: logs.Format = automatic_format if requested_format == "auto" else requested_format
    logs.configure_logs(log_format, values["log_level"])
    return log_format


@contextmanager
def log_last_error(output: logs.Format) -> Iterator[None]:
    """Log the error that ends the context, if logs are JSON; else the command line prints it.

    Log collectors drop lines that are not JSON, and the last line says why a pod restarts.

    Raises:
        Exit: the error was logged. This exception has the exit code of the error.
    """
    try:
        yield
    except (click.exceptions.Exit, click.Abort):
        # Exit and Abort end a command on purpose: they are not errors.
        raise
    except Exception as error:
        if output != "json":
            raise
        if isinstance(error, click.ClickException):
            _log.error("The process ends", error=error.format_message())
            raise click.exceptions.Exit(error.exit_code) from error
        _log.exception("The process ends")
        raise click.exceptions.Exit(EXIT_PROBLEM) from error
