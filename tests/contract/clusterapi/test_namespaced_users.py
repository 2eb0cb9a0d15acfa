"""Commands with -n never show addresses as free that other namespaces may hold."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.contract.clusterapi.lab import IPAM, ClusterApiLab, get_status
from tests.contract.product import Server
from tests.reconcilers.cli.commandline import run_in_thread

pytestmark = pytest.mark.asyncio(loop_scope="package")

OURS = "butler.butlerlabs.dev"
GROUPS = (IPAM, OURS, "cluster.x-k8s.io")


async def create_namespaced_reader(
    server: Server, lab: ClusterApiLab, folder: Path, groups: Sequence[str] = GROUPS
) -> Path:
    """Create a user for one namespace and cluster-scoped pools; return the user's kubeconfig.

    Args:
        server: for the user.
        lab: has the namespace.
        folder: for the kubeconfig.
        groups: the API groups that may be read in the namespace.
    """
    user = f"reader-of-{lab.namespace}"
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    reading = [{"apiGroups": [*groups], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    pools = [
        {"apiGroups": [IPAM], "resources": ["globalinclusterippools"], "verbs": ["get", "list"]}
    ]
    bodies: dict[str, dict[str, Any]] = {
        f"{rbac}/namespaces/{lab.namespace}/roles": {"kind": "Role", "rules": reading},
        f"{rbac}/namespaces/{lab.namespace}/rolebindings": {
            "kind": "RoleBinding",
            "roleRef": {"kind": "Role"},
        },
        f"{rbac}/clusterroles": {"kind": "ClusterRole", "rules": pools},
        f"{rbac}/clusterrolebindings": {
            "kind": "ClusterRoleBinding",
            "roleRef": {"kind": "ClusterRole"},
        },
    }
    for path, body in bodies.items():
        manifest: dict[str, Any] = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "metadata": {"name": user},
            **body,
        }
        if "roleRef" in body:
            manifest["roleRef"] = {
                "apiGroup": "rbac.authorization.k8s.io",
                "name": user,
                **body["roleRef"],
            }
            subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
            manifest["subjects"] = [subject]
        answer = await server.admin.post(path, json=manifest)
        assert answer.status_code == 201, answer.text
    await server.plane.add_user(user, ["system:authenticated"])
    return server.plane.write_kubeconfig(folder / "reader", user)


async def test_addresses_that_other_namespaces_hold_of_a_global_pool_are_never_shown_as_free(
    server: Server, lab: ClusterApiLab, tmp_path: Path
) -> None:
    pool_name = f"global-{lab.namespace}"
    spec = {"addresses": ["10.72.0.10-10.72.0.20"], "prefix": 24, "gateway": "10.72.0.1"}
    await lab.create("GlobalInClusterIPPool", pool_name, spec)
    await lab.create_claim("node", pool_name, kind="GlobalInClusterIPPool")
    address = await lab.wait_until_served("node")
    other_namespace = f"{lab.namespace}-other"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other_namespace}}
    assert (await server.admin.post("/api/v1/namespaces", json=body)).status_code == 201

    admin = (f"--kubeconfig={server.admin_kubeconfig}", "-n", other_namespace)
    answer = await run_in_thread("whois", address, *admin)
    assert answer.code == 0
    assert f"allocated  IPAddressClaim {lab.namespace}/node" in answer.out
    pools = json.loads((await run_in_thread("pools", *admin, "-o", "json")).out)
    (pool,) = [pool for pool in pools["items"] if pool["name"] == pool_name]
    (family,) = pool["families"]
    assert (family["allocated"], family["available"]) == (1, 10)
    assert "notRead" not in pools
    checked = json.loads((await run_in_thread("check", *admin, "-o", "json")).out)
    assert [
        finding for finding in checked["findings"] if finding["subject"]["name"] == pool_name
    ] == []

    other_lab = ClusterApiLab(server.admin, other_namespace)
    kubeconfig = await create_namespaced_reader(server, other_lab, tmp_path)
    reader = (f"--kubeconfig={kubeconfig}", "-n", other_namespace)
    answer = await run_in_thread("whois", address, *reader)
    assert answer.code == 0
    assert f"{address}  GlobalInClusterIPPool {pool_name}  unknown" in answer.out
    assert "free" not in answer.out
    kinds, _, _ = answer.err.partition(f" of other namespaces than {other_namespace}")
    assert kinds != answer.err
    assert f"ipaddressclaims.{IPAM}" in kinds
    answer = await run_in_thread("whois", "192.0.2.1", *reader)
    assert answer.code == 1
    assert (
        f"no pool that you may read of namespace {other_namespace} or of the whole cluster"
        " contains 192.0.2.1; a pool that you may not read, for example of another namespace, may"
        " contain"
    ) in answer.err
    absent = "192.0.2.1"
    (all_searched,) = (await run_in_thread("whois", absent, admin[0])).errors
    assert all_searched == f"no pool of any namespace contains {absent}"
    (one_searched,) = (await run_in_thread("whois", absent, *admin)).errors
    assert one_searched == (
        f"no pool of namespace {other_namespace} or of the whole cluster contains {absent};"
        " a pool of another namespace may contain it: run the command without -n, or with -A"
    )
    pools = json.loads((await run_in_thread("pools", *reader, "-o", "json")).out)
    (pool,) = [pool for pool in pools["items"] if pool["name"] == pool_name]
    (family,) = pool["families"]
    assert (family["total"], family["allocated"], family["available"]) == (11, None, None)
    assert pool["waiting"] is None
    assert f"ipaddresses.{IPAM} of other namespaces than {other_namespace}" in pool["notRead"]
    mapped = json.loads((await run_in_thread("map", *reader, "-o", "json")).out)
    (pool,) = [item for item in mapped["items"] if item["name"] == pool_name]
    states = {extent["state"] for extent in pool["families"][0]["extents"]}
    assert "unknown" in states
    assert "free" not in states
    assert f"ipaddresses.{IPAM} of other namespaces than {other_namespace}" in pools["notRead"]
    checked = await run_in_thread("check", *reader, "-o", "json")
    report = json.loads(checked.out)
    assert (checked.code, report["findings"]) == (0, [])
    assert report["notRead"] == pools["notRead"]
    file = tmp_path / "report.json"
    file.write_text(checked.out)
    repaired = await run_in_thread("check", *reader, "--repair", str(file))
    assert repaired.code == 0, repaired.err

    for kind, name in (("IPAddressClaim", "node"), ("GlobalInClusterIPPool", pool_name)):
        await lab.delete(kind, name)


async def test_addresses_that_unreadable_claims_may_hold_are_shown_as_unknown_and_not_as_free(
    server: Server, lab: ClusterApiLab, tmp_path: Path
) -> None:
    await lab.create("NetworkPool", "rack", {"cidr": "10.74.0.0/28"})
    await lab.create_claim("node", "rack", kind="NetworkPool")
    address = await lab.wait_until_served("node")
    await lab.until("NetworkPool", "rack", lambda pool: get_status(pool).get("allocatedIPs") == 1)
    kubeconfig = await create_namespaced_reader(server, lab, folder=tmp_path, groups=[OURS])
    reader = (f"--kubeconfig={kubeconfig}", "-n", lab.namespace)
    claims = f"ipaddressclaims.{IPAM}"

    answer = await run_in_thread("whois", address, *reader, "-o", "json")
    report = json.loads(answer.out)
    assert (answer.code, [part["state"] for part in report["items"]]) == (0, ["unknown"])
    assert claims in report["notRead"]
    assert claims in answer.err

    pools = json.loads((await run_in_thread("pools", *reader, "-o", "json")).out)["items"]
    (pool,) = [item for item in pools if item["name"] == "rack"]
    (family,) = pool["families"]
    assert (family["total"], family["allocated"], family["available"]) == (16, None, None)
    assert claims in pool["notRead"]
    for command in ("pools", "map"):
        outcome = await run_in_thread(command, *reader)
        assert (outcome.code, "unknown" in outcome.out) == (0, True)
        assert "  free" not in outcome.out

    checked = await run_in_thread("check", *reader, "-o", "json")
    document = json.loads(checked.out)
    assert (checked.code, document["findings"], claims in document["notRead"]) == (0, [], True)
    strict = await run_in_thread("check", *reader, "--strict")
    assert (strict.code, strict.out) == (1, "nothing is wrong in what was read\n")
    await lab.delete("IPAddressClaim", "node")
