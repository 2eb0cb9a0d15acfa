"""MetalLB's kinds, as far as the stand-in needs them, and the pools that it hands out from.

An entry of a pool is a CIDR (host bits allowed) or `start-end`. A bare address is invalid, and so
is any overlap within or between pools. If one pool is invalid, the whole new configuration is
ignored, as in MetalLB.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import combinations
from typing import Any

import yaml

from allocator import AddressRange, AllocatorError
from controller.meta import ObjectMeta
from controller.resource import Resource
from reconcilers.loadbalancers.metallb.uptake import compute_metallb_counts

GROUP = "metallb.io"
VERSION = "v1beta1"
NAMESPACE = "metallb-system"


def read_metallb_crds() -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of IPAddressPool and L2Advertisement."""
    definitions = files(__package__).joinpath("crds.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load_all(definitions))


@dataclass(frozen=True, slots=True)
class StandInPoolSpec:
    """The addresses of a pool, and whether Services get them without asking for the pool."""

    addresses: tuple[str, ...] = ()
    autoAssign: bool = True


@dataclass(frozen=True, slots=True)
class AddressPool:
    """An IPAddressPool; the type of the reconcilers has only the fields that they write."""

    metadata: ObjectMeta
    spec: StandInPoolSpec = field(default_factory=StandInPoolSpec)
    status: Mapping[str, int] = field(default_factory=dict)


ADDRESS_POOL = Resource(GROUP, VERSION, "IPAddressPool", "ipaddresspools", AddressPool)


class InvalidConfig(Exception):
    """The pools contradict themselves or each other: all of the new configuration is ignored."""


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool of a sound configuration.

    Args:
        name: the name of the IPAddressPool.
        entries: the ranges by the text of their entry, in the order of spec.addresses.
        auto_assign: whether a Service that does not ask for the pool gets addresses of it.
    """

    name: str
    entries: dict[str, AddressRange]
    auto_assign: bool = True

    def __contains__(self, address: AddressRange) -> bool:
        """Return whether the pool has an address."""
        return any(entry.contains(address) for entry in self.entries.values())

    def build_status(self, assigned: Iterable[AddressRange]) -> dict[str, int]:
        """Return the status: the assigned and available addresses, as MetalLB counts them.

        Args:
            assigned: the addresses of all Services, of any pool.
        """
        assigned_here = {address for address in assigned if address in self}
        counts: dict[str, int] = {}
        for family in (4, 6):
            used = sum(address.family == family for address in assigned_here)
            spans = (entry for entry in self.entries.values() if entry.family == family)
            size, _ = compute_metallb_counts(spans)  # as MetalLB 0.16.2 and newer count
            counts |= {f"assignedIPv{family}": used, f"availableIPv{family}": size - used}
        return counts

    def list_addresses(self, family: str) -> Iterator[AddressRange]:
        """Yield the addresses of IPv4 or IPv6 in the order they are handed out."""
        for entry in self.entries.values():
            if family == f"IPv{entry.family}":
                for number in range(entry.first, entry.last + 1):
                    yield AddressRange(number, number, entry.family)


def build_configuration(declared: Iterable[AddressPool]) -> tuple[Pool, ...]:
    """Return the declared pools as a configuration, in the order of their names.

    Raises:
        InvalidConfig: a pool is invalid, or two entries overlap; the message says which.
    """
    pools = tuple(map(_parse_pool, sorted(declared, key=lambda pool: pool.metadata.name)))
    entries = [(pool.name, *entry) for pool in pools for entry in pool.entries.items()]
    for (_, earlier, first), (name, later, second) in combinations(entries, 2):
        if second.overlaps(first):
            raise InvalidConfig(
                f'CIDR "{later}" in pool "{name}" overlaps with already defined CIDR "{earlier}"'
            )
    return pools


def _parse_pool(declared: AddressPool) -> Pool:
    """Return a declared pool with its entries parsed; raise InvalidConfig for a wrong one."""
    meta, spec = declared.metadata, declared.spec
    where = f"parsing address pool {meta.name}: "
    if meta.namespace != NAMESPACE:
        raise InvalidConfig(f"{where}resource must be created in {NAMESPACE} namespace")
    if not spec.addresses:
        raise InvalidConfig(f"{where}pool has no prefixes defined")
    entries = {}
    for entry in spec.addresses:
        start, dash, end = entry.partition("-")
        try:
            entries[entry] = (
                AddressRange.parse(start.strip(), end.strip())
                if dash
                else AddressRange.parse_cidr(entry)
            )
        except AllocatorError as wrong:
            raise InvalidConfig(f'{where}entry "{entry}": {wrong}') from wrong
    return Pool(meta.name, entries, spec.autoAssign)
