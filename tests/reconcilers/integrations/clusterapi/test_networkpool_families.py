"""An IPAddress that names a NetworkPool of two families holds its address in whichever it lies."""

from ipaddress import ip_address

from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from tests.reconcilers.integrations.clusterapi.test_unreadable import (
    ADDRESSES,
    CLAIMS,
    CLUSTERS,
    WITH_CLAIMS,
    ref,
)
from tests.reconcilers.integrations.unreadable import Json, Site, site

SECOND = "fd00::/120"


async def _pool(place: Site) -> None:
    spec = {"cidr": "10.0.0.0/24", "secondary": {"cidr": SECOND}}
    await place.make(NETWORK_POOL, "lab", spec)


async def _address(place: Site, name: str, address: str) -> None:
    spec = {
        "claimRef": {"name": name},
        "poolRef": ref("lab", NETWORK_POOL),
        "address": address,
        "prefix": 64,
    }
    await place.make(ADDRESSES, name, spec)


async def _ask(place: Site, name: str) -> None:
    spec = {
        "poolRef": {"name": "lab"},
        "tenantClusterRef": {"name": name, "namespace": "team"},
        "type": "loadbalancer",
        "count": 8,
        "ipFamilyPolicy": "RequireDualStack",
    }
    await place.make(IP_ALLOCATION, name, spec)


def _second(place: Site, name: str) -> tuple[int, int]:
    """Return first and last address of an allocation in the second family."""
    families = place.see(IP_ALLOCATION, name)["status"]["families"]
    family = next(part for part in families if ":" in part["startAddress"])
    return int(ip_address(family["startAddress"])), int(ip_address(family["endAddress"]))


def _counts(place: Site) -> Json:
    return dict(place.see(NETWORK_POOL, "lab")["status"]["secondary"])


async def test_no_allocation_gets_an_address_that_an_ipaddress_holds_in_the_second_family() -> (
    None
):
    async with site(WITH_CLAIMS, CLAIMS, ADDRESSES, CLUSTERS) as place:
        await _pool(place)
        await _address(place, "machine", "fd00::3")
        await place.home.pass_by(5)
        assert _counts(place)["allocatedIPs"] == 1
        await _ask(place, "one")
        await place.home.pass_by(5)
        first, last = _second(place, "one")
        assert not first <= int(ip_address("fd00::3")) <= last
        assert _counts(place)["allocatedIPs"] == 9


async def test_an_address_in_the_second_family_is_free_once_its_ipaddress_is_gone() -> None:
    async with site(WITH_CLAIMS, CLAIMS, ADDRESSES, CLUSTERS) as place:
        await _pool(place)
        await _address(place, "machine", "fd00::3")
        await place.home.pass_by(5)
        await place.remove(ADDRESSES, "machine")
        await place.home.pass_by(60)
        assert _counts(place)["allocatedIPs"] == 0
        await _ask(place, "one")
        await place.home.pass_by(5)
        assert _second(place, "one")[0] == int(ip_address("fd00::"))
