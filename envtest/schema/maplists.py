"""Lists of type set and map: the keys of their items, and a check for duplicates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from controller.managedfields.gotext import encode_json
from envtest.schema.errors import FieldError, build_duplicate_error, build_invalid_error


class MapKeys:
    """The key fields of a list of type map.

    Args:
        names: `x-kubernetes-list-map-keys`, in that order.
    """

    __slots__ = ("names",)

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def build_key(self, item: Mapping[str, Any]) -> tuple[object, ...]:
        """Return the key of an item within its list: the values of its key fields.

        A missing key field counts as null. Values of different types differ, such as true and 1.
        """
        return tuple(map(_build_typed_key, map(item.get, self.names)))

    def build_index(self, items: list[Any]) -> MapListIndex:
        """Return an index of old items by key, to find the counterpart of a new item."""
        return MapListIndex(self, items)


def _build_typed_key(value: Any) -> object:
    """Return a hashable key of a JSON value, which differs by value and by type."""
    if isinstance(value, str) or value is None:
        return value
    return encode_json(value) if isinstance(value, dict | list) else (type(value), value)


class MapListIndex:
    """An index that finds the item of an old list by the key of an item of the new list."""

    __slots__ = ("_by_key", "_keys")

    def __init__(self, keys: MapKeys, items: list[Any]) -> None:
        self._keys = keys
        # Reversed, so that the first of several items with one key stays.
        self._by_key = {
            keys.build_key(item): item for item in reversed(items) if self._is_complete(item)
        }

    def _is_complete(self, item: Any) -> bool:
        """Return whether an item is an object with all key fields."""
        return isinstance(item, dict) and all(name in item for name in self._keys.names)

    def get(self, item: Any, default: Any) -> Any:
        """Return the old item with the key of `item`; `default` if there is none.

        An item without all key fields has no counterpart.
        """
        if not self._is_complete(item):
            return default
        return self._by_key.get(self._keys.build_key(item), default)


def read_map_keys(schema: Mapping[str, Any]) -> MapKeys:
    """Return the key fields that the schema of a list names; only lists of type map have any."""
    return MapKeys(schema.get("x-kubernetes-list-map-keys") or ())


class MapListNode:
    """A schema node at or below which there is a set or map list; `compile` skips other nodes."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._list_type: str = schema.get("x-kubernetes-list-type") or ""
        self._map_keys: MapKeys = read_map_keys(schema)
        compiled = {
            name: self.compile(child) for name, child in (schema.get("properties") or {}).items()
        }
        self._properties = {name: node for name, node in compiled.items() if node is not None}
        self._additional = self.compile(schema.get("additionalProperties"))
        self._items = self.compile(schema.get("items"))

    @classmethod
    def compile(cls, schema: object) -> Self | None:
        """Return the node of a schema; None if no set or map list is at or below it."""
        if not isinstance(schema, Mapping):
            return None
        node = cls(schema)
        has_further_lists = node._additional is not None or node._items is not None
        return (
            node
            if node._list_type in {"set", "map"} or node._properties or has_further_lists
            else None
        )

    def add_errors(self, value: Any, path: str, out: list[FieldError]) -> None:
        """Append an error for each item that repeats an earlier one, at the first repetition."""
        if isinstance(value, list):
            self._add_list_errors(value, path, out)
        elif isinstance(value, dict):
            prefix = f"{path}." if path else ""
            for name, item in value.items():
                child = self._properties.get(name)
                if child is not None:
                    child.add_errors(item, prefix + name, out)
                elif self._additional is not None:
                    self._additional.add_errors(item, f"{path}[{name}]", out)

    def _add_list_errors(self, value: list[Any], path: str, out: list[FieldError]) -> None:
        """Append an error for each duplicate in a set or map list, then check the items."""
        seen: set[object] = set()
        reported: set[object] = set()
        for index, item in enumerate(value if self._list_type in {"set", "map"} else ()):
            key: object = _build_typed_key(item)
            error_value = item
            if self._list_type == "map":
                # The schema decides whether null is allowed.
                if item is None:
                    continue
                if not isinstance(item, dict):
                    detail = "must be an object for an array of list-type map"
                    out.append(build_invalid_error(f"{path}[{index}]", item, detail))
                    # kube-apiserver compares no keys in a list with such an item.
                    break
                key = self._map_keys.build_key(item)
                error_value = {name: item[name] for name in self._map_keys.names if name in item}
            if key in seen and key not in reported:
                reported.add(key)
                out.append(build_duplicate_error(f"{path}[{index}]", error_value))
            seen.add(key)
        if self._items is not None:
            for index, item in enumerate(value):
                self._items.add_errors(item, f"{path}[{index}]", out)
