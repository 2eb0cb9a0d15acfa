"""`butler-ipam run`: its flags, clusters that fail, signals, leases and webhooks."""

import itertools
import json
import signal
import socket
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from click.testing import CliRunner

from controller.errors import ApiError, ServerFailure
from controller.leases import LEASES, Lease
from controller.meta import Key
from controller.shards import build_lease_name
from controller.webhooks.kinds import VALIDATING
from envtest import ControlPlane
from reconcilers.api.crd import build_crds
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.cli.local.objects import make_namespaces
from reconcilers.cli.local.servers import ApiServer, run_api_server
from reconcilers.cli.managerflags import LEASE_NAME
from reconcilers.cli.run import run
from reconcilers.cli.settingflags import build_settings, list_settings
from reconcilers.configuration.settings import Settings
from reconcilers.webhooks.admission import build_path
from tests.edits import edit
from tests.polling import SECONDS
from tests.reconcilers.cli import commandline
from tests.reconcilers.cli.commands import (
    RunningCommand,
    find_installed_command,
    run_to_end,
    start,
)

PORTS_OFF = ("--metrics-bind-address=0", "--health-probe-bind-address=0")
LEASE = Key("butler-system", LEASE_NAME)
FAST_LEADER_ELECTION = (
    "--leader-elect",
    "--leader-elect-lease-duration=1.5s",
    "--leader-elect-renew-deadline=1s",
    "--leader-elect-retry-period=100ms",
)


@pytest.mark.parametrize(
    ("flag", "form"),
    [
        ("--namespace=BAD NS", "namespace: 'BAD NS' is not the name of an object: write NAME,"),
        ("--namespace=", "namespace: '' is not"),
        ("--metallb-namespace=a/b", "metallb namespace: 'a/b' is not"),
        ("--platform-service=traefik", "write NAMESPACE/NAME, or empty,"),
        ("--platform-service=a/b/c", "write NAMESPACE/NAME, or empty,"),
        ("--metallb-bundle=a/b/c", "write NAME or NAMESPACE/NAME, or empty,"),
        ("--metallb-bundle=../x", "write NAME or NAMESPACE/NAME, or empty,"),
    ],
)
def test_an_invalid_object_name_in_a_flag_ends_the_program_with_one_error(
    flag: str, form: str, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "k"
    console = "--log-format=console"
    outcome = commandline.run("run", *PORTS_OFF, f"--kubeconfig={kubeconfig}", console, flag)
    assert outcome.code == 1
    [error] = outcome.errors
    assert form in error


def write_kubeconfig(server: ApiServer, folder: Path) -> str:
    """Write the kubeconfig of a server to a folder; return the flag that names the file."""
    path = folder / "kubeconfig"
    path.write_text(server.kubeconfig)
    return f"--kubeconfig={path}"


def test_every_setting_is_a_flag_and_a_variable() -> None:
    output = CliRunner().invoke(run, ["--help"]).output
    for setting in list_settings(Settings()):
        assert f"{setting.flag} " in output
        assert setting.help, f"{setting.flag} has no sentence"
        [option] = [param for param in run.params if param.name == setting.parameter]
        assert option.envvar == "BUTLER_IPAM_" + setting.parameter.upper()


def test_flags_that_are_not_given_mean_the_defaults() -> None:
    values = {setting.parameter: setting.default for setting in list_settings(Settings())}
    assert build_settings(values) == Settings()


def test_a_flag_changes_its_setting_and_no_other() -> None:
    values: dict[str, Any] = {
        setting.parameter: setting.default for setting in list_settings(Settings())
    }
    read_settings = build_settings(values | {"teardown_grace": 5.0, "pool_batch": 7})
    assert (read_settings.tenant.teardown_grace, read_settings.pool.batch) == (5.0, 7)
    assert read_settings.allocation == Settings().allocation


async def test_a_missing_kubeconfig_is_reported_without_a_traceback() -> None:
    done = await run_to_end("run", "--kubeconfig=/nowhere", "--log-format=console")
    assert done.returncode == 1
    output = done.stderr.decode()
    assert output.startswith("error: ")
    assert "/nowhere, and there is no such file" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("argument", "complaint"),
    [
        ("--pool-resync=soon", "'soon' is not a duration: write 500ms, 10s, 5m or 1h30m"),
        ("--concurrency=0", "--concurrency"),
        ("--no-such-flag", "--no-such-flag"),
        ("--log-level=loud", "'loud'"),
        ("--orphans-percent=101", "101 is not in the range 0<=x<=100"),
        ("--orphans-percent=-1", "-1 is not in the range 0<=x<=100"),
    ],
)
def test_a_wrong_flag_is_reported_with_exit_code_2(argument: str, complaint: str) -> None:
    done = commandline.run("run", argument)
    assert done.code == 2
    assert done.err.startswith("error: ")
    assert complaint in done.err


def test_the_error_about_a_wrong_environment_variable_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BUTLER_IPAM_TEARDOWN_GRACE", "never")
    done = commandline.run("run")
    assert done.code == 2
    assert "BUTLER_IPAM_TEARDOWN_GRACE" in done.err


@pytest.mark.parametrize("share", [0, 100])
async def test_the_percentage_of_orphans_may_be_0_or_100(share: int) -> None:
    done = await run_to_end("run", "--kubeconfig=/nowhere", f"--orphans-percent={share}")
    assert "there is no such file" in done.stderr.decode(), "flags are parsed before the file"


async def test_a_file_that_is_no_kubeconfig_is_reported_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "readme"
    path.write_text("just: text")
    done = await run_to_end("run", f"--kubeconfig={path}")
    assert done.returncode == 1
    assert done.stderr.decode().count("\n") == 1
    assert "is it a kubeconfig?" in done.stderr.decode()


@pytest.mark.parametrize(
    ("flags", "code", "sentence"),
    [
        (["--kubeconfig=/nowhere"], 1, "/nowhere, and there is no such file"),
        (["--namespace=BAD NS"], 1, "namespace: 'BAD NS' is not"),
        (["--metrics-bind-address=here"], 1, "'here' cannot be parsed"),
    ],
)
async def test_the_final_error_is_json_if_the_log_is_json(
    flags: list[str], code: int, sentence: str
) -> None:
    done = await run_to_end("run", "--log-format=json", *flags)
    assert done.returncode == code
    [line] = done.stderr.decode().splitlines()
    assert '"level":"error"' in line
    document = json.loads(line)
    assert document["msg"] == "The process ends"
    assert sentence in document["error"]


def test_an_unexpected_exception_is_json_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_values: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("reconcilers.cli.run.build_settings", fail)
    done = commandline.run("run", "--log-format=json")
    assert done.code == 1
    [line] = done.err.splitlines()
    assert "RuntimeError: a bug" in json.loads(line)["exception"]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (
            ["--metrics-bind-address=:9000", "--health-probe-bind-address=:9000"],
            "--metrics-bind-address :9000 and --health-probe-bind-address :9000",
        ),
        (
            ["--health-probe-bind-address=127.0.0.1:9000", "--ui-bind-address=0.0.0.0:9000"],
            "--health-probe-bind-address 127.0.0.1:9000 and --ui-bind-address 0.0.0.0:9000",
        ),
        (
            ["--webhook-port=9443", "--ui-bind-address=[::1]:9443"],
            "--webhook-port :9443 and --ui-bind-address [::1]:9443",
        ),
    ],
)
def test_two_servers_on_one_address_are_rejected_at_the_start(
    flags: list[str], sentence: str
) -> None:
    done = commandline.run("run", "--kubeconfig=/nowhere", "--log-format=console", *flags)
    assert done.code == 1
    [error] = done.errors
    assert error.startswith(f"{sentence} are one address")


def test_servers_on_one_port_of_two_hosts_or_on_any_free_port_are_accepted() -> None:
    done = commandline.run(
        *("run", "--kubeconfig=/nowhere", "--log-format=console"),
        *("--metrics-bind-address=:0", "--health-probe-bind-address=:0"),
        *("--ui-bind-address=127.0.0.1:9000", "--webhook-port=0"),
    )
    assert "there is no such file" in done.err


async def test_a_port_in_use_ends_the_program_without_a_traceback(tmp_path: Path) -> None:
    async with run_api_server("management", build_crds()) as server:
        address = server.url.removeprefix("https://")
        done = await run_to_end(
            "run", write_kubeconfig(server, tmp_path), f"--metrics-bind-address={address}"
        )
    assert done.returncode == 1
    assert f"cannot listen on {address}" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


async def test_sigterm_ends_the_controller_in_order(tmp_path: Path) -> None:
    async with run_api_server("management", build_crds()) as server:
        await make_namespaces(server.transport, ["butler-system"])
        async with start(
            "run", write_kubeconfig(server, tmp_path), *PORTS_OFF, *FAST_LEADER_ELECTION
        ) as running:
            for name in ("networkpool", "ipallocation", "tenantcluster", "providerconfig"):
                await running.wait_for_output(_describe_worker_start(name))
            assert await running.stop(signal.SIGTERM) == 0
        assert await _read_lease_holder(server) == ""
        assert "Traceback" not in running.stderr


async def test_a_lost_lease_ends_the_program_with_exit_code_1(tmp_path: Path) -> None:
    async with run_api_server("management", build_crds()) as server:
        await make_namespaces(server.transport, ["butler-system"])
        async with start(
            "run", write_kubeconfig(server, tmp_path), *PORTS_OFF, *FAST_LEADER_ELECTION
        ) as running:
            await running.wait_for_output("Starting workers")
            await _take_lease_away(server)
            with anyio.fail_after(SECONDS):
                assert await running.process.wait() == 1
        assert "leader election lost" in running.stderr
        assert "Traceback" not in running.stderr


async def test_shards_without_leader_election_are_rejected(tmp_path: Path) -> None:
    async with run_api_server("management", build_crds()) as server:
        done = await run_to_end(
            *("run", write_kubeconfig(server, tmp_path), *PORTS_OFF),
            *("--shards=4", "--log-format=console"),
        )
    assert done.returncode == 1
    assert done.stderr.decode().splitlines()[-1].endswith("they need leader election")
    assert "Traceback" not in done.stderr.decode()


@pytest.mark.slow
async def test_two_processes_share_the_shards_until_one_ends(tmp_path: Path) -> None:
    async with run_api_server("management", build_crds()) as server:
        await make_namespaces(server.transport, ["butler-system"])
        arguments = (
            "run",
            write_kubeconfig(server, tmp_path),
            *PORTS_OFF,
            *FAST_LEADER_ELECTION,
            "--shards=4",
        )
        async with start(*arguments) as first, start(*arguments):
            assert len(await _wait_for_shard_holders(server, 2)) == 2
            assert await first.stop(signal.SIGTERM) == 0
            assert len(await _wait_for_shard_holders(server, 1)) == 1


async def _wait_for_shard_holders(server: ApiServer, count: int) -> set[str]:
    """Wait until `count` processes hold all four shards; return the holders."""
    names = [Key(LEASE.namespace, build_lease_name(LEASE.name, 4, shard)) for shard in range(4)]
    with anyio.fail_after(SECONDS):
        while True:
            page = await server.client.list(LEASES, namespace=LEASE.namespace)
            holder_by_lease = {
                lease.metadata.key: lease.spec.holderIdentity or "" for lease in page.items
            }
            holders = {holder_by_lease.get(name, "") for name in names}
            if len(holders) == count and "" not in holders:
                return holders
            await anyio.sleep(0.05)


async def _read_lease_holder(server: ApiServer) -> str:
    """Return the holder of the leader's Lease; empty if it is free."""
    lease = await server.client.get(LEASES, LEASE)
    return lease.spec.holderIdentity or ""


async def _take_lease_away(server: ApiServer) -> Lease:
    """Write another holder into the Lease, which the leader renews meanwhile."""
    change = {"spec": {"holderIdentity": "another-replica"}}
    return await edit(server.client, LEASES, key=LEASE, change=change)


async def test_readyz_reports_a_missing_crd_and_the_other_controllers_run(
    tmp_path: Path,
) -> None:
    clusters = [crd for crd in build_crds() if crd["spec"]["names"]["kind"] == "TenantCluster"]
    others = [crd for crd in build_crds() if crd not in clusters]
    probes = f"127.0.0.1:{_find_free_port()}"
    async with ControlPlane.start(force_embedded=True) as plane:
        await plane.install_crds(others)
        path = plane.write_kubeconfig(tmp_path / "kubeconfig")
        async with start(
            "run",
            f"--kubeconfig={path}",
            "--metrics-bind-address=0",
            f"--health-probe-bind-address={probes}",
        ) as running:
            await running.wait_for_output(_describe_worker_start("networkpool"))
            await running.wait_for_output("list tenantclusters.butler.butlerlabs.dev: not served")
            status, output = await _read_readyz(probes)
            assert status == 503
            assert "[-]informer/tenantclusters.butler.butlerlabs.dev failed" in output
            await plane.install_crds(clusters)
            await running.wait_for_output(_describe_worker_start("tenantcluster"))
            assert (await _read_readyz(probes))[0] == 200
            assert await running.stop() == 0


def _describe_worker_start(controller: str) -> str:
    """Return the part of the log line that reports the start of a controller's workers."""
    return f'"Starting workers","controller":"{controller}"'


def _find_free_port() -> int:
    """Return a port of this machine that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _read_readyz(address: str) -> tuple[int, str]:
    """Return status code and text of /readyz at HOST:PORT."""
    async with httpx.AsyncClient() as probe:
        answer = await probe.get(f"http://{address}/readyz", params={"verbose": ""})
        return answer.status_code, answer.text


async def test_lists_are_retried_while_the_api_server_does_not_answer(tmp_path: Path) -> None:
    async with run_api_server("management", build_crds()) as server:
        argument = write_kubeconfig(server, tmp_path)
    async with start("run", argument, *PORTS_OFF) as running:
        await running.wait_for_output("list/watch failed, retrying.*networkpools")
        assert await running.stop(signal.SIGTERM) == 0
    assert "Traceback" not in running.stderr


async def test_webhooks_serve_with_a_certificate_that_their_configuration_trusts(
    tmp_path: Path,
) -> None:
    port, probes = _find_free_port(), f"127.0.0.1:{_find_free_port()}"
    async with run_api_server("management", build_crds()) as server:
        await make_namespaces(server.transport, ["butler-system"])
        await server.client.create(VALIDATING, "", _make_webhook_configuration(port))
        async with start(
            "run",
            write_kubeconfig(server, tmp_path),
            "--leader-elect",
            "--metrics-bind-address=0",
            f"--health-probe-bind-address={probes}",
            f"--webhook-port={port}",
            "--webhook-configuration=rules",
            "--webhook-cert-name=127.0.0.1",
            program=find_installed_command,
        ) as running:
            await running.wait_for_output("Wrote the CA bundle")
            status, output = await _read_readyz(probes)
            assert "[+]webhook-certificate ok" in output, status
            refusal = await _wait_for_refusal(server, running)
            assert 'webhook "pools.example.com" denied' in refusal.message
            assert [cause.field for cause in refusal.causes] == ["spec.cidr"]
            assert await running.stop() == 0
        assert "Traceback" not in running.stderr


def _make_webhook_configuration(port: int) -> dict[str, Any]:
    """Return a webhook configuration that has new NetworkPools validated at a local port."""
    url = f"https://127.0.0.1:{port}{build_path(NETWORK_POOL)}"
    rule = {
        "apiGroups": [NETWORK_POOL.group],
        "apiVersions": [NETWORK_POOL.version],
        "resources": [NETWORK_POOL.plural],
        "operations": ["CREATE"],
    }
    hook = {
        "name": "pools.example.com",
        "clientConfig": {"url": url},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": "rules"}, "webhooks": [hook]}


async def _wait_for_refusal(server: ApiServer, running: RunningCommand) -> ApiError:
    """Create pools that are too large until the API server calls the webhook; return its refusal.

    Raises:
        AssertionError: the program that serves the webhook has ended.
    """
    for number in itertools.count():
        assert running.process.returncode is None, running.stderr
        body = {"metadata": {"name": f"large-{number}"}, "spec": {"cidr": "10.0.0.0/8"}}
        try:
            await server.client.create(NETWORK_POOL, "butler-system", body)
        except ServerFailure:
            continue
        except ApiError as error:
            return error
    raise AssertionError("unreachable: counting has no end")
