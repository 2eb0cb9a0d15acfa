"""What NetworkNamespaces hand out, in the form in which pools of all kinds are compared.

Networks of two datacenters may have the same addresses, as sites do. A network that names no
datacenter may be of any. Networks of other providers count too: they hand out their addresses.
"""

from allocator import InvalidPool
from reconcilers.integrations.vitistack.api import NETWORKS, NetworkNamespace
from reconcilers.integrations.vitistack.caches import static_of
from reconcilers.integrations.vitistack.ranges import space_of
from reconcilers.spaces.offers import PoolName, PoolOffer, Site, offer_of

PLATFORM = "vitistack"


def offers_of(network: NetworkNamespace) -> tuple[PoolOffer, ...]:
    """Return the offers of a network, now or once it is provisioned.

    A network that is being deleted, has no static configuration or cannot be served hands out
    nothing.
    """
    static = static_of(network)
    if static is None or network.metadata.terminating:
        return ()
    try:
        space = space_of(static)
    except InvalidPool:
        return ()  # the status of its IPAllocations says why
    name = PoolName(NETWORKS.kind, network.metadata.key)
    site = Site(PLATFORM, network.spec.datacenterIdentifier)
    return offer_of(name, space.layout.blocks, site=site)
