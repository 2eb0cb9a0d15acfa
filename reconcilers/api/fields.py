"""Building blocks of the models: a field is described once, here it becomes schema.

A value that the schema restricts to a few words is still a plain `str` to the decoder: the API
server enforces the words, and an object that some other version of the CRD let in must stay
readable.
"""

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from controller.conditions import Condition

MODEL = ConfigDict(use_attribute_docstrings=True)

IPV4 = r"^(\d{1,3}\.){3}\d{1,3}$"
IPV4_CIDR = r"^(\d{1,3}\.){3}\d{1,3}/\d{1,2}$"
INT32_MAX = 2**31 - 1

Int32 = Annotated[int, Field(json_schema_extra={"format": "int32"})]
Int64 = Annotated[int, Field(json_schema_extra={"format": "int64"})]
PositiveInt32 = Annotated[int, Field(ge=1, json_schema_extra={"format": "int32"})]
Percent = Annotated[int, Field(ge=0, le=100, json_schema_extra={"format": "int32"})]
NonEmpty = Annotated[str, Field(min_length=1)]
Address = Annotated[str, Field(pattern=IPV4, max_length=15)]
AddressText = Annotated[str, Field(max_length=45)]
Cidr = Annotated[str, Field(pattern=IPV4_CIDR)]
FreeForm = Annotated[
    dict[str, Any], Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})
]


def words(*allowed: str) -> Any:
    """Return the marker of a string field that the schema restricts to `allowed`."""
    return Field(json_schema_extra={"enum": list(allowed)})


def rules(*cel: tuple[str, str]) -> dict[str, Any]:
    """Return the schema extension for CEL rules, each a pair of rule and message."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": text} for rule, text in cel]}


def model(*cel: tuple[str, str]) -> ConfigDict:
    """Return the configuration of a model whose schema carries CEL rules."""
    return ConfigDict(use_attribute_docstrings=True, json_schema_extra=rules(*cel))


def _number(field: str) -> str:
    """Return CEL for the numeric value of an IPv4 address; the `ip` library cannot compare."""
    return " + ".join(
        f"int(self.{field}.split('.')[{place}]) * {weight}"
        for place, weight in enumerate((1 << 24, 1 << 16, 1 << 8, 1))
    )


def in_order(first: str, last: str) -> tuple[str, str]:
    """Return the rule that the address in `first` is not after the one in `last`.

    Texts that are no IPv4 addresses pass: what is wrong with them is said elsewhere.
    """
    is_ipv4 = r"matches('^[0-9]{1,3}(\\.[0-9]{1,3}){3}$')"
    comparable = f"has(self.{first}) && has(self.{last}) && " + " && ".join(
        f"self.{field}.{is_ipv4}" for field in (first, last)
    )
    return (
        f"!({comparable}) || {_number(first)} <= {_number(last)}",
        f"{first} must not be after {last}",
    )


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
    Field(json_schema_extra=_as_condition_list),
]
