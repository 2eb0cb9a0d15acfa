"""What the CRDs' own rules refuse and what they let pass: specs as people write them."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


def ranges(*spans: tuple[str, str]) -> Json:
    return {"tenantAllocation": {"ranges": [{"start": a, "end": b} for a, b in spans]}}


def pool(cidr: str = "10.0.0.0/24", **rest: Any) -> Json:
    return {"cidr": cidr} | rest


def request(**rest: Any) -> Json:
    return {
        "poolRef": {"name": "lab"},
        "tenantClusterRef": {"name": "a", "namespace": "team"},
        "type": "nodes",
    } | rest


def cluster(**networking: Any) -> Json:
    spec: Json = {"kubernetesVersion": "v1.33.1", "workers": {"replicas": 1}}
    return spec | ({"networking": networking} if networking else {})


def selecting(**selector: Any) -> Json:
    addon = {"version": "1", "provider": "cilium", "cilium": {"serviceSelector": selector}}
    return cluster() | {"addons": {"loadBalancer": addon}}


def by_hand(start: str, end: str) -> Json:
    return cluster(loadBalancerPool={"start": start, "end": end})


def provider(kind: str = "local", **rest: Any) -> Json:
    return {"provider": kind, "credentialsRef": {"name": "secret"}} | rest


def network(**rest: Any) -> Json:
    return provider(network={"mode": "ipam", "poolRefs": [{"name": "lab"}]} | rest)


ENDS = {"start": "10.0.0.9", "end": "10.0.0.3"}
QUOTA = {"quotaPerTenant": {"maxLoadBalancerIPs": 4}}
TENANT = "spec.tenantAllocation"
SELECTOR = "spec.addons.loadBalancer.cilium.serviceSelector"

REFUSED: Mapping[str, tuple[str, Json, str, str]] = {
    "a CIDR that is none": ("NetworkPool", pool("10.0.0.0/33"), "spec.cidr", "must be a CIDR"),
    "a reserved CIDR that is none": (
        "NetworkPool",
        pool(reserved=[{"cidr": "10.0.0.300/28"}]),
        "spec.reserved[0].cidr",
        "must be a CIDR",
    ),
    "reserved outside": (
        "NetworkPool",
        pool(reserved=[{"cidr": "10.0.0.0/28"}, {"cidr": "10.0.1.0/28"}]),
        "spec.reserved",
        "10.0.0.0/24, unlike 10.0.1.0/28",
    ),
    "reserved larger than the pool": (
        "NetworkPool",
        pool(reserved=[{"cidr": "10.0.0.0/23"}]),
        "spec.reserved",
        "unlike 10.0.0.0/23",
    ),
    "start after end": ("NetworkPool", pool(tenantAllocation=ENDS), TENANT, "must not be after"),
    "start without end": (
        "NetworkPool",
        pool(tenantAllocation={"start": "10.0.0.1"}),
        TENANT,
        "set both start and end, or neither",
    ),
    "start outside": (
        "NetworkPool",
        pool(tenantAllocation={"start": "10.0.0.1", "end": "10.0.1.1"}),
        TENANT,
        "10.0.0.0/24, not 10.0.0.1-10.0.1.1",
    ),
    "an end that is no address": (
        "NetworkPool",
        pool(tenantAllocation={"start": "10.0.0.1", "end": "10.0.0.256"}),
        f"{TENANT}.end",
        "must be an IP address",
    ),
    "a range backwards": (
        "NetworkPool",
        pool() | ranges(("10.0.0.9", "10.0.0.3")),
        f"{TENANT}.ranges[0]",
        "must not be after",
    ),
    "ranges that overlap": (
        "NetworkPool",
        pool() | ranges(("10.0.0.1", "10.0.0.9"), ("10.0.0.9", "10.0.0.20")),
        f"{TENANT}.ranges",
        "sorted by start IP and non-overlapping",
    ),
    "ranges out of order": (
        "NetworkPool",
        pool() | ranges(("10.0.0.10", "10.0.0.19"), ("10.0.0.2", "10.0.0.9")),
        f"{TENANT}.ranges",
        "sorted by start IP and non-overlapping",
    ),
    "the same range twice": (
        "NetworkPool",
        pool() | ranges(("10.0.0.1", "10.0.0.9"), ("10.0.0.1", "10.0.0.9")),
        f"{TENANT}.ranges",
        "sorted by start IP and non-overlapping",
    ),
    "a range outside": (
        "NetworkPool",
        pool() | ranges(("10.0.0.1", "10.0.0.9"), ("10.0.0.250", "10.0.1.9")),
        f"{TENANT}.ranges",
        "unlike 10.0.0.250-10.0.1.9",
    ),
    "a range of words": (
        "NetworkPool",
        pool() | ranges(("first", "10.0.0.9")),
        f"{TENANT}.ranges[0].start",
        "must be an IP address",
    ),
    "a reserved CIDR of the other family": (
        "NetworkPool",
        pool("fd00::/64", reserved=[{"cidr": "10.0.0.0/28"}]),
        "spec.reserved",
        "fd00::/64, unlike 10.0.0.0/28",
    ),
    "a range of the other family": (
        "NetworkPool",
        pool() | ranges(("fd00::1", "fd00::9")),
        f"{TENANT}.ranges",
        "unlike fd00::1-fd00::9",
    ),
    "start and end of the other family": (
        "NetworkPool",
        pool("fd00::/64", tenantAllocation={"start": "10.0.0.1", "end": "10.0.0.9"}),
        TENANT,
        "fd00::/64, not 10.0.0.1-10.0.0.9",
    ),
    "a range of two families": (
        "NetworkPool",
        pool() | ranges(("10.0.0.1", "fd00::9")),
        f"{TENANT}.ranges[0]",
        "must be of one family",
    ),
    "an IPv6 CIDR that is none": ("NetworkPool", pool("fd00::/129"), "spec.cidr", "a CIDR"),
    "IPv6 start after end": (
        "NetworkPool",
        pool("fd00::/64", tenantAllocation={"start": "fd00::10", "end": "fd00::9"}),
        TENANT,
        "must not be after",
    ),
    "an IPv6 range backwards": (
        "NetworkPool",
        pool("fd00::/64") | ranges(("fd00::10", "fd00::9")),
        f"{TENANT}.ranges[0]",
        "must not be after",
    ),
    "IPv6 ranges that overlap": (
        "NetworkPool",
        pool("fd00::/64") | ranges(("fd00::1", "fd00::1:0"), ("fd00::1:0", "fd00::2:0")),
        f"{TENANT}.ranges",
        "sorted by start IP and non-overlapping",
    ),
    "the last of many IPv6 ranges out of order": (
        "NetworkPool",
        pool("fd00::/64")
        | ranges(
            *((f"fd00::{n:x}:0", f"fd00::{n:x}:8") for n in range(16, 31)), ("fd00::", "fd00::1")
        ),
        f"{TENANT}.ranges",
        "sorted by start IP and non-overlapping",
    ),
    "an IPv6 range outside": (
        "NetworkPool",
        pool("fd00::/64") | ranges(("fd00::1", "fd00:0:0:1::")),
        f"{TENANT}.ranges",
        "unlike fd00::1-fd00:0:0:1::",
    ),
    "an IPv6 pinned range backwards": (
        "IPAllocation",
        request(pinnedRange={"startAddress": "FD00::10", "endAddress": "fd00::f"}),
        "spec.pinnedRange",
        "must not be after",
    ),
    "a pinned range of two families": (
        "IPAllocation",
        request(pinnedRange={"startAddress": "10.0.0.1", "endAddress": "fd00::f"}),
        "spec.pinnedRange",
        "must be of one family",
    ),
    "a load-balancer pool of two families": (
        "TenantCluster",
        by_hand("10.0.0.1", "fd00::9"),
        "spec.networking.loadBalancerPool",
        "must be of one family",
    ),
    "an IPv6 load-balancer pool backwards": (
        "TenantCluster",
        by_hand("fd00::a0", "fd00::9"),
        "spec.networking.loadBalancerPool",
        "must not be after",
    ),
    "a pinned range backwards": (
        "IPAllocation",
        request(pinnedRange={"startAddress": "10.0.0.10", "endAddress": "10.0.0.9"}),
        "spec.pinnedRange",
        "must not be after",
    ),
    "a pinned address that is none": (
        "IPAllocation",
        request(pinnedRange={"startAddress": "10.0.0.1", "endAddress": "10.0.0.256"}),
        "spec.pinnedRange.endAddress",
        "must be an IP address",
    ),
    "a prefix length beside a count": (
        "IPAllocation",
        request(prefixLength=64, count=4),
        "spec.prefixLength",
        "set only one of them",
    ),
    "a prefix length beside a pinned range": (
        "IPAllocation",
        request(
            prefixLength=128, pinnedRange={"startAddress": "fd00::1", "endAddress": "fd00::1"}
        ),
        "spec.prefixLength",
        "set only one of them",
    ),
    "a prefix length that no family has": (
        "IPAllocation",
        request(prefixLength=129),
        "spec.prefixLength",
        "less than or equal",
    ),
    "a count of nothing": (
        "IPAllocation",
        request(count=0),
        "spec.count",
        "greater than or equal",
    ),
    "a selector whose key is no label": (
        "TenantCluster",
        selecting(matchLabels={"a b": "c"}),
        f"{SELECTOR}.matchLabels",
        "must be that of a label",
    ),
    "a selector whose value is no label": (
        "TenantCluster",
        selecting(matchLabels={"a": "b c"}),
        f"{SELECTOR}.matchLabels.a",
        "should match",
    ),
    "a selector with an unknown operator": (
        "TenantCluster",
        selecting(matchExpressions=[{"key": "a", "operator": "Is", "values": ["b"]}]),
        f"{SELECTOR}.matchExpressions[0].operator",
        "Unsupported value",
    ),
    "a selector without the values that its operator needs": (
        "TenantCluster",
        selecting(matchExpressions=[{"key": "a", "operator": "In"}]),
        f"{SELECTOR}.matchExpressions[0].values",
        "In and NotIn need values",
    ),
    "a selector with values that its operator does not take": (
        "TenantCluster",
        selecting(matchExpressions=[{"key": "a", "operator": "Exists", "values": ["b"]}]),
        f"{SELECTOR}.matchExpressions[0].values",
        "Exists and DoesNotExist have none",
    ),
    "a load-balancer pool backwards": (
        "TenantCluster",
        by_hand("10.0.0.10", "10.0.0.9"),
        "spec.networking.loadBalancerPool",
        "must not be after",
    ),
    "a load-balancer pool of words": (
        "TenantCluster",
        by_hand("first", "last"),
        "spec.networking.loadBalancerPool",
        "must be IP addresses",
    ),
    "a load-balancer pool without end": (
        "TenantCluster",
        cluster(loadBalancerPool={"start": "10.0.0.9"}),
        "spec.networking.loadBalancerPool.end",
        "Required value",
    ),
    "a size of nothing": (
        "TenantCluster",
        cluster(lbPoolSize=0),
        "spec.networking.lbPoolSize",
        "greater than or equal",
    ),
    "no credentials": ("ProviderConfig", {"provider": "nutanix"}, "spec", "credentialsRef"),
    "azure without settings": (
        "ProviderConfig",
        provider("azure"),
        "spec.azure",
        "azure settings",
    ),
    "aws without settings": ("ProviderConfig", provider("aws"), "spec.aws", "aws settings"),
    "gcp without settings": ("ProviderConfig", provider("gcp"), "spec.gcp", "gcp settings"),
    "a cloud's settings without identifier": (
        "ProviderConfig",
        provider("gcp", gcp={"projectID": "p"}),
        "spec.gcp.region",
        "Required value",
    ),
    "ipam without pools": (
        "ProviderConfig",
        network(poolRefs=[]),
        "spec.network.poolRefs",
        "at least one poolRef is required",
    ),
    "ipam in a cloud": (
        "ProviderConfig",
        network() | {"provider": "aws", "aws": {"region": "r"}},
        "spec.network.mode",
        "IPAM mode is not supported for cloud providers",
    ),
    "a team scope without team": (
        "ProviderConfig",
        provider(scope={"type": "team"}),
        "spec.scope.teamRef",
        "teamRef is required",
    ),
}

ACCEPTED: Mapping[str, tuple[str, Json]] = {
    "a pool of IPv6 as large as there is": ("NetworkPool", pool("::/0")),
    "a pool of IPv6 with as many ranges as there may be": (
        "NetworkPool",
        pool(
            "2001:DB8::7/32",
            reserved=[{"cidr": f"2001:db8:{n:x}::/64"} for n in range(256)],
            **ranges(
                *((f"2001:db8:{n:x}::", f"2001:db8:{n:x}:ffff::") for n in range(0, 160, 10))
            ),
        ),
    ),
    "an IPv6 range of one address, written in two ways": (
        "NetworkPool",
        pool("fd00::/64") | ranges(("fd00::a", "FD00:0:0:0:0:0:0:000A")),
    ),
    "IPv6 ranges that touch": (
        "NetworkPool",
        pool("fd00::/64")
        | ranges(("fd00::", "fd00::ffff"), ("fd00::1:0", "fd00::ffff:ffff:ffff:ffff")),
    ),
    "a block by its prefix length": ("IPAllocation", request(prefixLength=64)),
    "one pinned IPv6 address": (
        "IPAllocation",
        request(pinnedRange={"startAddress": "fd00::9", "endAddress": "fd00::9"}),
    ),
    "a load-balancer pool of IPv6": ("TenantCluster", by_hand("fd00::9", "fd00::10")),
    "a size above the quota, as tenants get the quota": (
        "ProviderConfig",
        network(loadBalancer={"defaultPoolSize": 5}, **QUOTA),
    ),
    "ranges that touch": (
        "NetworkPool",
        pool() | ranges(("10.0.0.0", "10.0.0.9"), ("10.0.0.10", "10.0.0.255")),
    ),
    "as many ranges as there may be": (
        "NetworkPool",
        pool() | ranges(*((f"10.0.0.{n}", f"10.0.0.{n + 8}") for n in range(0, 160, 10))),
    ),
    "host bits": ("NetworkPool", pool("10.0.0.7/24", reserved=[{"cidr": "10.0.0.9/28"}])),
    "order by number, not by text": ("NetworkPool", pool() | ranges(("10.0.0.9", "10.0.0.10"))),
    "start and end beside ranges, ignored": (
        "NetworkPool",
        pool(
            tenantAllocation=ranges(("10.0.0.1", "10.0.0.9"))["tenantAllocation"]
            | {"start": "10.9.0.1", "end": "10.9.0.2"}
        ),
    ),
    "many reservations": (
        "NetworkPool",
        pool("10.0.0.0/16", reserved=[{"cidr": f"10.0.{n}.0/28"} for n in range(256)]),
    ),
    "one pinned address": (
        "IPAllocation",
        request(pinnedRange={"startAddress": "10.0.0.9", "endAddress": "10.0.0.9"}),
    ),
    "a selector of Services": (
        "TenantCluster",
        selecting(
            matchLabels={"example.com/app": "", "io.kubernetes.service.name": "web"},
            matchExpressions=[
                {"key": "a", "operator": "NotIn", "values": ["b", ""]},
                {"key": "c", "operator": "Exists"},
            ],
        ),
    ),
    "a load-balancer pool": ("TenantCluster", by_hand("10.0.0.9", "10.0.0.10")),
    "a default size above the quota": ("ProviderConfig", network(loadBalancer={}, **QUOTA)),
    "a size within the quota": (
        "ProviderConfig",
        network(loadBalancer={"allocationMode": "elastic", "initialPoolSize": 4}, **QUOTA),
    ),
    "a team scope": (
        "ProviderConfig",
        provider(scope={"type": "team", "teamRef": {"name": "a"}}),
    ),
    "harvester without settings": ("ProviderConfig", provider("harvester")),
}


def without_rules(definition: Json) -> Json:
    """Return a CRD as it was before it had rules."""

    def bare(schema: Any) -> Any:
        if isinstance(schema, dict):
            return {k: bare(v) for k, v in schema.items() if k != "x-kubernetes-validations"}
        return [bare(item) for item in schema] if isinstance(schema, list) else schema

    stripped: Json = bare(definition)
    return stripped
