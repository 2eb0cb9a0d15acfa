"""Incidents in which the first commands said that all was well: now `status` is red at once.

The control plane is its own tenant, as in the static flow.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx

from controller.conditions import find
from controller.meta import Key, Version
from controller.resource import Resource
from envtest.plane import RunningControlPlane as Plane
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL, PROVIDER_CONFIG, TENANT_CLUSTER
from reconcilers.api.services import SERVICE
from reconcilers.api.tenantcluster import DEMAND_MET, NETWORK_READY, TenantCluster
from reconcilers.cli.local.objects import delete
from reconcilers.ui.watched import READ_EVENTS
from tests.contract.test_static_flow import HOME, SETTINGS, Site, _cluster, site
from tests.edits import edit
from tests.manifests.test_running import choose_free_port
from tests.polling import until
from tests.reconcilers.cli.commands import start

__all__ = ["site"]

RBAC = "rbac.authorization.k8s.io"
ROLES: dict[str, Resource[Any]] = {
    kind: Resource(RBAC, "v1", kind, plural, TenantCluster)
    for kind, plural in (("Role", "roles"), ("RoleBinding", "rolebindings"))
}
TEAM = "member-of-team"


async def _platform(site: Site, cidr: str, **load_balancer: Any) -> None:
    await site.create(NETWORK_POOL, HOME, "lab", spec={"cidr": cidr})
    network = {"mode": "ipam", "poolRefs": [{"name": "lab"}], "loadBalancer": load_balancer}
    await site.create(
        PROVIDER_CONFIG, HOME, "default", spec={"provider": "local", "network": network}
    )


def _find_status(site: Site, name: str) -> Any:
    cluster = site.caches["tenantclusters"].get(Key("team", name))
    return cluster.status if cluster is not None else None


def _reason(site: Site, name: str, kind: str) -> str:
    status = _find_status(site, name)
    condition = find(status.conditions, kind) if status is not None else None
    return condition.reason if condition is not None else ""


async def _ask(command: str, kubeconfig: Path, *options: str) -> tuple[int, Any, str]:
    """Run a command in a process of its own; return its code, document and errors."""
    arguments = [command, f"--kubeconfig={kubeconfig}", "-o", "json", *options]
    done = await anyio.run_process([sys.executable, "-m", "reconcilers", *arguments], check=False)
    return done.returncode, json.loads(done.stdout), done.stderr.decode()


async def _status(kubeconfig: Path, *options: str) -> tuple[int, dict[str, dict[str, Any]]]:
    code, document, _ = await _ask("status", kubeconfig, *options)
    findings = document["findings"]
    return code, {
        f"{finding['kind']} {finding['subject']['name']}": finding for finding in findings
    }


async def metric(port: int, series: str) -> float | None:
    """Return the value of a series that a controller on this machine serves; None for none."""
    async with httpx.AsyncClient() as client:
        exposition = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
    values = [line.split()[-1] for line in exposition.splitlines() if line.startswith(series)]
    return float(values[0]) if values else None


async def _team_kubeconfig(plane: Plane, site: Site, folder: Path) -> Path:
    """Return a kubeconfig of a user who may read the TenantClusters of one namespace."""
    rule = {"apiGroups": ["butler.butlerlabs.dev"], "resources": ["tenantclusters"]}
    rules = [rule | {"verbs": ["get", "list", "watch"]}]
    subject = {"apiGroup": RBAC, "kind": "User", "name": TEAM}
    reference = {"apiGroup": RBAC, "kind": "Role", "name": TEAM}
    for kind, body in (
        ("Role", {"rules": rules}),
        ("RoleBinding", {"roleRef": reference, "subjects": [subject]}),
    ):
        path = f"/apis/{RBAC}/v1/namespaces/team/{ROLES[kind].plural}"
        whole = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": TEAM}} | body
        await site.transport.request("POST", path, body=json.dumps(whole).encode())
    await plane.add_user(TEAM, ["system:authenticated"])
    return plane.write_kubeconfig(folder / "team", TEAM)


async def _status_with(kubeconfig: Path, name: str) -> tuple[int, dict[str, Any]]:
    """Return the output of `status` once it has a finding: a pool's figures follow its ranges."""
    return await until(lambda: _status(kubeconfig), lambda answer: name in answer[1])


async def test_clusters_that_find_no_pool_are_red_for_operators_and_for_their_team(
    site: Site, plane: Plane, tmp_path: Path
) -> None:
    await _platform(site, "10.40.0.0/28")
    admin = plane.write_kubeconfig(tmp_path / "admin")
    team = await _team_kubeconfig(plane, site, tmp_path)
    async with site.controllers():
        for name in ("a", "b", "c"):
            await site.create(TENANT_CLUSTER, "team", name, **_cluster())
        await site.until(
            lambda: sum(_reason(site, n, NETWORK_READY) == "PoolExhausted" for n in "abc") == 2
        )
        code, findings = await _status_with(admin, "PoolHasNoRoomForWaiting lab")
        waiting = [finding for finding in findings.values() if "Waits" in finding["kind"]]
        assert code == 1
        assert len(waiting) == 2
        assert "lab: largest free block 3" in waiting[0]["sentence"]

        code, findings = await _status(team, "-n", "team")
        assert code == 1
        assert sum("Waits" in finding["kind"] for finding in findings.values()) == 2
        code, document, errors = await _ask("tenants", team, "-n", "team")
        assert code == 0
        assert "you may not read" in errors
        items = {item["name"]: item for item in document["items"]}
        assert sorted(item["waiting"] for item in items.values()) == [0, 2, 2]

        wider = {"spec": {"cidr": "10.40.0.0/26"}}
        await edit(site.client, NETWORK_POOL, key=Key(HOME, "lab"), change=wider)
        await site.until(lambda: all(_reason(site, n, NETWORK_READY) == "Ready" for n in "abc"))
        _, findings = await _status(admin)
        assert not [finding for finding in findings.values() if "Wait" in finding["kind"]]


async def test_services_without_an_address_in_a_static_tenant_are_red_until_it_is_larger(
    site: Site, plane: Plane, tmp_path: Path
) -> None:
    await _platform(site, "10.40.0.0/24", defaultPoolSize=2)
    admin = plane.write_kubeconfig(tmp_path / "admin")
    quick = replace(SETTINGS, tenant=replace(SETTINGS.tenant, growth_after=0.5))
    async with site.controllers(settings=quick):
        await site.create(TENANT_CLUSTER, "team", "a", **_cluster())
        await site.until(lambda: site.phase("tenantclusters", "a", "team") == "Ready")
        addresses = {f"s{number}": f"10.40.0.{number}" for number in range(2)}
        for name, address in addresses.items():
            await _service(site, name, address)
        await _service(site, "waits", None)
        await site.until(lambda: _reason(site, "a", DEMAND_MET) == "SizeReached")
        code, findings = await _status(admin)
        assert code == 1
        assert "1 Service without an address" in findings["ServicesWait a"]["sentence"]
        assert _find_status(site, "a").network.loadBalancer.servicesWaiting == 1

        larger = {"spec": {"networking": {"lbPoolSize": 4}}}
        await edit(site.client, TENANT_CLUSTER, key=Key("team", "a"), change=larger)
        await site.until(lambda: _find_status(site, "a").network.loadBalancer.addresses == 4)


async def _service(site: Site, name: str, address: str | None) -> None:
    """Create a Service of type LoadBalancer that shows an address, or none."""
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
    created = await site.client.create(
        SERVICE, "default", {"metadata": {"name": name}, "spec": spec}
    )
    if address is not None:
        status = {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}
        await site.client.patch(
            SERVICE, Version.from_object(created), status, subresource="status"
        )


async def test_a_pool_full_but_for_one_address_is_red_for_a_request_for_more(
    site: Site, plane: Plane, tmp_path: Path
) -> None:
    await _platform(site, "10.40.0.0/28")
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
    async with site.controllers(managers=0), start("run", *flags):
        await site.create(IP_ALLOCATION, HOME, "most", spec=spec)
        await site.until(lambda: site.phase("ipallocations", "most") == "Allocated")
        code, findings = await _status(admin)
        assert not [finding for finding in findings.values() if finding["severity"] == "error"], (
            findings
        )
        await site.create(TENANT_CLUSTER, "team", "a", **_cluster())
        await site.until(lambda: _reason(site, "a", NETWORK_READY) == "PoolExhausted")
        code, findings = await _status_with(admin, "PoolHasNoRoomForWaiting lab")
        assert code == 1
        assert "lab: largest free block 1" in findings["TenantWaitsForAddresses a"]["sentence"]
        assert "largest free block is 1" in findings["PoolHasNoRoomForWaiting lab"]["sentence"]
        assert "PoolCapacityExhausted lab" not in findings, "by percentage the pool is not full"
        await until(
            lambda: metric(port, "butler_network_pool_largest_waiting_request{"),
            lambda value: value is not None and value > 1,
        )
        assert await metric(port, "butler_network_pool_largest_free_block{") == 1
        events = await until(
            lambda: site.client.list(READ_EVENTS, namespace="team"),
            lambda page: any(event.regarding.name == "a" for event in page.items),
        )
        [event] = [event for event in events.items if event.type == "Warning"]
        assert "lab: largest free block 1" in event.note

        await delete(site.client, IP_ALLOCATION, Key(HOME, "most"))
        await site.until(lambda: _reason(site, "a", NETWORK_READY) == "Ready")
        _, findings = await _status(admin)
        assert not [finding for finding in findings.values() if "Wait" in finding["kind"]]
