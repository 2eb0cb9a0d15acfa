"""Carries what a type does not name from an object to its conversion.

A conversion function gets an object decoded to the type of one version and returns one of another
version's type. Fields that neither type names, such as one that was added to the CRD and not to
the types, would be lost that way, and lost for good when the object is written next. So what the
function returned is compared with what it got, field by field:

| the source's type names it | the result's type names it | the field in the result              |
|----------------------------|----------------------------|--------------------------------------|
| no                         | no                         | as in the source                     |
| no                         | yes                        | from the function; it is an error if |
|                            |                            | the source has it with another value |
| yes                        | no                         | dropped                              |
| yes                        | yes                        | from the function; as in the source  |
|                            |                            | if the function did not change it    |

A None that the function returned is an absent field. An unnamed field inside of something that the
function dropped or changed, an entry of a list for example, has no place in the result: that is an
error. Rejected: to drop it without a word, and to find the entry by its position in the list.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec

Json = Any


class UnfitResult(ValueError):
    """What a function returned cannot be the object in the other version; the text says why."""


def carry_over(
    source: Mapping[str, Json], known: Mapping[str, Json], result: Mapping[str, Json]
) -> dict[str, Json]:
    """Return `result` with the fields of `source` that the source's type does not name.

    Args:
        source: the object as it was sent.
        known: the same, decoded to its type and encoded again: the fields that the type names.
        result: what the function returned, encoded.

    Raises:
        UnfitResult: a field of `source` has no place in `result`.
    """
    if "metadata" not in known or "metadata" not in result:  # a type need not name it
        kept = {"metadata": source.get("metadata")}
        known, result = {**known, **kept}, {**result, **kept}
    return dict(_fields(source, known, result=result, path=""))


def _fields(
    source: Mapping[str, Json], known: Mapping[str, Json], result: Mapping[str, Json], path: str
) -> Iterator[tuple[str, Json]]:
    """Yield the fields that the object at `path` gets."""
    for name in dict.fromkeys(chain(source, result)):
        at = f"{path}.{name}" if path else name
        got, returned = known.get(name), result.get(name)
        if source.get(name) is not None and name not in known:
            _refuse_another(source[name], returned, at)
            yield name, source[name]
        elif _same(got, returned):
            if name in source:  # if not, both are the default of their types
                yield name, source[name]
        elif (
            isinstance(sent := source.get(name, {}), Mapping)
            and isinstance(got, Mapping)
            and isinstance(returned, Mapping)
        ):
            inner = dict(_fields(sent, got, result=returned, path=at))
            if inner or name in source:
                yield name, inner
        else:
            if name in source:
                _refuse_unnamed(source[name], got, at)
            if returned is not None:
                yield name, _without_nulls(returned)


def _refuse_another(value: Json, returned: Json, path: str) -> None:
    """Raise if the function returned another value for a field that it did not see."""
    if returned is not None and not _same(value, returned):
        raise UnfitResult(
            f"{path}: the function returned another value than the object has, and cannot know"
            " that: name the field in the types of both versions"
        )


def _refuse_unnamed(value: Json, known: Json, path: str) -> None:
    """Raise if a value that the function dropped or changed has a field that its type skips."""
    lost = next(_list_unnamed(value, known, path), "")
    if lost:
        raise UnfitResult(
            f"{lost}: the type of this version does not name the field, and {path} is not the"
            " same in the other version, so it would be lost: name it in the type, or convert"
            " plain JSON (dict)"
        )


def _list_unnamed(value: Json, known: Json, path: str) -> Iterator[str]:
    """Yield the paths of the fields in `value` that are not in `known`."""
    if isinstance(value, Mapping) and isinstance(known, Mapping):
        for name, member in value.items():
            if name in known:
                yield from _list_unnamed(member, known[name], f"{path}.{name}")
            else:
                yield f"{path}.{name}"
    elif isinstance(value, list) and isinstance(known, list):
        for index, (member, other) in enumerate(zip(value, known, strict=False)):
            yield from _list_unnamed(member, other, f"{path}[{index}]")


def _without_nulls(value: Json) -> Json:
    if isinstance(value, Mapping):
        return {
            name: _without_nulls(member) for name, member in value.items() if member is not None
        }
    return [_without_nulls(member) for member in value] if isinstance(value, list) else value


def _same(first: Json, other: Json) -> bool:
    """Return whether two values are the same JSON; True is 1 in Python."""
    return _text(first) == _text(other)


def _text(value: Json) -> bytes:
    return msgspec.json.encode(value, order="deterministic")
