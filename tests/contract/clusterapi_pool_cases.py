"""Specs of the in-cluster provider's pools that rules or webhooks reject, or that are accepted."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

IP, GLOBAL_IP = "InClusterIPPool", "GlobalInClusterIPPool"
PREFIX, GLOBAL_PREFIX = "InClusterPrefixPool", "GlobalInClusterPrefixPool"


def make_address_spec(*addresses: str, prefix: int = 24, **rest: Any) -> Json:
    """Return the spec of a pool of addresses; `rest` has further fields."""
    return {"addresses": list(addresses), "prefix": prefix} | rest


def make_prefix_spec(*listed: str, **rest: Any) -> Json:
    """Return the spec of a pool of IPv6 prefixes; `rest` has further fields."""
    return {"prefixes": list(listed)} | rest


INVALID = "provided address is not a valid IP, range, nor CIDR"
MIXED = "provided addresses are of mixed IP families"
SUBNET = "provided address belongs to a different subnet than others"

REFUSED: Mapping[str, tuple[str, Json, str, str]] = {
    "no addresses": (IP, make_address_spec(), "spec.addresses", "addresses is required"),
    "addresses left out": (IP, {"prefix": 24}, "spec.addresses", "Required value"),
    "no prefix": (IP, {"addresses": ["10.0.0.1"]}, "spec.prefix", "Required value"),
    "a prefix below zero": (
        IP,
        make_address_spec("10.0.0.1", prefix=-1),
        "spec.prefix",
        "greater than or",
    ),
    "a prefix above 128": (
        IP,
        make_address_spec("10.0.0.1", prefix=129),
        "spec.prefix",
        "less than or equal",
    ),
    "no address": (GLOBAL_IP, make_address_spec("garbage"), "spec.addresses[0]", INVALID),
    "leading zeros": (IP, make_address_spec("10.0.0.01"), "spec.addresses[0]", INVALID),
    "blanks in a range": (
        IP,
        make_address_spec("10.0.0.1 - 10.0.0.2"),
        "spec.addresses[0]",
        INVALID,
    ),
    "three ends": (
        IP,
        make_address_spec("10.0.0.1-10.0.0.2-10.0.0.3"),
        "spec.addresses[0]",
        INVALID,
    ),
    "a CIDR that cannot be parsed": (
        IP,
        make_address_spec("10.0.0.0/33"),
        "spec.addresses[0]",
        INVALID,
    ),
    "mixed families": (IP, make_address_spec("10.0.0.1", "2001:db8::1"), "spec.addresses", MIXED),
    "an excluded word": (
        IP,
        make_address_spec("10.0.0.1", excludedAddresses=["x"]),
        "spec.excludedAddresses[0]",
        INVALID,
    ),
    "excluded addresses of the other family": (
        IP,
        make_address_spec("10.0.0.1", excludedAddresses=["::1"]),
        "spec.excludedAddresses",
        "addresses and excluded addresses are of mixed IP families",
    ),
    "excluded addresses of both families": (
        IP,
        make_address_spec("10.0.0.1", excludedAddresses=["::1", "10.0.0.2"]),
        "spec.excludedAddresses",
        MIXED,
    ),
    "a gateway that cannot be parsed": (
        IP,
        make_address_spec("10.0.0.1", gateway="invalid"),
        "spec.gateway",
        'ParseAddr("invalid"): unable to parse IP',
    ),
    "a gateway of the other family": (
        IP,
        make_address_spec("10.0.0.1", gateway="2001:db8::1"),
        "spec.gateway",
        "provided gateway and addresses are of mixed IP families",
    ),
    "a prefix too long for IPv4": (
        IP,
        make_address_spec("10.0.0.1", prefix=33),
        "spec.prefix",
        "provided prefix is not valid",
    ),
    "a grace below zero": (
        IP,
        make_address_spec("10.0.0.1", addressReuseGracePeriodSeconds=-1),
        "spec.addressReuseGracePeriodSeconds",
        "greater than or equal to 0",
    ),
    "no prefixes": (PREFIX, make_prefix_spec(), "spec.prefixes", "prefixes is required"),
    "a length of zero": (
        PREFIX,
        make_prefix_spec("2001:db8::/48", allocationPrefixLength=0),
        "spec.allocationPrefixLength",
        "greater than or equal to 1",
    ),
    "an address instead of a CIDR": (
        PREFIX,
        make_prefix_spec("2001:db8::1"),
        "spec.prefixes[0]",
        "provided entry is not a valid IPv6 CIDR",
    ),
    "an IPv4 prefix": (
        GLOBAL_PREFIX,
        make_prefix_spec("10.0.0.0/8"),
        "spec.prefixes[0]",
        "only IPv6 prefixes are supported",
    ),
    "an IPv4 gateway for prefixes": (
        PREFIX,
        make_prefix_spec("2001:db8::/48", gateway="10.0.0.1"),
        "spec.gateway",
        "provided gateway must be IPv6",
    ),
    "an excluded word among prefixes": (
        PREFIX,
        make_prefix_spec("2001:db8::/48", excludedPrefixes=["x"]),
        "spec.excludedPrefixes[0]",
        "provided entry is not a valid IP, range, nor CIDR",
    ),
    "an excluded IPv4 address among prefixes": (
        PREFIX,
        make_prefix_spec("2001:db8::/48", excludedPrefixes=["10.0.0.1"]),
        "spec.excludedPrefixes[0]",
        "only IPv6 excluded prefixes are supported",
    ),
}
"""Specs that the CRDs reject: the kind, the spec, the rejected field and its message."""

REFUSED_BY_WEBHOOK: Mapping[str, tuple[str, Json, str, str]] = {
    "a prefix with host bits": (
        PREFIX,
        make_prefix_spec("2001:db8::1/48"),
        "spec.prefixes",
        "CIDR must be network-aligned",
    ),
    "a prefix that is too small": (
        PREFIX,
        make_prefix_spec("2001:db8::/72"),
        "spec.prefixes",
        "CIDR prefix length must be <= allocationPrefixLength (64)",
    ),
    "an address of another subnet": (
        GLOBAL_IP,
        make_address_spec("10.0.0.1", "10.0.1.1"),
        "spec.addresses",
        SUBNET,
    ),
    "a range over the subnet's end": (
        IP,
        make_address_spec("10.0.0.9-10.0.1.9"),
        "spec.addresses",
        SUBNET,
    ),
    "a CIDR larger than the subnet": (
        IP,
        make_address_spec("10.0.0.0/23"),
        "spec.addresses",
        SUBNET,
    ),
    "a range from back to front": (
        IP,
        make_address_spec("10.0.0.9-10.0.0.1"),
        "spec.addresses",
        INVALID,
    ),
    "a range of two families": (IP, make_address_spec("10.0.0.9-::1"), "spec.addresses", INVALID),
    "an excluded range from back to front": (
        IP,
        make_address_spec("10.0.0.1", excludedAddresses=["10.0.0.9-10.0.0.1"]),
        "spec.excludedAddresses",
        INVALID,
    ),
    "an excluded range of prefixes from back to front": (
        PREFIX,
        make_prefix_spec("2001:db8::/48", excludedPrefixes=["2001:db8::9-2001:db8::1"]),
        "spec.excludedPrefixes",
        "provided entry is not a valid IP, range, nor CIDR",
    ),
}
"""Specs that only the webhook rejects, because a CEL rule would be too expensive."""

ACCEPTED: Mapping[str, tuple[str, Json]] = {
    "one address": (IP, make_address_spec("10.0.0.10")),
    "a CIDR with host bits": (GLOBAL_IP, make_address_spec("192.168.1.1/24")),
    "ranges, CIDRs and addresses": (
        IP,
        make_address_spec(
            "10.0.0.10-10.0.0.20", "10.0.1.0/24", "10.0.3.3", "10.0.0.15-10.0.0.30", prefix=22
        ),
    ),
    "a gateway elsewhere": (IP, make_address_spec("10.0.0.10", gateway="192.168.0.1")),
    "an empty gateway": (IP, make_address_spec("10.0.0.10", gateway="")),
    "excluded addresses elsewhere": (
        IP,
        make_address_spec("10.0.0.10", excludedAddresses=["172.16.0.0/12"]),
    ),
    "scattered addresses": (GLOBAL_IP, make_address_spec("203.0.113.7", "198.51.100.9", prefix=0)),
    "a subnet of two": (IP, make_address_spec("10.0.0.4/31", prefix=31)),
    "a subnet of one": (IP, make_address_spec("10.0.0.4", prefix=32)),
    "IPv6": (IP, make_address_spec("2001:db8::10-2001:db8::20", prefix=64, gateway="2001:db8::1")),
    "immense": (
        GLOBAL_IP,
        make_address_spec("2001:db8::/32", prefix=32, allocateReservedIPAddresses=True),
    ),
    "a grace": (IP, make_address_spec("10.0.0.10", addressReuseGracePeriodSeconds=60)),
    "prefixes": (PREFIX, make_prefix_spec("2001:db8::/48", gateway="fe80::1")),
    "prefixes of another length": (
        GLOBAL_PREFIX,
        make_prefix_spec(
            "2001:db8::/40", allocationPrefixLength=56, excludedPrefixes=["2001:db8::5"]
        ),
    ),
}
