"""Find the part of the old object that corresponds to a part of the new one, and compare them.

An update may keep errors in parts that it does not change (ratcheting). Parts correspond by
property, by map key and, in lists of type map, by the key fields. A part that the schema does not
describe has no counterpart, so it counts as changed even if it is equal, as in kube-apiserver.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from envtest.schema.maplists import MapKeys, MapListIndex, read_map_keys


def is_same(first: Any, second: Any) -> bool:
    """Return whether two JSON values are equal in value and in type, at every depth."""
    if first is second:
        return True
    # Python's comparison runs in C and finds most differences, but to it 1, 1.0 and True are
    # equal.
    return bool(first == second) and _have_same_types(first, second)


def _have_same_types(first: Any, second: Any) -> bool:
    """Return whether two equal JSON values have the same types at every depth."""
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return all(_have_same_types(item, second[name]) for name, item in first.items())
    if isinstance(first, list):
        return all(map(_have_same_types, first, second))
    return True


class Shape:
    """The structure of one schema node, by which corresponding parts are found."""

    __slots__ = ("additional", "all_parts_have_pairs", "items", "map_keys", "properties")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        properties = schema.get("properties") or {}
        self.properties = {name: Shape(child) for name, child in properties.items()}
        self.additional = self._compile_child(schema.get("additionalProperties"))
        self.items = self._compile_child(schema.get("items"))
        is_map = schema.get("x-kubernetes-list-type") == "map"
        self.map_keys: MapKeys | None = read_map_keys(schema) if is_map else None
        # Whether every part of a pruned value corresponds to itself in the same value.
        self.all_parts_have_pairs = self._pairs_all_parts(schema)

    def _pairs_all_parts(self, schema: Mapping[str, Any]) -> bool:
        """Return whether each part of a pruned value corresponds to itself in the same value.

        Fields that the schema does not describe have no counterpart. In a list of type map, an
        item corresponds to the first item with its key, which may be another item.
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
    def _compile_child(cls, schema: object) -> Self | None:
        """Return the shape of a schema below this one; None if there is none."""
        return cls(schema) if isinstance(schema, Mapping) else None


class Pair:
    """A value of the new object with its counterpart in the old object."""

    __slots__ = ("_index", "_shape", "_unchanged", "old", "value")

    def __init__(self, shape: Shape, value: Any, old: Any) -> None:
        self._shape = shape
        self.value = value
        self.old = old
        self._index: MapListIndex | None = None
        self._unchanged: bool | None = None

    def pair_member(self, name: str, value: Any) -> Pair | None:
        """Return the pair of a property or a map's value; None if it has no counterpart."""
        shape = self._shape.properties.get(name, self._shape.additional)
        if shape is None or not isinstance(self.old, dict) or name not in self.old:
            return None
        return Pair(shape, value, self.old[name])

    @property
    def can_pair_items(self) -> bool:
        """Whether items can have counterparts: only in lists of type map."""
        return self._shape.map_keys is not None

    def pair_item(self, value: Any) -> Pair | None:
        """Return the pair of a list's item; None if it has no counterpart.

        Only in lists of type map do items have counterparts.
        """
        shape, keys = self._shape.items, self._shape.map_keys
        if shape is None or keys is None or not isinstance(self.old, list):
            return None
        if self._index is None:
            self._index = keys.build_index(self.old)
        old = self._index.get(value, None)
        return None if old is None else Pair(shape, value, old)

    def is_unchanged(self) -> bool:
        """Return whether the value equals its counterpart; they are compared once."""
        if self._unchanged is None:
            self._unchanged = self._compare()
        return self._unchanged

    def _compare(self) -> bool:
        """Return whether all parts of the value equal their counterparts.

        A part without a counterpart counts as changed, as in kube-apiserver. So two equal values
        may count as changed.
        """
        value, old = self.value, self.old
        if value is old and self._shape.all_parts_have_pairs:
            # A merge patch leaves unchanged parts as the same Python object.
            return True
        if isinstance(value, dict) and isinstance(old, dict):
            members = (self.pair_member(name, item) for name, item in value.items())
            return len(value) == len(old) and all(map(_is_unchanged, members))
        if isinstance(value, list) and isinstance(old, list) and self._shape.map_keys is not None:
            return len(value) == len(old) and all(map(_is_unchanged, map(self.pair_item, value)))
        return is_same(value, old)


def _is_unchanged(pair: Pair | None) -> bool:
    """Return whether a part has a counterpart and is equal to it."""
    return pair is not None and pair.is_unchanged()
