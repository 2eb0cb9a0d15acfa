"""A cluster of a size that people have, for the page: 40 pools, 2,300 tenants, both families."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from tests.reconcilers.cli.commandline import make_allocation, make_pool
from tests.reconcilers.cli.saved import make_holder, make_saved_cluster

POOLS_OF_IPV4 = 35
POOLS_OF_IPV6 = 4
"""Beside the large one."""
IN_LARGE_POOL = 2_000
IN_SMALL_POOL = 8
TENANTS = 2_300
WAITING = 40
_STEP = 24
"""Addresses from the start of one range in the large pool to the start of the next."""
_REASON = "no pool has a free block of {} addresses; add a range to spec.tenantAllocation"


def make_objects(share: int = 1) -> Iterator[dict[str, Any]]:
    """Yield the objects of the cluster.

    Args:
        share: the divisor of the numbers of tenants and allocations; 1 is the full size.
    """
    tenants = TENANTS // share
    names = [f"team-{number % 40}/cluster-{number}" for number in range(tenants)]
    yield make_pool("large", "10.0.0.0/16", reserved=["10.0.0.0/28"], status=_ready())
    for number in range(IN_LARGE_POOL // share):
        first = IPv4Address("10.0.1.0") + number * _STEP
        size = (8, 16, 4, 24)[number % 4]
        kind = "nodes" if number % 3 == 0 else "loadbalancer"
        tenant = names[number % tenants]
        ends = (str(first), str(first + size - 1))
        yield make_holder(f"large-{number}", *ends, pool="large", tenant=tenant, purpose=kind)
    for at in range(POOLS_OF_IPV4):
        yield make_pool(f"vlan-{at}", f"10.{at + 1}.0.0/24", reserved=[f"10.{at + 1}.0.0/29"])
        for number in range(IN_SMALL_POOL):
            ends = (f"10.{at + 1}.0.{16 * number + 16}", f"10.{at + 1}.0.{16 * number + 27}")
            tenant = names[(at * IN_SMALL_POOL + number) % tenants]
            yield make_holder(f"vlan-{at}-{number}", *ends, pool=f"vlan-{at}", tenant=tenant)
    for at in range(POOLS_OF_IPV6):
        yield make_pool(f"six-{at}", f"fd00:{at + 1}::/48")
        for number in range(IN_SMALL_POOL):
            first_of_six = IPv6Address(f"fd00:{at + 1}:0:{number + 1}::")
            ends = (str(first_of_six), str(first_of_six + (1 << 64) - 1))
            yield make_holder(
                f"six-{at}-{number}", *ends, pool=f"six-{at}", tenant=names[number % tenants]
            )
    for number in range(WAITING):
        yield make_allocation(
            f"waits-{number}",
            512,
            pool=f"vlan-{number % 5}",
            tenant=names[number % tenants],
            status={"phase": "Failed", "conditions": [_waits(512)]},
        )
    for name in names:
        namespace, _, cluster_name = name.partition("/")
        yield make_saved_cluster(cluster_name, namespace, uid=f"uid-{cluster_name}") | {
            "status": {"phase": "Ready", "conditions": [_condition("NetworkReady", "it is")]}
        }


def _ready() -> dict[str, Any]:
    return {"conditions": [_condition("Ready", "serving")]}


def _waits(addresses: int) -> dict[str, Any]:
    return _condition("Ready", _REASON.format(addresses)) | {
        "status": "False",
        "reason": "PoolExhausted",
    }


def _condition(kind: str, message: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": "True",
        "reason": "Serving",
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
