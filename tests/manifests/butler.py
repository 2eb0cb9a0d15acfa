"""Butler's own definitions of the four kinds, and objects that have every field of them.

Both are built from `tests/data/butler-fields.yaml`. The definitions have the types of fields only:
tests look at which fields a server keeps, and no further validation is needed for that.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from reconcilers.api import crd, names
from tests.reconcilers.cli.commands import ROOT
from tests.yamls import read_yaml

Json = dict[str, Any]
HOME = "butler-system"
TEAM = "team-platform"
VARIANTS = 7
"""The length of the longest list of alternatives of a field in `butler-fields.yaml`."""
_FIELDS: Mapping[str, Json] = read_yaml((ROOT / "tests/data/butler-fields.yaml").read_text())
_NUMBERS = ("int32", "int64", "integer")
_TIME = "2026-01-31T12:00:00Z"
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_CONDITION = {
    "type": "object",
    "required": ["type"],
    "properties": {
        **{name: {"type": "string"} for name in ("type", "status", "reason", "message")},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "observedGeneration": {"type": "integer", "format": "int64"},
    },
}
_FREE_FORM_VALUE = {"a": {"b": [1, "two", {"c": True}]}, "d": 0.5}
_OTHER_CONDITION = {
    **dict.fromkeys(("type", "reason", "message"), "Theirs"),
    "status": "True",
    "lastTransitionTime": _TIME,
    "observedGeneration": 1,
}
_SCHEMAS: Mapping[str, Json] = {
    "string": {"type": "string"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "time": {"type": "string", "format": "date-time"},
    "quantity": {"x-kubernetes-int-or-string": True},
    "free": _ANYTHING,
    "conditions": {
        "type": "array",
        "items": _CONDITION,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    },
}


def build_definitions() -> list[Json]:
    """Return the definitions of the four kinds as Butler has them."""
    definitions = []
    for ours in crd.build_crds():
        [version] = ours["spec"]["versions"]
        schema = _build_schema(_FIELDS[ours["spec"]["names"]["kind"]])
        theirs = {name: version[name] for name in ("name", "served", "storage", "subresources")}
        theirs["schema"] = {"openAPIV3Schema": schema}
        spec = {name: ours["spec"][name] for name in ("group", "scope")}
        spec["names"] = {
            name: word for name, word in ours["spec"]["names"].items() if name != "categories"
        }
        spec["versions"] = [theirs]
        definitions.append(
            {
                "apiVersion": ours["apiVersion"],
                "kind": ours["kind"],
                "metadata": {"name": ours["metadata"]["name"]},
                "spec": spec,
            }
        )
    return definitions


def _build_schema(part: Any) -> Json:
    """Return the OpenAPI schema of a part of `butler-fields.yaml`: a mapping, list or field."""
    if isinstance(part, Mapping):
        inner = {name: _build_schema(value) for name, value in part.items()}
        return {"type": "object", "properties": inner}
    if isinstance(part, list):
        return {"type": "array", "items": _build_schema(part[0])}
    return _SCHEMAS[part.partition(" ")[0]]


def build_objects(variant: int) -> Iterator[Json]:
    """Yield one object of each kind with all its fields.

    Args:
        variant: 0 to VARIANTS - 1; which of its alternatives each field has.
    """
    for kind, fields in _FIELDS.items():
        where = TEAM if kind == "TenantCluster" else HOME
        yield {
            "apiVersion": names.API_VERSION,
            "kind": kind,
            "metadata": {"name": f"fields-{variant + 1}", "namespace": where},
            **_build_value(fields, "", variant),
        }


def _build_value(part: Any, name: str, variant: int) -> Any:
    """Return a value for a part of `butler-fields.yaml`.

    Args:
        part: a mapping, a list, or a field as "type alternative | alternative".
        name: the name of the field; a string without alternatives has it as its value.
        variant: which alternative the value is.
    """
    if isinstance(part, Mapping):
        return {inner: _build_value(value, inner, variant) for inner, value in part.items()}
    if isinstance(part, list):
        return [_build_value(part[0], name, variant)]
    kind, _, alternatives = part.partition(" ")
    words = [word.strip() for word in alternatives.replace("{n}", str(variant + 1)).split("|")]
    return _build_scalar(kind, words[variant % len(words)] or name, variant)


def _build_scalar(kind: str, word: str, variant: int) -> Any:
    """Return the value of a field of a type; `word` is its text or its decimal number."""
    if kind in _NUMBERS or (kind == "quantity" and word.isdecimal()):
        return int(word)
    if kind in {"string", "quantity"}:
        return word
    value_by_type = {
        "boolean": variant % 2 == 0,
        "time": _TIME,
        "free": _FREE_FORM_VALUE,
        "conditions": [_OTHER_CONDITION],
    }
    return value_by_type[kind]
