"""`check --repair` on a server: what was reviewed is mended, what has moved on is left alone."""

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
from reconcilers.api.crd import crds
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL, SECRET, TENANT_CLUSTER
from reconcilers.cli.local.objects import make_namespaces
from reconcilers.cli.local.servers import ApiServer, run_api_server
from reconcilers.cli.standin.pools import crds as metallb_crds
from reconcilers.loadbalancers.metallb.kinds import IP_ADDRESS_POOL
from tests.reconcilers.cli.commandline import run_beside

HOME = names.DEFAULT_NAMESPACE
METALLB = "metallb-system"


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


@asynccontextmanager
async def site(folder: Path) -> AsyncIterator[tuple[ApiServer, str]]:
    """Start a server with one pool; give it, and the flag that leads there."""
    async with run_api_server("management", crds()) as server:
        await make_namespaces(server.transport, [HOME])
        await Client(server.transport).create(
            NETWORK_POOL, HOME, {"metadata": {"name": "lab"}, "spec": {"cidr": "10.40.0.0/24"}}
        )
        path = anyio.Path(folder / "kubeconfig")
        await path.write_text(server.kubeconfig)
        yield server, f"--kubeconfig={path}"


async def allocate(server: ApiServer, name: str, **metadata: Any) -> None:
    await Client(server.transport).create(
        IP_ALLOCATION,
        HOME,
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


async def review(kubeconfig: str, place: Path) -> dict[str, dict[str, Any]]:
    """Make a report and return its findings by kind and name; the file is at `place`."""
    outcome = await run_beside("check", kubeconfig, "-o", "json")
    await anyio.Path(place).write_text(outcome.out)
    report = json.loads(outcome.out)
    return {f"{f['kind']} {f['subject']['name']}": f for f in report["findings"]}


async def exists(server: ApiServer, name: str) -> bool:
    try:
        await Client(server.transport).get(IP_ALLOCATION, Key(HOME, name))
    except NotFound:
        return False
    return True


async def test_a_reviewed_report_is_carried_out(tmp_path: Path) -> None:
    async with site(tmp_path) as (server, kubeconfig):
        await allocate(server, "left", annotations={names.ANNOTATION_TENANT_UID: "old"})
        report = tmp_path / "report.json"
        assert set(await review(kubeconfig, report)) == {"Orphan left"}
        done = await run_beside("check", kubeconfig, "--repair", str(report))
        printed = done.err
        assert "IPAllocation butler-system/left: deleted" in printed
        assert not await exists(server, "left")
        again = await run_beside("check", kubeconfig)
        assert (again.code, again.out) == (0, "nothing is wrong\n")


async def test_what_reviewers_set_to_none_is_left_alone(tmp_path: Path) -> None:
    async with site(tmp_path) as (server, kubeconfig):
        await allocate(server, "left", annotations={names.ANNOTATION_TENANT_UID: "old"})
        report = tmp_path / "report.json"
        await review(kubeconfig, report)
        report.write_text(report.read_text().replace('"action": "delete"', '"action": "none"'))
        done = await run_beside("check", kubeconfig, "--repair", str(report))
        assert done.code == 0
        assert await exists(server, "left")


async def test_an_object_that_changed_since_the_review_is_left_alone(tmp_path: Path) -> None:
    async with site(tmp_path) as (server, kubeconfig):
        await allocate(server, "left", annotations={names.ANNOTATION_TENANT_UID: "old"})
        report = tmp_path / "report.json"
        await review(kubeconfig, report)
        client = Client(server.transport)
        allocation = await client.get(IP_ALLOCATION, Key(HOME, "left"))
        note = {"metadata": {"annotations": {"note": "do not touch"}}}
        await client.patch(IP_ALLOCATION, Version.from_object(allocation), note)
        done = await run_beside("check", kubeconfig, "--repair", str(report))
        assert done.code == 1
        assert "changed since the report was made" in done.err
        assert await exists(server, "left")


async def test_a_report_cannot_ask_for_what_a_finding_does_not_offer(tmp_path: Path) -> None:
    async with site(tmp_path) as (server, kubeconfig):
        await allocate(server, "fine")
        report = tmp_path / "report.json"
        assert set(await review(kubeconfig, report)) == {"LabelDrift fine"}
        report.write_text(report.read_text().replace('"action": "label"', '"action": "delete"'))
        done = await run_beside("check", kubeconfig, "--repair", str(report))
        assert done.code == 1
        assert "delete is not an action for LabelDrift" in done.err
        assert await exists(server, "fine")


async def test_questions_are_answered_by_a_cluster(tmp_path: Path) -> None:
    async with site(tmp_path) as (server, kubeconfig):
        await allocate(server, "waits")
        pools = await run_beside("pools", kubeconfig, "-o", "json")
        [document] = json.loads(pools.out)["items"]
        [family] = document["families"]
        assert (family["total"], family["allocated"], document["waiting"]) == (256, 0, 1)
        asked = await run_beside("whois", kubeconfig, "10.40.0.1")
        assert "butler-system/lab  free" in asked.out
        tenants = (await run_beside("tenants", kubeconfig)).out
        assert tenants.splitlines()[1].split()[:3] == ["team", "gone", "-"]


async def test_a_cluster_without_the_kinds_says_how_to_get_them(tmp_path: Path) -> None:
    async with run_api_server("bare", []) as bare:
        path = tmp_path / "kubeconfig"
        path.write_text(bare.kubeconfig)
        done = await run_beside("pools", f"--kubeconfig={path}")
    assert done.code == 1
    assert "are the CRDs installed? `butler-ipam crds | kubectl apply -f -`" in done.err


@asynccontextmanager
async def tenant_of(folder: Path) -> AsyncIterator[tuple[Client, str]]:
    """Start a server that is its own tenant, with MetalLB's kinds; a cluster holds one range."""
    async with run_api_server("management", [*crds(), *metallb_crds()]) as server:
        await make_namespaces(server.transport, [HOME, "team", METALLB])
        client = Client(server.transport)
        pool = {"metadata": {"name": "lab"}, "spec": {"cidr": "10.40.0.0/24"}}
        await client.create(NETWORK_POOL, HOME, pool)
        spec = {"kubernetesVersion": "v1.31.0", "workers": {"replicas": 1}}
        await client.create(TENANT_CLUSTER, "team", {"metadata": {"name": "a"}, "spec": spec})
        allocation = await client.create(
            IP_ALLOCATION,
            HOME,
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


async def drift(kubeconfig: str) -> tuple[int, list[str]]:
    """Return the exit code of a strict check, and what it has against tenants."""
    done = await run_beside("check", kubeconfig, "--tenants", "--strict", "-o", "json")
    findings = json.loads(done.out)["findings"]
    return done.code, [
        finding["sentence"] for finding in findings if finding["kind"] == "TenantDrift"
    ]


async def test_a_tenant_that_does_not_answer_is_reported_and_so_is_what_differs_in_it(
    tmp_path: Path,
) -> None:
    async with tenant_of(tmp_path) as (client, kubeconfig):
        _, [sentence] = await drift(kubeconfig)
        assert sentence.startswith("could not be asked: ")
        secret = {
            "metadata": {"name": "a-admin-kubeconfig"},
            "data": {"admin.conf": encode((tmp_path / "kubeconfig").read_bytes())},
        }
        await client.create(SECRET, "team", secret)
        code, [sentence] = await drift(kubeconfig)
        assert code == 1
        assert "holds nothing, and should hold 10.40.0.0-10.40.0.1" in sentence
        spec = {"addresses": ["10.40.0.0-10.40.0.1"]}
        pool = {"metadata": {"name": "default-pool"}, "spec": spec}
        await client.create(IP_ADDRESS_POOL, METALLB, pool)
        assert (await drift(kubeconfig))[1] == []

        # Its allocation is lost, as after a restore, and the tenant still holds the range.
        cluster = await client.get(TENANT_CLUSTER, Key("team", "a"))
        begun = {"metadata": {"annotations": {names.ANNOTATION_PROJECTION_BEGUN: "then"}}}
        await client.patch(TENANT_CLUSTER, Version.from_object(cluster), begun)
        lost = await client.get(IP_ALLOCATION, Key(HOME, "team-a-lb"))
        await client.delete(IP_ALLOCATION, Version.from_object(lost))
        [sentence] = (await drift(kubeconfig))[1]
        assert "holds 10.40.0.0-10.40.0.1, and should hold nothing" in sentence
