"""Carries fields that no type names from an object to the result of its conversion.

A conversion function gets an object decoded to the type of one version, and returns an object of
another version's type. Fields that neither type names would be lost: fields that were added to the
CRD and not to the types, for example. When the object is written next, they would be lost for
good. So the returned object is compared with the object that the function got, field by field:

| the source's type names it | the result's type names it | the field in the result              |
|----------------------------|----------------------------|--------------------------------------|
| no                         | no                         | as in the source                     |
| no                         | yes                        | from the function; it is an error if |
|                            |                            | the source has it with another value |
| yes                        | no                         | dropped                              |
| yes                        | yes                        | from the function; as in the source  |
|                            |                            | if the function did not change it    |

A None that the function returned is an absent field. An unnamed field has no place in the result
if it is inside of a value that the function dropped or changed, such as an entry of a list: that
is an error. Two other ways were rejected: to drop the field silently, and to find the entry by its
position in the list.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec

Json = Any


class UnfitResult(ValueError):
    """A function returned a value that cannot be the object in the other version.

    The text says why.
    """


def carry_over(
    source: Mapping[str, Json], named_fields: Mapping[str, Json], result: Mapping[str, Json]
) -> dict[str, Json]:
    """Return `result` with the fields of `source` that the source's type does not name.

    The function did not see these fields; the module's docstring has the rules.

    Args:
        source: the object as it was sent.
        named_fields: the fields of `source` that its type names: `source` decoded to the type and
            encoded again.
        result: the object that the function returned, encoded.

    Raises:
        UnfitResult: a field of `source` has no place in `result`.
    """
    if "metadata" not in named_fields or "metadata" not in result:
        # A type need not name the metadata. Then both get the source's, so it does not change.
        metadata = {"metadata": source.get("metadata")}
        named_fields, result = {**named_fields, **metadata}, {**result, **metadata}
    return dict(_carry_fields(source, named_fields, result=result, path=""))


def _carry_fields(
    source: Mapping[str, Json],
    named_fields: Mapping[str, Json],
    result: Mapping[str, Json],
    path: str,
) -> Iterator[tuple[str, Json]]:
    """Yield the fields of the converted object at `path`, with their values.

    Raises:
        UnfitResult: a field of `source` has no place in `result`.
    """
    for name in dict.fromkeys(chain(source, result)):
        field_path = f"{path}.{name}" if path else name
        # `passed` is the value that the function got, and `returned` the value that it gave back.
        passed, returned = named_fields.get(name), result.get(name)
        if source.get(name) is not None and name not in named_fields:
            # The source's type does not name the field: the function did not see it.
            _refuse_other_value(source[name], returned, field_path)
            yield name, source[name]
        elif _are_same(passed, returned):
            # Both are the default of their types if the source does not have the field.
            if name in source:
                yield name, source[name]
        elif (
            isinstance(sent := source.get(name, {}), Mapping)
            and isinstance(passed, Mapping)
            and isinstance(returned, Mapping)
        ):
            # Objects on all sides: the rules hold for each of their fields.
            inner = dict(_carry_fields(sent, passed, result=returned, path=field_path))
            if inner or name in source:
                yield name, inner
        else:
            # The function dropped or changed the value. Fields in it that it did not see have no
            # place in the new value.
            if name in source:
                _refuse_lost_fields(source[name], passed, field_path)
            if returned is not None:
                yield name, _drop_nulls(returned)


def _refuse_other_value(value: Json, returned: Json, path: str) -> None:
    """Refuse another value for a field that the function did not see.

    Raises:
        UnfitResult: the function returned another value than the object has.
    """
    if returned is not None and not _are_same(value, returned):
        raise UnfitResult(
            f"{path}: the function returned another value than the object has, and cannot know"
            " that: name the field in the types of both versions"
        )


def _refuse_lost_fields(value: Json, named_fields: Json, path: str) -> None:
    """Refuse to lose a field in a value that the function dropped or changed.

    Raises:
        UnfitResult: the value has a field that its type does not name.
    """
    field = next(_list_unnamed_fields(value, named_fields, path), "")
    if field:
        raise UnfitResult(
            f"{field}: the type of this version does not name the field, and {path} is not the"
            " same in the other version, so it would be lost: name it in the type, or convert"
            " plain JSON (dict)"
        )


def _list_unnamed_fields(value: Json, named_fields: Json, path: str) -> Iterator[str]:
    """Yield the paths of the fields in `value` that are not in `named_fields`."""
    if isinstance(value, Mapping) and isinstance(named_fields, Mapping):
        for name, member in value.items():
            if name in named_fields:
                yield from _list_unnamed_fields(member, named_fields[name], f"{path}.{name}")
            else:
                yield f"{path}.{name}"
    elif isinstance(value, list) and isinstance(named_fields, list):
        for index, (member, named_member) in enumerate(zip(value, named_fields, strict=False)):
            yield from _list_unnamed_fields(member, named_member, f"{path}[{index}]")


def _drop_nulls(value: Json) -> Json:
    """Return a value without fields that are None, at any depth; list entries stay."""
    if isinstance(value, Mapping):
        return {name: _drop_nulls(member) for name, member in value.items() if member is not None}
    return [_drop_nulls(member) for member in value] if isinstance(value, list) else value


def _are_same(first: Json, other: Json) -> bool:
    """Return whether two values are the same JSON; in Python, True would equal 1."""
    return _encode_sorted(first) == _encode_sorted(other)


def _encode_sorted(value: Json) -> bytes:
    """Return a value as JSON with the fields of objects sorted, for comparisons."""
    return msgspec.json.encode(value, order="deterministic")
