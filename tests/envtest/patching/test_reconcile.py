"""Stored ownership after a change of the schema that made one value of several."""

from typing import Any

import pytest

from controller.managedfields import FieldModel
from controller.managedfields.model import reconcile

TEXT = {"type": "string"}
WHOLE = {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": TEXT}}
KEYED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["id"],
    "items": {"type": "object", "properties": {"id": TEXT, "whole": WHOLE}},
}
SPEC: dict[str, Any] = {
    "text": TEXT,
    "whole": WHOLE,
    "list": {"type": "array", "items": TEXT},
    "named": {"type": "object", "properties": {"whole": WHOLE, "text": TEXT}},
    "values": {"type": "object", "additionalProperties": WHOLE},
    "lists": {"type": "object", "additionalProperties": {"type": "array", "items": TEXT}},
    "texts": {"type": "object", "additionalProperties": TEXT},
    "keyed": KEYED,
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "some": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"whole": WHOLE, "text": TEXT},
    },
}
ROOT = FieldModel.from_schema(
    {"type": "object", "properties": {"spec": {"type": "object", "properties": SPEC}}}
).root
PARTS: dict[str, Any] = {".": {}, "f:a": {}}
ID = 'k:{"id":"1"}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"f:whole": PARTS}, {"f:whole": {}}),
        ({"f:list": {".": {}, 'v:"x"': {}}}, {"f:list": {}}),
        ({"f:named": {"f:whole": PARTS}}, {"f:named": {"f:whole": {}}}),
        ({"f:values": {"f:x": PARTS}}, {"f:values": {"f:x": {}}}),
        ({"f:lists": {"f:x": {'v:"x"': {}}}}, {"f:lists": {"f:x": {}}}),
        ({"f:keyed": {ID: {"f:whole": PARTS}}}, {"f:keyed": {ID: {"f:whole": {}}}}),
        ({"f:some": {"f:whole": PARTS}}, {"f:some": {"f:whole": {}}}),
    ],
)
def test_a_value_that_became_atomic_is_owned_as_a_whole(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    rest = {"f:text": {}, "f:texts": PARTS}
    for _ in range(2):  # what is known of a type after the first time holds the second time, too
        reconciled = reconcile(ROOT, {"f:spec": {**rest, **before}})
        assert reconciled == {"f:spec": {**rest, **after}}


def test_ownership_that_fits_the_model_is_unchanged() -> None:
    fields: dict[str, Any] = {
        "f:metadata": {"f:labels": PARTS},
        "f:spec": {
            "f:whole": {},
            "f:text": {},
            "f:texts": PARTS,
            "f:values": {".": {}, "f:x": {}},
            "f:free": {"f:x": PARTS},
            "f:some": {"f:x": PARTS, "f:text": {}},
            "f:keyed": {ID: {".": {}, "f:id": {}, "f:whole": {}}},
        },
        "f:unknown": PARTS,
    }
    assert reconcile(ROOT, fields) is fields
