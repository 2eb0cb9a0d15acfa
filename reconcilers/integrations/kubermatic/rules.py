"""The rules for IPAMPools: which pools are refused, and which are accepted with a warning.

A *fault* is a reason to refuse a pool. The messages of refusals are those of KKP's webhook. Two
rules are not KKP's. A pool needs at least one datacenter, as KKP's API reference says, because it
serves no cluster otherwise. The name of a datacenter must not be empty, because no cluster is in
such a datacenter.

Networks are compared by their addresses, not as texts: another spelling of the same network is no
change. Host bits of an excluded prefix do not matter.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from allocator import AddressRange
from allocator.addresses import BITS, parse_address
from allocator.errors import MalformedText
from reconcilers.addressing import addresstexts
from reconcilers.integrations.kubermatic.api import (
    RANGE,
    Datacenter,
    IPAMAllocation,
    IPAMPool,
)
from reconcilers.integrations.kubermatic.holdings import parse_holding
from reconcilers.integrations.kubermatic.spaces import (
    NO_DATACENTERS,
    parse_prefix,
    parse_range,
    to_ipv4_text,
)

LARGEST_RANGE_BITS = 12
"""The most host bits of a datacenter that hands out single addresses."""
INT64_BITS = 63
"""From so many host bits on, the number of addresses does not fit in an int64."""


UNNAMED_DATACENTER = (
    "spec.datacenters: the name of a datacenter must not be empty; name the datacenter or"
    " remove it"
)
"""What is wrong with an IPAMPool that has a datacenter named ""."""


def list_faults(pool: IPAMPool) -> Iterable[str]:
    """Yield the first fault of each datacenter of a pool that is to be refused."""
    for name in sorted(pool.spec.datacenters):
        fault = find_fault(pool.spec.datacenters[name])
        if fault:
            yield fault


def list_pool_faults(pool: IPAMPool) -> Iterator[str]:
    """Yield the faults of a stored pool that concern all its datacenters."""
    if not pool.spec.datacenters:
        yield NO_DATACENTERS
    if "" in pool.spec.datacenters:
        yield UNNAMED_DATACENTER


def describe_datacenter_fault(pool: IPAMPool, name: str) -> str:
    """Describe the fault that KKP rejects in a datacenter of a stored pool; empty for none."""
    fault = find_fault(pool.spec.datacenters[name])
    return f"datacenter {name}: {fault}" if fault else ""


def find_fault(datacenter: Datacenter) -> str:
    """Return why a datacenter of a pool is refused; empty if it is not."""
    try:
        whole = AddressRange.parse_cidr(datacenter.poolCidr)
    except MalformedText:
        return f"invalid CIDR address: {datacenter.poolCidr}"
    if datacenter.type == RANGE:
        return _find_range_fault(datacenter, whole)
    return _find_prefix_fault(datacenter, whole)


def _find_range_fault(datacenter: Datacenter, whole: AddressRange) -> str:
    """Return the first fault of a datacenter that hands out single addresses; empty for none.

    Args:
        whole: its poolCidr.
    """
    bits = whole.size.bit_length() - 1
    if datacenter.allocationRange <= 0:
        return "allocation range should be greater than zero"
    if bits >= INT64_BITS:
        return "the pool is too big to be processed"
    if bits > LARGEST_RANGE_BITS:
        return "pool prefix is too low for range allocation type"
    if datacenter.allocationRange > whole.size:
        return (
            "allocation range cannot be greater than the pool subnet possible number of IP"
            " addresses"
        )
    faults = (_find_exclusion_fault(excluded_range) for excluded_range in datacenter.excludeRanges)
    return next((fault for fault in faults if fault), "")


def _find_exclusion_fault(address_range: str) -> str:
    """Return the first fault of an excluded range, `a-b` or `a`; empty for none."""
    parts = address_range.split("-")
    if len(parts) > 2:
        form = '(format should be "{first_ip}-{last_ip}" or single "{ip}")'
        return f'invalid format for range: "{address_range}" {form}'
    parsed = [parse_address(to_ipv4_text(part)) for part in parts]
    for part, address in zip(parts, parsed, strict=True):
        if address is None:
            return f'invalid IP format for "{part}" in range "{address_range}"'
    ends = [address for address in parsed if address is not None]
    (first, first_family), (last, last_family) = ends[0], ends[-1]  # the same for a single address
    if first_family != last_family:
        return f'different IP versions for range "{address_range}"'
    if first > last:
        return f'invalid range order for "{address_range}"'
    return ""


def _find_prefix_fault(datacenter: Datacenter, whole: AddressRange) -> str:
    """Return the first fault of a datacenter that hands out prefixes; empty for none.

    Args:
        whole: its poolCidr.
    """
    bits = BITS[whole.family]
    length = datacenter.allocationPrefix
    if length < bits - (whole.size.bit_length() - 1):
        return "allocation prefix cannot be smaller than the pool subnet mask size"
    if length > bits:
        return "invalid allocation prefix for IP version"
    for prefix in datacenter.excludePrefixes:
        try:
            AddressRange.parse_cidr(prefix)
        except MalformedText:
            return f"invalid CIDR for subnet to exclude: invalid CIDR address: {prefix}"
        if int(prefix.rpartition("/")[2]) != length:
            return (
                f'invalid length for subnet to exclude "{prefix}": must be the same as the pool'
                f" allocation prefix ({length})"
            )
    return ""


def find_missing_datacenters(new: IPAMPool, old: IPAMPool | None = None) -> str:
    """Return why a pool without datacenters is refused; empty if the pool may be written.

    A stored pool that has no datacenters already may be written, because this program writes the
    journal to an annotation of the pool.
    """
    if new.spec.datacenters or (old is not None and not old.spec.datacenters):
        return ""
    message = "a pool needs at least one datacenter; " + ("delete the pool" if old else "add one")
    return f"spec.datacenters: must not be empty: {message}"


def find_unnamed_datacenter(new: IPAMPool, old: IPAMPool | None = None) -> str:
    """Return why a datacenter named "" is refused; empty if the pool may be written.

    A stored pool that has such a datacenter already may be written, because this program writes
    the journal to an annotation of the pool.
    """
    is_new = "" in new.spec.datacenters and (old is None or "" not in old.spec.datacenters)
    return UNNAMED_DATACENTER if is_new else ""


def find_forbidden_changes(new: IPAMPool, old: IPAMPool) -> Iterable[str]:
    """Yield a message for each change of a pool that is not allowed."""
    for name, datacenter in sorted(new.spec.datacenters.items()):
        old_datacenter = old.spec.datacenters.get(name)
        if old_datacenter is None:
            continue  # a datacenter may be added
        if not _is_same_network(datacenter.poolCidr, old_datacenter.poolCidr):
            yield "it's not allowed to update the pool CIDR for a datacenter"
        elif datacenter.type != old_datacenter.type:
            yield "it's not allowed to update the allocation type for a datacenter"
        elif (
            datacenter.type != RANGE
            and datacenter.allocationPrefix != old_datacenter.allocationPrefix
        ):
            yield "it's not allowed to update the allocation prefix for a datacenter"


def _is_same_network(cidr: str, other: str) -> bool:
    """Return whether two CIDRs mean the same network.

    If one of them cannot be parsed, the texts are compared.
    """
    try:
        return parse_prefix(cidr) == parse_prefix(other)
    except MalformedText:
        return cidr == other


def find_conflicts(
    new: IPAMPool, old: IPAMPool, allocations: Sequence[IPAMAllocation]
) -> Iterable[str]:
    """Yield a message for each datacenter where an added exclusion would touch an allocation."""
    for name, datacenter in sorted(new.spec.datacenters.items()):
        old_datacenter = old.spec.datacenters.get(name, Datacenter())
        added = set(parse_exclusions(datacenter)) - set(parse_exclusions(old_datacenter))
        held_ranges = [
            part
            for allocation in allocations
            if allocation.spec.dc == name
            for part in parse_holding(allocation.spec).ranges
        ]
        if any(part.overlaps(added_range) for part in held_ranges for added_range in added):
            yield (
                "failed to add exclusion: there is an conflicted allocation in IPAM pool"
                f' "{new.metadata.name}" and datacenter "{name}"'
            )


def adds_exclusions(new: IPAMPool, old: IPAMPool) -> bool:
    """Return whether an edit adds an excluded range or prefix to a datacenter.

    Only then can the edit exclude an address in use.
    """
    old_datacenters = old.spec.datacenters
    return any(
        set(parse_exclusions(datacenter))
        - set(parse_exclusions(old_datacenters.get(name, Datacenter())))
        for name, datacenter in new.spec.datacenters.items()
    )


def parse_exclusions(datacenter: Datacenter) -> list[AddressRange]:
    """Return the excluded ranges of a datacenter, without those that cannot be parsed."""
    ranges = []
    texts: Mapping[str, Sequence[str]] = {
        "range": datacenter.excludeRanges,
        "prefix": datacenter.excludePrefixes,
    }
    for excluded_range in texts.get(datacenter.type, ()):
        try:
            is_range = datacenter.type == RANGE
            ranges.append(
                parse_range(excluded_range) if is_range else parse_prefix(excluded_range)
            )
        except MalformedText:
            continue  # `find_fault` refuses it
    return ranges


def list_host_bit_warnings(pool: IPAMPool) -> Iterator[str]:
    """Yield the CIDRs with host bits set, with their fields."""
    for name, datacenter in sorted(pool.spec.datacenters.items()):
        fields = {"poolCidr": datacenter.poolCidr} | {
            f"excludePrefixes[{index}]": prefix
            for index, prefix in enumerate(datacenter.excludePrefixes)
        }
        for field, prefix in fields.items():
            if warning := addresstexts.describe_host_bits(prefix):
                yield f"spec.datacenters.{name}.{field}: {warning}"


def find_warnings(new: IPAMPool, old: IPAMPool | None = None) -> Iterable[str]:
    """Yield warnings about a pool that is accepted: values that have no effect, and removals."""
    if not new.spec.datacenters:
        yield "spec.datacenters is empty: the pool serves no cluster"
    yield from list_host_bit_warnings(new)
    for name, datacenter in sorted(new.spec.datacenters.items()):
        whole = parse_prefix(datacenter.poolCidr)
        for exclusion in parse_exclusions(datacenter):
            if not whole.overlaps(exclusion):
                yield f"datacenter {name}: exclusion {exclusion.text} is not in the pool"
    for name in sorted(set(old.spec.datacenters if old else ()) - set(new.spec.datacenters)):
        yield f"datacenter {name} is removed: the allocations of its clusters are deleted"
