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


def _change_to_quantity(schema: dict[str, Any]) -> None:
    """Change the generated schema of a field into that of a Kubernetes quantity."""
    schema.pop("anyOf", None)
    schema["x-kubernetes-int-or-string"] = True
    schema["pattern"] = QUANTITY


QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""Kubernetes' form of a quantity, where it is a text."""
Quantity = Annotated[int | str, FieldSchema(json_schema_extra=_change_to_quantity)]
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


def build_ipv4_number(address: str) -> str:
    """Return CEL for the numeric value of an IPv4 address.

    Rules compare these numbers, because CEL's `ip` library cannot compare addresses.

    Args:
        address: CEL for the text of the address.
    """
    return " + ".join(
        f"int({address}.split('.')[{place}]) * {weight}"
        for place, weight in enumerate((1 << 24, 1 << 16, 1 << 8, 1))
    )


def build_is_ipv4(address: str) -> str:
    """Return CEL for whether a text has the form that `build_ipv4_number` reads."""
    return address + r".matches('^[0-9]{1,3}(\\.[0-9]{1,3}){3}$')"


def build_ipv6_halves(address: str) -> str:
    """Return CEL for the two halves of an IPv6 address, as a list of two numbers.

    CEL reads no hexadecimal numbers, so each digit is looked up in a list of all digits. A half
    has 64 bits, and an int of CEL has a sign. So 2^63 is subtracted from each half, which keeps
    their order.

    The API server limits the estimated cost of a rule. Its estimator does not know how long the
    parts of a split text are. So the rule takes each digit by `charAt`. To compare the parts, or
    to pad them with zeros and compare them as texts, would have no bound.

    Args:
        address: CEL for the text of the address.
    """
    colons = f"(size({address}.split(':')) - 1)"
    # `::` stands for as many groups of zeros as are missing to eight groups. With c colons, 8 - c
    # groups are missing: two characters for each, and one colon more.
    zeros = f"':0:0:0:0:0:0:0:'.substring(0, 17 - 2 * {colons})"
    groups = f"{address}.lowerAscii().replace('::', {zeros}).split(':')"
    # In CEL: p are the groups, h is the first group of a half, i counts groups in the half, and d
    # counts digits from the right.
    digit = "'0123456789abcdef'.indexOf(p[h + i].charAt(size(p[h + i]) - 1 - d))"
    group = f"[0, 1, 2, 3].map(d, d < size(p[h + i]) ? {digit} * [1, 16, 256, 4096][d] : 0).sum()"
    weights = [1 << 48, 1 << 32, 1 << 16, 1]
    # 2^15 of the first group is 2^63 of the half.
    half = f"[0, 1, 2, 3].map(i, ({group} - [{1 << 15}, 0, 0, 0][i]) * {weights}[i]).sum()"
    # `map` over a list of one entry gives the groups the name p.
    return f"[{groups}].map(p, [0, 4].map(h, {half}))[0]"


def build_is_ipv6(address: str) -> str:
    """Return CEL for whether a text is an IPv6 address without a dot, as the halves are read."""
    return f"(isIP({address}) && {address}.contains(':') && !{address}.contains('.'))"


def build_precedes(first: str, second: str, *, equal: bool) -> str:
    """Return CEL for whether one IPv6 address comes before another.

    Args:
        first: CEL for the text of the first address.
        second: CEL for the text of the second address.
        equal: whether two equal addresses are in order, too.
    """
    less = "<=" if equal else "<"
    # In CEL, `a` names the pair of addresses, so that the halves of each are computed once.
    return (
        f"[[{build_ipv6_halves(first)}, {build_ipv6_halves(second)}]].all(a, a[0][0] < a[1][0]"
        f" || (a[0][0] == a[1][0] && a[0][1] {less} a[1][1]))"
    )


def require_order(first: str, last: str) -> Rule:
    """Return the rule that the address in the field `first` is not after that in `last`.

    Texts that are no addresses of one family pass, because other rules reject them.
    """
    both_set = f"has(self.{first}) && has(self.{last})"
    ends = f"self.{first}", f"self.{last}"
    are_ipv4 = " && ".join(map(build_is_ipv4, ends))
    are_ipv6 = " && ".join(map(build_is_ipv6, ends))
    first_number, last_number = map(build_ipv4_number, ends)
    return Rule(
        f"!({both_set}) || ({are_ipv4} ? {first_number} <= {last_number}"
        f" : !({are_ipv6}) || {build_precedes(*ends, equal=True)})",
        f"{first} must not be after {last}",
    )


def require_one_family(first: str, last: str) -> Rule:
    """Return the rule that the addresses in the fields `first` and `last` have one family."""
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


def mark_cidr(*cel: Rule) -> Any:
    """Return the marker of a text field that is a CIDR.

    Args:
        *cel: further rules for the field.
    """
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


def _change_to_condition_list(schema: dict[str, Any]) -> None:
    """Change the generated schema of a field into that of conditions, with `type` as their key."""
    schema.pop("$ref", None)
    schema["items"] = _CONDITION_SCHEMA
    schema["x-kubernetes-list-type"] = "map"
    schema["x-kubernetes-list-map-keys"] = ["type"]


Conditions = Annotated[
    tuple[Condition, ...],
    FieldSchema(json_schema_extra=_change_to_condition_list),
]
