"""What the schemas' CEL rules say, in Python: the command line carries no CEL engine.

The texts are taken from where the models take them, and a test holds each against a real engine.
"""

import re
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from allocator.addresses import parse_address
from reconcilers.api.fields import IS_ADDRESS, IS_ADDRESS_OR_EMPTY, IS_CIDR, in_order
from reconcilers.api.ipallocation import IMMUTABLE
from reconcilers.api.networkpool import (
    ENDS_INSIDE,
    GROWS,
    RANGES_INSIDE,
    RESERVED_INSIDE,
    SORTED,
    TOGETHER,
)
from reconcilers.api.providerconfig import (
    CLOUDS,
    HAS_POOLS,
    IPAM,
    LOCAL,
    NEEDS_CREDENTIALS,
    NEEDS_SETTINGS,
    NO_IPAM_IN_CLOUDS,
    TEAM_NAMED,
)
from reconcilers.api.tenantcluster import KEEPS_PROVIDER, POOL_OF_ADDRESSES

Check = Callable[[Mapping[str, Any]], bool]

_IPV4 = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")


def holds(rule: str, value: Any) -> bool:
    """Return whether the CEL rule holds for an object that is being created.

    Args:
        rule: its text in the schema.
        value: what `self` is; of the type that the schema asks for, without the defaults that an
            API server would fill in.

    Raises:
        KeyError: the rule is not known here.
    """
    return rule in LEFT_TO_AUDIT or rule in _ABOUT_CHANGES or _CHECKS[rule](value)


def known() -> frozenset[str]:
    """Return the rules that `holds` knows."""
    return frozenset(_CHECKS) | LEFT_TO_AUDIT | _ABOUT_CHANGES


_OF_FORM = (IS_ADDRESS, IS_ADDRESS_OR_EMPTY, IS_CIDR)
_OF_POOLS = (SORTED, RESERVED_INSIDE, RANGES_INSIDE, ENDS_INSIDE, HAS_POOLS)
LEFT_TO_AUDIT = frozenset(rule.text for rule in (*_OF_FORM, *_OF_POOLS))
"""Rules that hold for anything here: the audit says the same, naming which entry is at fault, and
shows what the pool's controller would make of the object."""

_ABOUT_CHANGES = frozenset(rule.text for rule in (GROWS, IMMUTABLE, KEEPS_PROVIDER))
"""What is read here is new, so these hold."""


def _ordered(first: str, last: str) -> Check:
    def check(value: Mapping[str, Any]) -> bool:
        ends = [str(value.get(end, "")) for end in (first, last)]
        comparable = all(_IPV4.fullmatch(end) for end in ends)
        return not comparable or _number(ends[0]) <= _number(ends[1])

    return check


def _number(address: str) -> int:
    """Return what the CEL rules make of an address; its parts may be above 255."""
    return reduce(lambda number, part: number * 256 + int(part), address.split("."), 0)


def _has_credentials(value: Mapping[str, Any]) -> bool:
    reference = value.get("credentialsRef") or {}
    return value.get("provider") == LOCAL or bool(reference.get("name"))


def _has_settings(cloud: str) -> Check:
    return lambda value: value.get("provider") != cloud or cloud in value


def _no_ipam_in_clouds(value: Mapping[str, Any]) -> bool:
    return value.get("provider") not in CLOUDS or value.get("network", {}).get("mode") != IPAM


_CHECKS: Mapping[str, Check] = {
    in_order("start", "end").text: _ordered("start", "end"),
    in_order("startAddress", "endAddress").text: _ordered("startAddress", "endAddress"),
    TOGETHER.text: lambda value: ("start" in value) == ("end" in value),
    NEEDS_CREDENTIALS.text: _has_credentials,
    **{rule.text: _has_settings(cloud) for cloud, rule in NEEDS_SETTINGS.items()},
    NO_IPAM_IN_CLOUDS.text: _no_ipam_in_clouds,
    TEAM_NAMED.text: lambda value: value.get("type") != "team" or "teamRef" in value,
    POOL_OF_ADDRESSES.text: lambda value: all(
        parse_address(value[end]) is not None for end in ("start", "end")
    ),
}
