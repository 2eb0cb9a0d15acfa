"""The single addresses that a NetworkPool may hand out to claims."""

from allocator import Layout
from reconcilers.addressing import poolgeometry
from reconcilers.addressing.familychoice import FAMILY_NAMES
from reconcilers.api.networkpool import NetworkPool
from reconcilers.integrations.clusterapi.addresses import PoolSpace


def network_pool_space(pool: NetworkPool, max_addresses: int) -> PoolSpace:
    """Return the single addresses that a NetworkPool may hand out to claims.

    Args:
        max_addresses: the size of the largest pool that is accepted.

    Raises:
        InvalidPool: its spec cannot be parsed.
    """
    return space_of_layout(pool, poolgeometry.parse_layout(pool.spec, max_addresses))


def space_of_layout(pool: NetworkPool, layout: Layout) -> PoolSpace:
    """Return the single addresses that a NetworkPool may hand out, from its parsed spec.

    Args:
        layout: what its spec declares for its first family; claims get no address of the second.
    """
    bits = 32 if layout.family == 4 else 128
    prefix = bits - (layout.cidr.size - 1).bit_length()
    name = FAMILY_NAMES[layout.family]
    return PoolSpace(layout, 0, prefix=prefix, gateway=pool.spec.gateway or "", name=name)
