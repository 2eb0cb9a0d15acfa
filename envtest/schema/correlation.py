"""Which part of an old object a part of the new one corresponds to, and whether it changed.

An update is forgiven errors in parts that it leaves alone. Parts correspond by property, by map
key and, in lists of type map, by the key fields. A part that the schema does not describe counts
as changed, even where it is the same: that is how the server sees it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from envtest.schema.maplists import MapKeys, MapListIndex, keys_of


def same(first: Any, second: Any) -> bool:
    """Return whether two JSON values are equal in value and in type, at every depth."""
    if first is second:
        return True
    # Python's own comparison runs in C and settles most cases; it takes 1, 1.0 and True for equal.
    return bool(first == second) and _same_types(first, second)


def _same_types(first: Any, second: Any) -> bool:
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return all(_same_types(item, second[name]) for name, item in first.items())
    if isinstance(first, list):
        return all(map(_same_types, first, second))
    return True


class Shape:
    """The structure of one schema node, as far as it matters for finding corresponding parts."""

    __slots__ = ("additional", "all_parts_have_pairs", "items", "map_keys", "properties")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        properties = schema.get("properties") or {}
        self.properties = {name: Shape(child) for name, child in properties.items()}
        self.additional = self._of(schema.get("additionalProperties"))
        self.items = self._of(schema.get("items"))
        is_map = schema.get("x-kubernetes-list-type") == "map"
        self.map_keys: MapKeys | None = keys_of(schema) if is_map else None
        # Whether every part of a pruned value has its counterpart in the very same value.
        self.all_parts_have_pairs = self._pairs_all_parts(schema)

    def _pairs_all_parts(self, schema: Mapping[str, Any]) -> bool:
        """Return whether each part of a pruned value corresponds to itself in the same value.

        A field that the schema does not describe has no counterpart. An item of a list of type map
        may have that of another item, if both have the same key.
        """
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            return False
        if schema.get("x-kubernetes-embedded-resource") or self.map_keys is not None:
            return False
        if schema.get("type") == "object":
            parts = [*self.properties.values(), *([self.additional] if self.additional else ())]
            return bool(parts) and all(part.all_parts_have_pairs for part in parts)
        return True

    @classmethod
    def _of(cls, schema: object) -> Self | None:
        return cls(schema) if isinstance(schema, Mapping) else None


class Pair:
    """A value of the new object with the one of the old object that it corresponds to."""

    __slots__ = ("_index", "_shape", "_unchanged", "old", "value")

    def __init__(self, shape: Shape, value: Any, old: Any) -> None:
        self._shape = shape
        self.value = value
        self.old = old
        self._index: MapListIndex | None = None
        self._unchanged: bool | None = None

    def member(self, name: str, value: Any) -> Pair | None:
        """Return the pair of a property or a map's value; None where the old side has none."""
        shape = self._shape.properties.get(name, self._shape.additional)
        if shape is None or not isinstance(self.old, dict) or name not in self.old:
            return None
        return Pair(shape, value, self.old[name])

    @property
    def has_items(self) -> bool:
        """Whether items can have pairs: only in lists of type map."""
        return self._shape.map_keys is not None

    def item(self, value: Any) -> Pair | None:
        """Return the pair of a list's item; None in lists that are not of type map."""
        shape, keys = self._shape.items, self._shape.map_keys
        if shape is None or keys is None or not isinstance(self.old, list):
            return None
        if self._index is None:
            self._index = keys.index(self.old)
        old = self._index.get(value, None)
        return None if old is None else Pair(shape, value, old)

    def is_unchanged(self) -> bool:
        """Return whether both sides are equal; compared once."""
        if self._unchanged is None:
            self._unchanged = self._compare()
        return self._unchanged

    def _compare(self) -> bool:
        """Compare both sides part by part.

        A part without a counterpart in the old object counts as changed, even with the same value,
        as on the API server. So two equal values may count as changed.
        """
        value, old = self.value, self.old
        if value is old and self._shape.all_parts_have_pairs:
            # As a patch leaves what it does not touch: nothing to compare.
            return True
        if isinstance(value, dict) and isinstance(old, dict):
            members = (self.member(name, item) for name, item in value.items())
            return len(value) == len(old) and all(map(_is_unchanged, members))
        if isinstance(value, list) and isinstance(old, list) and self._shape.map_keys is not None:
            return len(value) == len(old) and all(map(_is_unchanged, map(self.item, value)))
        return same(value, old)


def _is_unchanged(pair: Pair | None) -> bool:
    """Return whether a part has a counterpart and is equal to it."""
    return pair is not None and pair.is_unchanged()
