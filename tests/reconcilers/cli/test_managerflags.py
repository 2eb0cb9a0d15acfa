"""Flags about the process: flag and variable change the setting, and the defaults."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from controller.options import ManagerOptions, SelfSigned
from reconcilers.cli.flags import name_variable
from reconcilers.cli.managerflags import (
    build_manager_options,
    log_options,
    manager_options,
)
from reconcilers.cli.run import run
from reconcilers.cli.settingflags import list_settings, setting_options
from reconcilers.cli.sharedflags import cluster_options
from reconcilers.configuration.settings import Settings

# Flag, a value, and the setting that it becomes: in ManagerOptions, or in its SelfSigned.
FLAGS: list[tuple[str, str, str, Any]] = [
    ("--leader-elect", "true", "leader_elect", True),
    ("--leader-elect-lease-duration", "1m", "lease_duration", 60.0),
    ("--leader-elect-renew-deadline", "40s", "renew_deadline", 40.0),
    ("--leader-elect-retry-period", "500ms", "retry_period", 0.5),
    ("--shards", "4", "shards", 4),
    ("--metrics-bind-address", ":9", "metrics_bind", ":9"),
    ("--metrics-secure", "true", "metrics_secure", True),
    ("--metrics-cert-dir", "/certs", "metrics_cert_dir", "/certs"),
    ("--health-probe-bind-address", "0", "health_bind", "0"),
    ("--graceful-shutdown-timeout", "5s", "grace_seconds", 5.0),
    ("--webhook-port", "9443", "webhook_bind", ":9443"),
    ("--webhook-cert-dir", "/certs", "webhook_cert_dir", "/certs"),
    ("--webhook-service-name", "hook", "webhook_self_signed.service", "hook"),
    ("--webhook-service-namespace", "there", "webhook_self_signed.namespace", "there"),
    ("--webhook-secret-name", "pair", "webhook_self_signed.secret", "pair"),
    ("--webhook-configuration", "rules", "webhook_self_signed.validating", ("rules",)),
    ("--webhook-cert-name", "127.0.0.1", "webhook_self_signed.names", ("127.0.0.1",)),
]
# Flags that do not become ManagerOptions: tests of their effects are elsewhere.
FLAGS_TESTED_ELSEWHERE = {"--kubeconfig", "--context", "--log-level", "--log-format"} | {
    *("--ui-bind-address", "--ui-cert-dir"),
    *("--diagnostics-address", "--insecure-diagnostics"),
}


def parse_options(*arguments: str, **variables: str) -> ManagerOptions:
    """Parse a command line by all flags of `run`; return the ManagerOptions.

    The flags of the settings are among them: click fails if two flags have one parameter name.

    Args:
        arguments: the command line.
        variables: variables of the environment.
    """
    parsed: list[ManagerOptions] = []

    @click.command()
    @cluster_options
    @manager_options
    @log_options
    @setting_options
    def command(**values: Any) -> None:
        parsed.append(build_manager_options(values, "home"))

    result = CliRunner().invoke(command, arguments, env=variables, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return parsed[0]


def read_setting(options: ManagerOptions, path: str) -> Any:
    """Return the value of a field, or of a field of a field: `field.inner`."""
    value: Any = options
    for name in path.split("."):
        value = getattr(value, name)
    return value


@pytest.mark.parametrize(("flag", "value", "path", "expected"), FLAGS)
def test_a_flag_and_its_variable_reach_the_setting(
    flag: str, value: str, path: str, expected: Any
) -> None:
    assert read_setting(parse_options(), path) != expected
    assert read_setting(parse_options(f"{flag}={value}"), path) == expected
    variables: Mapping[str, str] = {name_variable(flag): value}
    assert read_setting(parse_options(**variables), path) == expected


def test_every_flag_of_run_is_a_setting_or_has_a_test_here_or_elsewhere() -> None:
    flags = {max(parameter.opts, key=len) for parameter in run.params if parameter.opts}
    flags = {"--log-level" if flag == "--zap-log-level" else flag for flag in flags}
    flags_of_settings = {setting.flag for setting in list_settings(Settings())}
    assert flags - flags_of_settings == {flag for flag, *_ in FLAGS} | FLAGS_TESTED_ELSEWHERE


def test_the_defaults_are_those_of_controller_runtime() -> None:
    parsed_options = parse_options()
    assert (
        parsed_options.metrics_bind,
        parsed_options.health_bind,
        parsed_options.webhook_bind,
    ) == (":8080", ":8081", "")
    assert (
        parsed_options.lease_duration,
        parsed_options.renew_deadline,
        parsed_options.retry_period,
    ) == (15, 10, 2)
    assert (parsed_options.leader_elect, parsed_options.grace_seconds) == (False, 30)
    assert parsed_options.metrics_secure is False


def test_the_webhooks_service_is_where_the_controller_is() -> None:
    assert parse_options().webhook_self_signed == SelfSigned(
        namespace="home",
        service="butler-ipam-webhook",
        secret="butler-ipam-webhook-certificates",
        validating=("butler-ipam",),
    )


def test_several_webhook_configurations_can_be_named() -> None:
    webhook_self_signed = parse_options(
        "--webhook-configuration=a", "--webhook-configuration=b"
    ).webhook_self_signed
    assert webhook_self_signed is not None
    assert webhook_self_signed.validating == ("a", "b")


def test_folders_that_are_not_given_are_empty() -> None:
    parsed_options = parse_options()
    assert (parsed_options.webhook_cert_dir, parsed_options.metrics_cert_dir) == ("", "")
    assert parse_options("--metrics-cert-dir=x/").metrics_cert_dir == str(Path("x"))


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--diagnostics-address=:8443"], (":8443", True)),
        (["--diagnostics-address=:9", "--insecure-diagnostics"], (":9", False)),
        (["--diagnostics-address=:9", "--insecure-diagnostics=false"], (":9", True)),
        (["--insecure-diagnostics", "--metrics-secure"], (":8080", True)),
    ],
)
def test_the_metrics_flags_of_cluster_apis_operator_are_accepted(
    flags: list[str], expected: tuple[str, bool]
) -> None:
    parsed_options = parse_options(*flags)
    assert (parsed_options.metrics_bind, parsed_options.metrics_secure) == expected
