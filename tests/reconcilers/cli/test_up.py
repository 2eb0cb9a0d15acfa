"""`butler-ipam up`, driven with the real kubectl."""

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from envtest.settings import read_settings
from manifests import get_folder
from tests.reconcilers.cli.commands import (
    Kubectl,
    RunningCommand,
    find_installed_command,
    make_command_line,
    run_to_end,
    start,
)

READY = "Ctrl-C ends it"
LAB = "tenantcluster/lab-cluster"
IN_TEAM = ("-n", "team-platform")
IN_BUTLER_SYSTEM = ("-n", "butler-system")


def make_kubectls(tmp_path: Path) -> tuple[str, Kubectl, Kubectl]:
    """Return the flag --kubeconfig for `up`, and kubectl for the platform and for the tenant."""
    path = tmp_path / "config"
    cache = tmp_path / "cache"
    tenant = tmp_path / "config-tenant"
    return f"--kubeconfig={path}", Kubectl(path, cache), Kubectl(tenant, cache)


@dataclass(frozen=True)
class SharedUp:
    """A running `up` that several tests share.

    Args:
        flag: the flag --kubeconfig with its file.
        kubectl: kubectl for the platform.
        tenant: kubectl for the tenant.
    """

    process: RunningCommand
    flag: str
    kubectl: Kubectl
    tenant: Kubectl


@contextmanager
def run_up(
    tmp_path: Path, *arguments: str, program: Callable[..., list[str]] = make_command_line
) -> Iterator[SharedUp]:
    """Run `up` in the event loop of a thread, because it outlives the event loops of the tests."""
    flag, kubectl, tenant = make_kubectls(tmp_path)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(start("up", *arguments, flag, program=program)) as up,
    ):
        portal.call(up.wait_for_output, READY)
        yield SharedUp(up, flag, kubectl=kubectl, tenant=tenant)
        assert portal.call(up.stop, signal.SIGINT) == 0


@pytest.fixture(scope="module")
def platform_with_samples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedUp]:
    """A running `up` with the samples; tests must revert their changes."""
    with run_up(tmp_path_factory.mktemp("sampled"), program=find_installed_command) as up:
        yield up


@pytest.fixture(scope="module")
def platform_without_samples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedUp]:
    """A running `up` without the samples; tests must delete what they create."""
    with run_up(tmp_path_factory.mktemp("empty"), "--no-samples") as up:
        yield up


async def read_ranges(kubectl: Kubectl) -> dict[str, str]:
    """Return the CIDR of each allocation by name; "" if it has none."""
    listed = json.loads(await kubectl.read_output("get", "ipa", "-A", "-o", "json"))
    return {
        item["metadata"]["name"]: item.get("status", {}).get("cidr", "")
        for item in listed["items"]
    }


async def test_kubectl_shows_the_samples_as_served_by_the_controllers(
    platform_with_samples: SharedUp,
) -> None:
    kubectl = platform_with_samples.kubectl
    assert (
        f"export KUBECONFIG={platform_with_samples.flag.partition('=')[2]}"
        in platform_with_samples.process.stdout
    )
    await kubectl.wait("--for=jsonpath={.status.phase}=Ready", LAB, *IN_TEAM)
    pools = await kubectl.read_output("get", "np", "-A")
    allocations = await kubectl.read_output("get", "ipa", "-A")
    clusters = await kubectl.read_output("get", "tc", "-A")
    projected = await platform_with_samples.tenant.read_output("get", "ipaddresspools", "-A")
    checked = await run_to_end("check", platform_with_samples.flag, program=find_installed_command)
    heading = " ".join(pools.splitlines()[0].split())
    assert heading == "NAMESPACE NAME CIDR AVAILABLE ALLOCATED TOTAL USED % READY AGE"
    assert ["lab-pool", "10.40.0.0/22", "754", "13", "767", "1", "True"] in [
        line.split()[1:8] for line in pools.splitlines()
    ]
    assert "Allocated" in allocations
    assert "Ready" in clusters
    assert '["10.40.1.0-10.40.1.7"]' in projected
    assert platform_with_samples.process.stderr == "", "no sample causes a warning"
    assert checked.returncode == 0
    assert b"nothing" in checked.stdout, "check has no findings"


async def test_kubectl_apply_of_the_samples_causes_no_warning(
    platform_with_samples: SharedUp,
) -> None:
    applied = await platform_with_samples.kubectl.run("apply", "-f", str(get_folder("samples")))
    assert b"Warning" not in applied.stderr


async def test_kubectl_shows_rejections_and_warnings_of_the_webhooks(
    platform_with_samples: SharedUp,
) -> None:
    kubectl = platform_with_samples.kubectl
    await kubectl.wait("--for=jsonpath={.status.phase}=Ready", LAB, *IN_TEAM)
    described = await kubectl.read_output("describe", "np/lab-pool", *IN_BUTLER_SYSTEM)
    deleted = await kubectl.run("delete", "np/lab-pool", *IN_BUTLER_SYSTEM, check=False)
    reserved = await kubectl.run(
        "patch",
        "np/lab-pool",
        *IN_BUTLER_SYSTEM,
        "--type=merge",
        '-p={"spec":{"reserved":[{"cidr":"10.40.1.0/24"}]}}',
        check=False,
    )
    edited = await kubectl.run(
        "patch",
        "ipa/team-platform-lab-cluster-lb",
        *IN_BUTLER_SYSTEM,
        "--type=merge",
        '-p={"spec":{"count":9}}',
        check=False,
    )
    odd = await kubectl.run("apply", "-f", "-", stdin=json.dumps(_make_pool("10.99.0.7/24")))
    await kubectl.run("delete", "np/mine", *IN_BUTLER_SYSTEM)
    assert "IPsAllocated" in described
    assert "is still in phase Allocated" in deleted.stderr.decode()
    assert 'cannot reserve "10.40.1.0/24": IPAllocation' in reserved.stderr.decode()
    assert "spec cannot be changed" in edited.stderr.decode()
    assert [response.returncode for response in (deleted, reserved, edited)] == [1, 1, 1]
    assert "Warning: spec.cidr: '10.99.0.7/24' has host bits set" in odd.stderr.decode()


async def test_an_up_with_the_data_of_a_killed_one_serves_webhooks_again(tmp_path: Path) -> None:
    flag, kubectl, _ = make_kubectls(tmp_path)
    arguments = ("up", "--no-samples", flag, f"--data={tmp_path / 'data'}")
    async with start(*arguments) as up:
        await up.wait_for_output(READY)
        up.process.kill()
        await up.process.wait()
    async with start(*arguments) as up:
        await up.wait_for_output(READY)
        await kubectl.apply(_make_pool("10.99.0.0/24"))
        wrong = _make_pool("10.99.0.0/24", [{"cidr": "10.99.0.0/26"}], ("10.99.0.0", "10.99.0.31"))
        rejection = await kubectl.run("apply", "-f", "-", stdin=json.dumps(wrong), check=False)
        assert await up.stop(signal.SIGINT) == 0
    assert "straddles" in rejection.stderr.decode(), "the webhook rejects it"


@pytest.mark.long
async def test_a_deleted_cluster_gives_its_addresses_back(tmp_path: Path) -> None:
    flag, kubectl, tenant = make_kubectls(tmp_path)
    async with start("up", flag) as up:
        await up.wait_for_output(READY)
        await kubectl.wait("--for=jsonpath={.status.phase}=Ready", LAB, *IN_TEAM)
        await kubectl.run("delete", LAB, *IN_TEAM, "--timeout=30s")
        await kubectl.wait(
            "--for=jsonpath={.status.allocatedIPs}=0", "np/lab-pool", "-n", "butler-system"
        )
        remaining = await tenant.read_output(
            "get", "ipaddresspools,l2advertisements", "-A", "-o", "name"
        )
    assert remaining == ""


async def test_an_up_with_the_data_of_a_killed_one_has_the_same_allocations(
    tmp_path: Path,
) -> None:
    flag, kubectl, tenant = make_kubectls(tmp_path)
    arguments = ("up", flag, f"--data={tmp_path / 'data'}")
    async with start(*arguments) as up:
        await up.wait_for_output(READY)
        await kubectl.wait("--for=jsonpath={.status.phase}=Allocated", "ipa", "--all", "-A")
        before = await read_ranges(kubectl)
        up.process.kill()
        await up.process.wait()
    async with start(*arguments) as up:
        await up.wait_for_output(READY)
        assert (await read_ranges(kubectl)).items() >= before.items()
        await tenant.apply(_make_service("web"))
        await tenant.wait(
            "--for=jsonpath={.status.loadBalancer.ingress[0].ip}=10.40.1.0", "svc/web"
        )
        assert await up.stop(signal.SIGTERM) == 0
    assert all(before.values())


@pytest.mark.long
async def test_a_tenant_that_names_cilium_is_served_by_it(tmp_path: Path) -> None:
    flag, kubectl, tenant = make_kubectls(tmp_path)
    web = ("tenantcluster/web", *IN_TEAM)
    async with start("up", "--load-balancer=cilium", flag) as up:
        await up.wait_for_output(READY)
        assert "get ciliumloadbalancerippools,services -A" in up.stdout
        await kubectl.wait("--for=jsonpath={.status.phase}=Ready", *web)
        await tenant.apply(_make_service("web"))
        await tenant.wait("--for=jsonpath={.status.loadBalancer.ingress}", "svc/web")
        service = await tenant.read_output(
            "get", "svc/web", "-o", "jsonpath={.status.loadBalancer}"
        )
        assert "10.49.0." in service
        pools = await tenant.read_output("get", "ciliumloadbalancerippools", "-o", "name")
        assert pools.startswith("ciliumloadbalancerippool.cilium.io/team-platform-web-lb-")
        checked = await run_to_end("check", flag, "--tenants")
        assert "TenantNotAnnounced" in checked.stdout.decode()
        assert checked.returncode == 0, "a warning, as nothing else is wrong"
        policy = {
            "apiVersion": "cilium.io/v2alpha1",
            "kind": "CiliumL2AnnouncementPolicy",
            "metadata": {"name": "all"},
            "spec": {"loadBalancerIPs": True},
        }
        await tenant.apply(policy)
        checked = await run_to_end("check", flag, "--tenants", "-o", "json")
        findings = json.loads(checked.stdout)["findings"]
        kinds_of_findings = {
            finding["kind"] for finding in findings if finding["subject"]["name"] == "web"
        }
        assert kinds_of_findings <= {"TenantNotAnnounced"}, "the condition may be older"
        await kubectl.run("delete", *web, "--timeout=30s")
        assert await tenant.read_output("get", "ciliumloadbalancerippools", "-o", "name") == ""
        assert await up.stop(signal.SIGINT) == 0


async def test_without_samples_the_platform_has_no_objects_of_ours(
    platform_without_samples: SharedUp,
) -> None:
    assert (
        await platform_without_samples.kubectl.read_output("get", "np,ipa,tc", "-A", "-o", "name")
        == ""
    )


async def test_a_deleted_namespace_is_emptied_and_removed(
    platform_without_samples: SharedUp,
) -> None:
    settings = read_settings()
    if settings.kind == "binaries" and settings.controller_manager is None:
        pytest.skip("what empties namespaces is kube-controller-manager, which is not there")
    kubectl = platform_without_samples.kubectl
    await kubectl.run("create", "namespace", "short-lived")
    await kubectl.run("create", "configmap", "a", "-n", "short-lived")
    await kubectl.run("delete", "namespace", "short-lived", "--timeout=30s")
    assert "short-lived" not in await kubectl.read_output("get", "namespaces")


@pytest.mark.parametrize("argument", ["--kubeconfig=/proc/nowhere/config", "--data=/proc/nowhere"])
async def test_a_path_that_cannot_be_written_is_reported_before_anything_starts(
    argument: str,
) -> None:
    done = await run_to_end("up", argument)
    assert done.returncode == 1
    assert done.stdout == b""
    assert "/proc/nowhere" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


async def test_a_tenants_kubeconfig_that_others_wrote_is_not_overwritten(tmp_path: Path) -> None:
    theirs = tmp_path / "config-tenant"
    theirs.write_text("theirs")
    done = await run_to_end("up", f"--kubeconfig={tmp_path / 'config'}")
    assert done.returncode == 1
    assert theirs.read_text() == "theirs"


async def test_a_second_up_does_not_overwrite_the_kubeconfig_of_a_running_one(
    tmp_path: Path,
) -> None:
    flag, kubectl, _ = make_kubectls(tmp_path)
    async with start("up", "--no-samples", flag) as up:
        await up.wait_for_output(READY)
        written = (tmp_path / "config").read_text()
        second = await run_to_end("up", flag)
        assert (tmp_path / "config").read_text() == written
        assert "networkpools" in await kubectl.read_output("api-resources", "-o", "name")
        up.process.kill()
        await up.process.wait()
    sentence = f"error: {tmp_path / 'config'} was written by a butler-ipam that still runs"
    assert second.returncode == 1
    assert second.stderr.decode().startswith(sentence)
    async with start("up", "--no-samples", flag) as up:
        await up.wait_for_output(READY)
        assert (tmp_path / "config").read_text() != written, (
            "the file of a killed process is replaced"
        )


def _make_pool(
    cidr: str, reserved: Sequence[dict[str, str]] = (), span: tuple[str, str] | None = None
) -> dict[str, Any]:
    """Return NetworkPool `mine`, which gives tenants the addresses of `span`, or all if None."""
    tenants = (
        {"tenantAllocation": {"ranges": [{"start": span[0], "end": span[1]}]}} if span else {}
    )
    return {
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "NetworkPool",
        "metadata": {"name": "mine", "namespace": "butler-system"},
        "spec": {"cidr": cidr, "reserved": list(reserved), **tenants},
    }


def _make_service(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "protocol": "TCP"}]},
    }
