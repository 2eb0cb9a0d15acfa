"""What a user sees who may read the TenantClusters of one namespace, and nothing else."""

import signal
from pathlib import Path

from controller.meta import Key
from envtest.plane import ControlPlane as Plane
from reconcilers.api.resources import TENANT_CLUSTER
from tests.contract.test_incidents import _platform, _team_kubeconfig
from tests.contract.test_release_command import RANGE
from tests.contract.test_static_flow import Site, _cluster, site
from tests.reconcilers.cli.commandline import run_beside
from tests.reconcilers.cli.commands import started
from tests.reconcilers.cli.test_ui import first_message

__all__ = ["site"]


async def test_the_live_page_of_a_namespace_shows_its_clusters_and_says_what_is_not_read(
    site: Site, plane: Plane, tmp_path: Path
) -> None:
    await _platform(site, "10.40.0.0/28")
    await site.create(TENANT_CLUSTER, "team", "a", **_cluster())
    team = await _team_kubeconfig(plane, site, tmp_path)
    arguments = ("ui", f"--kubeconfig={team}", "-n", "team", "--listen=127.0.0.1:0")
    async with started(*arguments) as running:
        match = await running.until(r"the map is at (http://\S+)/#token=(\S+)")
        message = await first_message(match[1], match[2])
        assert await running.stop(signal.SIGINT) == 0
    assert [tenant["name"] for tenant in message["tenants"]] == ["team/a"]
    assert message["order"] == []
    assert "you may not read ipallocations.butler.butlerlabs.dev" in message["failures"][0]


async def test_a_followed_status_of_a_namespace_needs_the_right_to_read_its_clusters_alone(
    site: Site, plane: Plane, tmp_path: Path
) -> None:
    await site.create(TENANT_CLUSTER, "team", "a", **_cluster())
    team = await _team_kubeconfig(plane, site, tmp_path)
    for command in ("status", "tenants"):
        arguments = (command, f"--kubeconfig={team}", "-n", "team", "-w")
        async with started(*arguments) as running:
            await running.until(r"1 TenantCluster|team +a ")
            await running.stop(signal.SIGINT)


async def test_the_explanation_of_a_cluster_names_its_ranges_and_what_may_not_be_read(
    site: Site, plane: Plane, tmp_path: Path
) -> None:
    await _platform(site, "10.40.0.0/28")
    await site.create(TENANT_CLUSTER, "team", "a", **_cluster())
    created = await site.client.get(TENANT_CLUSTER, Key("team", "a"))
    network = {"network": {"ranges": [RANGE]}}
    await site.client.patch_status(TENANT_CLUSTER, created, network)
    team = await _team_kubeconfig(plane, site, tmp_path)
    for name in ("team/a", "tenantcluster.butler.butlerlabs.dev/team/a"):
        explained = await run_beside("explain", name, f"--kubeconfig={team}")
        assert explained.code == 0, explained.err
        assert "butler-system/team-a-lb: loadbalancer 10.40.0.0-10.40.0.7" in explained.out
        assert "you may not read the platform's default ProviderConfig" in explained.out
    unknown = await run_beside("explain", "team/team-a-lb", f"--kubeconfig={team}")
    assert (unknown.code, "you may not read ipallocations" in unknown.errors[0]) == (1, True)
