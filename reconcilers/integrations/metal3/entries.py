"""Parse what an IPPool hands out: its entries in their order, holes, and pre-allocations.

An *entry* is one element of `spec.pools`. It is a space of its own, with the addresses that no
earlier entry has. A *hole* is an address that only a claim that asks for it gets. A
*pre-allocation* keeps an address for the claim of a certain name. Addresses are not listed one by
one, so an entry may be a whole /64. An entry that cannot be parsed hands out nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from allocator import AddressRange, AllocatorError, Layout
from allocator.addresses import BITS
from controller.meta import Key
from reconcilers.addressing.addresstexts import parse_ends
from reconcilers.integrations.metal3.addressnames import make_address_name, parse_name
from reconcilers.integrations.metal3.api import RANDOM, Metal3Pool, Metal3PoolSpec, PoolEntry
from reconcilers.promises.holdings import Layouts
from reconcilers.promises.journal import PromisedRange

NEVER_GIVEN = (AddressRange(0, 0, 6), AddressRange(0xFFFF << 32, (0x10000 << 32) - 1, 6))
"""Addresses that are never handed out: `::`, which leaves no text for a name, and
IPv4-mapped addresses, which the definitions of metal3's kinds do not allow."""
OUTSIDE = "outside"
"""The space of addresses that lie in no entry."""


@dataclass(frozen=True, slots=True)
class AddressSettings:
    """The network settings of an IPAddress, beside its address.

    Args:
        prefix: the length of the subnet's prefix; 0 for none.
        gateway: the gateway of the subnet; empty for none.
        dns_servers: the DNS servers, in the order of preference.
    """

    prefix: int = 0
    gateway: str = ""
    dns_servers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EntrySpan:
    """The addresses of an entry, and the settings of their IPAddresses.

    Args:
        space: the name of the entry's space: its index in `spec.pools`.
        addresses: from the first to the last address of the entry, holes included.
        settings: the settings of IPAddresses with these addresses.
    """

    space: str
    addresses: AddressRange
    settings: AddressSettings


@dataclass(frozen=True, slots=True)
class EntrySpace:
    """What a pool may hand out.

    Args:
        name_prefix: the `namePrefix` with which the names of IPAddresses begin.
        entries: the entries that can be parsed, in the order of the spec.
        layouts: by the name of its space, what each entry hands out without its holes.
        defaults: the settings of an IPAddress whose address lies in no entry.
        preallocations: the addresses that are kept for claims, by the names of the claims; None
            for a text that is no address.
        preallocated: the addresses in `preallocations`.
        is_random: whether a random address of an entry is taken, not the lowest.
    """

    name_prefix: str
    entries: tuple[EntrySpan, ...]
    layouts: Layouts
    defaults: AddressSettings
    preallocations: Mapping[str, AddressRange | None]
    preallocated: frozenset[AddressRange]
    is_random: bool

    def find_entry(self, address: AddressRange) -> EntrySpan | None:
        """Return the first entry that contains an address; None if no entry contains it.

        An address that is never handed out counts as outside of all entries.
        """
        if is_never_given(address):
            return None
        return next(
            (entry for entry in self.entries if entry.addresses.contains(address)),
            None,
        )

    def make_promised_range(self, address: AddressRange) -> PromisedRange:
        """Return an address with the name of the space in which it lies: its entry, or OUTSIDE."""
        entry = self.find_entry(address)
        return PromisedRange(address, OUTSIDE if entry is None else entry.space)

    def find_settings(self, address: AddressRange) -> AddressSettings:
        """Return the settings of the IPAddress that has an address."""
        entry = self.find_entry(address)
        return self.defaults if entry is None else entry.settings

    def make_address_name(self, address: AddressRange) -> str:
        """Return the name of the IPAddress that has an address."""
        return make_address_name(self.name_prefix, address)

    def find_named_addresses(self, name: str) -> tuple[AddressRange, ...]:
        """Return the addresses that the name of an IPAddress may stand for.

        If some of them lie in entries, only these are returned, else the first one alone.
        """
        addresses = parse_name(name, self.name_prefix)
        in_entries = tuple(
            address for address in addresses if self.find_entry(address) is not None
        )
        return in_entries or addresses[:1]


def is_never_given(address: AddressRange) -> bool:
    """Return whether no entry hands an address out, although the entry includes it."""
    return address.family == 6 and any(never.contains(address) for never in NEVER_GIVEN)


def parse_single(address: str) -> AddressRange | None:
    """Return an address as a range; None if the text is not an address."""
    return parse_ends(address, address) if address else None


def parse_span(entry: PoolEntry) -> AddressRange | None:
    """Return the addresses of an entry; None if it has none, or cannot be parsed.

    With only a subnet, the first address is the one after the address as it is written.
    """
    subnet = _parse_subnet(entry)
    start, end = parse_single(entry.start), parse_single(entry.end)
    # A field that cannot be parsed makes the whole entry invalid.
    if (entry.start and start is None) or (entry.end and end is None):
        return None
    if entry.subnet and subnet is None:
        return None
    if start is None:
        if subnet is None:
            return None  # only an end: nothing says where the entry begins
        written = parse_single(entry.subnet.partition("/")[0])
        assert written is not None, "the subnet was parsed"
        first, family = written.first + 1, written.family
    else:
        first, family = start.first, start.family
    last = (1 << BITS[family]) - 1  # of the whole family, if neither end nor subnet bounds it
    for bound in (end, subnet):
        if bound is not None:
            if bound.family != family:
                return None
            last = min(last, bound.last)
    if first > last or (subnet is not None and first < subnet.first):
        return None
    return AddressRange(first, last, family)


def parse_space(spec: Metal3PoolSpec) -> EntrySpace:
    """Return the space of a pool, computed from its spec.

    The holes of an entry are gateways, pre-allocated addresses, its broadcast address, and the
    addresses of earlier entries.
    """
    preallocations = {
        claim: parse_single(written) for claim, written in spec.preAllocations.items()
    }
    spans = [(entry, parse_span(entry)) for entry in spec.pools]
    entries = tuple(
        EntrySpan(str(index), span, _build_settings(spec, entry))
        for index, (entry, span) in enumerate(spans)
        if span is not None
    )
    preallocated = frozenset(filter(None, preallocations.values()))
    common_holes = [*NEVER_GIVEN, *_list_gateways(spec), *preallocated]
    broadcasts = {
        str(index): _find_broadcast(entry)
        for index, (entry, span) in enumerate(spans)
        if span is not None
    }
    layouts: dict[str, Layout] = {}
    for index, entry in enumerate(entries):
        earlier_entries = (earlier.addresses for earlier in entries[:index])
        holes = [*common_holes, *earlier_entries, *filter(None, [broadcasts[entry.space]])]
        layouts[entry.space] = _build_layout(entry.addresses, holes)
    return EntrySpace(
        spec.namePrefix,
        entries,
        layouts=layouts,
        defaults=AddressSettings(spec.prefix, spec.gateway, spec.dnsServers),
        preallocations=preallocations,
        preallocated=preallocated,
        is_random=spec.allocationStrategy == RANDOM,
    )


class PoolSpaces:
    """The spaces of pools, each parsed once for a spec."""

    def __init__(self) -> None:
        self._parsed: dict[Key, tuple[Metal3PoolSpec, EntrySpace]] = {}
        """The last spec of each pool, and the space that was parsed from it."""

    def get_space(self, pool: Metal3Pool) -> EntrySpace:
        """Return the space of a pool, parsed only if its spec has changed since the last call.

        While the spec is equal, the same object is returned, so callers may compare identities.
        """
        parsed_spec, space = self._parsed.get(pool.metadata.key, (None, None))
        # Most passes see the very same spec, so identity is tried before the costly comparison.
        if space is None or (parsed_spec is not pool.spec and parsed_spec != pool.spec):
            space = parse_space(pool.spec)
            self._parsed[pool.metadata.key] = (pool.spec, space)
        return space

    def forget(self, pool: Key) -> None:
        """Forget a pool that is gone."""
        self._parsed.pop(pool, None)


def make_promised_ranges(
    space: EntrySpace, addresses: Iterable[AddressRange]
) -> Iterator[PromisedRange]:
    """Yield each address with the name of the space in which it lies."""
    return map(space.make_promised_range, addresses)


def list_reserved(spec: Metal3PoolSpec) -> list[AddressRange]:
    """Return the gateways and broadcast addresses of a pool: its holes, not pre-allocated ones."""
    broadcasts = (_find_broadcast(entry) for entry in spec.pools)
    return [*_list_gateways(spec), *filter(None, broadcasts)]


def _parse_subnet(entry: PoolEntry) -> AddressRange | None:
    """Return the subnet of an entry; None if it has none or it cannot be parsed."""
    try:
        return AddressRange.parse_cidr(entry.subnet) if entry.subnet else None
    except AllocatorError:
        return None


def _find_broadcast(entry: PoolEntry) -> AddressRange | None:
    """Return the broadcast address of an IPv4 entry without start; None if it has none."""
    subnet = _parse_subnet(entry)
    # An entry with a start says itself which addresses it has; a /31 or /32 has no broadcast.
    if subnet is None or entry.start or subnet.family != 4 or subnet.size <= 2:
        return None
    return AddressRange(subnet.last, subnet.last, subnet.family)


def _list_gateways(spec: Metal3PoolSpec) -> list[AddressRange]:
    """Return the gateways of a pool and of its entries that can be parsed."""
    gateways = (spec.gateway, *(entry.gateway for entry in spec.pools))
    return [address for gateway in gateways if (address := parse_single(gateway)) is not None]


def _build_settings(spec: Metal3PoolSpec, entry: PoolEntry) -> AddressSettings:
    """Return the settings of an entry, with the pool's values for settings that it lacks."""
    return AddressSettings(
        entry.prefix or spec.prefix,
        entry.gateway or spec.gateway,
        entry.dnsServers or spec.dnsServers,
    )


def _build_layout(addresses: AddressRange, holes: Iterable[AddressRange]) -> Layout:
    """Return the layout of an entry: all its addresses except the holes in it."""
    inside = [hole for hole in holes if hole.overlaps(addresses)]
    return Layout(addresses, tuple(inside), (addresses,))
