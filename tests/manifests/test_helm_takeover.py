"""Installation by Helm if the CRDs exist already: by Butler, kustomize, or another release."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from reconcilers.api import crd
from tests.manifests import butler
from tests.manifests.clusters import HOME, MANIFESTS, Cluster, write_manifests
from tests.servers import program

pytestmark = pytest.mark.asyncio(loop_scope="module")
DEFINITION_NAMES = [kind.crd_name for kind in crd.KINDS]
INSTALL = ("upgrade", "--install", "butler-ipam", "manifests/chart", "-n", HOME)
INSTALL_OTHER_RELEASE = (
    *("install", "other", "manifests/chart", "-n", HOME),
    *("--set", "fullnameOverride=other"),
)


@pytest_asyncio.fixture(loop_scope="module")
async def emptied_cluster(cluster: Cluster) -> AsyncIterator[Cluster]:
    """The cluster without releases and definitions of ours, before and after."""
    program("helm")
    yield cluster
    for release in (await cluster.helm("list", "-n", HOME, "-q")).split():
        await cluster.helm("uninstall", release, "-n", HOME)
    await cluster.undefine(*DEFINITION_NAMES)


async def install_definitions(cluster: Cluster, former_installer: str) -> None:
    """Install the definitions in the way of Butler, of kustomize, or of another Helm release."""
    if former_installer == "another release's":
        await cluster.helm(*INSTALL_OTHER_RELEASE)
    elif former_installer == "Butler's":
        butlers_definitions = write_manifests(*butler.build_definitions())
        await cluster.kubectl("apply", "--server-side", "-f", "-", stdin=butlers_definitions)
    else:
        await cluster.kubectl("apply", "--server-side", "-k", MANIFESTS / "crds")


async def read_owning_releases(cluster: Cluster) -> set[str]:
    """Return the releases that own the definitions, by Helm's annotation."""
    return {
        definition["metadata"].get("annotations", {}).get("meta.helm.sh/release-name", "")
        for definition in await cluster.list_definitions(*DEFINITION_NAMES)
    }


@pytest.mark.parametrize("former_installer", ["Butler's", "kustomize's", "another release's"])
async def test_existing_definitions_are_taken_over_only_with_the_flag_take_ownership(
    emptied_cluster: Cluster, former_installer: str
) -> None:
    await install_definitions(emptied_cluster, former_installer)
    before = await read_owning_releases(emptied_cluster)
    code, _, error_output = await emptied_cluster.run("helm", *INSTALL)
    assert code != 0
    assert "invalid ownership metadata" in error_output
    assert await read_owning_releases(emptied_cluster) == before
    await emptied_cluster.helm(*INSTALL, "--take-ownership")
    assert await read_owning_releases(emptied_cluster) == {"butler-ipam"}
    for kind, definition in zip(
        crd.KINDS, await emptied_cluster.list_definitions(*DEFINITION_NAMES), strict=True
    ):
        assert set(kind.short_names) <= set(definition["spec"]["names"]["shortNames"])
    # The next upgrade of the release needs no flag.
    await emptied_cluster.helm(*INSTALL)


async def test_the_chart_without_definitions_leaves_existing_definitions_unchanged(
    emptied_cluster: Cluster,
) -> None:
    await install_definitions(emptied_cluster, "kustomize's")
    await emptied_cluster.helm(*INSTALL, "--set", "crds.enable=false")
    assert await read_owning_releases(emptied_cluster) == {""}
