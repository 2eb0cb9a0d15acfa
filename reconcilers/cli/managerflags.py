"""Options about the process and not about addresses: lease, ports, logs.

Names and defaults are controller-runtime's where it has them.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click
import structlog

from controller import logs
from controller.options import ManagerOptions, SelfSigned
from reconcilers.api import names
from reconcilers.cli.flags import duration, name_list, option, rendered, switch, with_options
from reconcilers.cli.problems import EXIT_PROBLEM

F = TypeVar("F", bound=Callable[..., Any])
Decorator = Callable[[F], F]

_log = structlog.get_logger(__name__)

LEASE_NAME = names.LEASE_NAME
_FOLDER = click.Path(path_type=Path)


def _duration(flag: str, name: str, **attributes: Any) -> Decorator[F]:
    default = rendered(getattr(ManagerOptions(), name))
    return option(flag, name, type=duration, default=default, metavar="DURATION", **attributes)


def _bind(flag: str, name: str, default: str, what: str) -> Decorator[F]:
    sentence = f"Where {what} served; 0 for nowhere."
    return option(flag, name, default=default, metavar="HOST:PORT", help=sentence)


def _certificate(flag: str) -> Decorator[F]:
    sentence = "Folder with tls.crt and tls.key for that; if absent, one is made up."
    return option(flag, type=_FOLDER, help=sentence)


def manager_options(function: F) -> F:
    """Give a command the options that `manager_settings` reads.

    Those that are a field of ManagerOptions or SelfSigned are called as it is.
    """
    return with_options(
        function,
        switch("--leader-elect", default=False, help="Work only while holding the lease."),
        _duration(
            *("--leader-elect-lease-duration", "lease_duration"),
            help="How long others leave a lease alone that is not renewed.",
        ),
        _duration(
            *("--leader-elect-renew-deadline", "renew_deadline"),
            help="How long to go on if it cannot be renewed.",
        ),
        _duration(
            *("--leader-elect-retry-period", "retry_period"),
            help="Between attempts to take or renew it.",
        ),
        option(
            "--shards",
            type=click.IntRange(0, 256),
            default=0,
            help="Share pools by so many leases.",
        ),
        _bind("--metrics-bind-address", "metrics_bind", ":8080", "/metrics is"),
        switch(
            "--metrics-secure", default=False, help="Serve /metrics by HTTPS, to whom RBAC allows."
        ),
        _certificate("--metrics-cert-dir"),
        option(
            *("--diagnostics-address", "diagnostics"),
            metavar="HOST:PORT",
            help="Where /metrics is served by HTTPS, as Cluster API's operator says it.",
        ),
        switch(
            *("--insecure-diagnostics", "insecure"),
            default=False,
            help="Serve it there by plain HTTP, without authentication.",
        ),
        _bind("--health-probe-bind-address", "health_bind", ":8081", "/healthz and /readyz are"),
        _bind("--ui-bind-address", "ui_bind", "0", "the map of addresses is, by HTTPS,"),
        _certificate("--ui-cert-dir"),
        _duration(
            *("--graceful-shutdown-timeout", "grace_seconds"),
            help="How long running work may take to end.",
        ),
        option(
            "--webhook-port",
            type=click.IntRange(0, 65535),
            default=0,
            help="Where admission webhooks are served; 0 for nowhere.",
        ),
        option(
            "--webhook-cert-dir",
            type=_FOLDER,
            help="Folder with tls.crt and tls.key for them; if absent, the controller makes a"
            " certificate and tells the API server to trust it.",
        ),
        option(
            *("--webhook-service-name", "service"),
            default="butler-ipam-webhook",
            help="Service by which the API server reaches them.",
        ),
        option(
            "--webhook-service-namespace",
            help="Its namespace, and the Secret's; if absent, that of --namespace.",
        ),
        option(
            *("--webhook-secret-name", "secret"),
            default="butler-ipam-webhook-certificates",
            help="Secret in which replicas share a certificate of their own making.",
        ),
        name_list(
            *("--webhook-configuration", "validating"),
            default=["butler-ipam"],
            metavar="NAME,...",
            help="ValidatingWebhookConfigurations that are told whom to trust.",
        ),
        name_list(
            *("--webhook-cert-name", "names"),
            metavar="NAME,...",
            help="Further names or addresses in that certificate, for webhooks called by URL.",
        ),
    )


def log_options(function: F) -> F:
    """Give a command the options that `configure_logs` reads."""
    return with_options(
        function,
        option(
            *("--log-level", "--zap-log-level", "log_level"),
            type=click.Choice(["debug", "info", "warning", "error"]),
            default="info",
            help="The lowest level that is logged.",
        ),
        option(
            "--log-format",
            type=click.Choice(["auto", "json", "console"]),
            default="auto",
            help="auto: console on a terminal, else JSON.",
        ),
    )


def manager_settings(values: Mapping[str, Any], namespace: str) -> ManagerOptions:
    """Return what `manager_options` gave as the manager takes it.

    Args:
        values: of the options.
        namespace: of the lease, and of the webhooks' Service if it has no other.
    """
    if values["diagnostics"]:
        secure = not values["insecure"]
        values = {**values, "metrics_bind": values["diagnostics"], "metrics_secure": secure}
    port, within = values["webhook_port"], values["webhook_service_namespace"] or namespace
    return ManagerOptions(
        lease_namespace=namespace,
        lease_name=LEASE_NAME,
        webhook_bind=f":{port}" if port else "",
        webhook_self_signed=SelfSigned(**_fields(SelfSigned, values) | {"namespace": within}),
        **_fields(ManagerOptions, values),
    )


def _fields(model: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are fields of a dataclass; folders as text, empty for none."""
    found = {one.name: values[one.name] for one in fields(model) if one.name in values}
    return {
        name: str(value or "") if name.endswith("_dir") else value for name, value in found.items()
    }


def configure_logs(values: Mapping[str, Any]) -> logs.Format:
    """Send the logs to stderr as the options say; return in which format."""
    form: logs.Format = "console" if sys.stderr.isatty() else "json"
    asked = values["log_format"]
    chosen: logs.Format = form if asked == "auto" else asked
    logs.configure(chosen, values["log_level"])
    return chosen


@contextmanager
def last_error_logged(output: logs.Format) -> Iterator[None]:
    """Log in JSON what ends the process, if logs are JSON; the command line prints it otherwise.

    Log collectors drop lines that are no JSON, and the last line says why a pod restarts.
    """
    try:
        yield
    except (click.exceptions.Exit, click.Abort):
        raise
    except Exception as error:
        if output != "json":
            raise
        if isinstance(error, click.ClickException):
            _log.error("The process ends", error=error.format_message())
            raise click.exceptions.Exit(error.exit_code) from error
        _log.exception("The process ends")
        raise click.exceptions.Exit(EXIT_PROBLEM) from error
