"""JSON patch (RFC 6902) by a library, with the one liberty that clients of Kubernetes take."""

import copy
from typing import Any, Final

import jsonpatch

from envtest.patching.errors import PatchError, bad_request, unprocessable
from envtest.schema.gotext import json_kind

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
        raise _mistyped(operations, "[]handlers.jsonPatchOp")
    warnings: list[str] = []
    for index, operation in enumerate(operations):
        if not isinstance(operation, dict):
            raise _mistyped(operation, "handlers.jsonPatchOp")
        unknown = sorted(operation.keys() - _MEMBERS)
        warnings += [f'json patch unknown field "[{index}].{name}"' for name in unknown]
    return warnings


def _mistyped(value: Any, target: str) -> PatchError:
    """Return the refusal of a value where another kind of value belongs."""
    shown = f"cannot unmarshal {json_kind(value)} into Go value of type {target}"
    return bad_request(f"error decoding patch: json: {shown}")


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
            doc = _carry_out(doc, operation)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError) as error:
        raise unprocessable() from error
    return doc


def _carry_out(doc: Any, operation: dict[str, Any]) -> Any:
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
