"""Names of IPAddresses, which have the address in them. Pure functions.

The name is the pool's `namePrefix`, a dash, and the canonical address with dashes for dots and
colons, without dashes at the end: `p-10-0-0-5`, `p-fd00--5`, and `p-fd00` for `fd00::`. So a name
may be read as an address of either family: `p-1-2-3-4` is 1.2.3.4 or 1:2:3:4::.
"""

from collections.abc import Iterator

from allocator import AddressRange
from allocator.addresses import address_text
from reconcilers.addressing.addresstexts import parse_ends

_DASHES = str.maketrans(".:", "--")


def canonical_text(address: AddressRange) -> str:
    """Return a single address in its canonical spelling."""
    return address_text(address.first, address.family)


def name_of(name_prefix: str, address: AddressRange) -> str:
    """Return the name of the IPAddress that has an address.

    Args:
        name_prefix: of the pool.
        address: a single one.
    """
    return f"{name_prefix}-{canonical_text(address).translate(_DASHES)}".rstrip("-")


def addresses_in(name: str, name_prefix: str) -> Iterator[AddressRange]:
    """Yield the addresses that a name may stand for: IPv4 first, then IPv6.

    Args:
        name: of an IPAddress.
        name_prefix: of the pool.
    """
    start = f"{name_prefix}-"
    if not name.startswith(start):
        return
    suffix = name.removeprefix(start)
    colons = suffix.replace("-", ":")
    for spelling in (suffix.replace("-", "."), colons, f"{colons}::"):
        address = parse_ends(spelling, spelling)
        if address is not None and name_of(name_prefix, address) == name:
            yield address


def prefix_of(name: str, address: AddressRange) -> str | None:
    """Return the `namePrefix` of the pools that would give an address this name; None for none."""
    dashed = canonical_text(address).translate(_DASHES).rstrip("-")
    if not dashed or not name.endswith(f"-{dashed}"):
        return None
    return name.removesuffix(f"-{dashed}") or None
