"""JSON merge patch (RFC 7386), with one difference that the real server makes.

Where a patch brings a new list, nulls inside the objects of that list are dropped as well.
"""

import copy
from typing import Any

from envtest.patching.errors import bad_request
from envtest.schema import gotext

# What has no inside; most values are such, and each is spared a call.
_PLAIN = frozenset({str, int, float, bool})


def merge_patch(doc: Any, patch: Any) -> Any:
    """Return the document with the patch merged in.

    What the patch does not touch is shared with the document and must not be changed in place:
    a status patch is the busiest request of all and never copies the rest of the object. With the
    patch, which may be applied again, nothing is shared.

    Raises:
        PatchError: 400 if the patch is no object.
    """
    if patch is None:
        raise bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {gotext.json_kind(patch)} "
            "into Go value of type map[string]interface {}"
        )
    return _merge(doc, patch)


def _merge(here: Any, patch: dict[str, Any]) -> dict[str, Any]:
    """Merge an object into whatever is there."""
    if not isinstance(here, dict):
        return {key: _pruned(value) for key, value in patch.items() if value is not None}
    merged = dict(here)
    for key, value in patch.items():
        if type(value) in _PLAIN:
            merged[key] = value
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = _merge(merged.get(key), value)
        elif isinstance(merged.get(key), dict):
            # A list that replaces an object keeps its nulls, unlike any other.
            merged[key] = copy.deepcopy(value)
        else:
            merged[key] = _pruned(value)
    return merged


def _pruned(value: Any) -> Any:
    """Return a new value without the nulls in its objects; null items of lists stay."""
    if isinstance(value, dict):
        return {
            key: inner if type(inner) in _PLAIN else _pruned(inner)
            for key, inner in value.items()
            if inner is not None
        }
    if isinstance(value, list):
        return [item if type(item) in _PLAIN else _pruned(item) for item in value]
    return value
