"""Names of IPAddresses, which have the address in them. Pure functions.

The name is the pool's `namePrefix`, a dash, and the canonical address with dashes for dots and
colons, without dashes at the end: `p-10-0-0-5`, `p-fd00--5`, and `p-fd00` for `fd00::`. So a name
may be read as an address of either family: `p-1-2-3-4` is 1.2.3.4 or 1:2:3:4::.
"""

import re
from functools import lru_cache

from allocator import AddressRange
from allocator.addresses import format_address, parse_address

MOST_ADDRESS_CHARACTERS = 39
"""How many characters of a name an address may have."""
_DASHES = str.maketrans(".:", "--")
_DASH = re.compile("-")
_ADDRESS_CHARACTERS = re.compile("[0-9a-f-]+")


def format_canonical(address: AddressRange) -> str:
    """Return a single address in its canonical spelling."""
    return format_address(address.first, address.family)


def make_address_name(name_prefix: str, address: AddressRange) -> str:
    """Return the name of the IPAddress for an address of a pool.

    Args:
        name_prefix: the pool's `namePrefix`.
        address: a single address.
    """
    return f"{name_prefix}-{format_canonical(address).translate(_DASHES)}".rstrip("-")


@lru_cache(maxsize=16_384)
def parse_name(name: str, name_prefix: str) -> tuple[AddressRange, ...]:
    """Return the addresses that the name of an IPAddress may stand for: IPv4 first, then IPv6.

    The results are cached, because each name is parsed about ten times while its claim is served.

    Args:
        name: the name of an IPAddress.
        name_prefix: the pool's `namePrefix`.
    """
    start = f"{name_prefix}-"
    if not name.startswith(start):
        return ()
    suffix = name.removeprefix(start)
    colons, dashes = suffix.replace("-", ":"), suffix.count("-")
    spellings: list[str] = []
    if dashes == 3:
        spellings.append(suffix.replace("-", "."))
    # Without `::` an IPv6 address has seven colons; a `::` at its end is not in the name.
    is_whole = "::" in colons or dashes == 7
    spellings.append(colons if is_whole else f"{colons}::")
    parsed_spellings = [
        parsed for spelling in spellings if (parsed := parse_address(spelling)) is not None
    ]
    addresses = [AddressRange(number, number, family) for number, family in parsed_spellings]
    return tuple(
        address for address in addresses if make_address_name(name_prefix, address) == name
    )


@lru_cache(maxsize=16_384)
def find_prefixes(name: str) -> tuple[str, ...]:
    """Return each `namePrefix` with which a pool could need this name for an IPAddress.

    Only the name matters, not the address of the IPAddress that has it: while the name is taken,
    no pool can create another IPAddress of that name.
    """
    prefixes: list[str] = []
    # Each dash may end the prefix, if the rest is short enough for an address.
    for match in _DASH.finditer(name, max(1, len(name) - MOST_ADDRESS_CHARACTERS - 1)):
        prefix = name[: match.start()]
        is_address = _ADDRESS_CHARACTERS.fullmatch(name, match.end()) is not None
        if is_address and bool(parse_name(name, prefix)):
            prefixes.append(prefix)
    return tuple(prefixes)
