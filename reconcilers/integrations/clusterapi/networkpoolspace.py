"""The single addresses that a NetworkPool may hand out to claims."""

from allocator import Layout
from allocator.addresses import BITS
from reconcilers.addressing import poolgeometry
from reconcilers.addressing.familychoice import FAMILY_NAMES
from reconcilers.api.networkpool import NetworkPool
from reconcilers.integrations.clusterapi.addresses import PoolSpace


def parse_network_pool_space(pool: NetworkPool, max_addresses: int) -> PoolSpace:
    """Return the single addresses that a NetworkPool may hand out to claims.

    Args:
        max_addresses: the size of the largest pool that is accepted.

    Raises:
        InvalidPool: its spec cannot be parsed.
    """
    return make_layout_space(pool, poolgeometry.parse_layout(pool.spec, max_addresses))


def make_layout_space(pool: NetworkPool, layout: Layout) -> PoolSpace:
    """Return the single addresses that a NetworkPool may hand out, from its parsed spec.

    Args:
        layout: the addresses of its first family; claims get no address of the second family.
    """
    # The prefix length of the CIDR, whose size is 2 ** (bits - prefix length).
    prefix = BITS[layout.family] - (layout.cidr.size - 1).bit_length()
    name = FAMILY_NAMES[layout.family]
    return PoolSpace(layout, 0, prefix=prefix, gateway=pool.spec.gateway or "", name=name)
