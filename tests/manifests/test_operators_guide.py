"""Sections of the operator's guide, typed line by line as they are written, on a server."""

import shutil
from pathlib import Path

import pytest

from manifests import rendering
from reconcilers.api import crd
from tests.manifests.clusters import MANIFESTS, Cluster, empty_cluster
from tests.manifests.guide import NOT_TYPED, blocks, typed
from tests.manifests.test_running import allocated, ranges
from tests.reconcilers.cli.commands import started

pytestmark = pytest.mark.asyncio(loop_scope="module")
DEFINITIONS = [f"crd/{kind.crd_name}" for kind in crd.KINDS]
PORTS = ("--metrics-bind-address=0", "--health-probe-bind-address=0", "--webhook-port=0")


async def established(cluster: Cluster) -> None:
    await cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *DEFINITIONS)


async def served(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """Run the controller until all are served; return the ranges by name."""
    async with started("run", f"--kubeconfig={cluster.config}", *PORTS) as running:
        held = await allocated(cluster)
        assert await running.stop() == 0
    return held


async def test_a_backup_is_saved_and_restored_into_a_new_cluster_by_the_lines_of_the_guide(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.require_real("the lines scale a Deployment")
    if shutil.which("jq") is None:
        pytest.skip("no jq on this machine; the line that makes a restore of a backup needs it")
    typing = [line for line in blocks("backup-and-restore") if line not in NOT_TYPED]
    new = next(at for at, line in enumerate(typing) if line.startswith("butler-ipam plan"))
    await cluster.apply("-k", MANIFESTS / "crds")
    await established(cluster)
    await cluster.kubectl("apply", "--server-side", "-f", MANIFESTS / "samples")
    held = await served(cluster)
    await cluster.apply("-f", rendering.INSTALL)
    for line in typing[:new]:
        await typed(cluster, tmp_path, line)
    folder = tmp_path / "new"
    folder.mkdir()
    async with empty_cluster("asked", folder) as other:
        for line in typing[new:]:
            await typed(other, tmp_path, line)
            if "manifests/crds" in line:
                await established(other)
        assert await served(other) == held
        assert await ranges(other) == held
