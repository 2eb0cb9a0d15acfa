"""Clusters get ranges or prefixes from each pool that names their datacenter."""

import pytest

from tests.contract.kubermatic.lab import KubermaticLab, make_prefix_settings, make_range_settings
from tests.contract.product import Server, release_line

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_a_cluster_gets_the_lowest_free_range_in_an_allocation_like_those_of_kkp(
    lab: KubermaticLab,
) -> None:
    pool = await lab.create_pool("p", dc=make_range_settings("192.168.1.0/28", 6))
    await lab.create_cluster("a")
    allocation = await lab.wait_for_ranges("a", "p", "192.168.1.0-192.168.1.5")
    assert allocation["spec"] == {
        "type": "range",
        "dc": lab.name("dc"),
        "addresses": ["192.168.1.0-192.168.1.5"],
    }
    assert allocation["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "kubermatic.k8c.io/v1",
            "kind": "IPAMPool",
            "name": lab.name("p"),
            "uid": pool["metadata"]["uid"],
        }
    ]
    assert not {"annotations", "labels", "finalizers"} & set(allocation["metadata"])
    await lab.wait_for_condition("a", "True", "Allocated")


@pytest.mark.parametrize(
    ("cidr", "size", "excluded", "held_ranges", "expected"),
    [
        (
            "192.168.1.0/28",
            6,
            [],
            ["192.168.1.0-192.168.1.1", "192.168.1.4-192.168.1.5", "192.168.1.8"],
            ["192.168.1.2-192.168.1.3", "192.168.1.6-192.168.1.7", "192.168.1.9-192.168.1.10"],
        ),
        (
            "192.168.1.0/27",
            8,
            ["192.168.1.9", "192.168.1.11-192.168.1.11", "192.168.1.15-192.168.1.17"],
            ["192.168.1.0-192.168.1.7"],
            [
                "192.168.1.8-192.168.1.8",
                "192.168.1.10-192.168.1.10",
                "192.168.1.12-192.168.1.14",
                "192.168.1.18-192.168.1.20",
            ],
        ),
        (
            "2001:db8::7/120",
            8,
            ["2001:db8::9", "2001:DB8::B-2001:db8:0::c"],
            ["2001:db8::-2001:db8::7"],
            [
                "2001:db8::8-2001:db8::8",
                "2001:db8::a-2001:db8::a",
                "2001:db8::d-2001:db8::12",
            ],
        ),
    ],
)
async def test_a_range_is_split_around_held_and_excluded_addresses(
    lab: KubermaticLab,
    cidr: str,
    size: int,
    excluded: list[str],
    held_ranges: list[str],
    expected: list[str],
) -> None:
    await lab.create_namespace("other")
    await lab.create_allocation("other", "p", type="range", addresses=held_ranges)
    await lab.create_pool("p", dc=make_range_settings(cidr, size, *excluded))
    await lab.create_cluster("a")
    await lab.wait_for_ranges("a", "p", *expected)


@pytest.mark.parametrize(
    ("cidr", "length", "excluded", "held_prefix", "expected"),
    [
        (
            "192.168.1.0/27",
            29,
            ["192.168.1.12/29", "192.168.1.16/29"],
            "192.168.1.3/29",
            "192.168.1.24/29",
        ),
        ("2001:db8:a::/56", 64, ["2001:DB8:A:1:0::/64"], "2001:db8:a::/64", "2001:db8:a:2::/64"),
        ("2001:db8::/32", 128, [], "2001:db8::/128", "2001:db8::1/128"),
        ("10.0.0.0/8", 32, [], "10.0.0.0/31", "10.0.0.2/32"),
    ],
)
async def test_a_prefix_is_the_lowest_aligned_block_without_held_or_excluded_addresses(
    lab: KubermaticLab,
    cidr: str,
    length: int,
    excluded: list[str],
    held_prefix: str,
    expected: str,
) -> None:
    await lab.create_namespace("other")
    await lab.create_allocation("other", "p", type="prefix", cidr=held_prefix)
    await lab.create_pool("p", dc=make_prefix_settings(cidr, length, *excluded))
    await lab.create_cluster("a")
    allocation = await lab.wait_for_ranges("a", "p", expected)
    assert "addresses" not in allocation["spec"]


async def test_a_larger_size_appends_a_range_and_a_smaller_one_takes_nothing_away(
    lab: KubermaticLab,
) -> None:
    await lab.create_pool("p", dc=make_range_settings("192.168.1.0/26", 8))
    await lab.create_cluster("a")
    await lab.wait_for_ranges("a", "p", "192.168.1.0-192.168.1.7")
    await lab.create_cluster("b")
    await lab.wait_for_ranges("b", "p", "192.168.1.8-192.168.1.15")
    await lab.patch(
        lab.build_pool_path("p"), {"spec": lab.make_pool_spec(dc={"allocationRange": 16})}
    )
    await lab.wait_for_ranges("a", "p", "192.168.1.0-192.168.1.7", "192.168.1.16-192.168.1.23")
    await lab.wait_for_ranges("b", "p", "192.168.1.8-192.168.1.15", "192.168.1.24-192.168.1.31")
    await lab.patch(
        lab.build_pool_path("p"), {"spec": lab.make_pool_spec(dc={"allocationRange": 4})}
    )
    await lab.create_cluster("c")
    await lab.wait_for_ranges("c", "p", "192.168.1.32-192.168.1.35")
    await lab.wait_for_ranges("a", "p", "192.168.1.0-192.168.1.7", "192.168.1.16-192.168.1.23")


async def test_a_prefix_of_another_length_is_replaced(lab: KubermaticLab) -> None:
    await lab.create_cluster("a")
    await lab.create_allocation("a", "p", type="prefix", cidr="192.168.1.0/30")
    await lab.create_pool(
        "p", dc=make_prefix_settings("192.168.1.0/26", 29, "192.168.1.8/29", "192.168.1.16/29")
    )
    await lab.wait_for_ranges("a", "p", "192.168.1.0/29")


async def test_each_datacenter_and_pool_has_addresses_of_its_own(lab: KubermaticLab) -> None:
    await lab.create_pool(
        "p",
        dc=make_range_settings("10.0.0.0/24", 4),
        other=make_prefix_settings("10.0.0.0/24", 28),
    )
    await lab.create_pool("q", dc=make_prefix_settings("2001:db8::/56", 64))
    await lab.create_cluster("a")
    await lab.create_cluster("b", "other")
    await lab.wait_for_ranges("a", "p", "10.0.0.0-10.0.0.3")
    await lab.wait_for_ranges("a", "q", "2001:db8::/64")
    await lab.wait_for_ranges("b", "p", "10.0.0.0/28")
    assert await lab.find(lab.build_allocation_path("b", "q")) is None


async def test_a_deleted_allocation_is_recreated(lab: KubermaticLab) -> None:
    await lab.create_pool("p", dc=make_range_settings("10.0.0.0/24", 4))
    await lab.create_cluster("a")
    first = await lab.wait_for_ranges("a", "p", "10.0.0.0-10.0.0.3")
    await lab.delete(lab.build_allocation_path("a", "p"))
    await lab.until(
        lab.build_allocation_path("a", "p"),
        lambda allocation: allocation["metadata"]["uid"] != first["metadata"]["uid"],
    )
    await lab.wait_for_ranges("a", "p", "10.0.0.0-10.0.0.3")


async def test_a_released_allocation_is_one_line_in_the_log(
    lab: KubermaticLab, server: Server
) -> None:
    await lab.create_pool("p", dc=make_range_settings("10.0.0.0/24", 4))
    await lab.create_cluster("a")
    allocation = await lab.wait_for_ranges("a", "p", "10.0.0.0-10.0.0.3")
    await lab.delete(lab.build_allocation_path("a", "p"))
    meta = allocation["metadata"]
    line = await release_line(server.log, f"IPAMAllocation {meta['namespace']}/{meta['name']}")
    assert "range=10.0.0.0-10.0.0.3" in line
    assert f"pool='IPAMPool {meta['name']}'" in line
    assert "reason='it is gone'" in line
