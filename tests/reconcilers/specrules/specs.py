"""Random specs of our kinds, valid and invalid ones, as clients write them."""

from typing import Any

from hypothesis import strategies as st

from allocator import Family
from reconcilers.api.providerconfig import CLOUDS, LOCAL, PROVIDERS
from tests.reconcilers.webhooks.test_properties import address

Json = dict[str, Any]

_IP_FAMILIES: tuple[Family, ...] = (4, 6)
FAMILIES: st.SearchStrategy[Family] = st.sampled_from(_IP_FAMILIES)
MALFORMED_CIDRS = ("10.0.0.0", "10.0.0.0/33", "300.0.0.0/26", "10.0.0.0-10.0.0.9", "fd00::/129")
MALFORMED_ADDRESSES = ("10.0.0", "300.0.0.1", "10.0.0.1/26", "fd00::g")


def _draw_cidrs(family: Family) -> st.SearchStrategy[str]:
    """Draw CIDRs of at most 64 addresses."""
    bits = 32 if family == 4 else 128
    return st.builds(
        lambda host, length: f"{address(family, host)}/{length}",
        st.integers(0, 31),
        st.integers(bits - 6, bits),
    )


def _draw_large_cidrs(family: Family) -> st.SearchStrategy[str]:
    """Draw CIDRs of 32 or 64 addresses that contain all other addresses."""
    bits = 32 if family == 4 else 128
    return st.sampled_from([f"{address(family, 0)}/{length}" for length in (bits - 5, bits - 6)])


def _with_malformed(
    usual: st.SearchStrategy[str], malformed: tuple[str, ...]
) -> st.SearchStrategy[str]:
    """Draw a usual text, and about each eighth time a malformed one."""
    return st.integers(0, 7).flatmap(lambda n: st.sampled_from(malformed) if n == 0 else usual)


def _draw_addresses(family: Family) -> st.SearchStrategy[str]:
    """Draw addresses in or near the CIDRs, and a few malformed ones."""
    inside = st.integers(-2, 34).map(lambda offset: address(family, offset))
    return _with_malformed(inside, MALFORMED_ADDRESSES)


def _draw_ranges(family: Family) -> st.SearchStrategy[list[Json]]:
    """Draw lists of ranges, half of them sorted and without overlaps."""
    valid = st.lists(st.integers(0, 31), min_size=2, max_size=6, unique=True).map(
        lambda ends: [
            {"start": address(family, first), "end": address(family, last)}
            for first, last in zip(sorted(ends)[::2], sorted(ends)[1::2], strict=False)
        ]
    )
    any_range = st.fixed_dictionaries(
        {"start": _draw_addresses(family), "end": _draw_addresses(family)}
    )
    return st.one_of(valid, st.lists(any_range, max_size=3))


def _draw_reserved_cidrs(family: Family) -> st.SearchStrategy[list[Json]]:
    """Draw lists of reserved CIDRs."""
    cidrs = _with_malformed(_draw_cidrs(family), MALFORMED_CIDRS)
    return st.lists(st.builds(lambda cidr: {"cidr": cidr}, cidrs), max_size=2)


def _block(family: Family, ends: bool) -> st.SearchStrategy[Json]:
    """Draw the fields of a pool for one family; with start and end if `ends` is set."""
    optional: dict[str, st.SearchStrategy[Any]] = {"ranges": _draw_ranges(family)}
    if ends:
        optional |= {"start": _draw_addresses(family), "end": _draw_addresses(family)}
    return st.fixed_dictionaries(
        {
            "cidr": _with_malformed(
                st.one_of(_draw_large_cidrs(family), _draw_cidrs(family)), MALFORMED_CIDRS
            )
        },
        optional={
            "reserved": _draw_reserved_cidrs(family),
            "tenantAllocation": st.fixed_dictionaries({}, optional=optional),
        },
    )


def _draw_pool_specs(family: Family, other: Family) -> st.SearchStrategy[Json]:
    """Draw specs of NetworkPools with these families of the first and the second block."""
    more = st.fixed_dictionaries(
        {},
        optional={
            "secondary": _block(other, ends=False),
            "gateway": FAMILIES.flatmap(_draw_addresses),
            "excludeNetworkAndBroadcast": st.booleans(),
        },
    )
    return st.builds(lambda block, added: block | added, _block(family, ends=True), more)


POOL_SPECS = st.builds(lambda *pair: pair, FAMILIES, FAMILIES).flatmap(
    lambda pair: _draw_pool_specs(*pair)
)
"""Specs of NetworkPools. Some have two blocks of one family."""

PINS = FAMILIES.flatmap(
    lambda family: st.fixed_dictionaries(
        {"startAddress": _draw_addresses(family), "endAddress": _draw_addresses(family)}
    )
)
FAMILY_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "ipFamilyPolicy": st.sampled_from(["SingleStack", "PreferDualStack", "RequireDualStack"]),
    "ipFamilies": st.lists(st.sampled_from(["IPv4", "IPv6"]), max_size=2),
}
REQUEST_SPECS = st.fixed_dictionaries(
    {
        "poolRef": st.just({"name": "lab"}),
        "tenantClusterRef": st.just({"name": "a", "namespace": "team"}),
        "type": st.sampled_from(["nodes", "loadbalancer"]),
    },
    optional={
        "count": st.integers(1, 70),
        "prefixLength": st.sampled_from([24, 26, 28, 32, 120, 124, 128]),
        "pinnedRange": PINS,
        "pinnedRanges": st.lists(PINS, max_size=2),
        **FAMILY_FIELDS,
    },
)
"""Specs of IPAllocations."""

_NETWORKING = st.fixed_dictionaries(
    {},
    optional={
        "loadBalancerPool": FAMILIES.flatmap(
            lambda family: st.fixed_dictionaries(
                {"start": _draw_addresses(family), "end": FAMILIES.flatmap(_draw_addresses)}
            )
        ),
        **FAMILY_FIELDS,
    },
)
TENANT_SPECS = st.builds(
    lambda networking: {
        "kubernetesVersion": "v1.33.1",
        "workers": {"replicas": 1},
        "networking": networking,
    },
    _NETWORKING,
)
"""Specs of TenantClusters, as far as addresses are concerned."""

_IDENTIFIERS = {
    "azure": ("subscriptionID", "resourceGroup"),
    "aws": ("region",),
    "gcp": ("projectID", "region"),
}


def _draw_provider_specs(provider: str) -> st.SearchStrategy[Json]:
    """Draw specs that set no other cloud's block: only the CRD looks at these."""
    blocks = {}
    if provider in CLOUDS:
        texts = {name: st.sampled_from(["", "x"]) for name in _IDENTIFIERS[provider]}
        blocks[provider] = st.fixed_dictionaries(texts)
    names = ["secret"] if provider == LOCAL else ["", "secret"]
    return st.fixed_dictionaries(
        {"provider": st.just(provider)},
        optional={
            **blocks,
            "credentialsRef": st.fixed_dictionaries({"name": st.sampled_from(names)}),
            "scope": st.fixed_dictionaries(
                {"type": st.sampled_from(["platform", "team"])},
                optional={"teamRef": st.just({"name": "blue"})},
            ),
            "network": st.fixed_dictionaries(
                {},
                optional={
                    "mode": st.sampled_from(["ipam", "cloud"]),
                    "poolRefs": st.lists(st.just({"name": "lab"}), max_size=1),
                },
            ),
        },
    )


PROVIDER_SPECS = st.sampled_from(PROVIDERS).flatmap(_draw_provider_specs)
"""Specs of ProviderConfigs."""
