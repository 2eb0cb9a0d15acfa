"""The offers of NetworkNamespaces: the addresses that each network hands out.

Offers of pools of all kinds have one form, so that overlaps between pools are found. Networks of
different datacenters may have the same addresses, and do not overlap. A network that names no
datacenter is compared with all. So are networks of other providers, which hand out addresses, too.
"""

from allocator import InvalidPool
from reconcilers.integrations.vitistack.api import NETWORKS, NetworkNamespace
from reconcilers.integrations.vitistack.caches import find_static
from reconcilers.integrations.vitistack.ranges import parse_space
from reconcilers.spaces.offers import PoolName, PoolOffer, Site, build_offers

PLATFORM = "vitistack"


def make_offers(network: NetworkNamespace) -> tuple[PoolOffer, ...]:
    """Return the offers of a network, even if it is not provisioned yet.

    They are empty if the network is being deleted, or has no or invalid static settings.
    """
    static = find_static(network)
    if static is None or network.metadata.is_terminating:
        return ()
    try:
        space = parse_space(static)
    except InvalidPool:
        return ()  # the status of its IPAllocations says why
    name = PoolName(NETWORKS.kind, network.metadata.key)
    site = Site(PLATFORM, network.spec.datacenterIdentifier)
    return build_offers(name, space.layout.blocks, site=site)
