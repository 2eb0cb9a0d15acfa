"""JSON merge patch (RFC 7386), and JSON patch (RFC 6902) by a library.

One difference to the standard is added, on which clients rely: `replace` of a missing member adds
it.
"""

import copy
from typing import Any, Final

import jsonpatch

from controller.managedfields import gotext
from controller.managedfields.errors import (
    PatchError,
    create_bad_request,
    create_unprocessable_error,
)
from controller.managedfields.gotext import name_json_type

# The types of scalars. Testing for them first saves a call for most values.
_PLAIN = frozenset({str, int, float, bool})


def apply_merge_patch(doc: Any, patch: Any) -> Any:
    """Return the document with the patch merged in.

    Unchanged parts are shared with the document and must not be changed in place. So a status
    patch, the most frequent request, does not copy the rest of the object. Nothing is shared with
    the patch, which may be applied again.

    Raises:
        PatchError: 400 if the patch is no object.
    """
    if patch is None:
        raise create_bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise create_bad_request(
            f"error decoding patch: json: cannot unmarshal {gotext.name_json_type(patch)} "
            "into Go value of type map[string]interface {}"
        )
    return _merge(doc, patch)


def _merge(current: Any, patch: dict[str, Any]) -> dict[str, Any]:
    """Merge an object of the patch into the current value; replace it if it is no object."""
    if not isinstance(current, dict):
        return {key: _drop_nulls(value) for key, value in patch.items() if value is not None}
    merged = dict(current)
    for key, value in patch.items():
        if type(value) in _PLAIN:
            merged[key] = value
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = _merge(merged.get(key), value)
        elif isinstance(merged.get(key), dict):
            # As in kube-apiserver, a list that replaces an object keeps the nulls in it.
            merged[key] = copy.deepcopy(value)
        else:
            merged[key] = _drop_nulls(value)
    return merged


def _drop_nulls(value: Any) -> Any:
    """Return a copy of a value without the nulls in its objects; null items of lists stay."""
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
    """Refuse a body that is no list of operations; return complaints about unknown members.

    The caller treats the complaints as fieldValidation says.

    Raises:
        PatchError: 400.
    """
    if not isinstance(operations, list):
        raise _build_type_error(operations, "[]handlers.jsonPatchOp")
    warnings: list[str] = []
    for index, operation in enumerate(operations):
        if not isinstance(operation, dict):
            raise _build_type_error(operation, "handlers.jsonPatchOp")
        unknown = sorted(operation.keys() - _MEMBERS)
        warnings += [f'json patch unknown field "[{index}].{name}"' for name in unknown]
    return warnings


def _build_type_error(value: Any, target: str) -> PatchError:
    """Return 400 for a value of the wrong JSON type; `target` is the expected Go type."""
    fault = f"cannot unmarshal {name_json_type(value)} into Go value of type {target}"
    return create_bad_request(f"error decoding patch: json: {fault}")


def apply_json_patch(doc: Any, operations: Any) -> Any:
    """Return the document after all operations; the inputs stay unchanged.

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
        raise create_unprocessable_error() from error
    return doc


def _apply_operation(doc: Any, operation: dict[str, Any]) -> Any:
    """Return the document after one operation, in place.

    As in the API server, `replace` adds a member that does not exist.
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
