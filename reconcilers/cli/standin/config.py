"""Pools as MetalLB understands them, and what it refuses.

The rules and the wording of the refusals are MetalLB's: an entry is a CIDR (host bits allowed)
or `start-end`; a bare address is refused, and so is any overlap within or between pools.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from itertools import combinations

from reconcilers.cli.standin.api import NAMESPACE, AddressPool

Address = IPv4Address | IPv6Address

IPV4 = "IPv4"
IPV6 = "IPv6"
INT64_MAX = 2**63 - 1


class InvalidConfig(Exception):
    """The pools contradict themselves or each other: all of the new configuration is ignored."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The addresses from `first` to `last` that one entry of a pool holds."""

    entry: str
    first: Address
    last: Address

    @property
    def family(self) -> str:
        """IPv4 or IPv6."""
        return family(self.first)

    def __contains__(self, address: Address) -> bool:
        return family(address) == self.family and int(self.first) <= int(address) <= int(self.last)

    @property
    def size(self) -> int:
        """How many addresses; may be more than `len` could say."""
        return int(self.last) - int(self.first) + 1

    def overlaps(self, other: "Stretch") -> bool:
        """Return whether the two have an address in common."""
        return self.first in other or other.first in self


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool of a sound configuration.

    Args:
        name: of the IPAddressPool.
        stretches: in the order of its entries.
        auto_assign: whether Services get addresses from it that do not ask for it.
        avoid_buggy: whether IPv4 addresses ending in .0 and .255 are left out.
    """

    name: str
    stretches: tuple[Stretch, ...]
    auto_assign: bool = True
    avoid_buggy: bool = False

    def __contains__(self, address: Address) -> bool:
        return not self._is_avoided(address) and any(address in one for one in self.stretches)

    def addresses(self, wanted_family: str) -> Iterator[Address]:
        """Yield the usable addresses of a family in the order they are handed out."""
        for stretch in self.stretches:
            if stretch.family == wanted_family:
                for offset in range(stretch.size):
                    address = stretch.first + offset
                    if not self._is_avoided(address):
                        yield address

    def size(self, wanted_family: str) -> int:
        """Return how many addresses of a family its entries hold, as far as an int64 tells."""
        held = sum(one.size for one in self.stretches if one.family == wanted_family)
        return min(held, INT64_MAX)

    def _is_avoided(self, address: Address) -> bool:
        return (
            self.avoid_buggy
            and isinstance(address, IPv4Address)
            and int(address) & 0xFF in (0x00, 0xFF)
        )


def family(address: Address) -> str:
    """Return IPv4 or IPv6."""
    return IPV4 if address.version == 4 else IPV6


def configuration(pools: Iterable[AddressPool]) -> tuple[Pool, ...]:
    """Return the pools as a configuration, by name.

    Raises:
        InvalidConfig: they are none; says which entry of which pool, and why.
    """
    found = tuple(_pool(one) for one in sorted(pools, key=lambda pool: pool.metadata.name))
    entries = [(pool.name, stretch) for pool in found for stretch in pool.stretches]
    for (_, earlier), (name, later) in combinations(entries, 2):
        if later.overlaps(earlier):
            raise InvalidConfig(
                f'CIDR "{later.entry}" in pool "{name}" overlaps with already defined CIDR'
                f' "{earlier.entry}"'
            )
    return found


def _pool(declared: AddressPool) -> Pool:
    meta, spec = declared.metadata, declared.spec
    where = f"parsing address pool {meta.name}: "
    if meta.namespace != NAMESPACE:
        raise InvalidConfig(f"{where}resource must be created in {NAMESPACE} namespace")
    if not spec.addresses:
        raise InvalidConfig(f"{where}pool has no prefixes defined")
    try:
        stretches = tuple(_stretch(entry) for entry in spec.addresses)
    except ValueError as wrong:
        raise InvalidConfig(f'{where}invalid CIDR in pool "{meta.name}": {wrong}') from wrong
    return Pool(meta.name, stretches, spec.autoAssign, spec.avoidBuggyIPs)


def _stretch(entry: str) -> Stretch:
    """Return the addresses of an entry.

    Raises:
        ValueError: it is neither a CIDR nor `start-end`.
    """
    start, dash, end = entry.partition("-")
    if not dash:
        if "/" not in entry or entry != entry.strip():
            raise ValueError(f'invalid CIDR "{entry}"')
        try:
            network = ip_network(entry, strict=False)
        except ValueError:
            raise ValueError(f'invalid CIDR "{entry}"') from None
        return Stretch(entry, network[0], network[-1])
    first, last = _end(entry, "start", start.strip()), _end(entry, "end", end.strip())
    if family(first) != family(last) or int(first) > int(last):
        raise ValueError(
            f'invalid IP range "{entry}": start IP "{first}" is after the end IP "{last}"'
        )
    return Stretch(entry, first, last)


def _end(entry: str, which: str, text: str) -> Address:
    try:
        return ip_address(text)
    except ValueError:
        raise ValueError(f'invalid IP range "{entry}": invalid {which} IP "{text}"') from None
