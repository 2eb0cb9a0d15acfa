"""The CEL rules of NetworkPools: what one object can say of itself."""

from controller.markers import Rule
from reconcilers.api.fields import (
    FORBIDDEN,
    build_ipv4_number,
    build_is_ipv4,
    build_is_ipv6,
    build_precedes,
    model,
    require_one_family,
    require_order,
)

MAX_RANGES = 16

SPAN = model(require_one_family("start", "end"), require_order("start", "end"))
_ORDERED = "ranges must be sorted by start IP and non-overlapping"
_PAIRS = list(range(MAX_RANGES - 1))
"""The numbers of the ranges that may have a successor."""


def _build_unordered_message(precedes_next: str) -> str:
    """Return the CEL expression of a message that names the first range in the wrong place.

    Args:
        precedes_next: CEL for whether range n ends before range n + 1 starts.
    """
    return (
        f"'{_ORDERED}; ' + {_PAIRS}.filter(n, n + 1 < size(self.ranges) && !({precedes_next}))"
        ".map(n, self.ranges[n + 1].start + ' follows ' + self.ranges[n].end)[0]"
    )


_COMPARABLE = f"self.ranges.all(r, {build_is_ipv4('r.start')} && {build_is_ipv4('r.end')})"
# Each range overlaps one range only: itself.
SORTED = Rule(
    f"!has(self.ranges) || !{_COMPARABLE}"
    f" || (self.ranges.map(r, {build_ipv4_number('r.start')}).isSorted()"
    " && self.ranges.all(a, self.ranges.exists_one(b,"
    f" {build_ipv4_number('b.start')} <= {build_ipv4_number('a.end')}"
    f" && {build_ipv4_number('a.start')} <= {build_ipv4_number('b.end')})))",
    _ORDERED,
    ".ranges",
    expression=_build_unordered_message(
        f"{build_ipv4_number('self.ranges[n].end')}"
        f" < {build_ipv4_number('self.ranges[n + 1].start')}"
    ),
)
_NEXT = build_precedes("self.ranges[n].end", "self.ranges[n + 1].start", equal=False)
SORTED_IPV6 = Rule(
    "!has(self.ranges)"
    f" || !self.ranges.all(r, {build_is_ipv6('r.start')} && {build_is_ipv6('r.end')})"
    f" || {_PAIRS}.all(n, n + 1 >= size(self.ranges) || {_NEXT})",
    _ORDERED,
    ".ranges",
    expression=_build_unordered_message(_NEXT),
)
TOGETHER = Rule("has(self.start) == has(self.end)", "set both start and end, or neither")
TENANT_ALLOCATION = model(
    TOGETHER,
    require_order("start", "end"),
    SORTED,
    SORTED_IPV6,
)


def _build_is_within(inner: str, outer: str) -> str:
    """Return CEL for whether one CIDR lies within another.

    `containsCIDR` would be shorter. But in Kubernetes 1.31 it finds only an inner CIDR that begins
    at the first address of the outer CIDR.

    Args:
        inner: CEL for the text of the inner CIDR.
        outer: CEL for the text of the outer CIDR.
    """
    return (
        f"(cidr({outer}).containsIP(cidr({inner}).ip())"
        f" && cidr({outer}).prefixLength() <= cidr({inner}).prefixLength())"
    )


GROWS = Rule(
    f"!isCIDR(self) || !isCIDR(oldSelf) || {_build_is_within('oldSelf', 'self')}",
    "a new CIDR must contain the previous one; shrinking a pool may orphan existing allocations",
    reason=FORBIDDEN,
)
RESERVED_INSIDE = Rule(
    "!isCIDR(self.cidr) || !has(self.reserved) || self.reserved.all(r,"
    f" !isCIDR(r.cidr) || {_build_is_within('r.cidr', 'self.cidr')})",
    "reserved CIDRs must lie within the pool CIDR",
    ".reserved",
    expression="'reserved CIDRs must lie within the pool CIDR ' + self.cidr + ', unlike '"
    " + self.reserved.filter(r, isCIDR(r.cidr)"
    f" && !{_build_is_within('r.cidr', 'self.cidr')})[0].cidr",
)
_RANGES = "self.tenantAllocation.ranges"
RANGES_INSIDE = Rule(
    "!isCIDR(self.cidr) || !has(self.tenantAllocation) || !has(self.tenantAllocation.ranges)"
    " || self.tenantAllocation.ranges.all(r, !isIP(r.start) || !isIP(r.end)"
    " || (cidr(self.cidr).containsIP(r.start) && cidr(self.cidr).containsIP(r.end)))",
    "ranges must lie within the pool CIDR",
    ".tenantAllocation.ranges",
    expression="'ranges must lie within the pool CIDR ' + self.cidr + ', unlike '"
    f" + {list(range(MAX_RANGES))}.filter(n, n < size({_RANGES})"
    f" && isIP({_RANGES}[n].start) && isIP({_RANGES}[n].end)"
    f" && !(cidr(self.cidr).containsIP({_RANGES}[n].start)"
    f" && cidr(self.cidr).containsIP({_RANGES}[n].end)))"
    f".map(n, {_RANGES}[n].start + '-' + {_RANGES}[n].end)[0]",
)
ENDS_INSIDE = Rule(
    "!isCIDR(self.cidr) || !has(self.tenantAllocation)"
    " || (has(self.tenantAllocation.ranges) && size(self.tenantAllocation.ranges) > 0)"
    " || !has(self.tenantAllocation.start) || !has(self.tenantAllocation.end)"
    " || !isIP(self.tenantAllocation.start) || !isIP(self.tenantAllocation.end)"
    " || (cidr(self.cidr).containsIP(self.tenantAllocation.start)"
    " && cidr(self.cidr).containsIP(self.tenantAllocation.end))",
    "start and end must lie within the pool CIDR",
    ".tenantAllocation",
    expression="'start and end must lie within the pool CIDR ' + self.cidr + ', not '"
    " + self.tenantAllocation.start + '-' + self.tenantAllocation.end",
)
# That a reservation does not straddle a range's end takes arithmetic that CEL makes unreadable:
# the webhook refuses it, and without webhooks the pool's controller does, by a condition.
# What lies within the CIDR is of its family. A gateway need not lie within it.
GATEWAY_FAMILY = Rule(
    "!has(self.gateway) || self.gateway == ''"
    " || self.gateway.contains(':') == self.cidr.contains(':')",
    "the gateway must be of the family of cidr",
    ".gateway",
)
OTHER_FAMILY = Rule(
    "!has(self.secondary) || self.cidr.contains(':') != self.secondary.cidr.contains(':')",
    "the secondary CIDR must be of the other family than cidr: one of IPv4, one of IPv6",
    ".secondary",
)
POOL = model(RESERVED_INSIDE, RANGES_INSIDE, ENDS_INSIDE, OTHER_FAMILY, GATEWAY_FAMILY)
SECONDARY_ALLOCATION = model(SORTED, SORTED_IPV6)
SECONDARY = model(RESERVED_INSIDE, RANGES_INSIDE)
