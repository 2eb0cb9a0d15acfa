"""What the schemas' CEL rules say, in Python: the command line carries no CEL engine.

The texts are taken from where the models take them, and a test holds each against a real engine.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from reconcilers.api.fields import in_order

Check = Callable[[Mapping[str, Any]], bool]

_IPV4 = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")


def holds(rule: str, value: Mapping[str, Any]) -> bool:
    """Return whether the CEL rule holds for an object that is being created.

    Args:
        rule: its text in the schema.
        value: what `self` is; a mapping whose fields have the types that the schema asks for.

    Raises:
        KeyError: the rule is not known here.
    """
    return _CHECKS[rule](value)


def known() -> frozenset[str]:
    """Return the rules that `holds` knows."""
    return frozenset(_CHECKS)


def _ordered(first: str, last: str) -> Check:
    def check(value: Mapping[str, Any]) -> bool:
        ends = [value.get(first), value.get(last)]
        if not all(isinstance(end, str) and _IPV4.fullmatch(end) for end in ends):
            return True
        low, high = (_number(str(end)) for end in ends)
        return low <= high

    return check


def _number(address: str) -> int:
    number = 0
    for part in address.split("."):
        number = number * 256 + int(part)
    return number


def _has_credentials(value: Mapping[str, Any]) -> bool:
    reference = value.get("credentialsRef")
    return value.get("provider") == "local" or bool(reference and reference.get("name"))


_CHECKS: Mapping[str, Check] = {
    in_order("start", "end")[0]: _ordered("start", "end"),
    in_order("startAddress", "endAddress")[0]: _ordered("startAddress", "endAddress"),
    "has(self.start) == has(self.end)": lambda value: ("start" in value) == ("end" in value),
    "self.provider == 'local' || (has(self.credentialsRef) && self.credentialsRef.name != '')": (
        _has_credentials
    ),
    "self == oldSelf": lambda _: True,  # a rule about changes; what is read here is new
}
