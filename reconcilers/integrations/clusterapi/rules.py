"""Which writes of pools are refused, with the messages of Cluster API's provider. Pure functions.

    created   a spec that cannot be read, or contradicts itself
    updated   the same; and a spec that no longer contains an address in use
    deleted   a pool with addresses in use

An address in use that lay outside of the old spec as well does not block an edit. The in-cluster
provider refuses such an edit; here, a pool with such an address can still be corrected. Edits of
metadata alone are not validated.
"""

from collections.abc import Iterable, Iterator, Sequence
from json import dumps

from allocator import AddressRange, InvalidPool
from allocator.addresses import BITS, parse_address
from allocator.errors import MalformedText
from controller.errors import Cause
from reconcilers.addressing import addresstexts
from reconcilers.integrations.clusterapi.addresses import (
    PoolSpace,
    compute_subnet,
    parse_entry,
    parse_ip_space,
    parse_prefix_space,
)
from reconcilers.integrations.clusterapi.api import (
    DELETE_FOR_MOVE,
    SKIP_DELETE_CHECK,
    IPPoolSpec,
    Pool,
    PrefixPoolSpec,
)
from reconcilers.specrules.verdict import build_value_cause

REFUSED_DELETION = (
    "Pool has IPAddresses allocated. Cannot delete Pool until all IPAddresses have been removed."
)
_ENTRY = "is not a valid IP, range, nor CIDR"
_GATEWAY = "spec.gateway"
_LENGTH = "spec.allocationPrefixLength"


def find_faults(spec: IPPoolSpec | PrefixPoolSpec) -> list[Cause]:
    """Return the faults of a pool's spec, by field."""
    if isinstance(spec, PrefixPoolSpec):
        return [*_find_prefix_faults(spec)]
    # The subnet can be checked only if all entries can be read.
    return [*_find_ip_faults(spec)] or [*_find_subnet_faults(spec)]


def find_immutable_edits(
    new: IPPoolSpec | PrefixPoolSpec, old: IPPoolSpec | PrefixPoolSpec
) -> list[Cause]:
    """Return the causes to reject an edit of immutable fields.

    The only one is the length of the prefixes that a prefix pool hands out.
    """
    if not isinstance(new, PrefixPoolSpec) or not isinstance(old, PrefixPoolSpec):
        return []
    length = new.allocationPrefixLength
    if length == old.allocationPrefixLength:
        return []
    return [build_value_cause(_LENGTH, length, "spec.allocationPrefixLength is immutable")]


def find_warnings(spec: IPPoolSpec | PrefixPoolSpec) -> Iterator[str]:
    """Yield warnings about values that are allowed but probably a mistake.

    These are CIDRs with host bits, a pool of /128 prefixes, and a gateway inside such a pool.
    """
    yield from list_host_bit_warnings(spec)
    if not isinstance(spec, PrefixPoolSpec) or spec.allocationPrefixLength != BITS[6]:
        return
    yield (
        "spec.allocationPrefixLength=128 behaves like host-address allocation; consider"
        " InClusterIPPool for single-address semantics"
    )
    gateway = _parse_single(spec.gateway)
    if gateway is not None and any(
        prefixes.contains(gateway)
        for prefixes in _parse_readable(spec.prefixes)
        if prefixes.family == gateway.family
    ):
        yield (
            "spec.gateway is within spec.prefixes and is not reserved; with /128"
            " allocationPrefixLength it may also be allocated to claims"
        )


def list_host_bit_warnings(spec: IPPoolSpec | PrefixPoolSpec) -> Iterator[str]:
    """Yield a warning, with its field, for each CIDR of a spec that has host bits set."""
    lists = (
        {"prefixes": spec.prefixes, "excludedPrefixes": spec.excludedPrefixes}
        if isinstance(spec, PrefixPoolSpec)
        else {"addresses": spec.addresses, "excludedAddresses": spec.excludedAddresses}
    )
    for name, entries in lists.items():
        for index, entry in enumerate(entries):
            if warning := addresstexts.describe_host_bits(entry):
                yield f"spec.{name}[{index}]: {warning}"


def parse_space(spec: IPPoolSpec | PrefixPoolSpec) -> PoolSpace:
    """Return the space of a pool.

    Raises:
        InvalidPool: the spec cannot be read.
    """
    return parse_prefix_space(spec) if isinstance(spec, PrefixPoolSpec) else parse_ip_space(spec)


def may_give_up_blocks(
    new: IPPoolSpec | PrefixPoolSpec, old: IPPoolSpec | PrefixPoolSpec | None
) -> bool:
    """Return whether a new spec may lack blocks of the old spec.

    Args:
        new: a spec that can be read.
        old: the spec before the edit; None if it could not be decoded. Without a readable old
            spec the answer is True, because it is unknown what the old spec handed out.
    """
    before, after = _parse_space_or_none(old), parse_space(new)
    # Blocks of different size or family cannot be compared by their numbers.
    if before is None or before.shift != after.shift or before.family != after.family:
        return True
    # A block survives if it is completely in the new layout, so that clipping does not cut it.
    return any(
        after.layout.clip((block.first, block.last)) != [(block.first, block.last)]
        for block in before.layout.blocks
    )


def describe_left_out(
    new: IPPoolSpec | PrefixPoolSpec,
    old: IPPoolSpec | PrefixPoolSpec | None,
    in_use: Iterable[tuple[str, int]],
) -> str:
    """Return why an edit is refused: it leaves out addresses in use; empty if it is allowed.

    Args:
        new: a spec that can be read.
        old: the spec before the edit; None if it could not be decoded. Then every address in use
            must be in the new spec.
        in_use: address and prefix of each IPAddress that names the pool.
    """
    before, after = _parse_space_or_none(old), parse_space(new)
    lost = {
        (address, prefix)
        for address, prefix in in_use
        if not after.hands_out(address, prefix)
        and (before is None or before.hands_out(address, prefix))
    }
    if not lost:
        return ""
    if isinstance(new, PrefixPoolSpec):
        addresses = sorted(address for address, _ in lost)
        return f"existing allocations become non-allocatable: [{' '.join(addresses)}]"
    spans = _join_runs(_parse_readable(address for address, _ in lost))
    return f"pool addresses do not contain allocated addresses: [{' '.join(spans)}]"


def may_be_deleted_in_use(pool: Pool) -> bool:
    """Return whether a pool may be deleted although its addresses are in use.

    It may if a user allowed it by an annotation, or if `clusterctl move` deletes the pool in the
    source cluster. After a move the addresses in use are in the other cluster.
    """
    return not {SKIP_DELETE_CHECK, DELETE_FOR_MOVE}.isdisjoint(pool.metadata.annotations)


def _parse_space_or_none(spec: IPPoolSpec | PrefixPoolSpec | None) -> PoolSpace | None:
    """Return the space of a spec; None if there is no spec or it is invalid."""
    try:
        return None if spec is None else parse_space(spec)
    except InvalidPool:
        return None


def _find_ip_faults(spec: IPPoolSpec) -> Iterator[Cause]:
    """Yield the faults of a pool of addresses, except those of its subnet."""
    where, excluded = "spec.addresses", "spec.excludedAddresses"
    if not spec.addresses:
        yield Cause(where, "FieldValueRequired", "Required value: addresses is required")
    if spec.prefix < 0:
        yield build_value_cause("spec.prefix", spec.prefix, "a valid prefix is required")
    yield from _find_entry_faults(where, spec.addresses, f"provided address {_ENTRY}")
    families = {entry.family for entry in _parse_readable(spec.addresses)}
    if len(families) > 1:
        yield _make_families_cause(where, spec.addresses, "provided addresses are")
    if spec.gateway:
        gateway = _parse_single(spec.gateway)
        if gateway is None:
            yield _make_gateway_cause(spec.gateway)
        elif families - {gateway.family}:
            yield _make_families_cause(
                _GATEWAY, spec.gateway, "provided gateway and addresses are"
            )
    yield from _find_entry_faults(excluded, spec.excludedAddresses, f"provided address {_ENTRY}")
    excluded_families = {entry.family for entry in _parse_readable(spec.excludedAddresses)}
    if len(excluded_families) > 1:
        yield _make_families_cause(excluded, spec.excludedAddresses, "provided addresses are")
    elif families and excluded_families - families:
        yield _make_families_cause(
            excluded, spec.excludedAddresses, "addresses and excluded addresses are"
        )
    grace = spec.addressReuseGracePeriodSeconds
    if grace is not None and grace < 0:
        problem = "addressReuseGracePeriodSeconds must not be negative"
        yield build_value_cause("spec.addressReuseGracePeriodSeconds", grace, problem)


def _find_subnet_faults(spec: IPPoolSpec) -> Iterator[Cause]:
    """Yield the addresses outside of the pool's subnet, or its invalid prefix length.

    The subnet is that of the lowest address.

    Args:
        spec: of a pool whose addresses can all be read.
    """
    listed = [(entry, parse_entry(entry)) for entry in spec.addresses]
    family = listed[0][1].family
    if spec.prefix > BITS[family]:
        yield build_value_cause("spec.prefix", spec.prefix, "provided prefix is not valid")
        return
    subnet = compute_subnet(min(addresses.first for _, addresses in listed), spec.prefix, family)
    for entry, addresses in listed:
        if not subnet.contains(addresses):
            problem = "provided address belongs to a different subnet than others"
            yield build_value_cause("spec.addresses", entry, problem)


def _find_prefix_faults(spec: PrefixPoolSpec) -> Iterator[Cause]:
    """Yield the faults of a pool of prefixes."""
    where, excluded = "spec.prefixes", "spec.excludedPrefixes"
    length = spec.allocationPrefixLength
    if not spec.prefixes:
        yield Cause(where, "FieldValueRequired", "Required value: prefixes is required")
    if not 1 <= length <= BITS[6]:
        problem = "allocationPrefixLength must be between 1 and 128"
        yield build_value_cause(_LENGTH, length, problem)
    for entry in spec.prefixes:
        problem = _find_prefix_fault(entry, length)
        if problem:
            yield build_value_cause(where, entry, problem)
    if spec.gateway:
        gateway = _parse_single(spec.gateway)
        if gateway is None:
            yield _make_gateway_cause(spec.gateway)
        elif gateway.family != 6:
            yield build_value_cause(_GATEWAY, spec.gateway, "provided gateway must be IPv6")
    yield from _find_entry_faults(excluded, spec.excludedPrefixes, f"provided entry {_ENTRY}")
    for entry in spec.excludedPrefixes:
        if any(addresses.family != 6 for addresses in _parse_readable([entry])):
            yield build_value_cause(excluded, entry, "only IPv6 excluded prefixes are supported")


def _find_prefix_fault(entry: str, length: int) -> str:
    """Return the fault of an entry of `spec.prefixes`; empty if it is valid.

    Args:
        length: the length of the prefixes to hand out; an invalid length has its own fault.
    """
    prefixes = _parse_readable([entry]) if "/" in entry and "-" not in entry else []
    if not prefixes:
        return "provided entry is not a valid IPv6 CIDR"
    [prefix] = prefixes
    if prefix.family != 6:
        return "only IPv6 prefixes are supported"
    if parse_address(entry.partition("/")[0]) != (prefix.first, 6):
        return "CIDR must be network-aligned"
    if 1 <= length <= BITS[6] and prefix.size < 1 << BITS[6] - length:
        return f"CIDR prefix length must be <= allocationPrefixLength ({length})"
    return ""


def _find_entry_faults(field: str, texts: Iterable[str], problem: str) -> Iterator[Cause]:
    """Yield a fault for each entry of a field that cannot be parsed."""
    for entry in texts:
        if not _parse_readable([entry]):
            yield build_value_cause(field, entry, problem)


def _parse_readable(texts: Iterable[str]) -> list[AddressRange]:
    """Return the entries of a list that can be parsed."""
    parsed = []
    for entry in texts:
        try:
            parsed.append(parse_entry(entry))
        except MalformedText:
            continue  # `_find_entry_faults` or `_find_prefix_fault` reports the entry
    return parsed


def _parse_single(address: str) -> AddressRange | None:
    """Return one address as a range; None if the text cannot be parsed."""
    parsed = parse_address(address)
    return None if parsed is None else AddressRange(parsed[0], parsed[0], parsed[1])


def _join_runs(addresses: Iterable[AddressRange]) -> Iterator[str]:
    """Yield runs of consecutive addresses as `first-last`, as the in-cluster provider writes them.

    A single address is also written as `first-last`.
    """
    ordered = sorted({(address.family, address.first) for address in addresses})
    while ordered:
        family, first = ordered[0]
        count = 1
        while count < len(ordered) and ordered[count] == (family, first + count):
            count += 1
        run = AddressRange(first, first + count - 1, family)
        yield f"{run.start_text}-{run.end_text}"
        ordered = ordered[count:]


def _make_gateway_cause(gateway: str) -> Cause:
    """Return the cause to reject a gateway that is not an IP address."""
    return build_value_cause(_GATEWAY, gateway, f"ParseAddr({dumps(gateway)}): unable to parse IP")


def _make_families_cause(field: str, value: str | Sequence[str], subject: str) -> Cause:
    """Return the cause to reject a field whose addresses are of two families.

    Args:
        subject: the beginning of the message, with its verb.
    """
    return build_value_cause(field, value, f"{subject} of mixed IP families")
