"""Helm where the definitions are there already: of Butler's chart, of kustomize, of a release."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from reconcilers.api import crd
from tests.manifests import butler
from tests.manifests.clusters import HOME, MANIFESTS, Cluster, write_manifests
from tests.servers import program

pytestmark = pytest.mark.asyncio(loop_scope="module")
NAMES = [kind.crd_name for kind in crd.KINDS]
INSTALL = ("upgrade", "--install", "butler-ipam", "manifests/chart", "-n", HOME)
OTHER = ("install", "other", "manifests/chart", "-n", HOME, "--set", "fullnameOverride=other")


@pytest_asyncio.fixture(loop_scope="module")
async def empty_site(cluster: Cluster) -> AsyncIterator[Cluster]:
    """The cluster without releases and definitions of ours, before and after."""
    program("helm")
    yield cluster
    for release in (await cluster.helm("list", "-n", HOME, "-q")).split():
        await cluster.helm("uninstall", release, "-n", HOME)
    await cluster.undefine(*NAMES)


async def put(cluster: Cluster, whose: str) -> None:
    """Have the definitions in the cluster already."""
    if whose == "another release's":
        await cluster.helm(*OTHER)
    elif whose == "Butler's":
        theirs = write_manifests(*butler.definitions())
        await cluster.kubectl("apply", "--server-side", "-f", "-", stdin=theirs)
    else:
        await cluster.kubectl("apply", "--server-side", "-k", MANIFESTS / "crds")


async def owners(cluster: Cluster) -> set[str]:
    """Return the releases that own the definitions, by Helm's annotation."""
    return {
        definition["metadata"].get("annotations", {}).get("meta.helm.sh/release-name", "")
        for definition in await cluster.definitions(*NAMES)
    }


@pytest.mark.parametrize("whose", ["Butler's", "kustomize's", "another release's"])
async def test_definitions_that_are_there_are_taken_over_if_that_is_said_and_not_otherwise(
    empty_site: Cluster, whose: str
) -> None:
    await put(empty_site, whose)
    before = await owners(empty_site)
    code, _, complained = await empty_site.run("helm", *INSTALL)
    assert code != 0
    assert "invalid ownership metadata" in complained
    assert await owners(empty_site) == before
    await empty_site.helm(*INSTALL, "--take-ownership")
    assert await owners(empty_site) == {"butler-ipam"}
    for kind, definition in zip(crd.KINDS, await empty_site.definitions(*NAMES), strict=True):
        assert set(kind.short_names) <= set(definition["spec"]["names"]["shortNames"])
    # From then on the release goes on by itself.
    await empty_site.helm(*INSTALL)


async def test_without_its_definitions_the_chart_leaves_those_that_are_there_alone(
    empty_site: Cluster,
) -> None:
    await put(empty_site, "kustomize's")
    await empty_site.helm(*INSTALL, "--set", "crds.enable=false")
    assert await owners(empty_site) == {""}
