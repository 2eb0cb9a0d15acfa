"""`check --repair` on a server: it does what a reviewed report says, unless the object changed."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from controller.client import Client
from controller.errors import NotFound
from controller.meta import Key, Version
from reconcilers.api import names
from reconcilers.api.crd import build_crds
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL, SECRET, TENANT_CLUSTER
from reconcilers.cli.local.objects import make_namespaces
from reconcilers.cli.local.servers import ApiServer, run_api_server
from reconcilers.cli.standin.pools import read_metallb_crds
from reconcilers.loadbalancers.metallb.kinds import IP_ADDRESS_POOL
from tests.reconcilers.cli.commandline import run_in_thread

NAMESPACE = names.DEFAULT_NAMESPACE
METALLB = "metallb-system"


def encode_base64(data: bytes) -> str:
    """Return data in base64, as in a Secret."""
    return base64.b64encode(data).decode()


@asynccontextmanager
async def run_cluster(folder: Path) -> AsyncIterator[tuple[ApiServer, str]]:
    """Run an API server with pool `lab`; yield it, and the flag with its kubeconfig."""
    async with run_api_server("management", build_crds()) as server:
        await make_namespaces(server.transport, [NAMESPACE])
        await Client(server.transport).create(
            NETWORK_POOL,
            NAMESPACE,
            {"metadata": {"name": "lab"}, "spec": {"cidr": "10.40.0.0/24"}},
        )
        path = anyio.Path(folder / "kubeconfig")
        await path.write_text(server.kubeconfig)
        yield server, f"--kubeconfig={path}"


async def create_allocation(server: ApiServer, name: str, **metadata: Any) -> None:
    """Create an IPAllocation without a range, for a TenantCluster that does not exist."""
    await Client(server.transport).create(
        IP_ALLOCATION,
        NAMESPACE,
        {
            "metadata": {"name": name, **metadata},
            "spec": {
                "poolRef": {"name": "lab"},
                "tenantClusterRef": {"namespace": "team", "name": "gone"},
                "type": "nodes",
                "count": 2,
            },
        },
    )


async def write_report(kubeconfig: str, path: Path) -> dict[str, dict[str, Any]]:
    """Write the report of `check` to a file; return its findings by "kind name"."""
    outcome = await run_in_thread("check", kubeconfig, "-o", "json")
    await anyio.Path(path).write_text(outcome.out)
    report = json.loads(outcome.out)
    return {f"{f['kind']} {f['subject']['name']}": f for f in report["findings"]}


async def has_allocation(server: ApiServer, name: str) -> bool:
    """Return whether an IPAllocation with this name exists."""
    try:
        await Client(server.transport).get(IP_ALLOCATION, Key(NAMESPACE, name))
    except NotFound:
        return False
    return True


async def test_a_reviewed_report_is_carried_out(tmp_path: Path) -> None:
    async with run_cluster(tmp_path) as (server, kubeconfig):
        await create_allocation(server, "left", annotations={names.ANNOTATION_TENANT_UID: "old"})
        report = tmp_path / "report.json"
        assert set(await write_report(kubeconfig, report)) == {"Orphan left"}
        done = await run_in_thread("check", kubeconfig, "--repair", str(report))
        assert "IPAllocation butler-system/left: deleted" in done.err
        assert not await has_allocation(server, "left")
        again = await run_in_thread("check", kubeconfig)
        assert (again.code, again.out) == (0, "nothing is wrong\n")


async def test_a_finding_whose_action_a_reviewer_sets_to_none_is_not_repaired(
    tmp_path: Path,
) -> None:
    async with run_cluster(tmp_path) as (server, kubeconfig):
        await create_allocation(server, "left", annotations={names.ANNOTATION_TENANT_UID: "old"})
        report = tmp_path / "report.json"
        await write_report(kubeconfig, report)
        report.write_text(report.read_text().replace('"action": "delete"', '"action": "none"'))
        done = await run_in_thread("check", kubeconfig, "--repair", str(report))
        assert done.code == 0
        assert await has_allocation(server, "left")


async def test_an_object_that_changed_since_the_report_is_not_repaired(tmp_path: Path) -> None:
    async with run_cluster(tmp_path) as (server, kubeconfig):
        await create_allocation(server, "left", annotations={names.ANNOTATION_TENANT_UID: "old"})
        report = tmp_path / "report.json"
        await write_report(kubeconfig, report)
        client = Client(server.transport)
        allocation = await client.get(IP_ALLOCATION, Key(NAMESPACE, "left"))
        note = {"metadata": {"annotations": {"note": "do not touch"}}}
        await client.patch(IP_ALLOCATION, Version.from_object(allocation), note)
        done = await run_in_thread("check", kubeconfig, "--repair", str(report))
        assert done.code == 1
        assert "changed since the report was made" in done.err
        assert await has_allocation(server, "left")


async def test_an_action_that_a_finding_does_not_offer_is_rejected(tmp_path: Path) -> None:
    async with run_cluster(tmp_path) as (server, kubeconfig):
        await create_allocation(server, "fine")
        report = tmp_path / "report.json"
        assert set(await write_report(kubeconfig, report)) == {"LabelDrift fine"}
        report.write_text(report.read_text().replace('"action": "label"', '"action": "delete"'))
        done = await run_in_thread("check", kubeconfig, "--repair", str(report))
        assert done.code == 1
        assert "delete is not an action for LabelDrift" in done.err
        assert await has_allocation(server, "fine")


async def test_pools_whois_and_tenants_read_the_objects_of_a_cluster(tmp_path: Path) -> None:
    async with run_cluster(tmp_path) as (server, kubeconfig):
        await create_allocation(server, "waits")
        pools = await run_in_thread("pools", kubeconfig, "-o", "json")
        [document] = json.loads(pools.out)["items"]
        [family] = document["families"]
        assert (family["total"], family["allocated"], document["waiting"]) == (256, 0, 1)
        holders = await run_in_thread("whois", kubeconfig, "10.40.0.1")
        assert "butler-system/lab  free" in holders.out
        tenants = (await run_in_thread("tenants", kubeconfig)).out
        assert tenants.splitlines()[1].split()[:3] == ["team", "gone", "-"]


async def test_the_error_about_a_cluster_without_our_crds_says_how_to_install_them(
    tmp_path: Path,
) -> None:
    async with run_api_server("bare", []) as bare:
        path = tmp_path / "kubeconfig"
        path.write_text(bare.kubeconfig)
        done = await run_in_thread("pools", f"--kubeconfig={path}")
    assert done.code == 1
    assert "are the CRDs installed? `butler-ipam crds | kubectl apply -f -`" in done.err


@asynccontextmanager
async def run_own_tenant(folder: Path) -> AsyncIterator[tuple[Client, str]]:
    """Run one API server that is the management cluster, and the tenant of TenantCluster team/a.

    It serves the kinds of MetalLB, too. The tenant's allocation holds 10.40.0.0-10.40.0.1.

    Yields:
        a client of the server, and the flag with its kubeconfig.
    """
    async with run_api_server("management", [*build_crds(), *read_metallb_crds()]) as server:
        await make_namespaces(server.transport, [NAMESPACE, "team", METALLB])
        client = Client(server.transport)
        pool = {"metadata": {"name": "lab"}, "spec": {"cidr": "10.40.0.0/24"}}
        await client.create(NETWORK_POOL, NAMESPACE, pool)
        spec = {"kubernetesVersion": "v1.31.0", "workers": {"replicas": 1}}
        await client.create(TENANT_CLUSTER, "team", {"metadata": {"name": "a"}, "spec": spec})
        allocation = await client.create(
            IP_ALLOCATION,
            NAMESPACE,
            {
                "metadata": {"name": "team-a-lb"},
                "spec": {
                    "poolRef": {"name": "lab"},
                    "tenantClusterRef": {"namespace": "team", "name": "a"},
                    "type": "loadbalancer",
                    "count": 2,
                },
            },
        )
        status = {"phase": "Allocated", "startAddress": "10.40.0.0", "endAddress": "10.40.0.1"}
        await client.patch(
            IP_ALLOCATION,
            Version.from_object(allocation),
            {"status": status},
            subresource="status",
        )
        path = anyio.Path(folder / "kubeconfig")
        await path.write_text(server.kubeconfig)
        yield client, f"--kubeconfig={path}"


async def read_tenant_drift(kubeconfig: str) -> tuple[int, list[str]]:
    """Run `check --tenants --strict`; return its exit code and the sentences about TenantDrift."""
    done = await run_in_thread("check", kubeconfig, "--tenants", "--strict", "-o", "json")
    findings = json.loads(done.out)["findings"]
    return done.code, [
        finding["sentence"] for finding in findings if finding["kind"] == "TenantDrift"
    ]


async def test_check_reports_a_tenant_without_a_kubeconfig_and_each_drift_of_its_pool(
    tmp_path: Path,
) -> None:
    async with run_own_tenant(tmp_path) as (client, kubeconfig):
        _, [sentence] = await read_tenant_drift(kubeconfig)
        assert sentence.startswith("could not be asked: ")
        secret = {
            "metadata": {"name": "a-admin-kubeconfig"},
            "data": {"admin.conf": encode_base64((tmp_path / "kubeconfig").read_bytes())},
        }
        await client.create(SECRET, "team", secret)
        code, [sentence] = await read_tenant_drift(kubeconfig)
        assert code == 1
        assert "holds nothing, and should hold 10.40.0.0-10.40.0.1" in sentence
        spec = {"addresses": ["10.40.0.0-10.40.0.1"]}
        pool = {"metadata": {"name": "default-pool"}, "spec": spec}
        await client.create(IP_ADDRESS_POOL, METALLB, pool)
        assert (await read_tenant_drift(kubeconfig))[1] == []

        # Its allocation is lost, as after a restore, and the tenant still holds the range.
        cluster = await client.get(TENANT_CLUSTER, Key("team", "a"))
        begun = {"metadata": {"annotations": {names.ANNOTATION_PROJECTION_BEGUN: "then"}}}
        await client.patch(TENANT_CLUSTER, Version.from_object(cluster), begun)
        lost = await client.get(IP_ALLOCATION, Key(NAMESPACE, "team-a-lb"))
        await client.delete(IP_ALLOCATION, Version.from_object(lost))
        [sentence] = (await read_tenant_drift(kubeconfig))[1]
        assert "holds 10.40.0.0-10.40.0.1, and should hold nothing" in sentence
