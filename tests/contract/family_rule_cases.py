"""What the CRDs' own rules refuse, and let pass, of pools and requests of two families."""

from collections.abc import Mapping

from tests.contract.crd_rule_cases import Json, make_cluster, make_pool, make_ranges, make_request

PINS = [
    {"startAddress": "10.0.0.9", "endAddress": "10.0.0.9"},
    {"startAddress": "fd00::9", "endAddress": "fd00::a"},
]

REFUSED: Mapping[str, tuple[str, Json, str, str]] = {
    "a prefix length for two families": (
        "IPAllocation",
        make_request(prefixLength=64, ipFamilyPolicy="PreferDualStack"),
        "spec.prefixLength",
        "is for one family",
    ),
    "two families of SingleStack": (
        "IPAllocation",
        make_request(ipFamilyPolicy="SingleStack", ipFamilies=["IPv6", "IPv4"]),
        "spec.ipFamilyPolicy",
        "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
    ),
    "two families without a policy": (
        "IPAllocation",
        make_request(ipFamilies=["IPv6", "IPv4"]),
        "spec.ipFamilyPolicy",
        "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
    ),
    "one family twice": (
        "IPAllocation",
        make_request(ipFamilyPolicy="RequireDualStack", ipFamilies=["IPv4", "IPv4"]),
        "spec.ipFamilies",
        "Duplicate value",
    ),
    "a family that cannot be parsed": (
        "IPAllocation",
        make_request(ipFamilies=["IPv5"]),
        "spec.ipFamilies[0]",
        "Unsupported value",
    ),
    "a policy that cannot be parsed": (
        "IPAllocation",
        make_request(ipFamilyPolicy="DualStack"),
        "spec.ipFamilyPolicy",
        "Unsupported value",
    ),
    "two pinned ranges without a policy": (
        "IPAllocation",
        make_request(pinnedRanges=PINS),
        "spec.ipFamilyPolicy",
        "must be 'RequireDualStack'",
    ),
    "two pinned ranges of one family": (
        "IPAllocation",
        make_request(pinnedRanges=[PINS[0], PINS[0]], ipFamilyPolicy="RequireDualStack"),
        "spec.pinnedRanges",
        "one range of each family",
    ),
    "one pinned range and two": (
        "IPAllocation",
        make_request(pinnedRange=PINS[0], pinnedRanges=PINS, ipFamilyPolicy="RequireDualStack"),
        "spec.pinnedRanges",
        "one range of each family",
    ),
    "a pinned range of another family": (
        "IPAllocation",
        make_request(pinnedRange=PINS[0], ipFamilies=["IPv6"]),
        "spec.ipFamilies",
        "expected a range of the family",
    ),
    "a cluster with two families and no policy": (
        "TenantCluster",
        make_cluster(ipFamilies=["IPv4", "IPv6"]),
        "spec.networking.ipFamilyPolicy",
        "must be 'RequireDualStack'",
    ),
    "a cluster with one family twice": (
        "TenantCluster",
        make_cluster(ipFamilyPolicy="PreferDualStack", ipFamilies=["IPv6", "IPv6"]),
        "spec.networking.ipFamilies",
        "Duplicate value",
    ),
    "a secondary CIDR of the same family": (
        "NetworkPool",
        make_pool(secondary={"cidr": "10.0.1.0/24"}),
        "spec.secondary",
        "must be of the other family",
    ),
    "a gateway of the second family": (
        "NetworkPool",
        make_pool(gateway="fd00::1", secondary={"cidr": "fd00::/64"}),
        "spec.gateway",
        "must be of the family of cidr",
    ),
    "ranges outside the secondary CIDR": (
        "NetworkPool",
        make_pool(secondary={"cidr": "fd00::/64"} | make_ranges(("fd00::1", "fd01::1"))),
        "spec.secondary.tenantAllocation.ranges",
        "unlike fd00::1-fd01::1",
    ),
    "ranges of the secondary CIDR that are not sorted": (
        "NetworkPool",
        make_pool(
            secondary={"cidr": "fd00::/64"}
            | make_ranges(("fd00::8", "fd00::9"), ("fd00::1", "fd00::2"))
        ),
        "spec.secondary.tenantAllocation.ranges",
        "non-overlapping; fd00::1 follows fd00::9",
    ),
    "reserved outside the secondary CIDR": (
        "NetworkPool",
        make_pool(secondary={"cidr": "fd00::/64", "reserved": [{"cidr": "fd01::/96"}]}),
        "spec.secondary.reserved",
        "unlike fd01::/96",
    ),
}
ACCEPTED: Mapping[str, tuple[str, Json]] = {
    "a prefix length beside an empty list of pinned ranges": (
        "IPAllocation",
        make_request(prefixLength=28, pinnedRanges=[]),
    ),
    "a pinned range beside an empty list of pinned ranges": (
        "IPAllocation",
        make_request(
            pinnedRange={"startAddress": "10.0.0.3", "endAddress": "10.0.0.9"}, pinnedRanges=[]
        ),
    ),
    "a pool of two families": (
        "NetworkPool",
        make_pool(
            secondary={"cidr": "fd00::/64", "reserved": [{"cidr": "fd00::/96"}]}
            | make_ranges(("fd00::1:0:0", "fd00::1:0:9"), ("fd00::2:0:0", "fd00::2:0:9"))
        ),
    ),
    "a pool whose second family is IPv4": (
        "NetworkPool",
        make_pool("fd00::/64", secondary={"cidr": "10.0.0.0/24"}),
    ),
    "a pool of two families with a gateway": (
        "NetworkPool",
        make_pool(gateway="10.0.0.1", secondary={"cidr": "fd00::/64"}),
    ),
    "a cluster of both families": (
        "TenantCluster",
        make_cluster(ipFamilyPolicy="RequireDualStack", ipFamilies=["IPv6", "IPv4"]),
    ),
    "one family of two": ("IPAllocation", make_request(ipFamilies=["IPv6"])),
    "both families in order": (
        "IPAllocation",
        make_request(ipFamilyPolicy="RequireDualStack", ipFamilies=["IPv6", "IPv4"]),
    ),
    "both families pinned": (
        "IPAllocation",
        make_request(ipFamilyPolicy="PreferDualStack", pinnedRanges=PINS),
    ),
    "one family pinned of both": (
        "IPAllocation",
        make_request(ipFamilyPolicy="PreferDualStack", pinnedRange=PINS[1], ipFamilies=["IPv4"]),
    ),
}
