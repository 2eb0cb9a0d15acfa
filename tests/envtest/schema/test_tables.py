"""Printer columns: paths, cells and ages."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from jsonpath import JSONPathError

from envtest.schema import build_table_cells, build_table_columns, format_duration
from envtest.schema.tables import compile_path

_NOW = datetime.datetime(2024, 3, 1, tzinfo=datetime.UTC)
_OBJECT: dict[str, Any] = {
    "metadata": {"name": "a", "annotations": {"example.com/x": "noted"}},
    "spec": {
        "list": ["p", "q", "r"],
        "flag": True,
        "half": 0.5,
        "nothing": None,
        "parts": [{"n": "a", "v": 1}, {"n": "b", "v": 2}],
        "since": "2024-02-28T18:00:00Z",
    },
    "status": {
        "conditions": [{"type": "Foo", "status": "A"}, {"type": "Ready", "status": "True"}]
    },
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".metadata.name", ["a"]),
        (".spec.list[0]", ["p"]),
        (".spec.list[-1]", ["r"]),
        (".spec.list[0:2]", ["p", "q"]),
        (".spec.list[*]", ["p", "q", "r"]),
        (".spec.list[0,2]", ["p", "r"]),
        (".spec.list[9]", []),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type != 'Ready')].status", ["A"]),
        (".spec.parts[?(@.v>1)].n", ["b"]),
        (".spec.parts[?(@.v)].n", ["a", "b"]),
        (".spec.parts[?(@.n=='a')]['n']", ["a"]),
        (r".metadata.annotations.example\.com/x", ["noted"]),
        ("..type", ["Foo", "Ready"]),
        (".spec.missing.deeper", []),
        (".spec.flag.name", []),
    ],
)
def test_a_path_leads_to_its_values(path: str, expected: list[Any]) -> None:
    assert compile_path(path)(_OBJECT) == expected


@pytest.mark.parametrize("path", [".spec[", ".{range .items}", "spec", ".a[?(@.b==)]"])
def test_text_that_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(JSONPathError):
        compile_path(path)


@pytest.mark.parametrize(
    ("kind", "path", "cell"),
    [
        ("string", ".metadata.name", "a"),
        ("string", ".spec.list", '["p","q","r"]'),
        ("string", ".spec.half", "0.5"),
        ("string", ".spec.flag", "true"),
        ("string", ".spec.nothing", "<no value>"),
        ("string", ".spec.missing", None),
        ("integer", ".spec.parts[0].v", 1),
        ("integer", ".spec.half", 0),
        ("integer", ".metadata.name", None),
        ("number", ".spec.half", 0.5),
        ("boolean", ".spec.flag", True),
        ("boolean", ".metadata.name", None),
        ("date", ".spec.since", "30h"),
        ("date", ".metadata.name", "<invalid>"),
        ("date", ".spec.half", None),
    ],
)
def test_a_cell_holds_what_its_type_makes_of_the_value(kind: str, path: str, cell: Any) -> None:
    version = {"additionalPrinterColumns": [{"name": "C", "type": kind, "jsonPath": path}]}
    table_cell = build_table_cells(build_table_columns(version), _OBJECT, _NOW)[1]
    assert table_cell == cell
    assert type(table_cell) is type(cell)


def test_without_columns_of_its_own_a_version_shows_the_age() -> None:
    assert [column.name for column in build_table_columns({})] == ["Name", "Age"]
    broken = {"additionalPrinterColumns": [{"name": "C", "type": "string", "jsonPath": ".a["}]}
    assert [column.name for column in build_table_columns(broken)] == ["Name", "Age"]


@pytest.mark.parametrize(
    ("seconds", "content"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 300, "3h5m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400, "8d"),
        (729 * 86400, "729d"),
        (730 * 86400, "2y"),
        (731 * 86400, "2y1d"),
        (8 * 365 * 86400, "8y"),
    ],
)
def test_a_duration_is_printed_with_two_units_at_most(seconds: float, content: str) -> None:
    assert format_duration(seconds) == content
