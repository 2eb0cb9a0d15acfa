"""Building blocks of the models: a field is described once, here it becomes schema.

A value that the schema restricts to a few words is still a plain `str` to the decoder: the API
server enforces the words, and an object that some other version of the CRD let in must stay
readable.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from controller.conditions import Condition
from controller.markers import Config, FieldSchema, Rule, rules

MODEL = {"use_attribute_docstrings": True}
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
OTHERS = {"use_attribute_docstrings": True, "json_schema_extra": {_PRESERVE: True}}
"""Of a part that only other controllers read: fields of other versions of theirs are kept.

Without this the API server drops them with the next write of the object by any client. The parts
that we read do without, so that a misspelt field is met with a warning.
"""

_IPV4 = r"(\d{1,3}\.){3}\d{1,3}"
_IPV6 = r"[0-9a-fA-F:.]*:[0-9a-fA-F:.]*"
IP = f"^({_IPV4}|{_IPV6})$"
IP_CIDR = rf"^({_IPV4}/\d{{1,2}}|{_IPV6}/\d{{1,3}})$"
INT32_MAX = 2**31 - 1
_INT32 = {"format": "int32"}


def int32(least: int, most: int | None = None) -> Any:
    """Return the marker of an int field that holds numbers from `least` to `most`."""
    return FieldSchema(ge=least, le=most, json_schema_extra=_INT32)


Int32 = Annotated[int, FieldSchema(json_schema_extra=_INT32)]
Int64 = Annotated[int, FieldSchema(json_schema_extra={"format": "int64"})]
PositiveInt32 = Annotated[int, int32(1)]
PrefixLength = Annotated[int, int32(1, 128)]
Percent = Annotated[int, int32(0, 100)]

NonEmpty = Annotated[str, FieldSchema(min_length=1)]
BIG_NUMBER = r"^[0-9]{1,39}$"
BigNumber = Annotated[str, FieldSchema(pattern=BIG_NUMBER, max_length=39)]
"""A count of addresses as text: there are 2^128 of IPv6, 39 digits."""
FreeForm = Annotated[dict[str, Any], FieldSchema(json_schema_extra={_PRESERVE: True})]

Opaque = Mapping[str, Any]
"""A part that only other controllers read: kept as it came. SchemaOf says what it may hold."""


def _as_quantity(schema: dict[str, Any]) -> None:
    schema.pop("anyOf", None)
    schema["x-kubernetes-int-or-string"] = True
    schema["pattern"] = QUANTITY


QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""Kubernetes' form of a quantity, where it is a text."""
Quantity = Annotated[int | str, FieldSchema(json_schema_extra=_as_quantity)]
"""An amount of cpu, memory or disk: 500m, 16Gi, or a whole number."""


def words(*allowed: str) -> Any:
    """Return the marker of a string field that the schema restricts to `allowed`."""
    return FieldSchema(json_schema_extra={"enum": list(allowed)})


REQUIRED = "FieldValueRequired"
FORBIDDEN = "FieldValueForbidden"
DUPLICATE = "FieldValueDuplicate"


def model(*cel: Rule) -> Config:
    """Return the configuration of a model whose schema carries CEL rules."""
    return {"use_attribute_docstrings": True, "json_schema_extra": rules(*cel)}


def number(address: str) -> str:
    """Return CEL for the numeric value of an IPv4 address; the `ip` library cannot compare.

    Args:
        address: CEL for its text.
    """
    return " + ".join(
        f"int({address}.split('.')[{place}]) * {weight}"
        for place, weight in enumerate((1 << 24, 1 << 16, 1 << 8, 1))
    )


def is_ipv4(address: str) -> str:
    """Return CEL for whether a text has the form that `number` reads."""
    return address + r".matches('^[0-9]{1,3}(\\.[0-9]{1,3}){3}$')"


def halves(address: str) -> str:
    """Return CEL for the two halves of an IPv6 address, as a list of two numbers.

    CEL reads no hexadecimal numbers, so each digit is looked up in the list of all. A half has 64
    bits and an int a sign, so 2^63 is taken off each: their order stays.

    The estimated cost is small because the estimator knows how long everything is that is walked
    through. Of the parts of a text that was split it does not, so a digit is taken by `charAt`:
    comparing such parts, or padding them with zeros to compare them as texts, has no bound.

    Args:
        address: CEL for its text.
    """
    colons = f"(size({address}.split(':')) - 1)"
    zeros = f"':0:0:0:0:0:0:0:'.substring(0, 17 - 2 * {colons})"
    parts = f"{address}.lowerAscii().replace('::', {zeros}).split(':')"
    digit = "'0123456789abcdef'.indexOf(p[h + i].charAt(size(p[h + i]) - 1 - d))"
    part = f"[0, 1, 2, 3].map(d, d < size(p[h + i]) ? {digit} * [1, 16, 256, 4096][d] : 0).sum()"
    weights = [1 << 48, 1 << 32, 1 << 16, 1]
    half = f"[0, 1, 2, 3].map(i, ({part} - [{1 << 15}, 0, 0, 0][i]) * {weights}[i]).sum()"
    return f"[{parts}].map(p, [0, 4].map(h, {half}))[0]"


def is_ipv6(address: str) -> str:
    """Return CEL for whether a text is an IPv6 address as `halves` reads it: without a dot."""
    return f"(isIP({address}) && {address}.contains(':') && !{address}.contains('.'))"


def precedes(first: str, second: str, *, equal: bool) -> str:
    """Return CEL for whether one IPv6 address comes before another, or is the same if `equal`."""
    less = "<=" if equal else "<"
    return (
        f"[[{halves(first)}, {halves(second)}]].all(a, a[0][0] < a[1][0]"
        f" || (a[0][0] == a[1][0] && a[0][1] {less} a[1][1]))"
    )


def in_order(first: str, last: str) -> Rule:
    """Return the rule that the address in `first` is not after the one in `last`.

    Texts that are no addresses of one family pass: what is wrong with them is said elsewhere.
    """
    both_set = f"has(self.{first}) && has(self.{last})"
    ends = f"self.{first}", f"self.{last}"
    four, six = (" && ".join(map(rule, ends)) for rule in (is_ipv4, is_ipv6))
    return Rule(
        f"!({both_set}) || ({four} ? {number(ends[0])} <= {number(ends[1])}"
        f" : !({six}) || {precedes(*ends, equal=True)})",
        f"{first} must not be after {last}",
    )


def one_family(first: str, last: str) -> Rule:
    """Return the rule that the addresses in `first` and `last` are both IPv4 or both IPv6."""
    return Rule(
        f"self.{first}.contains(':') == self.{last}.contains(':')",
        f"{first} and {last} must be of one family, IPv4 or IPv6",
    )


IS_ADDRESS = Rule("isIP(self)", "must be an IP address, as in 10.40.0.16 or fd00::10")
IS_ADDRESS_OR_EMPTY = Rule("self == '' || isIP(self)", IS_ADDRESS.message)
IS_CIDR = Rule("isCIDR(self)", "must be a CIDR, as in 10.40.0.0/24 or fd00::/64")

ADDRESS_MAX = 45
"""The longest text of an address: IPv6 with IPv4 at its end."""

Address = Annotated[str, FieldSchema(pattern=IP, max_length=ADDRESS_MAX)]
PinnedAddress = Annotated[
    str, FieldSchema(pattern=IP, max_length=ADDRESS_MAX, json_schema_extra=rules(IS_ADDRESS))
]
AddressText = Annotated[
    str, FieldSchema(max_length=ADDRESS_MAX, json_schema_extra=rules(IS_ADDRESS))
]
OptionalAddressText = Annotated[
    str, FieldSchema(max_length=ADDRESS_MAX, json_schema_extra=rules(IS_ADDRESS_OR_EMPTY))
]
CIDR_MAX = ADDRESS_MAX + len("/128")


def cidr(*cel: Rule) -> Any:
    """Return the marker of a text that is a CIDR, for which these rules hold besides."""
    extra = rules(IS_CIDR, *cel)
    return FieldSchema(pattern=IP_CIDR, max_length=CIDR_MAX, json_schema_extra=extra)


_CONDITION_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "properties": {
        "type": {
            "type": "string",
            "maxLength": 316,
            "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        },
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": {
            "type": "string",
            "minLength": 1,
            "maxLength": 1024,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        "message": {"type": "string", "maxLength": 32768},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
    },
}


def _as_condition_list(schema: dict[str, Any]) -> None:
    schema.pop("$ref", None)
    schema["items"] = _CONDITION_SCHEMA
    schema["x-kubernetes-list-type"] = "map"
    schema["x-kubernetes-list-map-keys"] = ["type"]


Conditions = Annotated[
    tuple[Condition, ...],
    FieldSchema(json_schema_extra=_as_condition_list),
]
