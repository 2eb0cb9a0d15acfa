"""`status` fails at once in incidents that its first version did not report.

The management cluster is its own tenant, as in the static flow.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx

from controller.conditions import find_condition
from controller.meta import Key, Version
from controller.resource import Resource
from envtest.plane import RunningControlPlane as Plane
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL, PROVIDER_CONFIG, TENANT_CLUSTER
from reconcilers.api.services import SERVICE
from reconcilers.api.tenantcluster import DEMAND_MET, NETWORK_READY, TenantCluster
from reconcilers.cli.local.objects import delete
from reconcilers.ui.watched import READ_EVENTS
from tests.contract.test_static_flow import (
    HOME,
    SETTINGS,
    ManagementCluster,
    make_cluster_body,
    management,
)
from tests.edits import edit
from tests.manifests.test_running import choose_free_port
from tests.polling import until
from tests.reconcilers.cli.commands import start

__all__ = ["management"]

RBAC = "rbac.authorization.k8s.io"
ROLES: dict[str, Resource[Any]] = {
    kind: Resource(RBAC, "v1", kind, plural, TenantCluster)
    for kind, plural in (("Role", "roles"), ("RoleBinding", "rolebindings"))
}
TEAM_USER = "member-of-team"


async def create_platform(management: ManagementCluster, cidr: str, **load_balancer: Any) -> None:
    """Create the NetworkPool `lab` and the ProviderConfig `default` that uses it.

    Args:
        cidr: the CIDR of the pool.
        load_balancer: the provider's settings for load-balancer addresses.
    """
    await management.create(NETWORK_POOL, HOME, "lab", spec={"cidr": cidr})
    network = {"mode": "ipam", "poolRefs": [{"name": "lab"}], "loadBalancer": load_balancer}
    await management.create(
        PROVIDER_CONFIG, HOME, "default", spec={"provider": "local", "network": network}
    )


def _find_status(management: ManagementCluster, name: str) -> Any:
    """Return the status of a TenantCluster in the cache; None without the TenantCluster."""
    cluster = management.caches["tenantclusters"].get(Key("team", name))
    return cluster.status if cluster is not None else None


def _get_reason(management: ManagementCluster, name: str, kind: str) -> str:
    """Return the reason of a condition of a TenantCluster; empty if it has no such condition."""
    status = _find_status(management, name)
    condition = find_condition(status.conditions, kind) if status is not None else None
    return condition.reason if condition is not None else ""


async def run_json_command(command: str, kubeconfig: Path, *options: str) -> tuple[int, Any, str]:
    """Run a command with `-o json` as a process.

    Returns:
        Its exit code, its parsed output, and its standard error.
    """
    arguments = [command, f"--kubeconfig={kubeconfig}", "-o", "json", *options]
    done = await anyio.run_process([sys.executable, "-m", "reconcilers", *arguments], check=False)
    return done.returncode, json.loads(done.stdout), done.stderr.decode()


async def run_status(kubeconfig: Path, *options: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Run `status`; return its exit code, and its findings by "Kind name"."""
    code, document, _ = await run_json_command("status", kubeconfig, *options)
    findings = document["findings"]
    return code, {
        f"{finding['kind']} {finding['subject']['name']}": finding for finding in findings
    }


async def read_metric(port: int, series: str) -> float | None:
    """Return the value of the first series that begins with a text; None if there is none.

    Args:
        port: the port of the controller's metrics on this machine.
        series: the beginning of the series.
    """
    async with httpx.AsyncClient() as client:
        exposition = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
    values = [line.split()[-1] for line in exposition.splitlines() if line.startswith(series)]
    return float(values[0]) if values else None


async def write_team_kubeconfig(plane: Plane, management: ManagementCluster, folder: Path) -> Path:
    """Write a kubeconfig of a user who may only read the TenantClusters of namespace `team`."""
    rule = {"apiGroups": ["butler.butlerlabs.dev"], "resources": ["tenantclusters"]}
    rules = [rule | {"verbs": ["get", "list", "watch"]}]
    subject = {"apiGroup": RBAC, "kind": "User", "name": TEAM_USER}
    reference = {"apiGroup": RBAC, "kind": "Role", "name": TEAM_USER}
    for kind, body in (
        ("Role", {"rules": rules}),
        ("RoleBinding", {"roleRef": reference, "subjects": [subject]}),
    ):
        path = f"/apis/{RBAC}/v1/namespaces/team/{ROLES[kind].plural}"
        manifest = {
            "apiVersion": f"{RBAC}/v1",
            "kind": kind,
            "metadata": {"name": TEAM_USER},
        } | body
        await management.transport.request("POST", path, body=json.dumps(manifest).encode())
    await plane.add_user(TEAM_USER, ["system:authenticated"])
    return plane.write_kubeconfig(folder / "team", TEAM_USER)


async def _wait_for_finding(kubeconfig: Path, name: str) -> tuple[int, dict[str, Any]]:
    """Run `status` until it has a finding, because a pool's figures are written after its ranges.

    Args:
        kubeconfig: the kubeconfig of the user.
        name: the finding, as "Kind name".
    """
    return await until(lambda: run_status(kubeconfig), lambda answer: name in answer[1])


async def test_status_reports_clusters_without_a_pool_to_operators_and_to_their_team(
    management: ManagementCluster, plane: Plane, tmp_path: Path
) -> None:
    await create_platform(management, "10.40.0.0/28")
    admin = plane.write_kubeconfig(tmp_path / "admin")
    team = await write_team_kubeconfig(plane, management, tmp_path)
    async with management.run_controllers():
        for name in ("a", "b", "c"):
            await management.create(TENANT_CLUSTER, "team", name, **make_cluster_body())
        await management.until(
            lambda: (
                sum(_get_reason(management, n, NETWORK_READY) == "PoolExhausted" for n in "abc")
                == 2
            )
        )
        code, findings = await _wait_for_finding(admin, "PoolHasNoRoomForWaiting lab")
        waiting = [finding for finding in findings.values() if "Waits" in finding["kind"]]
        assert code == 1
        assert len(waiting) == 2
        assert "lab: largest free block 3" in waiting[0]["sentence"]

        code, findings = await run_status(team, "-n", "team")
        assert code == 1
        assert sum("Waits" in finding["kind"] for finding in findings.values()) == 2
        code, document, errors = await run_json_command("tenants", team, "-n", "team")
        assert code == 0
        assert "you may not read" in errors
        items = {item["name"]: item for item in document["items"]}
        assert sorted(item["waiting"] for item in items.values()) == [0, 2, 2]

        wider = {"spec": {"cidr": "10.40.0.0/26"}}
        await edit(management.client, NETWORK_POOL, key=Key(HOME, "lab"), change=wider)
        await management.until(
            lambda: all(_get_reason(management, n, NETWORK_READY) == "Ready" for n in "abc")
        )
        _, findings = await run_status(admin)
        assert not [finding for finding in findings.values() if "Wait" in finding["kind"]]


async def test_status_reports_services_without_an_address_in_a_static_tenant_until_it_is_larger(
    management: ManagementCluster, plane: Plane, tmp_path: Path
) -> None:
    await create_platform(management, "10.40.0.0/24", defaultPoolSize=2)
    admin = plane.write_kubeconfig(tmp_path / "admin")
    short_intervals = replace(SETTINGS, tenant=replace(SETTINGS.tenant, growth_after=0.5))
    async with management.run_controllers(settings=short_intervals):
        await management.create(TENANT_CLUSTER, "team", "a", **make_cluster_body())
        await management.until(
            lambda: management.get_phase("tenantclusters", "a", "team") == "Ready"
        )
        addresses = {f"s{number}": f"10.40.0.{number}" for number in range(2)}
        for name, address in addresses.items():
            await _create_service(management, name, address)
        await _create_service(management, "waits", None)
        await management.until(lambda: _get_reason(management, "a", DEMAND_MET) == "SizeReached")
        code, findings = await run_status(admin)
        assert code == 1
        assert "1 Service without an address" in findings["ServicesWait a"]["sentence"]
        assert _find_status(management, "a").network.loadBalancer.servicesWaiting == 1

        larger = {"spec": {"networking": {"lbPoolSize": 4}}}
        await edit(management.client, TENANT_CLUSTER, key=Key("team", "a"), change=larger)
        await management.until(
            lambda: _find_status(management, "a").network.loadBalancer.addresses == 4
        )


async def _create_service(management: ManagementCluster, name: str, address: str | None) -> None:
    """Create a Service of type LoadBalancer with an address in its status; None for no address."""
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
    created = await management.client.create(
        SERVICE, "default", {"metadata": {"name": name}, "spec": spec}
    )
    if address is not None:
        status = {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}
        await management.client.patch(
            SERVICE, Version.from_object(created), status, subresource="status"
        )


async def test_status_reports_a_pool_with_one_free_address_once_a_larger_request_waits(
    management: ManagementCluster, plane: Plane, tmp_path: Path
) -> None:
    await create_platform(management, "10.40.0.0/28")
    admin, port = plane.write_kubeconfig(tmp_path / "admin"), choose_free_port()
    flags = (
        f"--kubeconfig={admin}",
        f"--metrics-bind-address=127.0.0.1:{port}",
        "--health-probe-bind-address=0",
        "--tenant-requeue-waiting=200ms",
    )
    spec = {
        "poolRef": {"name": "lab"},
        "tenantClusterRef": {"name": "fixtures", "namespace": "datacenter"},
        "type": "nodes",
        "count": 15,
    }
    async with management.run_controllers(managers=0), start("run", *flags):
        await management.create(IP_ALLOCATION, HOME, "most", spec=spec)
        await management.until(
            lambda: management.get_phase("ipallocations", "most") == "Allocated"
        )
        code, findings = await run_status(admin)
        assert not [finding for finding in findings.values() if finding["severity"] == "error"], (
            findings
        )
        await management.create(TENANT_CLUSTER, "team", "a", **make_cluster_body())
        await management.until(
            lambda: _get_reason(management, "a", NETWORK_READY) == "PoolExhausted"
        )
        code, findings = await _wait_for_finding(admin, "PoolHasNoRoomForWaiting lab")
        assert code == 1
        assert "lab: largest free block 1" in findings["TenantWaitsForAddresses a"]["sentence"]
        assert "largest free block is 1" in findings["PoolHasNoRoomForWaiting lab"]["sentence"]
        assert "PoolCapacityExhausted lab" not in findings, "by percentage the pool is not full"
        await until(
            lambda: read_metric(port, "butler_network_pool_largest_waiting_request{"),
            lambda value: value is not None and value > 1,
        )
        assert await read_metric(port, "butler_network_pool_largest_free_block{") == 1
        events = await until(
            lambda: management.client.list(READ_EVENTS, namespace="team"),
            lambda page: any(event.regarding.name == "a" for event in page.items),
        )
        [event] = [event for event in events.items if event.type == "Warning"]
        assert "lab: largest free block 1" in event.note

        await delete(management.client, IP_ALLOCATION, Key(HOME, "most"))
        await management.until(lambda: _get_reason(management, "a", NETWORK_READY) == "Ready")
        _, findings = await run_status(admin)
        assert not [finding for finding in findings.values() if "Wait" in finding["kind"]]
