"""The schema of pools: constraints of their fields, and CEL rules.

The rules check what can be checked within one object, so that a cluster without webhooks is safe
too. Two checks would cost the API server too much, and are left to the webhook: whether a range
begins before it ends, and whether entries lie in one subnet. The messages are those of Cluster
API's in-cluster provider, because people search for them.
"""

from typing import Annotated, Any

from controller.markers import Config, FieldSchema, Rule, rules
from reconcilers.api.fields import (
    REQUIRED,
)

MOST_ENTRIES = 1024
"""How many entries a list may have: the cost of a CEL rule must have a bound."""
ENTRY_MAX = 91
"""The most characters of an entry: two IPv6 addresses of the longest form, and a hyphen."""
CIDR_MAX = 49
"""The most characters of an IPv6 CIDR."""
GATEWAY_MAX = 45
"""The most characters of an IPv6 address."""


def require_fields(fields: tuple[str, ...], *cel: Rule) -> Config:
    """Return a model's configuration whose schema requires fields that the model does not.

    Objects that are older than the schema may lack these fields and must stay readable, so in the
    model they have defaults. These defaults are removed from the schema, so that the API server
    does not fill them in.

    Args:
        fields: the names of the required fields.
        cel: rules for the object as a whole.
    """

    def extend(schema: dict[str, Any]) -> None:
        """Require the fields in the schema, and remove their defaults from it."""
        schema |= {"required": list(fields)} | (rules(*cel) if cel else {})
        for name in fields:
            schema["properties"][name].pop("default", None)

    return {"use_attribute_docstrings": True, "json_schema_extra": extend}


def _rule_for_list(name: str, rule: str) -> str:
    """Return a CEL expression that is true if a list is absent or each entry fulfils a rule.

    Args:
        name: the name of the field with the list.
        rule: a CEL expression about an entry, which it calls `x`.
    """
    return f"(!has(self.{name}) || self.{name}.all(x, {rule}))"


_RANGE = (
    "(self.contains('-') && self.split('-').size() == 2"
    " && isIP(self.split('-')[0]) && isIP(self.split('-')[1]))"
)
IS_ENTRY = Rule(
    f"isIP(self) || isCIDR(self) || {_RANGE}",
    "provided address is not a valid IP, range, nor CIDR",
)
_ONE_FAMILY = "self.all(x, x.contains(':')) || !self.exists(x, x.contains(':'))"
ONE_FAMILY = Rule(_ONE_FAMILY, "provided addresses are of mixed IP families")
NOT_EMPTY = Rule("size(self) > 0", "addresses is required", reason=REQUIRED)

IS_GATEWAY = Rule(
    "self == '' || isIP(self)",
    "unable to parse IP",
    expression="'ParseAddr(\"' + self + '\"): unable to parse IP'",
)

_SIX = "self.addresses.exists(x, x.contains(':'))"
IP_POOL = (
    Rule(
        "!has(self.addresses) || !has(self.gateway) || !isIP(self.gateway)"
        " || size(self.addresses) == 0"
        " || self.addresses[0].contains(':') == self.gateway.contains(':')",
        "provided gateway and addresses are of mixed IP families",
        ".gateway",
    ),
    Rule(
        "!has(self.addresses) || size(self.addresses) == 0 || "
        + _rule_for_list(
            "excludedAddresses", "x.contains(':') == self.addresses[0].contains(':')"
        ),
        "addresses and excluded addresses are of mixed IP families",
        ".excludedAddresses",
    ),
    Rule(
        f"!has(self.addresses) || !has(self.prefix) || self.prefix <= 32 || {_SIX}",
        "provided prefix is not valid",
        ".prefix",
    ),
)

IS_CIDR6 = (
    Rule("isCIDR(self)", "provided entry is not a valid IPv6 CIDR"),
    Rule("!isCIDR(self) || self.contains(':')", "only IPv6 prefixes are supported"),
)
IS_ENTRY6 = (
    Rule(IS_ENTRY.cel, "provided entry is not a valid IP, range, nor CIDR"),
    Rule("self.contains(':') || !self.contains('.')", "only IPv6 excluded prefixes are supported"),
)
IS_GATEWAY6 = (
    IS_GATEWAY,
    Rule("!isIP(self) || ip(self).family() == 6", "provided gateway must be IPv6"),
)


def _make_list_schema(*cel: Rule) -> Any:
    """Return the schema of a list of texts, with rules for the whole list."""
    return FieldSchema(max_length=MOST_ENTRIES, json_schema_extra=rules(*cel))


_Entry = Annotated[str, FieldSchema(max_length=ENTRY_MAX, json_schema_extra=rules(IS_ENTRY))]
_Entry6 = Annotated[str, FieldSchema(max_length=ENTRY_MAX, json_schema_extra=rules(*IS_ENTRY6))]
_Cidr6 = Annotated[str, FieldSchema(max_length=CIDR_MAX, json_schema_extra=rules(*IS_CIDR6))]

Addresses = Annotated[tuple[_Entry, ...], _make_list_schema(NOT_EMPTY, ONE_FAMILY)]
Entries = Annotated[tuple[_Entry, ...], _make_list_schema(ONE_FAMILY)]
Entries6 = Annotated[tuple[_Entry6, ...], FieldSchema(max_length=MOST_ENTRIES)]
Prefixes = Annotated[
    tuple[_Cidr6, ...],
    _make_list_schema(Rule("size(self) > 0", "prefixes is required", reason=REQUIRED)),
]
SubnetLength = Annotated[int, FieldSchema(ge=0, le=128)]
BlockLength = Annotated[
    int,
    FieldSchema(
        ge=1,
        le=128,
        json_schema_extra=rules(
            Rule("self == oldSelf", "spec.allocationPrefixLength is immutable")
        ),
    ),
]
Gateway = Annotated[str, FieldSchema(max_length=GATEWAY_MAX, json_schema_extra=rules(IS_GATEWAY))]
Gateway6 = Annotated[
    str, FieldSchema(max_length=GATEWAY_MAX, json_schema_extra=rules(*IS_GATEWAY6))
]
Count = Annotated[int, FieldSchema(ge=0, json_schema_extra={"format": "int64"})]
