"""String formats: what the API server took for one."""

from __future__ import annotations

import pytest

from envtest.schema import formats
from tests.envtest.schema.answers import read_recorded

_RECORDED = read_recorded("formats.json")


@pytest.mark.parametrize("content", _RECORDED["valid"])
def test_a_text_has_the_formats_that_the_server_saw_in_it(content: str) -> None:
    checks = {name: formats.find_check(name) for name in _RECORDED["formats"]}
    matching_formats = [
        name for name, check in checks.items() if check is not None and check(content)
    ]
    assert matching_formats == _RECORDED["valid"][content]


@pytest.mark.parametrize(
    ("name", "kind", "warned"),
    [
        ("int32", "integer", False),
        ("int32", "string", True),
        ("double", "number", False),
        ("double", "integer", True),
        ("date-time", "string", False),
        ("quantity", "string", True),
        ("", "string", False),
    ],
)
def test_only_formats_that_are_checked_for_a_type_are_recognized(
    name: str, kind: str, warned: bool
) -> None:
    assert formats.is_unrecognized(name, kind) is warned
