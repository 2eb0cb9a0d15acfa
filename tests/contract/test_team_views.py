"""The output of commands for a user who may only read the TenantClusters of one namespace."""

import json
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.meta import Key
from envtest.plane import RunningControlPlane as Plane
from reconcilers.api.resources import BUTLER_CONFIG, PROVIDER_CONFIG, TENANT_CLUSTER
from reconcilers.api.tenantcluster import LOAD_BALANCER_READY
from reconcilers.clusteraccess.tenantfailures import UNREACHABLE
from reconcilers.health.controllers import READER_ROLE
from tests.contract.roles import list_manifests
from tests.contract.test_incidents import create_platform, run_json_command, write_team_kubeconfig
from tests.contract.test_release_command import RANGE, write_user_kubeconfig
from tests.contract.test_static_flow import HOME, ManagementCluster, make_cluster_body, management
from tests.polling import until
from tests.reconcilers.cli.commandline import run_in_thread
from tests.reconcilers.cli.commands import start
from tests.reconcilers.cli.test_ui import read_first_message

__all__ = ["management"]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BUTLER_CONFIGS = BUTLER_CONFIG.build_collection_path()


async def test_the_live_page_of_a_namespace_shows_its_clusters_and_names_the_kinds_it_may_not_read(
    management: ManagementCluster, plane: Plane, tmp_path: Path
) -> None:
    await create_platform(management, "10.40.0.0/28")
    await management.create(TENANT_CLUSTER, "team", "a", **make_cluster_body())
    team = await write_team_kubeconfig(plane, management, tmp_path)
    arguments = ("ui", f"--kubeconfig={team}", "-n", "team", "--listen=127.0.0.1:0")
    async with start(*arguments) as running:
        match = await running.wait_for_output(r"the map is at (http://\S+)/#token=(\S+)")
        message = await read_first_message(match[1], match[2])
        assert await running.stop(signal.SIGINT) == 0
    assert [tenant["name"] for tenant in message["tenants"]["set"].values()] == ["team/a"]
    assert message["order"] == []
    assert "you may not read ipallocations.butler.butlerlabs.dev" in message["failures"][0]


async def test_status_and_tenants_with_watch_only_need_to_read_the_clusters_of_the_namespace(
    management: ManagementCluster, plane: Plane, tmp_path: Path
) -> None:
    await management.create(TENANT_CLUSTER, "team", "a", **make_cluster_body())
    team = await write_team_kubeconfig(plane, management, tmp_path)
    for command in ("status", "tenants"):
        arguments = (command, f"--kubeconfig={team}", "-n", "team", "-w")
        async with start(*arguments) as running:
            await running.wait_for_output(r"1 TenantCluster|team +a ")
            await running.stop(signal.SIGINT)


async def test_explain_lists_the_ranges_of_a_cluster_and_the_objects_that_it_may_not_read(
    management: ManagementCluster, plane: Plane, tmp_path: Path
) -> None:
    await create_platform(management, "10.40.0.0/28")
    await management.create(TENANT_CLUSTER, "team", "a", **make_cluster_body())
    created = await management.client.get(TENANT_CLUSTER, Key("team", "a"))
    network = {"network": {"ranges": [RANGE]}}
    await management.client.patch_status(TENANT_CLUSTER, created, network)
    team = await write_team_kubeconfig(plane, management, tmp_path)
    for name in ("team/a", "tenantcluster.butler.butlerlabs.dev/team/a"):
        explained = await run_in_thread("explain", name, f"--kubeconfig={team}")
        assert explained.code == 0, explained.err
        assert "butler-system/team-a-lb: loadbalancer 10.40.0.0-10.40.0.7" in explained.out
        assert "you may not read the platform's default ProviderConfig" in explained.out
    unknown = await run_in_thread("explain", "team/team-a-lb", f"--kubeconfig={team}")
    assert (unknown.code, "you may not read ipallocations" in unknown.errors[0]) == (1, True)


async def _serve_butler_configs(admin: httpx.AsyncClient) -> None:
    """Create the definition of ButlerConfigs, and wait until they are served."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": BUTLER_CONFIG.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    spec = {
        "group": BUTLER_CONFIG.group,
        "scope": "Cluster",
        "names": {"kind": BUTLER_CONFIG.kind, "plural": BUTLER_CONFIG.plural},
        "versions": [version],
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": BUTLER_CONFIG.full_name},
        "spec": spec,
    }
    created = await admin.post(DEFINITIONS, json=definition)
    assert created.status_code == 201, created.text

    async def list_status() -> int:
        return (await admin.get(BUTLER_CONFIGS)).status_code

    await until(list_status, lambda code: code == 200)


async def test_explain_uses_the_provider_in_butlerconfig_or_reports_that_it_may_not_read_it(
    management: ManagementCluster, plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    await create_platform(management, "10.40.0.0/28")
    network = {"mode": "ipam", "poolRefs": [{"name": "lab"}]}
    spec = {"provider": "local", "network": network}
    await management.create(PROVIDER_CONFIG, HOME, "platform", spec=spec)
    await management.create(TENANT_CLUSTER, "team", "a", **make_cluster_body())
    operator = plane.write_kubeconfig(tmp_path / "operator")
    team = await write_team_kubeconfig(plane, management, tmp_path)
    before = await run_in_thread("explain", "team/a", f"--kubeconfig={operator}")
    assert f"ProviderConfig {HOME}/default, mode static" in before.out

    await _serve_butler_configs(admin)
    config = {
        "apiVersion": f"{BUTLER_CONFIG.group}/{BUTLER_CONFIG.version}",
        "kind": BUTLER_CONFIG.kind,
        "metadata": {"name": "butler"},
        "spec": {"defaultProviderConfigRef": {"name": "platform"}},
    }
    created = await admin.post(BUTLER_CONFIGS, json=config)
    assert created.status_code == 201, created.text
    explained = await run_in_thread("explain", "team/a", f"--kubeconfig={operator}")
    assert f"ProviderConfig {HOME}/platform, mode static" in explained.out
    restricted = await run_in_thread("explain", "team/a", f"--kubeconfig={team}", "-o", "json")
    [item] = json.loads(restricted.out)["items"]
    assert item["lines"][0] == (
        "the platform's default ProviderConfig is not known: you may not read ButlerConfig butler,"
        " which may name it; which pools the cluster tries is not known"
    )


async def test_check_of_a_namespace_only_needs_to_read_its_clusters_and_names_what_it_left_out(
    management: ManagementCluster, plane: Plane, tmp_path: Path
) -> None:
    await create_platform(management, "10.40.0.0/28")
    await management.create(TENANT_CLUSTER, "team", "a", **make_cluster_body())
    team = await write_team_kubeconfig(plane, management, tmp_path)
    arguments = ("check", f"--kubeconfig={team}", "-n", "team")
    for option in ((), ("--tenants",)):
        checked = await run_in_thread(*arguments, *option)
        assert (checked.code, checked.out) == (0, "nothing is wrong in what was read\n"), (
            checked.err
        )
        assert "you may not read ipallocations.butler.butlerlabs.dev" in checked.err
        assert (
            "not checked, because you may not read all of it: NetworkPools; overlaps"
            in checked.err
        )
        assert ("; load balancers of tenants" in checked.err) == bool(option)
    assert (await run_in_thread(*arguments, "--strict")).code == 1

    created = await management.client.get(TENANT_CLUSTER, Key("team", "a"))
    unreachable = {
        "type": LOAD_BALANCER_READY,
        "status": "False",
        "reason": UNREACHABLE,
        "message": "no answer",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await management.client.patch_status(TENANT_CLUSTER, created, {"conditions": [unreachable]})
    checked = await run_in_thread(*arguments, "-o", "json")
    report = json.loads(checked.out)
    assert [finding["kind"] for finding in report["findings"]] == ["TenantUnreachable"]
    assert "ipallocations.butler.butlerlabs.dev" in report["notRead"]
    assert checked.code == 1

    file = tmp_path / "report.json"
    file.write_text(checked.out)
    repaired = await run_in_thread(*arguments, "--repair", str(file))
    assert repaired.code == 1
    assert "you may not read what this command needs" in repaired.errors[0]


async def _bind_roles_cluster_wide(admin: httpx.AsyncClient, *roles: str) -> None:
    """Create shipped ClusterRoles, and bind each in the whole cluster to the group of its name."""
    group = "rbac.authorization.k8s.io"
    rbac_path = f"/apis/{group}/v1"
    for role in list_manifests("rbac"):
        name = role["metadata"]["name"]
        if name in roles:
            binding = {
                "apiVersion": f"{group}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": group, "kind": "Group", "name": name}],
            }
            for plural, body in (("clusterroles", role), ("clusterrolebindings", binding)):
                answer = await admin.post(f"{rbac_path}/{plural}", json=body)
                assert answer.status_code == 201, answer.text


async def _run_controllers_status(kubeconfig: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Run `status`; return its exit code, and its area `controllers`."""
    code, document, _ = await run_json_command("status", kubeconfig, *options)
    (area,) = [area for area in document["areas"] if area["area"] == "controllers"]
    return code, area


async def test_status_of_a_namespace_names_the_kinds_of_the_controllers_that_it_may_not_read(
    management: ManagementCluster, plane: Plane, tmp_path: Path
) -> None:
    await management.create(TENANT_CLUSTER, "team", "a", **make_cluster_body())
    team = await write_team_kubeconfig(plane, management, tmp_path)
    _, area = await _run_controllers_status(team, "-n", "team")
    assert area == {
        "area": "controllers",
        "state": "unknown",
        "summary": "you may not read leases.coordination.k8s.io, deployments.apps,"
        " validatingwebhookconfigurations.admissionregistration.k8s.io;"
        f" ClusterRole {READER_ROLE} allows it",
    }


@pytest.mark.usefixtures("management")
async def test_status_exits_with_3_for_a_viewer_without_the_shipped_role_for_the_controllers(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    viewer = "butler-ipam-viewer"
    await _bind_roles_cluster_wide(admin, viewer, READER_ROLE)
    without = await write_user_kubeconfig(plane, tmp_path, "vera", viewer)
    granted = await write_user_kubeconfig(plane, tmp_path, "olga", viewer, READER_ROLE)
    code, area = await _run_controllers_status(without)
    assert (code, area["state"]) == (3, "unknown")
    _, area = await _run_controllers_status(granted)
    assert area["state"] != "unknown", area
    assert "you may not read" not in area["summary"]
