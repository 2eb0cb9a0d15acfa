"""Published OpenAPI: what the API server published of the same definitions."""

from __future__ import annotations

from typing import Any

import pytest

from envtest.schema import build_definitions
from tests.envtest.schema.answers import read_recorded

_CASES = read_recorded("published.json")


def _name_case(case: dict[str, Any]) -> str:
    return str(case["spec"]["group"])


@pytest.mark.parametrize("case", _CASES, ids=_name_case)
def test_openapi_v3_describes_everything(case: dict[str, Any]) -> None:
    assert build_definitions(case["spec"], "v1") == case["v3"]
