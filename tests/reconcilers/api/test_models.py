"""The models read what is shipped and what we write, alike by both of their readers."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from pydantic import TypeAdapter, ValidationError

from allocator import AddressRange
from envtest.schema.celtypes import RESERVED
from manifests import get_folder
from reconcilers.addressing import poolgeometry, statusranges
from reconcilers.api import crd
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import (
    OWN_KINDS,
)
from reconcilers.networkpool import protocol, status
from reconcilers.networkpool.pending_promises import render_allocated
from tests.reconcilers import make
from tests.yamls import read_all_yaml


def _documents() -> list[Any]:
    unlisted = []
    for path in sorted(get_folder("samples").iterdir(), key=lambda path: path.name):
        for number, document in enumerate(read_all_yaml(path.read_text())):
            if document and document["kind"] in OWN_KINDS:
                unlisted.append(pytest.param(document, id=f"{path.name}[{number}]"))
    return unlisted


def _read(document: dict[str, Any]) -> tuple[Any, Any]:
    """Return a document as msgspec and as pydantic decode it."""
    kind = OWN_KINDS[document["kind"]].type
    decoded = msgspec.json.decode(msgspec.json.encode(document), type=kind)
    return decoded, TypeAdapter(kind).validate_python(document)


@pytest.mark.parametrize("document", _documents())
def test_both_decoders_read_a_sample_alike(document: dict[str, Any]) -> None:
    decoded, validated = _read(document)
    assert decoded == validated
    assert decoded.metadata.name == document["metadata"]["name"]


def test_every_kind_has_a_sample() -> None:
    assert {param.values[0]["kind"] for param in _documents()} == set(OWN_KINDS)


@pytest.mark.parametrize("cidr", ["10.40.0.0/24", "fd00::/64"])
def test_both_decoders_read_a_written_pool_status_alike(cidr: str) -> None:
    pool = make.pool(cidr=cidr)
    view = make.view(make.allocation("a"), make.allocation("b", size=500))
    decision = protocol.decide(
        pool, view, geometry=poolgeometry.parse_layouts(pool.spec, 1 << 20), batch=256
    )
    written = make.render_pool_status(pool, view, decision=decision, now=make.EPOCH)
    body = {"kind": "NetworkPool", "metadata": {"name": "lab"}, "spec": {"cidr": cidr}}
    decoded, validated = _read(body | {"status": written})
    assert decoded == validated
    assert not status.differs(decoded.status, written), "what was just written is no news"


@pytest.mark.parametrize(
    "ends", [("10.40.0.8", "10.40.0.15"), ("fd00::", "fd00::ffff:ffff:ffff:ffff")]
)
def test_both_decoders_read_a_written_allocation_status_alike(
    ends: tuple[str, str],
) -> None:
    allocation = make.allocation("a")
    span = AddressRange.parse(*ends)
    body = {
        "kind": "IPAllocation",
        "metadata": {"name": "a"},
        "spec": {
            "poolRef": {"name": "lab"},
            "tenantClusterRef": {"name": "a", "namespace": "team"},
            "type": "nodes",
        },
        "status": render_allocated(allocation, make.pool(), ranges=(span,), now=make.EPOCH),
    }
    decoded, validated = _read(body)
    assert decoded == validated
    assert statusranges.find_held_range(decoded) == span


def test_what_another_version_of_the_schema_let_in_stays_readable() -> None:
    odd = {
        "metadata": {"name": "odd", "surprise": True},
        "spec": {"cidr": "not/checked", "later": {"field": [1]}},
        "status": {"fragmentationPercent": 900},
    }
    pool = msgspec.convert(odd, NetworkPool)
    assert (pool.spec.cidr, pool.status.fragmentationPercent) == ("not/checked", 900)


def test_what_people_type_is_checked() -> None:
    for spec in ({"cidr": "not/checked"}, {}):
        with pytest.raises(ValidationError):
            TypeAdapter(NetworkPool).validate_python({"metadata": {"name": "x"}, "spec": spec})


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({"startAddress": "10.0.0.1", "endAddress": "10.0.0.2", "cidr": "?"}, "10.0.0.1-10.0.0.2"),
        ({"cidr": "10.0.0.0/30"}, "10.0.0.0/30"),
        ({"cidr": "10.0.0.1-10.0.0.3"}, "10.0.0.1-10.0.0.3"),
        ({"startAddress": "10.0.0.1", "cidr": "10.0.0.0/31"}, "10.0.0.0/31"),
        ({"startAddress": "nonsense", "endAddress": "10.0.0.2"}, None),
        ({"startAddress": "?", "endAddress": "?", "cidr": "10.0.0.0/30"}, "10.0.0.0/30"),
        ({}, None),
    ],
)
def test_a_held_range_is_read_however_it_was_written(
    reported: dict[str, str], expected: str | None
) -> None:
    allocation: IPAllocation = make.allocation("a", status=reported)
    held_range = statusranges.find_held_range(allocation)
    assert (held_range.text if held_range else None) == expected


def _expressions(schema: Any) -> Iterator[str]:
    """Yield the expressions of the rules at and below a part of a CRD, without their texts."""
    if isinstance(schema, list):
        for item in schema:
            yield from _expressions(item)
    elif isinstance(schema, dict):
        for rule in schema.get("x-kubernetes-validations") or ():
            for name in ("rule", "messageExpression"):
                yield re.sub(r"'[^']*'|\"[^\"]*\"", "''", rule.get(name, ""))
        for part in schema.values():
            yield from _expressions(part)


def test_no_rule_names_a_field_by_a_word_that_cel_reserves() -> None:
    """Its cost cannot be estimated then, and a real server may refuse the whole definition."""
    plain = re.compile(rf"\.(?:{'|'.join(RESERVED)})\b")
    expressions = list(_expressions(crd.build_crds()))
    assert any("__namespace__" in expression for expression in expressions)
    assert [expression for expression in expressions if plain.search(expression)] == []
