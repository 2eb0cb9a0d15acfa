"""JSON patch (RFC 6902) with the liberties and limits of the library behind kube-apiserver.

Measured on v1.36.2: `replace` of a missing member adds it, negative indexes count from the end,
`test` of a missing member against null passes, and whichever operation fails, the answer is the
same 422 without a word on why. Scalars are the same if they are spelled the same: a stored 2.0 is
written 2, so testing for 2.0 fails. (How exactly a request spelled a value cannot be seen here;
plain spelling is assumed.)
"""

import copy
import re
from typing import Any

from envtest.patching import gotext
from envtest.patching.errors import PatchError, bad_request, unprocessable

MAX_OPERATIONS = 10_000
_INDEX = re.compile(r"[+-]?[0-9]+\Z")
_END = "-"
# The stored document spells these as escapes, the request does not, and strings are compared as
# they are spelled: a test of such a string fails on the real server even if it is equal.
_ESCAPED_BY_GO = frozenset("<>&\u2028\u2029")
_NUMBERS = (int, float)
_MEMBERS = {"op": "string", "path": "string", "from": "string"}


class _DoesNotApply(Exception):  # a way out, not an error that anybody sees
    """An operation cannot be carried out."""


def check_operations(operations: Any) -> list[str]:
    """Refuse a body that is no list of operations; return warnings for members without meaning.

    The warnings are those of fieldValidation Warn; with Strict they are errors, with Ignore the
    caller does not ask.

    Raises:
        PatchError: 400 in the words of Go's JSON decoder.
    """
    if operations is None:
        return []
    if not isinstance(operations, list):
        raise _mistyped(operations, "value of type []handlers.jsonPatchOp")
    warnings = []
    for index, operation in enumerate(operations):
        if operation is None:
            continue
        if not isinstance(operation, dict):
            raise _mistyped(operation, "value of type handlers.jsonPatchOp")
        for name, value in operation.items():
            if name in _MEMBERS and not isinstance(value, str | None):
                raise _mistyped(value, f"struct field jsonPatchOp.{name} of type string")
            if name not in _MEMBERS and name != "value":
                warnings.append(f'json patch unknown field "[{index}].{name}"')
    return warnings


def _mistyped(value: Any, target: str) -> PatchError:
    """Return the refusal of a value where another kind of value belongs."""
    text = (
        f"error decoding patch: json: cannot unmarshal {gotext.json_kind(value)} into Go {target}"
    )
    return bad_request(text)


def json_patch(doc: Any, operations: Any) -> Any:
    """Return the document after all operations; the inputs are left as they are.

    Raises:
        PatchError: 400 for a malformed body, 413 for more than 10,000 operations, 422 if one of
            them does not apply.
    """
    check_operations(operations)
    if operations is not None and len(operations) > MAX_OPERATIONS:
        raise PatchError(
            413,
            "RequestEntityTooLarge",
            f"Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{MAX_OPERATIONS}, got {len(operations)}",
        )
    root = copy.deepcopy(doc)
    for operation in operations or ():
        try:
            root = _carry_out(root, operation or {})
        except _DoesNotApply:
            raise unprocessable() from None
    return root


def _carry_out(root: Any, operation: dict[str, Any]) -> Any:
    """Carry out one operation and return the (perhaps other) root."""
    path = operation.get("path")
    if path is None:
        raise _DoesNotApply
    match operation.get("op"):
        case "add":
            _add(root, path, copy.deepcopy(operation.get("value")))
        case "remove":
            _remove(root, path)
        case "replace":
            return _replace(root, path, copy.deepcopy(operation.get("value")))
        case "move":
            value = _remove(root, _source(operation))
            _add(root, path, value)
        case "copy":
            _add(root, path, copy.deepcopy(_get(*_locate(root, _source(operation)))))
        case "test":
            _test(root, path, operation.get("value"))
        case _:
            raise _DoesNotApply
    return root


def _source(operation: dict[str, Any]) -> str:
    """Return where `move` and `copy` take from."""
    source = operation.get("from")
    if not isinstance(source, str):
        raise _DoesNotApply
    return source


def _locate(root: Any, path: str) -> tuple[Any, str]:
    """Return the container that a path's last token is looked up in, and that token."""
    tokens = path.split("/")
    if len(tokens) < 2:
        raise _DoesNotApply
    here = root
    for token in tokens[1:-1]:
        here = _get(here, _unescape(token))
        if not isinstance(here, dict | list):
            raise _DoesNotApply
    return here, _unescape(tokens[-1])


def _unescape(token: str) -> str:
    """Undo the escapes of a JSON pointer."""
    return re.sub("~[01]", lambda found: "/" if found[0] == "~1" else "~", token)


def _index(token: str, limit: int) -> int:
    """Return the place in a list that a token names; it must be below the limit."""
    if not _INDEX.match(token):
        raise _DoesNotApply
    index = int(token)
    if index >= limit or index < -limit:
        raise _DoesNotApply
    return index + limit if index < 0 else index


def _get(container: Any, token: str) -> Any:
    """Return what stands at a token: null for a missing member, as the real server has it."""
    if isinstance(container, list):
        return container[_index(token, len(container))]
    return container.get(token)


def _add(root: Any, path: str, value: Any) -> None:
    """Insert into a list or set a member."""
    container, token = _locate(root, path)
    if isinstance(container, dict):
        container[token] = value
    elif token == _END:
        container.append(value)
    else:
        container.insert(_index(token, len(container) + 1), value)


def _remove(root: Any, path: str) -> Any:
    """Take out an item or a member and return it."""
    container, token = _locate(root, path)
    if isinstance(container, list):
        return container.pop(_index(token, len(container)))
    if token not in container:
        raise _DoesNotApply
    return container.pop(token)


def _replace(root: Any, path: str, value: Any) -> Any:
    """Put a value in the place of another; return the root, which may be the one replaced."""
    if path == "":
        if not isinstance(value, dict | list):
            raise _DoesNotApply
        return value
    container, token = _locate(root, path)
    if isinstance(container, list):
        container[_index(token, len(container))] = value
    else:
        container[token] = value
    return root


def _test(root: Any, path: str, value: Any) -> None:
    """Hold the document against a value."""
    here = root if path == "" else _get(*_locate(root, path))
    if not _same(here, value):
        raise _DoesNotApply


def _same(left: Any, right: Any) -> bool:
    """Tell whether a stored value is spelled like one in a request."""
    if type(left) in _NUMBERS and type(right) in _NUMBERS:
        return gotext.json_text(left) == repr(right)
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, str) and not _ESCAPED_BY_GO.isdisjoint(left):
        return False
    return bool(left == right)
