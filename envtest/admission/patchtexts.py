"""Why a JSON patch does not apply, in the words of the library that the real server uses.

Clients never see these words when they patch themselves; of a webhook's patch they are told.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from envtest.patching import PatchError, json_patch
from envtest.schema.gotext import quote

_INDEX: Final = re.compile(r"[+-]?\d+")


def reason(body: Any, operations: list[Any]) -> str:
    """Return what is wrong with the first operation that cannot be carried out."""
    for operation in operations:
        try:
            body = json_patch(body, [operation])
        except PatchError:
            return _explained(body, operation or {})
    return "the patch does not apply"


def _explained(body: Any, operation: Mapping[str, Any]) -> str:
    kind = operation.get("op")
    explain = _BY_KIND.get(str(kind))
    if explain is None:
        return f"Unexpected kind: {kind or 'unknown'}"
    path = operation.get("path")
    if not isinstance(path, str):
        return f"{kind} operation failed to decode path: missing value"
    return explain(body, operation, path)


def _add(body: Any, _operation: Mapping[str, Any], path: str) -> str:
    container, key = _container(body, path)
    if container is None:
        return f"add operation does not apply: doc is missing path: {quote(path)}: missing value"
    return f"error in add for path: '{path}': {_bad_key(container, key)}"


def _remove(body: Any, _operation: Mapping[str, Any], path: str) -> str:
    container, key = _container(body, path)
    if container is None:
        return f'remove operation does not apply: doc is missing path: "{path}": missing value'
    return f"error in remove for path: '{path}': {_bad_key(container, key)}"


def _replace(body: Any, _operation: Mapping[str, Any], path: str) -> str:
    container, key = _container(body, path)
    if container is None:
        return f"replace operation does not apply: doc is missing path: {path}: missing value"
    return (
        f"replace operation does not apply: doc is missing key: {path}: {_bad_key(container, key)}"
    )


def _test(body: Any, _operation: Mapping[str, Any], path: str) -> str:
    container, _ = _container(body, path)
    if container is None and path:
        return f"test operation does not apply: is missing path: {path}: missing value"
    return f"testing value {path} failed: test failed"


def _move(body: Any, operation: Mapping[str, Any], path: str) -> str:
    return _taken(body, operation, path, "move")


def _copy(body: Any, operation: Mapping[str, Any], path: str) -> str:
    return _taken(body, operation, path, "copy")


def _taken(body: Any, operation: Mapping[str, Any], path: str, kind: str) -> str:
    source = operation.get("from")
    if not isinstance(source, str):
        return f"{kind} operation failed to decode from: missing value"
    container, key = _container(body, source)
    if container is None:
        return (
            f"{kind} operation does not apply: doc is missing from path: {source}: missing value"
        )
    fault = _bad_key(container, key)
    if fault and (isinstance(container, list) or key not in container):
        return f"error in {kind} for path: '{key}': {fault}"
    return (
        f"{kind} operation does not apply: doc is missing destination path: {path}: missing value"
    )


def _container(body: Any, path: str) -> tuple[Any, str]:
    """Return what holds the last part of a path, None if it is not there, and that part."""
    *parents, last = path.split("/")
    if not parents:
        return None, last
    for token in parents[1:]:
        name = _unescaped(token)
        if isinstance(body, list):
            inside = bool(_INDEX.fullmatch(name)) and -len(body) <= int(name) < len(body)
            body = body[int(name)] if inside else None
        else:
            body = body.get(name)
        if not isinstance(body, dict | list):
            return None, last
    return body, _unescaped(last)


def _unescaped(token: str) -> str:
    return token.replace("~1", "/").replace("~0", "~")


def _bad_key(container: Any, key: str) -> str:
    if isinstance(container, list):
        if not _INDEX.fullmatch(key):
            why = f"value was not a proper array index: '{key}'"
            return f"{why}: strconv.Atoi: parsing {quote(key)}: invalid syntax"
        return f"Unable to access invalid index: {int(key)}: invalid index referenced"
    return f"Unable to remove nonexistent key: {key}: missing value"


_BY_KIND: Final[Mapping[str, Callable[[Any, Mapping[str, Any], str], str]]] = {
    "add": _add,
    "copy": _copy,
    "move": _move,
    "remove": _remove,
    "replace": _replace,
    "test": _test,
}
