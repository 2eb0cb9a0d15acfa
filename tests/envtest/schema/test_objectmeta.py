"""Metadata as the API server read and judged it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envtest.schema import MalformedMetadata, objectmeta
from tests.envtest.schema.answers import list_causes, read_recorded


def _expand(case: dict[str, Any]) -> dict[str, Any]:
    metadata = json.loads(json.dumps(case["metadata"]).replace("@256KiB", "x" * 262145))
    return {"name": "x", **metadata}


_CASES = read_recorded("metadata.json")


@pytest.mark.parametrize("case", _CASES, ids=lambda case: json.dumps(case["metadata"])[:60])
def test_metadata_gets_the_recorded_answer(case: dict[str, Any]) -> None:
    metadata = _expand(case)
    if "message" in case:
        with pytest.raises(MalformedMetadata) as refusal:
            objectmeta.coerce_metadata(metadata, "metadata")
        assert str(refusal.value) == case["message"]
        return
    unknown = objectmeta.coerce_metadata(metadata, "metadata")
    assert [f'unknown field "{path}"' for path in unknown] == case.get("warnings", [])
    assert list_causes(objectmeta.find_embedded_metadata_errors(metadata, "metadata")) == case.get(
        "causes", []
    )


def test_nulls_in_metadata_mean_not_there() -> None:
    metadata: dict[str, Any] = {"name": "x", "labels": None, "annotations": {"a": None}}
    assert objectmeta.coerce_metadata(metadata, "metadata") == []
    assert metadata == {"name": "x", "annotations": {"a": ""}}


def test_times_are_brought_to_utc_and_whole_seconds() -> None:
    metadata: dict[str, Any] = {"creationTimestamp": "2024-02-29T23:30:00.5+01:00"}
    objectmeta.coerce_metadata(metadata, "metadata")
    assert metadata["creationTimestamp"] == "2024-02-29T22:30:00Z"
