"""Recorded answers, and our own in the same form."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

from envtest.schema import (
    CompiledSchema,
    FieldError,
    MalformedMetadata,
    MalformedObject,
    read_json,
)

_HERE = Path(__file__).parent
_TRANSCRIPTS = _HERE.parents[1] / "data" / "transcripts"
_ROOT = frozenset({"apiVersion", "kind", "metadata"})


def read_recorded(name: str) -> Any:
    """A file of recorded answers."""
    return json.loads((_HERE / "recorded" / name).read_text())


def read_transcript(name: str) -> list[dict[str, Any]]:
    """Return the steps of a recorded scenario."""
    steps: list[dict[str, Any]] = json.loads((_TRANSCRIPTS / f"{name}.json").read_text())["steps"]
    return steps


def list_causes(errors: list[FieldError]) -> list[dict[str, str]]:
    """Return the causes of errors, sorted: the server's order depends on the order of fields."""
    texts = (json.dumps(error.build_cause(), sort_keys=True) for error in errors)
    plain = (re.sub(r"selfType\d+", "selfType", masked_text) for masked_text in texts)
    return [json.loads(plain_text) for plain_text in sorted(plain)]


def answer(schema: CompiledSchema, body: dict[str, Any], old: Any = None) -> dict[str, Any]:
    """What the server would make of `body`: status, causes or message, warnings, stored object."""
    obj, _ = read_json(json.dumps(body).encode())
    try:
        unknown = schema.prune(obj)
    except (MalformedMetadata, MalformedObject) as error:
        return {"status": 400, "message": str(error)}
    schema.set_defaults(obj)
    warnings = [f'unknown field "{path}"' for path in unknown]
    errors = schema.validate(obj, copy.deepcopy(old), warnings=warnings)
    answer: dict[str, Any] = {"status": 422 if errors else 201}
    if errors:
        answer["causes"] = list_causes(errors)
    if warnings:
        answer["warnings"] = sorted(warnings)
    if not errors:
        answer["stored"] = {name: value for name, value in obj.items() if name not in _ROOT}
    return answer
