"""The one-file install replaces an uninstalled Helm release, and Helm replaces the one file."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from manifests import rendering
from reconcilers.api import crd
from tests.manifests.clusters import HOME, Cluster
from tests.servers import program

pytestmark = pytest.mark.asyncio(loop_scope="module")
NAMES = [kind.crd_name for kind in crd.KINDS]
HELM = ("upgrade", "--install", "butler-ipam", "manifests/chart", "-n", HOME)
ONE_FILE = ("apply", "--server-side", "-f", rendering.INSTALL)
DEPLOYMENT = ("-n", HOME, "delete", "deployment", "butler-ipam")


@pytest_asyncio.fixture(loop_scope="module")
async def emptied_cluster(cluster: Cluster) -> AsyncIterator[Cluster]:
    """The cluster without anything of ours, before and after."""
    program("helm")
    yield cluster
    for release in (await cluster.helm("list", "-n", HOME, "-q")).split():
        await cluster.helm("uninstall", release, "-n", HOME)
    await cluster.kubectl(*DEPLOYMENT, "--ignore-not-found")
    await cluster.undefine(*NAMES)


async def test_the_one_file_replaces_an_uninstalled_release_and_helm_replaces_the_one_file(
    emptied_cluster: Cluster,
) -> None:
    await emptied_cluster.helm(*HELM, "--create-namespace", "--take-ownership")
    await emptied_cluster.helm("uninstall", "butler-ipam", "-n", HOME)
    assert [
        definition["metadata"]["name"]
        for definition in await emptied_cluster.list_definitions(*NAMES)
    ] == NAMES
    await emptied_cluster.kubectl(*ONE_FILE)
    await emptied_cluster.kubectl(*DEPLOYMENT)
    await emptied_cluster.helm(*HELM, "--take-ownership")
