"""Specs that the CRDs' rules reject, with field and message, and specs that they accept."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


def make_ranges(*spans: tuple[str, str]) -> Json:
    """Return the field tenantAllocation with ranges, each as its start and its end."""
    return {"tenantAllocation": {"ranges": [{"start": a, "end": b} for a, b in spans]}}


def make_pool(cidr: str = "10.0.0.0/24", **rest: Any) -> Json:
    """Return the spec of a NetworkPool; `rest` has further fields."""
    return {"cidr": cidr} | rest


def make_request(**rest: Any) -> Json:
    """Return the spec of an IPAllocation; `rest` has further fields."""
    return {
        "poolRef": {"name": "lab"},
        "tenantClusterRef": {"name": "a", "namespace": "team"},
        "type": "nodes",
    } | rest


def make_cluster(**networking: Any) -> Json:
    """Return the spec of a TenantCluster with these networking settings."""
    spec: Json = {"kubernetesVersion": "v1.33.1", "workers": {"replicas": 1}}
    return spec | ({"networking": networking} if networking else {})


def make_cluster_with_selector(**selector: Any) -> Json:
    """Return the spec of a TenantCluster with a selector of Services for Cilium."""
    addon = {"version": "1", "provider": "cilium", "cilium": {"serviceSelector": selector}}
    return make_cluster() | {"addons": {"loadBalancer": addon}}


def make_cluster_with_pool(start: str, end: str) -> Json:
    """Return the spec of a TenantCluster with a load-balancer pool that a person chose."""
    return make_cluster(loadBalancerPool={"start": start, "end": end})


def make_provider(kind: str = "local", **rest: Any) -> Json:
    """Return the spec of a ProviderConfig; `rest` has further fields."""
    return {"provider": kind, "credentialsRef": {"name": "secret"}} | rest


def make_ipam_provider(**rest: Any) -> Json:
    """Return the spec of a ProviderConfig in mode ipam; `rest` has further network settings."""
    return make_provider(network={"mode": "ipam", "poolRefs": [{"name": "lab"}]} | rest)


ENDS = {"start": "10.0.0.9", "end": "10.0.0.3"}
QUOTA = {"quotaPerTenant": {"maxLoadBalancerIPs": 4}}
TENANT = "spec.tenantAllocation"
SELECTOR = "spec.addons.loadBalancer.cilium.serviceSelector"

REFUSED: Mapping[str, tuple[str, Json, str, str]] = {
    "a CIDR that cannot be parsed": (
        "NetworkPool",
        make_pool("10.0.0.0/33"),
        "spec.cidr",
        "must be a CIDR",
    ),
    "a reserved CIDR that cannot be parsed": (
        "NetworkPool",
        make_pool(reserved=[{"cidr": "10.0.0.300/28"}]),
        "spec.reserved[0].cidr",
        "must be a CIDR",
    ),
    "reserved outside": (
        "NetworkPool",
        make_pool(reserved=[{"cidr": "10.0.0.0/28"}, {"cidr": "10.0.1.0/28"}]),
        "spec.reserved",
        "10.0.0.0/24, unlike 10.0.1.0/28",
    ),
    "reserved larger than the pool": (
        "NetworkPool",
        make_pool(reserved=[{"cidr": "10.0.0.0/23"}]),
        "spec.reserved",
        "unlike 10.0.0.0/23",
    ),
    "start after end": (
        "NetworkPool",
        make_pool(tenantAllocation=ENDS),
        TENANT,
        "must not be after",
    ),
    "start without end": (
        "NetworkPool",
        make_pool(tenantAllocation={"start": "10.0.0.1"}),
        TENANT,
        "set both start and end, or neither",
    ),
    "start outside": (
        "NetworkPool",
        make_pool(tenantAllocation={"start": "10.0.0.1", "end": "10.0.1.1"}),
        TENANT,
        "10.0.0.0/24, not 10.0.0.1-10.0.1.1",
    ),
    "an end that is no address": (
        "NetworkPool",
        make_pool(tenantAllocation={"start": "10.0.0.1", "end": "10.0.0.256"}),
        f"{TENANT}.end",
        "must be an IP address",
    ),
    "a range in reverse order": (
        "NetworkPool",
        make_pool() | make_ranges(("10.0.0.9", "10.0.0.3")),
        f"{TENANT}.ranges[0]",
        "must not be after",
    ),
    "ranges that overlap": (
        "NetworkPool",
        make_pool() | make_ranges(("10.0.0.1", "10.0.0.9"), ("10.0.0.9", "10.0.0.20")),
        f"{TENANT}.ranges",
        "sorted by start IP and non-overlapping",
    ),
    "ranges out of order": (
        "NetworkPool",
        make_pool() | make_ranges(("10.0.0.10", "10.0.0.19"), ("10.0.0.2", "10.0.0.9")),
        f"{TENANT}.ranges",
        "sorted by start IP and non-overlapping",
    ),
    "the same range twice": (
        "NetworkPool",
        make_pool() | make_ranges(("10.0.0.1", "10.0.0.9"), ("10.0.0.1", "10.0.0.9")),
        f"{TENANT}.ranges",
        "sorted by start IP and non-overlapping",
    ),
    "a range outside": (
        "NetworkPool",
        make_pool() | make_ranges(("10.0.0.1", "10.0.0.9"), ("10.0.0.250", "10.0.1.9")),
        f"{TENANT}.ranges",
        "unlike 10.0.0.250-10.0.1.9",
    ),
    "a range of words": (
        "NetworkPool",
        make_pool() | make_ranges(("first", "10.0.0.9")),
        f"{TENANT}.ranges[0].start",
        "must be an IP address",
    ),
    "a reserved CIDR of the other family": (
        "NetworkPool",
        make_pool("fd00::/64", reserved=[{"cidr": "10.0.0.0/28"}]),
        "spec.reserved",
        "fd00::/64, unlike 10.0.0.0/28",
    ),
    "a range of the other family": (
        "NetworkPool",
        make_pool() | make_ranges(("fd00::1", "fd00::9")),
        f"{TENANT}.ranges",
        "unlike fd00::1-fd00::9",
    ),
    "start and end of the other family": (
        "NetworkPool",
        make_pool("fd00::/64", tenantAllocation={"start": "10.0.0.1", "end": "10.0.0.9"}),
        TENANT,
        "fd00::/64, not 10.0.0.1-10.0.0.9",
    ),
    "a range of two families": (
        "NetworkPool",
        make_pool() | make_ranges(("10.0.0.1", "fd00::9")),
        f"{TENANT}.ranges[0]",
        "must be of one family",
    ),
    "an IPv6 CIDR that cannot be parsed": (
        "NetworkPool",
        make_pool("fd00::/129"),
        "spec.cidr",
        "a CIDR",
    ),
    "IPv6 start after end": (
        "NetworkPool",
        make_pool("fd00::/64", tenantAllocation={"start": "fd00::10", "end": "fd00::9"}),
        TENANT,
        "must not be after",
    ),
    "an IPv6 range in reverse order": (
        "NetworkPool",
        make_pool("fd00::/64") | make_ranges(("fd00::10", "fd00::9")),
        f"{TENANT}.ranges[0]",
        "must not be after",
    ),
    "IPv6 ranges that overlap": (
        "NetworkPool",
        make_pool("fd00::/64") | make_ranges(("fd00::1", "fd00::1:0"), ("fd00::1:0", "fd00::2:0")),
        f"{TENANT}.ranges",
        "sorted by start IP and non-overlapping",
    ),
    "the last of many IPv6 ranges out of order": (
        "NetworkPool",
        make_pool("fd00::/64")
        | make_ranges(
            *((f"fd00::{n:x}:0", f"fd00::{n:x}:8") for n in range(16, 31)), ("fd00::", "fd00::1")
        ),
        f"{TENANT}.ranges",
        "sorted by start IP and non-overlapping",
    ),
    "an IPv6 range outside": (
        "NetworkPool",
        make_pool("fd00::/64") | make_ranges(("fd00::1", "fd00:0:0:1::")),
        f"{TENANT}.ranges",
        "unlike fd00::1-fd00:0:0:1::",
    ),
    "an IPv6 pinned range in reverse order": (
        "IPAllocation",
        make_request(pinnedRange={"startAddress": "FD00::10", "endAddress": "fd00::f"}),
        "spec.pinnedRange",
        "must not be after",
    ),
    "a pinned range of two families": (
        "IPAllocation",
        make_request(pinnedRange={"startAddress": "10.0.0.1", "endAddress": "fd00::f"}),
        "spec.pinnedRange",
        "must be of one family",
    ),
    "a load-balancer pool of two families": (
        "TenantCluster",
        make_cluster_with_pool("10.0.0.1", "fd00::9"),
        "spec.networking.loadBalancerPool",
        "must be of one family",
    ),
    "an IPv6 load-balancer pool in reverse order": (
        "TenantCluster",
        make_cluster_with_pool("fd00::a0", "fd00::9"),
        "spec.networking.loadBalancerPool",
        "must not be after",
    ),
    "a pinned range in reverse order": (
        "IPAllocation",
        make_request(pinnedRange={"startAddress": "10.0.0.10", "endAddress": "10.0.0.9"}),
        "spec.pinnedRange",
        "must not be after",
    ),
    "a pinned address that cannot be parsed": (
        "IPAllocation",
        make_request(pinnedRange={"startAddress": "10.0.0.1", "endAddress": "10.0.0.256"}),
        "spec.pinnedRange.endAddress",
        "must be an IP address",
    ),
    "a prefix length beside a count": (
        "IPAllocation",
        make_request(prefixLength=64, count=4),
        "spec.prefixLength",
        "set only one of them",
    ),
    "a prefix length beside a pinned range": (
        "IPAllocation",
        make_request(
            prefixLength=128, pinnedRange={"startAddress": "fd00::1", "endAddress": "fd00::1"}
        ),
        "spec.prefixLength",
        "set only one of them",
    ),
    "a prefix length that no family has": (
        "IPAllocation",
        make_request(prefixLength=129),
        "spec.prefixLength",
        "less than or equal",
    ),
    "a count of nothing": (
        "IPAllocation",
        make_request(count=0),
        "spec.count",
        "greater than or equal",
    ),
    "a selector whose key is no label": (
        "TenantCluster",
        make_cluster_with_selector(matchLabels={"a b": "c"}),
        f"{SELECTOR}.matchLabels",
        "must be that of a label",
    ),
    "a selector whose value is no label": (
        "TenantCluster",
        make_cluster_with_selector(matchLabels={"a": "b c"}),
        f"{SELECTOR}.matchLabels.a",
        "should match",
    ),
    "a selector with an unknown operator": (
        "TenantCluster",
        make_cluster_with_selector(
            matchExpressions=[{"key": "a", "operator": "Is", "values": ["b"]}]
        ),
        f"{SELECTOR}.matchExpressions[0].operator",
        "Unsupported value",
    ),
    "a selector without the values that its operator needs": (
        "TenantCluster",
        make_cluster_with_selector(matchExpressions=[{"key": "a", "operator": "In"}]),
        f"{SELECTOR}.matchExpressions[0].values",
        "In and NotIn need values",
    ),
    "a selector with values that its operator does not take": (
        "TenantCluster",
        make_cluster_with_selector(
            matchExpressions=[{"key": "a", "operator": "Exists", "values": ["b"]}]
        ),
        f"{SELECTOR}.matchExpressions[0].values",
        "Exists and DoesNotExist have none",
    ),
    "a load-balancer pool in reverse order": (
        "TenantCluster",
        make_cluster_with_pool("10.0.0.10", "10.0.0.9"),
        "spec.networking.loadBalancerPool",
        "must not be after",
    ),
    "a load-balancer pool of words": (
        "TenantCluster",
        make_cluster_with_pool("first", "last"),
        "spec.networking.loadBalancerPool",
        "must be IP addresses",
    ),
    "a load-balancer pool without end": (
        "TenantCluster",
        make_cluster(loadBalancerPool={"start": "10.0.0.9"}),
        "spec.networking.loadBalancerPool.end",
        "Required value",
    ),
    "a size of nothing": (
        "TenantCluster",
        make_cluster(lbPoolSize=0),
        "spec.networking.lbPoolSize",
        "greater than or equal",
    ),
    "no credentials": ("ProviderConfig", {"provider": "nutanix"}, "spec", "credentialsRef"),
    "azure without settings": (
        "ProviderConfig",
        make_provider("azure"),
        "spec.azure",
        "azure settings",
    ),
    "aws without settings": ("ProviderConfig", make_provider("aws"), "spec.aws", "aws settings"),
    "gcp without settings": ("ProviderConfig", make_provider("gcp"), "spec.gcp", "gcp settings"),
    "a cloud's settings without identifier": (
        "ProviderConfig",
        make_provider("gcp", gcp={"projectID": "p"}),
        "spec.gcp.region",
        "Required value",
    ),
    "ipam without pools": (
        "ProviderConfig",
        make_ipam_provider(poolRefs=[]),
        "spec.network.poolRefs",
        "at least one poolRef is required",
    ),
    "ipam in a cloud": (
        "ProviderConfig",
        make_ipam_provider() | {"provider": "aws", "aws": {"region": "r"}},
        "spec.network.mode",
        "IPAM mode is not supported for cloud providers",
    ),
    "a team scope without team": (
        "ProviderConfig",
        make_provider(scope={"type": "team"}),
        "spec.scope.teamRef",
        "teamRef is required",
    ),
}

ACCEPTED: Mapping[str, tuple[str, Json]] = {
    "a pool of IPv6 as large as there is": ("NetworkPool", make_pool("::/0")),
    "a pool of IPv6 with as many ranges as there may be": (
        "NetworkPool",
        make_pool(
            "2001:DB8::7/32",
            reserved=[{"cidr": f"2001:db8:{n:x}::/64"} for n in range(256)],
            **make_ranges(
                *((f"2001:db8:{n:x}::", f"2001:db8:{n:x}:ffff::") for n in range(0, 160, 10))
            ),
        ),
    ),
    "an IPv6 range of one address, written in two ways": (
        "NetworkPool",
        make_pool("fd00::/64") | make_ranges(("fd00::a", "FD00:0:0:0:0:0:0:000A")),
    ),
    "IPv6 ranges that touch": (
        "NetworkPool",
        make_pool("fd00::/64")
        | make_ranges(("fd00::", "fd00::ffff"), ("fd00::1:0", "fd00::ffff:ffff:ffff:ffff")),
    ),
    "a block by its prefix length": ("IPAllocation", make_request(prefixLength=64)),
    "one pinned IPv6 address": (
        "IPAllocation",
        make_request(pinnedRange={"startAddress": "fd00::9", "endAddress": "fd00::9"}),
    ),
    "a load-balancer pool of IPv6": (
        "TenantCluster",
        make_cluster_with_pool("fd00::9", "fd00::10"),
    ),
    "a size above the quota, as tenants get the quota": (
        "ProviderConfig",
        make_ipam_provider(loadBalancer={"defaultPoolSize": 5}, **QUOTA),
    ),
    "ranges that touch": (
        "NetworkPool",
        make_pool() | make_ranges(("10.0.0.0", "10.0.0.9"), ("10.0.0.10", "10.0.0.255")),
    ),
    "as many ranges as there may be": (
        "NetworkPool",
        make_pool()
        | make_ranges(*((f"10.0.0.{n}", f"10.0.0.{n + 8}") for n in range(0, 160, 10))),
    ),
    "host bits": ("NetworkPool", make_pool("10.0.0.7/24", reserved=[{"cidr": "10.0.0.9/28"}])),
    "order by number, not by text": (
        "NetworkPool",
        make_pool() | make_ranges(("10.0.0.9", "10.0.0.10")),
    ),
    "start and end beside ranges, ignored": (
        "NetworkPool",
        make_pool(
            tenantAllocation=make_ranges(("10.0.0.1", "10.0.0.9"))["tenantAllocation"]
            | {"start": "10.9.0.1", "end": "10.9.0.2"}
        ),
    ),
    "many reservations": (
        "NetworkPool",
        make_pool("10.0.0.0/16", reserved=[{"cidr": f"10.0.{n}.0/28"} for n in range(256)]),
    ),
    "one pinned address": (
        "IPAllocation",
        make_request(pinnedRange={"startAddress": "10.0.0.9", "endAddress": "10.0.0.9"}),
    ),
    "a selector of Services": (
        "TenantCluster",
        make_cluster_with_selector(
            matchLabels={"example.com/app": "", "io.kubernetes.service.name": "web"},
            matchExpressions=[
                {"key": "a", "operator": "NotIn", "values": ["b", ""]},
                {"key": "c", "operator": "Exists"},
            ],
        ),
    ),
    "a load-balancer pool": ("TenantCluster", make_cluster_with_pool("10.0.0.9", "10.0.0.10")),
    "a default size above the quota": (
        "ProviderConfig",
        make_ipam_provider(loadBalancer={}, **QUOTA),
    ),
    "a size within the quota": (
        "ProviderConfig",
        make_ipam_provider(
            loadBalancer={"allocationMode": "elastic", "initialPoolSize": 4}, **QUOTA
        ),
    ),
    "a team scope": (
        "ProviderConfig",
        make_provider(scope={"type": "team", "teamRef": {"name": "a"}}),
    ),
    "harvester without settings": ("ProviderConfig", make_provider("harvester")),
}


def without_rules(definition: Json) -> Json:
    """Return a CRD without its CEL rules."""

    def strip(schema: Any) -> Any:
        if isinstance(schema, dict):
            return {k: strip(v) for k, v in schema.items() if k != "x-kubernetes-validations"}
        return [strip(item) for item in schema] if isinstance(schema, list) else schema

    stripped: Json = strip(definition)
    return stripped
