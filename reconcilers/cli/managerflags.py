"""Options about the process and not about addresses: cluster, lease, ports, logs.

Names and defaults are controller-runtime's where it has them.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from controller import logs
from controller.options import ManagerOptions, SelfSigned
from reconcilers.cli.flags import duration, option, switch, with_options

F = TypeVar("F", bound=Callable[..., Any])
Decorator = Callable[[F], F]

LEASE_NAME = "butler-ipam"


def _duration(flag: str, default: str, sentence: str) -> Decorator[F]:
    return option(flag, type=duration, default=default, metavar="DURATION", help=sentence)


def _bind(flag: str, default: str, what: str) -> Decorator[F]:
    sentence = f"Where {what} served; 0 for nowhere."
    return option(flag, default=default, metavar="HOST:PORT", help=sentence)


def cluster_options(function: F) -> F:
    """Give a command --kubeconfig and --context."""
    return with_options(
        function,
        option(
            "--kubeconfig",
            type=click.Path(path_type=Path),
            help="Kubeconfig file; if absent, as kubectl finds it, or the pod's service account.",
        ),
        option("--context", help="Context in the kubeconfig; if absent, its current one."),
    )


def manager_options(function: F) -> F:
    """Give a command the options that `manager_settings` reads."""
    return with_options(
        function,
        switch("--leader-elect", default=False, help="Work only while holding the lease."),
        _duration(
            "--leader-elect-lease-duration",
            "15s",
            "How long others leave a lease alone that is not renewed.",
        ),
        _duration(
            "--leader-elect-renew-deadline", "10s", "How long to go on if it cannot be renewed."
        ),
        _duration("--leader-elect-retry-period", "2s", "Between attempts to take or renew it."),
        _bind("--metrics-bind-address", ":8080", "/metrics is"),
        switch(
            "--metrics-secure",
            default=False,
            help="Serve /metrics over HTTPS, to those whom the API server lets get it.",
        ),
        option(
            "--metrics-cert-dir",
            type=click.Path(path_type=Path),
            help="Folder with tls.crt and tls.key for that; if absent, one is made up.",
        ),
        _bind("--health-probe-bind-address", ":8081", "/healthz and /readyz are"),
        _duration("--graceful-shutdown-timeout", "30s", "How long running work may take to end."),
    )


def webhook_options(function: F) -> F:
    """Give a command the options that `webhook_settings` reads."""
    return with_options(
        function,
        option(
            "--webhook-port",
            type=click.IntRange(0, 65535),
            default=0,
            help="Where admission webhooks are served; 0 for nowhere.",
        ),
        option(
            "--webhook-cert-dir",
            type=click.Path(path_type=Path),
            help="Folder with tls.crt and tls.key for them; if absent, the controller makes a"
            " certificate and tells the API server to trust it.",
        ),
        option(
            "--webhook-service-name",
            default="butler-ipam-webhook",
            help="Service by which the API server reaches them.",
        ),
        option(
            "--webhook-service-namespace",
            help="Its namespace, and the Secret's; if absent, that of --namespace.",
        ),
        option(
            "--webhook-secret-name",
            default="butler-ipam-webhook-certificates",
            help="Secret in which replicas share a certificate of their own making.",
        ),
        option(
            "--webhook-configuration",
            "webhook_configurations",
            multiple=True,
            default=["butler-ipam"],
            help="ValidatingWebhookConfiguration that is told whom to trust; may be repeated.",
        ),
        option(
            "--webhook-cert-name",
            "webhook_cert_names",
            multiple=True,
            metavar="NAME",
            help="Further name or address in that certificate, where webhooks are called by URL;"
            " may be repeated.",
        ),
    )


def log_options(function: F) -> F:
    """Give a command the options that `configure_logs` reads."""
    return with_options(
        function,
        option(
            "--log-level",
            "--zap-log-level",
            "log_level",
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
    """Return what `manager_options` gave as the manager takes it; the lease is in `namespace`."""
    return ManagerOptions(
        leader_elect=values["leader_elect"],
        lease_namespace=namespace,
        lease_name=LEASE_NAME,
        lease_duration=values["leader_elect_lease_duration"],
        renew_deadline=values["leader_elect_renew_deadline"],
        retry_period=values["leader_elect_retry_period"],
        metrics_bind=values["metrics_bind_address"],
        metrics_secure=values["metrics_secure"],
        metrics_cert_dir=_folder(values["metrics_cert_dir"]),
        health_bind=values["health_probe_bind_address"],
        grace_seconds=values["graceful_shutdown_timeout"],
    )


def webhook_settings(
    options: ManagerOptions, values: Mapping[str, Any], namespace: str
) -> ManagerOptions:
    """Return `options` with what `webhook_options` gave; the Service is in `namespace`."""
    port = values["webhook_port"]
    self_signed = SelfSigned(
        namespace=values["webhook_service_namespace"] or namespace,
        service=values["webhook_service_name"],
        secret=values["webhook_secret_name"],
        validating=tuple(values["webhook_configurations"]),
        names=tuple(values["webhook_cert_names"]),
    )
    return replace(
        options,
        webhook_bind=f":{port}" if port else "",
        webhook_cert_dir=_folder(values["webhook_cert_dir"]),
        webhook_self_signed=self_signed,
    )


def _folder(path: Path | None) -> str:
    return "" if path is None else str(path)


def configure_logs(values: Mapping[str, Any]) -> None:
    """Send the logs to stderr as the options say."""
    form: logs.Format = "console" if sys.stderr.isatty() else "json"
    if values["log_format"] != "auto":
        form = values["log_format"]
    logs.configure(form, values["log_level"])
