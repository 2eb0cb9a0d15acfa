"""The choice of the families that a request gets addresses of.

It is as with a Service's ipFamilyPolicy:

    SingleStack       one family: the one that ipFamilies names, else the pool's first
    PreferDualStack   both if the pool has both and the second has room, else one
    RequireDualStack  both or nothing

A family that is named is never left out: a pool that lacks it refuses the request. If the first
family has no room, nothing is allocated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from allocator import Family, InvalidRequest, RequestRefused
from reconcilers.addressing import requestedranges
from reconcilers.api.ipallocation import (
    PREFER_DUAL_STACK,
    REQUIRE_DUAL_STACK,
    SINGLE_STACK,
    IPAllocation,
    IPAllocationSpec,
)
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import FamilyName
from reconcilers.api.tenantcluster import Networking

FAMILIES_BY_NAME: Mapping[str, Family] = {"IPv4": 4, "IPv6": 6}
FAMILY_NAMES: Mapping[Family, FamilyName] = {4: "IPv4", 6: "IPv6"}
_POLICIES = {SINGLE_STACK, PREFER_DUAL_STACK, REQUIRE_DUAL_STACK}


class PoolNotDualStack(RequestRefused):
    """A request requires both families, and the pool has one.

    Args:
        pool: the pool's name.
    """

    def __init__(self, pool: str) -> None:
        super().__init__(f"NetworkPool {pool} is not configured for dual-stack allocations")


class FamilyNotConfigured(RequestRefused):
    """A request names a family that the pool does not have.

    Args:
        field: the field that names it.
        pool: the pool's name.
    """

    def __init__(self, field: str, family: Family, pool: str) -> None:
        name = FAMILY_NAMES[family]
        super().__init__(f'{field}: Invalid value: "{name}": not configured on NetworkPool {pool}')


@dataclass(frozen=True, slots=True)
class FamilyChoice:
    """The families that an allocation gets addresses of.

    Args:
        families: in order.
        second_required: whether it gets nothing if the second family has no room.
    """

    families: tuple[Family, ...]
    second_required: bool = False


def choose_families(
    allocation: IPAllocation, pool: NetworkPool, available: Sequence[Family]
) -> FamilyChoice:
    """Return the families that an allocation gets addresses of.

    Args:
        allocation: the request.
        available: the pool's families, in its order.

    Raises:
        AllocatorError: the pool does not have them, or the request contradicts itself.
    """
    spec = allocation.spec
    field = "spec.pinnedRange" if spec.pinnedRange is not None else "spec.pinnedRanges"
    # A pinned range names its family, as an entry of ipFamilies does.
    pinned_families = [(field, pin.family) for pin in requestedranges.parse_pins(allocation)]
    return _choose(
        spec.ipFamilyPolicy,
        [*_list_named_families(spec), *pinned_families],
        pool=pool,
        available=available,
    )


def choose_cluster_families(
    networking: Networking, pool: NetworkPool, available: Sequence[Family]
) -> FamilyChoice:
    """Return the families that the allocations of a cluster get addresses of.

    Raises:
        AllocatorError: the pool does not have them, or the cluster's spec contradicts itself.
    """
    return _choose(
        networking.ipFamilyPolicy, _list_named_families(networking), pool=pool, available=available
    )


def _choose(
    policy: str | None,
    named_families: Sequence[tuple[str, Family]],
    pool: NetworkPool,
    available: Sequence[Family],
) -> FamilyChoice:
    """Return the families to take, in order: the named ones, then the others of the pool.

    SingleStack takes only the first of them.

    Args:
        policy: the ipFamilyPolicy; None for SingleStack.
        named_families: each field that names a family, and that family.
        available: the pool's families, in its order.

    Raises:
        AllocatorError: the pool lacks a family, or the request contradicts itself.
    """
    policy, name = policy or SINGLE_STACK, pool.metadata.name
    if policy not in _POLICIES:
        raise InvalidRequest(f"ipFamilyPolicy {policy!r} must be one of {', '.join(_POLICIES)}")
    if policy == REQUIRE_DUAL_STACK and len(available) < 2:
        raise PoolNotDualStack(name)
    for field, family in named_families:
        if family not in available:
            raise FamilyNotConfigured(field, family, name)
    families = tuple(dict.fromkeys(family for _, family in named_families))
    if policy == SINGLE_STACK and len(families) > 1:
        raise InvalidRequest(
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or"
            " 'PreferDualStack' when multiple IP families are specified"
        )
    order = tuple(dict.fromkeys((*families, *available)))
    if policy == SINGLE_STACK:
        return FamilyChoice(order[:1])
    return FamilyChoice(order, second_required=policy == REQUIRE_DUAL_STACK)


def _list_named_families(spec: IPAllocationSpec | Networking) -> list[tuple[str, Family]]:
    """Return the families in ipFamilies, each with the field that names it.

    Raises:
        InvalidRequest: an entry is neither IPv4 nor IPv6.
    """
    families: list[tuple[str, Family]] = []
    for number, word in enumerate(spec.ipFamilies):
        if word not in FAMILIES_BY_NAME:
            raise InvalidRequest(f"spec.ipFamilies[{number}]: {word!r} is not IPv4 or IPv6")
        families.append((f"spec.ipFamilies[{number}]", FAMILIES_BY_NAME[word]))
    return families
