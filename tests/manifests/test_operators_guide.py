"""Sections of the operator's guide, typed line by line as they are written, on a server."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from manifests import rendering
from reconcilers.api import crd
from tests.docs.text import commands
from tests.manifests.clusters import HOME, MANIFESTS, Cluster, empty_cluster
from tests.manifests.test_running import allocated, ranges
from tests.reconcilers.cli.commands import ROOT, started
from tests.servers import program

pytestmark = pytest.mark.asyncio(loop_scope="module")
GUIDE = "OPERATIONS.md"
DEFINITIONS = [f"crd/{kind.crd_name}" for kind in crd.KINDS]
PORTS = ("--metrics-bind-address=0", "--health-probe-bind-address=0", "--webhook-port=0")


def lines(heading: str) -> list[str]:
    """Return the lines of a section's blocks, in order."""
    return [command.text for command in commands(GUIDE, heading) if command.block]


async def typed(cluster: Cluster, desk: Path, line: str) -> str:
    """Type a line at a desk from where the manifests are seen; it has to succeed."""
    if not (desk / "manifests").exists():
        (desk / "manifests").symlink_to(ROOT / "manifests")
    folders = f"{Path(sys.executable).parent}:{Path(program('kubectl')).parent}"
    script = f'export PATH="{folders}:$PATH"; cd "{desk}"; {line}'
    code, said, complained = await cluster.run("sh", "-c", script)
    assert code == 0, f"{line}: {complained or said}"
    return said


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
    typing = lines("Back up and restore")
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


async def test_the_line_for_kustomize_installs_the_named_image_and_changes_no_file(
    cluster: Cluster, tmp_path: Path
) -> None:
    [line] = [one for one in lines("Install") if "kustomize" in one]
    before = {path: path.read_bytes() for path in MANIFESTS.rglob("*.yaml")}
    await typed(cluster, tmp_path, line)
    found = await cluster.kubectl("get", "deployment", "butler-ipam", "-n", HOME, "-o", "json")
    [container] = json.loads(found)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/butler-ipam:0.1.0"
    assert {path: path.read_bytes() for path in MANIFESTS.rglob("*.yaml")} == before
