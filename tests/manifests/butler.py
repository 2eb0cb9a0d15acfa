"""Butler's own definitions of the four kinds, and objects that have every field of them.

Both are made of `tests/data/butler-fields.yaml`. The definitions say types and nothing else: what
they refuse beyond that is not needed to see what is kept.
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
"""As many as the longest list of alternatives has."""
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
_FREE = {"a": {"b": [1, "two", {"c": True}]}, "d": 0.5}
_THEIRS = {
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


def definitions() -> list[Json]:
    """Return the definitions of the four kinds as Butler has them."""
    objects = []
    for ours in crd.crds():
        [version] = ours["spec"]["versions"]
        schema = _schema(_FIELDS[ours["spec"]["names"]["kind"]])
        theirs = {name: version[name] for name in ("name", "served", "storage", "subresources")}
        theirs["schema"] = {"openAPIV3Schema": schema}
        spec = {name: ours["spec"][name] for name in ("group", "scope")}
        spec["names"] = {
            name: word for name, word in ours["spec"]["names"].items() if name != "categories"
        }
        spec["versions"] = [theirs]
        objects.append(
            {
                "apiVersion": ours["apiVersion"],
                "kind": ours["kind"],
                "metadata": {"name": ours["metadata"]["name"]},
                "spec": spec,
            }
        )
    return objects


def _schema(part: Any) -> Json:
    if isinstance(part, Mapping):
        inner = {name: _schema(value) for name, value in part.items()}
        return {"type": "object", "properties": inner}
    if isinstance(part, list):
        return {"type": "array", "items": _schema(part[0])}
    return _SCHEMAS[part.partition(" ")[0]]


def objects(variant: int) -> Iterator[Json]:
    """Yield one object of each kind with every field, the alternatives of a variant in it."""
    for kind, fields in _FIELDS.items():
        where = TEAM if kind == "TenantCluster" else HOME
        yield {
            "apiVersion": names.API_VERSION,
            "kind": kind,
            "metadata": {"name": f"fields-{variant + 1}", "namespace": where},
            **_value(fields, "", variant),
        }


def _value(part: Any, name: str, variant: int) -> Any:
    if isinstance(part, Mapping):
        return {inner: _value(value, inner, variant) for inner, value in part.items()}
    if isinstance(part, list):
        return [_value(part[0], name, variant)]
    kind, _, told = part.partition(" ")
    words = [word.strip() for word in told.replace("{n}", str(variant + 1)).split("|")]
    return _plain(kind, words[variant % len(words)] or name, variant)


def _plain(kind: str, word: str, variant: int) -> Any:
    if kind in _NUMBERS or (kind == "quantity" and word.isdecimal()):
        return int(word)
    if kind in {"string", "quantity"}:
        return word
    others = {"boolean": variant % 2 == 0, "time": _TIME, "free": _FREE, "conditions": [_THEIRS]}
    return others[kind]
