"""The API server of a tenant stops in the middle of whatever it does: everybody hears of it.

The tenant is a process of its own, which SIGSTOP freezes: it still accepts connections.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio

from controller.clock import SystemClock
from controller.codec import encode
from controller.conditions import Condition, find
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
from tests.contract.test_incidents import _platform, _status, metric
from tests.contract.test_static_flow import Site, _cluster, site
from tests.freezing import freeze, thaw
from tests.manifests.test_running import choose_free_port
from tests.polling import until
from tests.reconcilers.cli.commands import start

__all__ = ["site"]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
METRIC = 'butler_tenant_cluster_unreachable{namespace="team",tenant_cluster="a"}'
QUICK = (
    "--tenant-request-timeout=1s",
    "--tenant-requeue-young=1s",
    "--tenant-requeue-waiting=200ms",
    "--tenant-requeue-not-ready=1s",
    "--metallb-wait=200ms",
    "--health-probe-bind-address=0",
)


@contextmanager
def _frozen(pid: int) -> Iterator[None]:
    """Stop a process where it is, and let it go on afterwards."""
    freeze(pid)
    try:
        yield
    finally:
        thaw(pid)


@asynccontextmanager
async def _tenant(like: Plane, folder: Path) -> AsyncIterator[tuple[Path, int]]:
    """Start a tenant's API server of the same kind; give its kubeconfig and process number."""
    path = folder / "tenant"
    if like.kind == "embedded":
        arguments = ("apiserver", "--listen=127.0.0.1:0", f"--kubeconfig={path}")
        async with start(*arguments) as server:
            await server.until("Ctrl-C ends it")
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
    await transport.request("POST", NAMESPACE.collection(""), body=encode(namespace))
    for definition in read_metallb_crds():
        await transport.request("POST", DEFINITIONS, body=encode(definition))
    await wait_until_established(transport, SystemClock(), read_metallb_crds())
    await transport.aclose()


def _balancer(site: Site) -> Condition | None:
    cluster = site.caches["tenantclusters"].get(Key("team", "a"))
    return find(cluster.status.conditions, LOAD_BALANCER_READY) if cluster is not None else None


def _shows(site: Site, status: str, reason: str = "") -> bool:
    balancer = _balancer(site)
    return balancer is not None and balancer.status == status and reason in balancer.reason


async def test_a_tenant_whose_api_server_is_frozen_is_red_until_it_goes_on(
    site: Site, plane: Plane, tmp_path: Path
) -> None:
    await _platform(site, "10.40.0.0/24")
    admin, port = plane.write_kubeconfig(tmp_path / "admin"), choose_free_port()
    async with _tenant(plane, tmp_path) as (tenant, pid), site.controllers(managers=0):
        await _install_metallb(tenant)
        content = await anyio.Path(tenant).read_text()
        secret = await site.client.get(SECRET, Key("team", "a-admin-kubeconfig"))
        await site.client.patch(
            SECRET, Version.from_object(secret), {"stringData": {"admin.conf": content}}
        )
        flags = (f"--kubeconfig={admin}", f"--metrics-bind-address=127.0.0.1:{port}", *QUICK)
        async with start("run", *flags):
            await site.create(TENANT_CLUSTER, "team", "a", **_cluster())
            await site.until(lambda: site.phase("tenantclusters", "a", "team") == "Ready")
            await until(lambda: metric(port, METRIC), lambda value: value == 0)
            with _frozen(pid):
                await site.until(lambda: _shows(site, "False", "TenantUnreachable"))
                await until(lambda: metric(port, METRIC), lambda value: value == 1)
                code, findings = await _status(admin)
                assert code == 1
                assert findings["TenantUnreachable a"]["since"]
                events = await until(
                    lambda: site.client.list(READ_EVENTS, namespace="team"),
                    lambda page: any(event.reason == "TenantUnreachable" for event in page.items),
                )
                [event] = [event for event in events.items if event.reason == "TenantUnreachable"]
                assert (event.type, event.regarding.name) == ("Warning", "a")
            await site.until(lambda: _shows(site, "True"))
            await until(lambda: metric(port, METRIC), lambda value: value == 0)
            _, findings = await _status(admin)
            assert "TenantUnreachable a" not in findings
