"""A tenant with a frozen API server is reported by a condition, a metric, `status` and an Event.

The tenant's API server is a process that SIGSTOP freezes. The kernel still accepts connections.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio

from controller.clock import SystemClock
from controller.codec import encode
from controller.conditions import Condition, find_condition
from controller.config import connect
from controller.meta import Key, Version
from envtest import ControlPlane
from envtest.binaries import RealControlPlane
from envtest.plane import RunningControlPlane as Plane
from reconcilers.api.resources import SECRET, TENANT_CLUSTER
from reconcilers.api.tenantcluster import LOAD_BALANCER_READY
from reconcilers.cli.local.balancer import wait_until_established
from reconcilers.cli.local.objects import NAMESPACE
from reconcilers.cli.standin.pools import read_metallb_crds
from reconcilers.ui.watched import READ_EVENTS
from tests.contract.test_incidents import create_platform, read_metric, run_status
from tests.contract.test_static_flow import ManagementCluster, make_cluster_body, management
from tests.freezing import freeze, thaw
from tests.manifests.test_running import choose_free_port
from tests.polling import until
from tests.reconcilers.cli.commands import start

__all__ = ["management"]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
METRIC = 'butler_tenant_cluster_unreachable{namespace="team",tenant_cluster="a"}'
SHORT_INTERVALS = (
    "--tenant-request-timeout=1s",
    "--tenant-requeue-young=1s",
    "--tenant-requeue-waiting=200ms",
    "--tenant-requeue-not-ready=1s",
    "--metallb-wait=200ms",
    "--health-probe-bind-address=0",
)


@contextmanager
def _freeze_process(pid: int) -> Iterator[None]:
    """Freeze a process by SIGSTOP during the context."""
    freeze(pid)
    try:
        yield
    finally:
        thaw(pid)


@asynccontextmanager
async def _run_tenant(platform: Plane, folder: Path) -> AsyncIterator[tuple[Path, int]]:
    """Run a tenant's API server of the same kind as the platform's.

    Yields:
        The tenant's kubeconfig, and the process id of its API server.
    """
    path = folder / "tenant"
    if platform.kind == "embedded":
        arguments = ("apiserver", "--listen=127.0.0.1:0", f"--kubeconfig={path}")
        async with start(*arguments) as server:
            await server.wait_for_output("Ctrl-C ends it")
            yield path, server.process.pid
        return
    async with ControlPlane.start() as plane:
        assert isinstance(plane, RealControlPlane)
        [child] = [child for child in plane.processes if child.name == "kube-apiserver"]
        yield plane.write_kubeconfig(path), child.process.pid


async def _install_metallb(kubeconfig: Path) -> None:
    """Install MetalLB's kinds and its namespace in a tenant."""
    transport = await connect(kubeconfig)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "metallb-system"}}
    await transport.request("POST", NAMESPACE.build_collection_path(""), body=encode(namespace))
    for definition in read_metallb_crds():
        await transport.request("POST", DEFINITIONS, body=encode(definition))
    await wait_until_established(transport, SystemClock(), read_metallb_crds())
    await transport.aclose()


def _get_load_balancer_condition(management: ManagementCluster) -> Condition | None:
    """Return the condition LoadBalancerReady of TenantCluster team/a; None if it has none."""
    cluster = management.caches["tenantclusters"].get(Key("team", "a"))
    return (
        find_condition(cluster.status.conditions, LOAD_BALANCER_READY)
        if cluster is not None
        else None
    )


def _has_condition(management: ManagementCluster, status: str, reason: str = "") -> bool:
    """Return whether LoadBalancerReady of team/a has a status, and a reason that has a text."""
    balancer = _get_load_balancer_condition(management)
    return balancer is not None and balancer.status == status and reason in balancer.reason


async def test_a_tenant_whose_api_server_is_frozen_is_reported_as_unreachable_until_it_resumes(
    management: ManagementCluster, plane: Plane, tmp_path: Path
) -> None:
    await create_platform(management, "10.40.0.0/24")
    admin, port = plane.write_kubeconfig(tmp_path / "admin"), choose_free_port()
    async with (
        _run_tenant(plane, tmp_path) as (tenant, pid),
        management.run_controllers(managers=0),
    ):
        await _install_metallb(tenant)
        content = await anyio.Path(tenant).read_text()
        secret = await management.client.get(SECRET, Key("team", "a-admin-kubeconfig"))
        await management.client.patch(
            SECRET, Version.from_object(secret), {"stringData": {"admin.conf": content}}
        )
        flags = (
            f"--kubeconfig={admin}",
            f"--metrics-bind-address=127.0.0.1:{port}",
            *SHORT_INTERVALS,
        )
        async with start("run", *flags):
            await management.create(TENANT_CLUSTER, "team", "a", **make_cluster_body())
            await management.until(
                lambda: management.get_phase("tenantclusters", "a", "team") == "Ready"
            )
            await until(lambda: read_metric(port, METRIC), lambda value: value == 0)
            with _freeze_process(pid):
                await management.until(
                    lambda: _has_condition(management, "False", "TenantUnreachable")
                )
                await until(lambda: read_metric(port, METRIC), lambda value: value == 1)
                code, findings = await run_status(admin)
                assert code == 1
                assert findings["TenantUnreachable a"]["since"]
                events = await until(
                    lambda: management.client.list(READ_EVENTS, namespace="team"),
                    lambda page: any(event.reason == "TenantUnreachable" for event in page.items),
                )
                [event] = [event for event in events.items if event.reason == "TenantUnreachable"]
                assert (event.type, event.regarding.name) == ("Warning", "a")
            await management.until(lambda: _has_condition(management, "True"))
            await until(lambda: read_metric(port, METRIC), lambda value: value == 0)
            _, findings = await run_status(admin)
            assert "TenantUnreachable a" not in findings
