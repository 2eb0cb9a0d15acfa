"""Lists of type map: which item is which, by the values of its key fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envtest.schema.gotext import json_text


class MapKeys:
    """The key fields of a list of type map.

    Args:
        names: `x-kubernetes-list-map-keys`, in that order.
        defaults: the default of each key field that has one.
    """

    __slots__ = ("defaults", "names")

    def __init__(self, names: Sequence[str], defaults: Mapping[str, Any]) -> None:
        self.names = tuple(names)
        self.defaults = defaults

    def key(self, item: Mapping[str, Any]) -> tuple[object, ...]:
        """What tells `item` apart within its list.

        A key field that is not there counts as null; true is not 1.
        """
        return tuple(map(_part, map(item.get, self.names)))

    def index(self, items: list[Any]) -> MapListIndex:
        """The items by key, for finding the old form of a new item."""
        return MapListIndex(self, items)


def _part(value: Any) -> object:
    if isinstance(value, str) or value is None:
        return value
    return json_text(value) if isinstance(value, dict | list) else (type(value), value)


class MapListIndex:
    """Finds the item of an old list that has the same key as an item of the new one."""

    __slots__ = ("_by_key", "_keys")

    def __init__(self, keys: MapKeys, items: list[Any]) -> None:
        self._keys = keys
        self._by_key = {
            keys.key(item): item for item in reversed(items) if self._is_complete(item)
        }

    def _is_complete(self, item: Any) -> bool:
        return isinstance(item, dict) and all(name in item for name in self._keys.names)

    def get(self, item: Any, otherwise: Any) -> Any:
        """The old item with the key of `item`, or `otherwise`; without all keys there is none."""
        if not self._is_complete(item):
            return otherwise
        return self._by_key.get(self._keys.key(item), otherwise)


def keys_of(schema: Mapping[str, Any]) -> MapKeys:
    """The key fields that the schema of a list of type map names."""
    names = schema.get("x-kubernetes-list-map-keys") or ()
    items = schema.get("items")
    properties = (items.get("properties") or {}) if isinstance(items, Mapping) else {}
    defaults = {
        name: properties[name]["default"]
        for name in names
        if "default" in properties.get(name, {})
    }
    return MapKeys(names, defaults)
