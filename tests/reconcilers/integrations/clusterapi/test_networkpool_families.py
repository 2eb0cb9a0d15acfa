"""An IPAddress that names a NetworkPool of two families holds its address in whichever it lies."""

from ipaddress import ip_address

from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from tests.reconcilers.integrations.clusterapi.test_unreadable import (
    ADDRESSES,
    CLAIMS,
    CLUSTERS,
    WITH_CLAIMS,
    make_pool_ref,
)
from tests.reconcilers.integrations.unreadable import Json, PlatformCluster, open_platform_cluster

SECOND = "fd00::/120"


async def _create_pool(cluster: PlatformCluster) -> None:
    """Create NetworkPool `lab` with 256 addresses in each of two families."""
    spec = {"cidr": "10.0.0.0/24", "secondary": {"cidr": SECOND}}
    await cluster.create_object(NETWORK_POOL, "lab", spec)


async def _create_ipaddress(cluster: PlatformCluster, name: str, address: str) -> None:
    """Create an IPAddress of NetworkPool `lab`, whose claim does not exist."""
    spec = {
        "claimRef": {"name": name},
        "poolRef": make_pool_ref("lab", NETWORK_POOL),
        "address": address,
        "prefix": 64,
    }
    await cluster.create_object(ADDRESSES, name, spec)


async def _create_allocation(cluster: PlatformCluster, name: str) -> None:
    """Create an IPAllocation that requests eight addresses in each family."""
    spec = {
        "poolRef": {"name": "lab"},
        "tenantClusterRef": {"name": name, "namespace": "team"},
        "type": "loadbalancer",
        "count": 8,
        "ipFamilyPolicy": "RequireDualStack",
    }
    await cluster.create_object(IP_ALLOCATION, name, spec)


def _read_second_range(cluster: PlatformCluster, name: str) -> tuple[int, int]:
    """Return the first and the last IPv6 address of an allocation, as numbers."""
    families = cluster.get_stored(IP_ALLOCATION, name)["status"]["families"]
    ipv6 = next(family for family in families if ":" in family["startAddress"])
    return int(ip_address(ipv6["startAddress"])), int(ip_address(ipv6["endAddress"]))


def _read_second_counts(cluster: PlatformCluster) -> Json:
    """Return the counts of the second family in the status of NetworkPool `lab`."""
    return dict(cluster.get_stored(NETWORK_POOL, "lab")["status"]["secondary"])


async def test_no_allocation_gets_an_address_that_an_ipaddress_holds_in_the_second_family() -> (
    None
):
    async with open_platform_cluster(WITH_CLAIMS, CLAIMS, ADDRESSES, CLUSTERS) as cluster:
        await _create_pool(cluster)
        await _create_ipaddress(cluster, "machine", "fd00::3")
        await cluster.pass_by(5)
        assert _read_second_counts(cluster)["allocatedIPs"] == 1
        await _create_allocation(cluster, "one")
        await cluster.pass_by(5)
        first, last = _read_second_range(cluster, "one")
        assert not first <= int(ip_address("fd00::3")) <= last
        assert _read_second_counts(cluster)["allocatedIPs"] == 9


async def test_an_address_in_the_second_family_is_free_once_its_ipaddress_is_gone() -> None:
    async with open_platform_cluster(WITH_CLAIMS, CLAIMS, ADDRESSES, CLUSTERS) as cluster:
        await _create_pool(cluster)
        await _create_ipaddress(cluster, "machine", "fd00::3")
        await cluster.pass_by(5)
        await cluster.remove_by_force(ADDRESSES, "machine")
        await cluster.pass_by(60)
        assert _read_second_counts(cluster)["allocatedIPs"] == 0
        await _create_allocation(cluster, "one")
        await cluster.pass_by(5)
        assert _read_second_range(cluster, "one")[0] == int(ip_address("fd00::"))
