"""JSON merge patch (RFC 7386), and JSON patch (RFC 6902) by a library.

The library gets the one liberty that clients of Kubernetes take: `replace` of a missing member.
"""

import copy
from typing import Any, Final

import jsonpatch

from controller.managedfields import gotext
from controller.managedfields.errors import PatchError, bad_request, unprocessable
from controller.managedfields.gotext import json_kind

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
        return {key: _drop_nulls(value) for key, value in patch.items() if value is not None}
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
            merged[key] = _drop_nulls(value)
    return merged


def _drop_nulls(value: Any) -> Any:
    """Return a new value without the nulls in its objects; null items of lists stay."""
    if isinstance(value, dict):
        return {
            key: inner if type(inner) in _PLAIN else _drop_nulls(inner)
            for key, inner in value.items()
            if inner is not None
        }
    if isinstance(value, list):
        return [item if type(item) in _PLAIN else _drop_nulls(item) for item in value]
    return value


MAX_OPERATIONS: Final = 10_000
_MEMBERS: Final = {"op", "path", "from", "value"}


def check_operations(operations: Any) -> list[str]:
    """Refuse a body that is no list of operations; return warnings for members without meaning.

    The warnings are those of fieldValidation Warn; with Strict they are errors, with Ignore the
    caller does not ask.

    Raises:
        PatchError: 400.
    """
    if not isinstance(operations, list):
        raise _refuse_type(operations, "[]handlers.jsonPatchOp")
    warnings: list[str] = []
    for index, operation in enumerate(operations):
        if not isinstance(operation, dict):
            raise _refuse_type(operation, "handlers.jsonPatchOp")
        unknown = sorted(operation.keys() - _MEMBERS)
        warnings += [f'json patch unknown field "[{index}].{name}"' for name in unknown]
    return warnings


def _refuse_type(value: Any, target: str) -> PatchError:
    """Return the refusal of a value where another kind of value belongs."""
    fault = f"cannot unmarshal {json_kind(value)} into Go value of type {target}"
    return bad_request(f"error decoding patch: json: {fault}")


def json_patch(doc: Any, operations: Any) -> Any:
    """Return the document after all operations; the inputs are left as they are.

    Raises:
        PatchError: 400 for a malformed body, 413 for more than 10,000 operations, 422 if one of
            them does not apply.
    """
    check_operations(operations)
    if len(operations) > MAX_OPERATIONS:
        raise PatchError(
            413,
            "RequestEntityTooLarge",
            f"Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{MAX_OPERATIONS}, got {len(operations)}",
        )
    doc = copy.deepcopy(doc)
    try:
        for operation in copy.deepcopy(operations):
            doc = _apply_operation(doc, operation)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError) as error:
        raise unprocessable() from error
    return doc


def _apply_operation(doc: Any, operation: dict[str, Any]) -> Any:
    """Return the document after one operation.

    The API server lets `replace` make a member that is not there, and clients rely on it.
    """
    try:
        return jsonpatch.apply_patch(doc, [operation], in_place=True)
    except jsonpatch.JsonPatchConflict:
        parent = str(operation.get("path")).rpartition("/")[0]
        if operation.get("op") != "replace" or not isinstance(
            jsonpatch.JsonPointer(parent).resolve(doc), dict
        ):
            raise
        return jsonpatch.apply_patch(doc, [{**operation, "op": "add"}], in_place=True)
