"""Telling at a glance that there is nothing to say about a value.

Most of what is written is right. From each schema node this makes two functions, one for texts and
one for all the rest, that walk a value once. They say yes where `ValueSchema` would find nothing
wrong and no item of a set or a map list stands twice. Anything else is a no, which only means
«not sure»: then the walks look that know what is wrong and how to put it, so every rule and every
message has its one place there. What a glance takes for right has to be right there too; what is
rare may be a no. Rules in CEL are not looked at here.

Functions made of functions were preferred to a walk over nodes because most of the time of a
write went into that, and to generated source because these can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

from envtest.schema.glancing import (
    ALWAYS,
    ENDLESS,
    NEVER,
    Check,
    Glance,
    TextCheck,
    among,
    booleans,
    both,
    composed,
    has_composites,
    integers_or_texts,
    no,
    numbers,
    or_null,
    texts,
)
from envtest.schema.values import supported_format

_ABSENT: Final = object()
_SCALARS: Final = frozenset({"boolean", "integer", "number", "string"})
# Keywords that say nothing about a value, or whose demands are looked at apart from its type.
_SILENT: Final = frozenset(
    {
        "allOf",
        "anyOf",
        "default",
        "description",
        "enum",
        "example",
        "externalDocs",
        "not",
        "nullable",
        "oneOf",
        "title",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    }
)


def compile_glance(schema: Mapping[str, Any]) -> Glance:
    """Make the checks of one schema node and of what is below it.

    Args:
        schema: a structural schema.
    """
    kind = "" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "")
    glance = _MAKERS.get(kind, _untyped)(schema)
    if glance is NEVER:
        return glance
    if schema.get("enum"):
        glance = among(schema["enum"], glance)
    glance = composed(schema, glance)
    # Null is asked for nothing else, but it is never one of the allowed values.
    if schema.get("nullable") and not schema.get("enum"):
        glance = Glance(glance.text, or_null(glance.other))
    return glance


def _untyped(schema: Mapping[str, Any]) -> Glance:
    if schema.get("x-kubernetes-int-or-string"):
        return integers_or_texts(schema)
    return ALWAYS if schema.keys() <= _SILENT else NEVER


def _lists(schema: Mapping[str, Any]) -> Glance:
    if supported_format(schema, "array"):
        return NEVER
    items: Mapping[str, Any] = schema.get("items") or {}
    unique: Check | None = None
    if schema.get("x-kubernetes-list-type") == "set":
        unique = _no_twins if items.get("type") in _SCALARS else no
    elif schema.get("x-kubernetes-list-type") == "map":
        unique = _unique_keys(schema, items)
    return Glance(no, _list_check(schema, compile_glance(items), unique))


def _list_check(schema: Mapping[str, Any], items: Glance, unique: Check | None) -> Check:
    text, other = items
    low, most = schema.get("minItems") or 0, schema.get("maxItems")
    high = ENDLESS if most is None else most

    def check(value: Any) -> object:
        if type(value) is not list or not low <= len(value) <= high:
            return False
        for item in value:
            if type(item) is str:
                if text is not None and not text(item):
                    return False
            elif not other(item):
                return False
        return unique is None or len(value) < 2 or unique(value)

    return check


def _no_twins(value: list[Any]) -> bool:
    # Python takes 1, 1.0 and true for one, which the server does not: that is a no, not a yes.
    return len(set(value)) == len(value)


def _unique_keys(schema: Mapping[str, Any], items: Mapping[str, Any]) -> Check:
    """A check of a list whose items have been found to fit."""
    names = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    fields = items.get("properties") or {}
    plain = all(fields.get(name, {}).get("type") in _SCALARS for name in names)
    if not names or not plain or items.get("type") != "object" or items.get("nullable"):
        return no
    if len(names) == 1:
        (only,) = names
        return lambda value: len({item.get(only) for item in value}) == len(value)
    return lambda value: len({tuple(map(item.get, names)) for item in value}) == len(value)


class _Members(NamedTuple):
    """What is asked about the members of an object.

    Attributes:
        texts: about members that are texts, by name.
        others: about the rest.
        beyond: about members of any other name.
    """

    texts: Mapping[str, TextCheck]
    others: Mapping[str, Check]
    beyond: Glance


def _members(schema: Mapping[str, Any]) -> _Members:
    properties: Mapping[str, Any] = schema.get("properties") or {}
    glances = {name: compile_glance(child) for name, child in properties.items()}
    return _Members(
        texts={name: glance.text for name, glance in glances.items()},
        others={name: glance.other for name, glance in glances.items()},
        beyond=_beyond(schema.get("additionalProperties")),
    )


def _beyond(schema: Any) -> Glance:
    """The glance at members that are no properties."""
    if isinstance(schema, Mapping):
        return compile_glance(schema)
    return NEVER if schema is False else ALWAYS


def _objects(schema: Mapping[str, Any]) -> Glance:
    if supported_format(schema, "object"):
        return NEVER
    check = _object_check(_members(schema), tuple(schema.get("required") or ()))
    low, most = schema.get("minProperties") or 0, schema.get("maxProperties")
    if low or most is not None:
        high = ENDLESS if most is None else most
        check = both(check, lambda value: low <= len(value) <= high)
    return Glance(no, check)


def _object_check(members: _Members, required: Sequence[str]) -> Check:
    text_of, other_of, (text_beyond, other_beyond) = members
    if not other_of and members.beyond is ALWAYS and not required:
        return _is_object

    def check(value: Any) -> object:
        if type(value) is not dict:
            return False
        for name in required:
            if name not in value:
                return False
        for name, item in value.items():
            if type(item) is str:
                text = text_of.get(name, text_beyond)
                if text is not None and not text(item):
                    return False
            elif not other_of.get(name, other_beyond)(item):
                return False
        return True

    return check


def _is_object(value: Any) -> bool:
    return type(value) is dict


_MAKERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Glance]]] = {
    "array": _lists,
    "boolean": booleans,
    "integer": numbers,
    "number": numbers,
    "object": _objects,
    "string": texts,
}


class ObjectGlance:
    """A glance at a whole object, whose parts may be those of the object that it replaces."""

    __slots__ = ("_members", "_required")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._required: Sequence[str] = tuple(schema.get("required") or ())
        self._members = _members(schema)
        # What else is demanded of a whole object is rare, and never settled here.
        odd = {"enum", "format", "maxProperties", "minProperties"}
        if schema.get("type") != "object" or odd & schema.keys() or has_composites(schema):
            self._members = _Members({}, {}, NEVER)

    def passes(
        self, obj: Mapping[str, Any], old: Mapping[str, Any], spared: AbstractSet[str]
    ) -> bool:
        """Tell whether the object is surely right.

        Args:
            obj: the object.
            old: the object that it replaces.
            spared: names of parts that need no look where they are the very same in `old`.
        """
        text_of, other_of, (text_beyond, other_beyond) = self._members
        for name in self._required:
            if name not in obj:
                return False
        for name, item in obj.items():
            if item is old.get(name, _ABSENT) and name in spared:
                continue
            if type(item) is str:
                text = text_of.get(name, text_beyond)
                if text is not None and not text(item):
                    return False
            elif not other_of.get(name, other_beyond)(item):
                return False
        return True
