"""The operator's guide from its first line to its last, typed as it is written, on a real server.

Tests with clusters of their own type the pages in ELSEWHERE.
"""

from pathlib import Path

import anyio
import pytest

from tests.docs.text import OPERATING, commands
from tests.manifests.clusters import HOME, MANIFESTS, Cluster, write_manifests
from tests.manifests.desk import Operator, needs
from tests.manifests.guide import NOT_TYPED, lines, pages
from tests.manifests.test_running import (
    installed_names,
    made_by_hand,
    ranges,
    wait_until_allocated,
)
from tests.yamls import read_yaml

pytestmark = pytest.mark.asyncio(loop_scope="module")
JOURNEY = (
    *("install", "first-tenant", "sharding-and-sizing", "tenants-and-load-balancers"),
    *("troubleshooting", "troubleshooting-pools", "runbooks", "upgrade-and-rollback", "uninstall"),
)
"""The pages that one cluster lives through."""
ELSEWHERE = {
    *(
        "migrate-from-butler",
        "backup-and-restore",
        "networks",
        "cluster-api",
        "kkp",
        "vitistack",
        "metal3",
    ),
    *("page", "security", "how-do-i", "cilium", "stability"),
}
"""The pages that other tests type, or that have only names of commands."""


async def test_every_line_of_the_guide_is_typed_by_some_test_or_says_why_not() -> None:
    assert set(pages()) <= {*JOURNEY, *ELSEWHERE}
    there = {command.line_text for page in OPERATING for command in commands(page)}
    assert set(NOT_TYPED) <= there, "a line that is not there any more has no reason to be listed"


async def test_the_guide_leads_from_an_empty_cluster_to_an_empty_cluster(
    cluster: Cluster, tmp_path: Path
) -> None:
    needs(cluster)
    operator = Operator(cluster, tmp_path)
    bundle = read_yaml((MANIFESTS / "samples/95-metallb-bundle.yaml").read_text())
    (tmp_path / "metallb-native.yaml").write_text(next(iter(bundle["data"].values())))
    install, *rest = JOURNEY
    first = lines(install)
    helm = next(line for line in first if line.startswith("helm upgrade --install"))
    await cluster.kubectl("create", "namespace", "monitoring")

    async with anyio.create_task_group() as group:
        up, done = anyio.Event(), anyio.Event()

        async def pods() -> None:
            async with operator.controller():
                up.set()
                await done.wait()

        async def start_pods() -> None:
            group.start_soon(pods)
            await up.wait()

        async def stop_pods() -> None:
            done.set()

        operator.before["kubectl -n butler-system get lease"] = start_pods
        await operator.types(install)
        assert await cluster.kubectl("get", "clusterrolebinding", "prometheus-butler-ipam")
        held_ranges: dict[str, tuple[int, int]] = {}
        for page in rest:
            if page == "sharding-and-sizing":
                held_ranges = await wait_until_allocated(cluster)
            if page == "troubleshooting":
                await grown_range(cluster)
            if page == "upgrade-and-rollback":
                await operator.releases(helm)
                assert (await ranges(cluster)).items() >= held_ranges.items()
            if page == "uninstall":
                await operator.webhooks_work()
                await made_by_hand(cluster)
                operator.before["helm uninstall"] = stop_pods
            await operator.types(page)
    listed = await cluster.kubectl("get", "crd", "-o", "name")
    assert names_of_ours(listed) == []
    assert await cluster.helm("list", "-n", HOME, "-q") == ""
    assert await installed_names(cluster) == []


async def grown_range(cluster: Cluster) -> None:
    """Have a range that an elastic tenant grew by: there is no tenant here that would."""
    body = {
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "IPAllocation",
        "metadata": {"name": "team-payments-shop-lb-2", "namespace": HOME},
        "spec": {
            "poolRef": {"name": "underlay-pool"},
            "tenantClusterRef": {"name": "shop", "namespace": "team-payments"},
            "type": "loadbalancer",
            "count": 2,
        },
    }
    await cluster.kubectl("create", "-f", "-", stdin=write_manifests(body))


def names_of_ours(listed: str) -> list[str]:
    return [name for name in listed.split() if name.endswith(".butler.butlerlabs.dev")]
