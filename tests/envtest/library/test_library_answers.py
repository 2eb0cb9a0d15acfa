"""Definitions, custom resources and patches, answer by answer.

The answers in `recorded/` are those of k8s.io/apiextensions-apiserver v0.36.2, by which
kube-apiserver v1.36.2 serves these kinds, once its controllers had come to rest after each step;
the embedded server's never lag. What differs from run to run is masked.
"""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from envtest import ControlPlane
from tests.envtest.conftest import create_admin_client

_RECORDED = Path(__file__).parent / "recorded"
_MASKS = (
    (re.compile(r"^\d+s$"), "<age>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "<time>"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r'resourceVersion\\*":\\*"\d+'), "resourceVersion:<rv>"),
    (re.compile(r"(object meta: |record \()\d+"), r"\1<rv>"),
)


def _encode_sorted(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _mask(value: Any, name: str = "") -> Any:
    """Return an answer without what differs from run to run."""
    if isinstance(value, dict):
        return {key: _mask(item, key) for key, item in value.items()}
    if isinstance(value, list):
        # Entries are in the order of their times, which may lie on either side of a second.
        items = [_mask(item) for item in value]
        return sorted(items, key=_encode_sorted) if name == "managedFields" else items
    if not isinstance(value, str):
        return value
    if name == "resourceVersion":
        return "<rv>"
    for pattern, mask in _MASKS:
        value = pattern.sub(mask, value)
    return value


async def _answer(http: httpx.AsyncClient, request: dict[str, Any]) -> dict[str, Any]:
    body = request.get("body")
    content = body if body is None or isinstance(body, str) else json.dumps(body)
    kind = request.get("contentType")
    headers = {**request.get("headers", {}), **({"Content-Type": kind} if kind else {})}
    method, path = request["method"], request["path"]
    response = await http.request(method, path, content=content, headers=headers)
    answer = {"status": response.status_code, "body": _mask(response.json())}
    warnings = response.headers.get_list("warning")
    return {**answer, "warnings": warnings} if warnings else answer


@pytest.mark.parametrize("name", sorted(path.stem for path in _RECORDED.glob("*.json")))
async def test_every_answer_is_that_of_the_library(name: str) -> None:
    scenario = json.loads((_RECORDED / f"{name}.json").read_text())
    differing = []
    async with (
        ControlPlane.start(force_embedded=True) as plane,
        create_admin_client(plane) as http,
    ):
        for at, step in enumerate(scenario["steps"]):
            request, expected = step["request"], _mask(step["response"])
            answer = await _answer(http, request)
            if expected and answer != expected:
                differing.append((at, request, {"found": answer, "wanted": expected}))
    assert not differing, json.dumps(differing[:3], indent=1)
