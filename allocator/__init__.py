"""Which addresses? Pure arithmetic on address ranges: no I/O, no clock, no Kubernetes.

Read in this order: `addresses` (ranges and their texts), `validation` and `layout` (what a pool
may hand out), `extents` on `sortedints` (free space), `holders` (held space), `space` (the
allocator). `errors` draws what can go wrong; `spans` has the two operations on sets that the rest
is made of.
"""

from allocator.addresses import (
    LISTED_ADDRESSES,
    AddressRange,
    Family,
    cidr_text,
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
from allocator.layout import MAX_ADDRESSES, Layout
from allocator.space import Capacity, Space
from allocator.validation import Fault, pool_faults, validate_pool

__all__ = [
    "LISTED_ADDRESSES",
    "MAX_ADDRESSES",
    "AddressRange",
    "AllocatorError",
    "Capacity",
    "Family",
    "Fault",
    "InvalidCIDR",
    "InvalidPool",
    "InvalidRange",
    "InvalidRequest",
    "Layout",
    "MalformedText",
    "NotHeld",
    "OutOfRange",
    "PinnedRangeConflict",
    "PoolExhausted",
    "PoolTooLarge",
    "RequestRefused",
    "Space",
    "cidr_text",
    "pool_faults",
    "read_range",
    "validate_pool",
]
