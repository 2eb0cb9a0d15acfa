"""The choice of addresses: pure arithmetic on address ranges, without I/O, clock or Kubernetes.

Read in this order: `addresses` (ranges, their text, sets of them), `layout` (the addresses that a
pool may allocate, and the faults of its specification), `extents` (free space), `space` (the
allocator). `errors` has the exceptions.
"""

from allocator.addresses import (
    LISTED_ADDRESSES,
    AddressRange,
    Family,
    format_cidr,
    name_edge_addresses,
    read_range,
)
from allocator.errors import (
    AllocatorError,
    InvalidCIDR,
    InvalidPool,
    InvalidRange,
    InvalidRequest,
    MalformedText,
    NotHeld,
    OutOfRange,
    PinnedRangeConflict,
    PoolExhausted,
    PoolTooLarge,
    RequestRefused,
)
from allocator.layout import MAX_ADDRESSES, Layout, LayoutFault, list_layout_faults, validate_pool
from allocator.space import Capacity, Origin, Space, utilization_percent

__all__ = [
    "LISTED_ADDRESSES",
    "MAX_ADDRESSES",
    "AddressRange",
    "AllocatorError",
    "Capacity",
    "Family",
    "InvalidCIDR",
    "InvalidPool",
    "InvalidRange",
    "InvalidRequest",
    "Layout",
    "LayoutFault",
    "MalformedText",
    "NotHeld",
    "Origin",
    "OutOfRange",
    "PinnedRangeConflict",
    "PoolExhausted",
    "PoolTooLarge",
    "RequestRefused",
    "Space",
    "format_cidr",
    "list_layout_faults",
    "name_edge_addresses",
    "read_range",
    "utilization_percent",
    "validate_pool",
]
