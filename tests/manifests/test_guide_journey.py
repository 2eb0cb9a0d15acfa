"""The pages of JOURNEY in the operator's guide, typed on one cluster of a real server.

Other tests type the pages in ELSEWHERE.
"""

from pathlib import Path

import anyio
import pytest

from tests.docs.text import OPERATING, commands
from tests.manifests.clusters import HOME, MANIFESTS, Cluster, write_manifests
from tests.manifests.desk import Operator, require_guide_tools
from tests.manifests.guide import NOT_TYPED, list_pages, list_typed_lines
from tests.manifests.test_running import (
    create_ownerless_allocation,
    list_installed_names,
    read_ranges,
    wait_until_allocated,
)
from tests.yamls import read_yaml

pytestmark = pytest.mark.asyncio(loop_scope="module")
JOURNEY = (
    *("install", "first-tenant", "sharding-and-sizing", "tenants-and-load-balancers"),
    *("troubleshooting", "troubleshooting-pools", "runbooks", "upgrade-and-rollback", "uninstall"),
)
"""The pages that are typed on one cluster, in this order."""
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
"""The pages that other tests type, and the pages without a line to type."""


async def test_every_line_of_the_guide_is_typed_by_some_test_or_says_why_not() -> None:
    assert set(list_pages()) <= {*JOURNEY, *ELSEWHERE}
    guide_lines = {command.line_text for page in OPERATING for command in commands(page)}
    assert set(NOT_TYPED) <= guide_lines, "NOT_TYPED lists a line that the guide does not have"


async def test_the_guide_leads_from_an_empty_cluster_to_an_empty_cluster(
    cluster: Cluster, tmp_path: Path
) -> None:
    require_guide_tools(cluster)
    operator = Operator(cluster, tmp_path)
    bundle = read_yaml((MANIFESTS / "samples/95-metallb-bundle.yaml").read_text())
    (tmp_path / "metallb-native.yaml").write_text(next(iter(bundle["data"].values())))
    install, *rest = JOURNEY
    install_lines = list_typed_lines(install)
    helm_line = next(line for line in install_lines if line.startswith("helm upgrade --install"))
    await cluster.kubectl("create", "namespace", "monitoring")

    async with anyio.create_task_group() as group:
        is_running, is_done = anyio.Event(), anyio.Event()

        async def run_until_done() -> None:
            async with operator.run_controller():
                is_running.set()
                await is_done.wait()

        async def start_controller() -> None:
            group.start_soon(run_until_done)
            await is_running.wait()

        async def stop_controller() -> None:
            is_done.set()

        operator.steps_before["kubectl -n butler-system get lease"] = start_controller
        await operator.type_page(install)
        assert await cluster.kubectl("get", "clusterrolebinding", "prometheus-butler-ipam")
        held_ranges: dict[str, tuple[int, int]] = {}
        for page in rest:
            if page == "sharding-and-sizing":
                held_ranges = await wait_until_allocated(cluster)
            if page == "troubleshooting":
                await create_growth_allocation(cluster)
            if page == "upgrade-and-rollback":
                await operator.type_release(helm_line)
                assert (await read_ranges(cluster)).items() >= held_ranges.items()
            if page == "uninstall":
                await operator.redirect_webhooks()
                await create_ownerless_allocation(cluster)
                operator.steps_before["helm uninstall"] = stop_controller
            await operator.type_page(page)
    listed = await cluster.kubectl("get", "crd", "-o", "name")
    assert filter_our_definitions(listed) == []
    assert await cluster.helm("list", "-n", HOME, "-q") == ""
    assert await list_installed_names(cluster) == []


async def create_growth_allocation(cluster: Cluster) -> None:
    """Create a growth allocation as of an elastic tenant; no tenant runs in this test."""
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


def filter_our_definitions(listed: str) -> list[str]:
    """Return our definitions of kubectl's list of names."""
    return [name for name in listed.split() if name.endswith(".butler.butlerlabs.dev")]
