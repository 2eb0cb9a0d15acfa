"""KKP's MetalLB addon finds our allocations by the names of their pools and renders them."""

import pytest

from tests.contract.kubermatic.lab import (
    ROOT,
    Body,
    KubermaticLab,
    make_prefix_settings,
    make_range_settings,
)

pytestmark = pytest.mark.asyncio(loop_scope="package")

SINGLE = "metallb"
DUAL = ("metallb-ipv4", "metallb-ipv6")


def render_pools(allocations: dict[str, Body]) -> dict[str, list[str]]:
    """Return the entries of the IPAddressPools that the addon renders, by name of IPAddressPool.

    Args:
        allocations: the specs of a cluster's allocations, by name.
    """

    def list_entries(name: str) -> list[str]:
        spec = allocations[name]
        return [spec["cidr"]] if spec["type"] == "prefix" else list(spec["addresses"])

    pools = {}
    if SINGLE in allocations:
        pools["kkp-managed-pool"] = list_entries(SINGLE)
    if all(name in allocations for name in DUAL):
        pools["kkp-managed-pool-dualstack"] = [
            address for name in DUAL for address in list_entries(name)
        ]
    return pools


async def test_the_addon_renders_both_of_its_pools_from_our_allocations(
    lab: KubermaticLab,
) -> None:
    settings = {
        "metallb": make_range_settings("10.0.0.0/28", 4, "10.0.0.2"),
        "metallb-ipv4": make_range_settings("10.1.0.0/28", 4),
        "metallb-ipv6": make_prefix_settings("2001:db8::/56", 64),
    }
    for name, datacenter in settings.items():
        spec = lab.make_pool_spec(dc=datacenter)
        body = {"apiVersion": "kubermatic.k8c.io/v1", "kind": "IPAMPool", "spec": spec}
        await lab.create(lab.build_pool_path(), {**body, "metadata": {"name": name}})
    await lab.create_cluster("a")
    allocations = {}
    for name in settings:
        path = f"{ROOT}/namespaces/{lab.namespace('a')}/ipamallocations/{name}"
        allocation = await lab.until(
            path, lambda body: bool(body["spec"].get("addresses") or body["spec"].get("cidr"))
        )
        allocations[name] = allocation["spec"]
    assert render_pools(allocations) == {
        "kkp-managed-pool": ["10.0.0.0-10.0.0.1", "10.0.0.3-10.0.0.4"],
        "kkp-managed-pool-dualstack": ["10.1.0.0-10.1.0.3", "2001:db8::/64"],
    }
    for name in settings:
        await lab.delete(f"{ROOT}/ipampools/{name}")
