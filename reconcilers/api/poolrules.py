"""The CEL rules of NetworkPools: what one object can say of itself."""

from controller.markers import Rule
from reconcilers.api.fields import (
    FORBIDDEN,
    in_order,
    is_ipv4,
    is_ipv6,
    model,
    number,
    one_family,
    precedes,
)

MAX_RANGES = 16

SPAN = model(one_family("start", "end"), in_order("start", "end"))
_ORDERED = "ranges must be sorted by start IP and non-overlapping"
_PAIRS = list(range(MAX_RANGES - 1))
"""The numbers of the ranges that may have a successor."""


def _first_unordered(precedes_next: str) -> str:
    """Return the CEL expression of a message that names the first range in the wrong place.

    Args:
        precedes_next: CEL for whether range n ends before range n + 1 starts.
    """
    return (
        f"'{_ORDERED}; ' + {_PAIRS}.filter(n, n + 1 < size(self.ranges) && !({precedes_next}))"
        ".map(n, self.ranges[n + 1].start + ' follows ' + self.ranges[n].end)[0]"
    )


_COMPARABLE = f"self.ranges.all(r, {is_ipv4('r.start')} && {is_ipv4('r.end')})"
# Each range overlaps one range only: itself.
SORTED = Rule(
    f"!has(self.ranges) || !{_COMPARABLE}"
    f" || (self.ranges.map(r, {number('r.start')}).isSorted()"
    " && self.ranges.all(a, self.ranges.exists_one(b,"
    f" {number('b.start')} <= {number('a.end')} && {number('a.start')} <= {number('b.end')})))",
    _ORDERED,
    ".ranges",
    expression=_first_unordered(
        f"{number('self.ranges[n].end')} < {number('self.ranges[n + 1].start')}"
    ),
)
_NEXT = precedes("self.ranges[n].end", "self.ranges[n + 1].start", equal=False)
SORTED_IPV6 = Rule(
    "!has(self.ranges)"
    f" || !self.ranges.all(r, {is_ipv6('r.start')} && {is_ipv6('r.end')})"
    f" || {_PAIRS}.all(n, n + 1 >= size(self.ranges) || {_NEXT})",
    _ORDERED,
    ".ranges",
    expression=_first_unordered(_NEXT),
)
TOGETHER = Rule("has(self.start) == has(self.end)", "set both start and end, or neither")
TENANT_ALLOCATION = model(
    TOGETHER,
    in_order("start", "end"),
    SORTED,
    SORTED_IPV6,
)


def _within(inner: str, outer: str) -> str:
    """Return the CEL expression that one CIDR lies within another.

    `containsCIDR` says it shorter, but that of Kubernetes 1.31 finds only what begins where the
    outer one begins.
    """
    return (
        f"(cidr({outer}).containsIP(cidr({inner}).ip())"
        f" && cidr({outer}).prefixLength() <= cidr({inner}).prefixLength())"
    )


GROWS = Rule(
    f"!isCIDR(self) || !isCIDR(oldSelf) || {_within('oldSelf', 'self')}",
    "a new CIDR must contain the previous one; shrinking a pool may orphan existing allocations",
    reason=FORBIDDEN,
)
RESERVED_INSIDE = Rule(
    "!isCIDR(self.cidr) || !has(self.reserved) || self.reserved.all(r,"
    f" !isCIDR(r.cidr) || {_within('r.cidr', 'self.cidr')})",
    "reserved CIDRs must lie within the pool CIDR",
    ".reserved",
    expression="'reserved CIDRs must lie within the pool CIDR ' + self.cidr + ', unlike '"
    f" + self.reserved.filter(r, isCIDR(r.cidr) && !{_within('r.cidr', 'self.cidr')})[0].cidr",
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
