"""Lists of type set and map: no item twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from envtest.schema.errors import FieldError, duplicate, invalid
from envtest.schema.gotext import json_text
from envtest.schema.maplists import MapKeys, keys_of


class ListNode:
    """The set and map lists at or below one schema node; built only where there are any."""

    __slots__ = ("_additional", "_items", "_kind", "_map_keys", "_properties")

    def __init__(
        self, schema: Mapping[str, Any], below: tuple[Mapping[str, Self], Self | None, Self | None]
    ) -> None:
        self._kind: str = schema.get("x-kubernetes-list-type") or ""
        self._map_keys: MapKeys = keys_of(schema)
        self._properties, self._additional, self._items = below

    @classmethod
    def compile(cls, schema: object) -> Self | None:
        """The node for `schema`, or None where no such list is at or below it."""
        if not isinstance(schema, Mapping):
            return None
        compiled = {
            name: cls.compile(child) for name, child in (schema.get("properties") or {}).items()
        }
        properties = {name: node for name, node in compiled.items() if node is not None}
        additional = cls.compile(schema.get("additionalProperties"))
        items = cls.compile(schema.get("items"))
        here = schema.get("x-kubernetes-list-type") in {"set", "map"}
        if not here and not properties and additional is None and items is None:
            return None
        return cls(schema, (properties, additional, items))

    def check(self, value: Any, path: str, out: list[FieldError]) -> None:
        """Append an error for every item that stands more than once, where it does again."""
        if isinstance(value, list):
            self._check_list(value, path, out)
        elif isinstance(value, dict):
            prefix = f"{path}." if path else ""
            for name, item in value.items():
                child = self._properties.get(name)
                if child is not None:
                    child.check(item, prefix + name, out)
                elif self._additional is not None:
                    self._additional.check(item, f"{path}[{name}]", out)

    def _check_list(self, value: list[Any], path: str, out: list[FieldError]) -> None:
        if self._kind == "set":
            self._check_set(value, path, out)
        elif self._kind == "map":
            self._check_map(value, path, out)
        if self._items is not None:
            for index, item in enumerate(value):
                self._items.check(item, f"{path}[{index}]", out)

    def _check_set(self, value: list[Any], path: str, out: list[FieldError]) -> None:
        seen: set[object] = set()
        told: set[object] = set()
        for index, item in enumerate(value):
            key = json_text(item) if isinstance(item, dict | list) else (type(item), item)
            if key in seen and key not in told:
                told.add(key)
                out.append(duplicate(f"{path}[{index}]", item))
            seen.add(key)

    def _check_map(self, value: list[Any], path: str, out: list[FieldError]) -> None:
        for index, item in enumerate(value):
            if item is not None and not isinstance(item, dict):
                detail = "must be an object for an array of list-type map"
                out.append(invalid(f"{path}[{index}]", item, detail))
                return
        seen: set[tuple[object, ...]] = set()
        told: set[tuple[object, ...]] = set()
        for index, item in enumerate(value):
            if item is None:
                continue
            key = self._map_keys.key(item)
            if key in seen and key not in told:
                told.add(key)
                shown = {name: item[name] for name in self._map_keys.names if name in item}
                out.append(duplicate(f"{path}[{index}]", shown))
            seen.add(key)
