"""Between API objects and address arithmetic: what a spec means, what a status holds.

Of which families an allocation gets addresses is as with a Service's ipFamilyPolicy:

    SingleStack       one family: the one that ipFamilies names, else the pool's first
    PreferDualStack   both if the pool has both and the second has room, else one
    RequireDualStack  both or nothing

A family that is named is never left out: a pool that lacks it refuses. The first family is served
or nothing is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from allocator import (
    AddressRange,
    AllocatorError,
    Family,
    InvalidPool,
    InvalidRequest,
    Layout,
    PoolTooLarge,
    RequestRefused,
    Space,
    name_edge_addresses,
)
from reconcilers.api.ipallocation import (
    PREFER_DUAL_STACK,
    REQUIRE_DUAL_STACK,
    SINGLE_STACK,
    IPAllocation,
    IPAllocationSpec,
)
from reconcilers.api.networkpool import Assignment, NetworkPool, NetworkPoolSpec
from reconcilers.api.tenantcluster import Networking
from reconcilers.reporting.conditions import Finding

T = TypeVar("T")

FAMILIES: Mapping[str, Family] = {"IPv4": 4, "IPv6": 6}
WORDS: Mapping[Family, str] = {4: "IPv4", 6: "IPv6"}
DUAL_STACK = "DualStack"
"""The condition of an allocation that asks for both families: whether it has both."""
_POLICIES = {SINGLE_STACK, PREFER_DUAL_STACK, REQUIRE_DUAL_STACK}


def layouts(spec: NetworkPoolSpec, max_addresses: int) -> tuple[Layout, ...]:
    """Return the geometry of each block that a pool's spec declares, that of `cidr` first.

    Raises:
        InvalidPool: the spec contradicts itself; `messages` says where.
        PoolTooLarge: a block has more than `max_addresses` addresses.
    """
    first, *others = spec.blocks
    found = [layout(first, max_addresses)]
    for second in others:
        try:
            found.append(layout(second, max_addresses))
        except PoolTooLarge:
            raise
        except InvalidPool as invalid:
            raise InvalidPool([f"secondary: {one}" for one in invalid.messages]) from invalid
    if len({one.family for one in found}) < len(found):
        raise InvalidPool(["the secondary CIDR is of the same family as cidr"])
    return tuple(found)


def layout(spec: NetworkPoolSpec, max_addresses: int) -> Layout:
    """Return the geometry of one block; a secondary block in `spec` has no effect.

    Args:
        spec: what is declared of the block.
        max_addresses: the largest block, in addresses.

    Raises:
        InvalidPool: the spec contradicts itself; `messages` says where.
        PoolTooLarge: it has more than `max_addresses` addresses.
    """
    reserved = [one.cidr for one in reservations(spec)]
    return Layout.parse(spec.cidr, reserved, spec.spans(), max_addresses=max_addresses)


@dataclass(frozen=True, slots=True)
class Reservation:
    """A part of a pool's block that is never handed out.

    Args:
        cidr: the part.
        text: the part as messages show it: as the spec writes it, or the address alone.
        field: the field of the block that reserves it: `("reserved", 0)`.
        note: why, for people.
    """

    cidr: str
    text: str
    field: tuple[str | int, ...]
    note: str


EXCLUDE_EDGES = "excludeNetworkAndBroadcast"
"""The field of a pool's spec that keeps the addresses of `name_edge_addresses` from being used."""


def reservations(spec: NetworkPoolSpec) -> Iterator[Reservation]:
    """Yield what one block never hands out, in the order of its layout's `reserved`."""
    for number, one in enumerate(spec.reserved):
        yield Reservation(one.cidr, one.cidr, ("reserved", number), one.description)
    whole = parsed_entry(spec.cidr)
    if whole is None:
        return
    gateway = parsed(spec.gateway, spec.gateway) if spec.gateway else None
    if spec.gateway and gateway is not None and whole.contains(gateway):
        yield Reservation(gateway.text, spec.gateway, ("gateway",), "gateway")
    if spec.excludeNetworkAndBroadcast:
        for name, address in name_edge_addresses(whole).items():
            yield Reservation(address.text, address.start_text, (EXCLUDE_EDGES,), name)


def cidrs(spec: NetworkPoolSpec) -> list[AddressRange]:
    """Return the blocks of a pool, one or one of each family, without what is no CIDR."""
    second = () if spec.secondary is None else (spec.secondary.cidr,)
    return [one for one in map(parsed_entry, (spec.cidr, *second)) if one is not None]


@lru_cache(maxsize=131_072)
def parsed(start: str, end: str) -> AddressRange | None:
    """Return the range from `start` to `end`, or None if that is no range."""
    try:
        return AddressRange.parse(start, end)
    except AllocatorError:
        return None


@lru_cache(maxsize=1_024)
def parsed_entry(text: str) -> AddressRange | None:
    """Return the range of a CIDR or `start-end`, or None if the text is neither."""
    start, dash, end = text.partition("-")
    if dash:
        return parsed(start.strip(), end.strip())
    try:
        return AddressRange.parse_cidr(text)
    except AllocatorError:
        return None


def host_bits(text: str, meant: AddressRange | None = None) -> str:
    """Return a warning about a CIDR that has host bits set; empty if it has none.

    Args:
        text: what a spec has; a text that is no CIDR has no host bits.
        meant: what it is taken for, where that is not the CIDR in the text's own family.
    """
    address, slash, _ = text.partition("/")
    taken = meant or (parsed_entry(text) if slash and "-" not in text else None)
    start = parsed(address, address)
    first = start.in_family(taken.family) if start is not None and taken is not None else None
    if taken is None or (first is not None and first.first == taken.first):
        return ""
    return f"{text!r} has host bits set; it is taken for {taken.text}"


def held(allocation: IPAllocation) -> AddressRange | None:
    """Return the range in the allocation's status, in whatever phase; None if it holds none.

    A status with a cidr but without start and end that make sense, as some writers leave it, holds
    that.
    """
    status = allocation.status
    found = None
    if status.startAddress and status.endAddress:
        found = parsed(status.startAddress, status.endAddress)
    return found or (parsed_entry(status.cidr) if status.cidr else None)


def all_held(allocation: IPAllocation) -> tuple[AddressRange, ...]:
    """Return every range in the allocation's status, in whatever phase, the first one first."""
    first = held(allocation)
    if not allocation.status.families:
        return () if first is None else (first,)
    others = (
        parsed(one.startAddress, one.endAddress)
        for one in allocation.status.families
        if one.startAddress and one.endAddress
    )
    return tuple(dict.fromkeys(one for one in (first, *others) if one is not None))


def ends_text(allocation: IPAllocation) -> str:
    """Return the ends of every range in the allocation's status, for a message."""
    return " and ".join(f"{one.start_text} - {one.end_text}" for one in all_held(allocation))


def promised(assignment: Assignment) -> tuple[AddressRange, ...]:
    """Return the ranges that an assignment promises, nothing if one of them is none."""
    first = parsed(assignment.startAddress, assignment.endAddress)
    if first is None:
        return ()
    start, end = assignment.secondaryStartAddress, assignment.secondaryEndAddress
    if start is None and end is None:
        return (first,)
    second = parsed(start or "", end or "")
    return (first, second) if second is not None else ()


def pins(allocation: IPAllocation) -> tuple[AddressRange, ...]:
    """Return the ranges that the allocation asks for by address, at most one of each family.

    Raises:
        AllocatorError: a range is none, for example because its start is after its end; or two are
            of one family.
    """
    spec = allocation.spec
    named = (spec.pinnedRange,) if spec.pinnedRange is not None else spec.pinnedRanges
    found = tuple(AddressRange.parse(one.startAddress, one.endAddress) for one in named)
    if len({one.family for one in found}) < len(found):
        raise InvalidRequest("pinnedRanges has one range of each family")
    return found


def pinned(allocation: IPAllocation) -> AddressRange | None:
    """Return the first of `pins`; None if the allocation asks by count."""
    return next(iter(pins(allocation)), None)


def requested(allocation: IPAllocation, pool: NetworkPool) -> int:
    """Return how many addresses an allocation asks for of each family that is not pinned.

    With a prefix length that the pool's family does not have it asks for nothing.
    """
    spec, prefix = allocation.spec, allocation.spec.prefixLength
    if prefix is None:
        named = (spec.pinnedRange, *spec.pinnedRanges)[-1] if spec.ipFamilyPolicy else None
        first = parsed(named.startAddress, named.endAddress) if named is not None else None
        if first is not None:
            return first.size
        return spec.count or pool.spec.default_count(spec.type)
    six = spec.ipFamilies[0] == "IPv6" if spec.ipFamilies else ":" in pool.spec.cidr
    bits = 128 if six else 32
    return 1 << bits - prefix if prefix <= bits else 0


class PoolNotDualStack(RequestRefused):
    """Both families are required of a pool that has one.

    Args:
        pool: the pool's name.
    """

    def __init__(self, pool: str) -> None:
        super().__init__(f"NetworkPool {pool} is not configured for dual-stack allocations")


class FamilyNotConfigured(RequestRefused):
    """A family is named that the pool does not have.

    Args:
        at: the field that names it.
        family: the family.
        pool: the pool's name.
    """

    def __init__(self, at: str, family: Family, pool: str) -> None:
        what = f'{at}: Invalid value: "{WORDS[family]}": not configured on NetworkPool {pool}'
        super().__init__(what)


class FamilyRefused(RequestRefused):
    """One family of a pool cannot serve a request that names families.

    Args:
        family: the family.
        refused: why.
    """

    def __init__(self, family: Family, refused: AllocatorError) -> None:
        super().__init__(f"{WORDS[family]}: {refused}")
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an allocation gets of a pool.

    Args:
        families: in order.
        second_required: whether it gets nothing rather than the first family alone.
    """

    families: tuple[Family, ...]
    second_required: bool = False


def wanted(allocation: IPAllocation, pool: NetworkPool, available: Sequence[Family]) -> Wanted:
    """Return the families that an allocation gets addresses of.

    Args:
        allocation: the request.
        pool: the pool.
        available: the pool's families, in its order.

    Raises:
        AllocatorError: the pool does not have them, or the request contradicts itself.
    """
    spec = allocation.spec
    field = "spec.pinnedRange" if spec.pinnedRange is not None else "spec.pinnedRanges"
    pinned_to = [(field, one.family) for one in pins(allocation)]
    return _wanted(spec.ipFamilyPolicy, [*_named(spec), *pinned_to], pool, available)


def wanted_by(networking: Networking, pool: NetworkPool, available: Sequence[Family]) -> Wanted:
    """Return the families that the allocations of a cluster get addresses of; as `wanted`."""
    return _wanted(networking.ipFamilyPolicy, _named(networking), pool, available)


def _wanted(
    policy: str | None,
    named: Sequence[tuple[str, Family]],
    pool: NetworkPool,
    available: Sequence[Family],
) -> Wanted:
    """Return the families to take, in order; raise AllocatorError if the pool lacks one."""
    policy, name = policy or SINGLE_STACK, pool.metadata.name
    if policy not in _POLICIES:
        raise InvalidRequest(f"ipFamilyPolicy {policy!r} is none")
    if policy == REQUIRE_DUAL_STACK and len(available) < 2:
        raise PoolNotDualStack(name)
    for at, family in named:
        if family not in available:
            raise FamilyNotConfigured(at, family, name)
    asked = tuple(dict.fromkeys(family for _, family in named))
    if policy == SINGLE_STACK and len(asked) > 1:
        raise InvalidRequest(
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or"
            " 'PreferDualStack' when multiple IP families are specified"
        )
    order = tuple(dict.fromkeys((*asked, *available)))
    if policy == SINGLE_STACK:
        return Wanted(order[:1])
    return Wanted(order, second_required=policy == REQUIRE_DUAL_STACK)


def _named(spec: IPAllocationSpec | Networking) -> list[tuple[str, Family]]:
    """Return the families in ipFamilies, with the fields that name them."""
    found: list[tuple[str, Family]] = []
    for number, word in enumerate(spec.ipFamilies):
        if word not in FAMILIES:
            raise InvalidRequest(f"spec.ipFamilies[{number}]: {word!r} is no family")
        found.append((f"spec.ipFamilies[{number}]", FAMILIES[word]))
    return found


def take(
    pool: NetworkPool, allocation: IPAllocation, spaces: Sequence[Space]
) -> tuple[AddressRange, ...]:
    """Take from `spaces` what an allocation asks for: a range of each family, or nothing.

    What it holds already it gets again: its phase was wiped, say.

    Args:
        pool: the pool.
        allocation: the request.
        spaces: of the pool's blocks, in order.

    Raises:
        AllocatorError: it cannot be served; nothing is taken.
    """
    held = all_held(allocation)
    if held and (len(held) > 1 or allocation.spec.ipFamilyPolicy != REQUIRE_DUAL_STACK):
        return held
    if len(spaces) == 1 and not allocation.spec.names_families:
        return (_take_one(pool, allocation, spaces[0], pinned(allocation)),)
    return _take_all(pool, allocation, spaces, held)


def _take_all(
    pool: NetworkPool,
    allocation: IPAllocation,
    spaces: Sequence[Space],
    held: Sequence[AddressRange],
) -> tuple[AddressRange, ...]:
    """Take the ranges that an allocation lacks; put all back if a required one is refused."""
    by_family = {space.layout.family: space for space in spaces}
    pinned_to = {one.family: one for one in pins(allocation)}
    asked = wanted(allocation, pool, tuple(by_family))
    found = {one.family: one for one in held}
    new: list[AddressRange] = []
    for family in asked.families:
        if family in found:
            continue
        try:
            one = _take_one(pool, allocation, by_family[family], pinned_to.get(family))
        except AllocatorError as refused:
            if found and not asked.second_required:
                break
            for taken in reversed(new):
                by_family[taken.family].put_back(taken)
            if not allocation.spec.names_families:
                raise
            raise FamilyRefused(family, refused) from refused
        new.append(one)
        found[family] = one
    return tuple(found[family] for family in asked.families if family in found)


def _take_one(
    pool: NetworkPool, allocation: IPAllocation, space: Space, pinned: AddressRange | None
) -> AddressRange:
    """Take the range of one family."""
    if pinned is not None:
        return space.pin(pinned)
    prefix = allocation.spec.prefixLength
    if prefix is not None:
        return space.allocate_block(prefix)
    return space.allocate(requested(allocation, pool))


def dual_stack(
    allocation: IPAllocation, pool: NetworkPool, given: Sequence[AddressRange]
) -> list[Finding]:
    """Return the condition DualStack of an allocation that was given ranges; none of SingleStack.

    Args:
        allocation: the allocation.
        pool: of which it was given them.
        given: the ranges.
    """
    if allocation.spec.ipFamilyPolicy not in {PREFER_DUAL_STACK, REQUIRE_DUAL_STACK}:
        return []
    if len(given) > 1:
        return [Finding(DUAL_STACK, True, "DualStack", "it has a range of each family")]
    if pool.spec.secondary is None:
        what = f"NetworkPool {pool.metadata.name} has one family"
        return [Finding(DUAL_STACK, False, "PoolSingleStack", what)]
    lacked = next(word for family, word in WORDS.items() if family != given[0].family)
    what = f"NetworkPool {pool.metadata.name} had no {lacked} range free when this was allocated"
    return [Finding(DUAL_STACK, False, "PoolExhausted", what)]
