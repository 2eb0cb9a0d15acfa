"""Defaults: values that the schema fills in, and nulls that mean «not there»."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final, Self

# Made once: a union in the middle of a walk would be made anew for each value.
_CONTAINERS: Final = (dict, list)


class DefaultNode:
    """What one schema node fills in; built only where defaults or nulls below it can matter.

    A null counts as absent where the schema does not allow null: it is replaced by the default, or
    dropped where there is none. Items of lists and values of maps are replaced only by a default;
    without one a null stays in a list.
    """

    __slots__ = (
        "_additional",
        "_additional_default",
        "_defaults",
        "_items",
        "_items_default",
        "_nullable",
        "_properties",
    )

    def __init__(self, schema: Mapping[str, Any]) -> None:
        properties: Mapping[str, Any] = schema.get("properties") or {}
        self._properties = {name: DefaultNode(child) for name, child in properties.items()}
        self._nullable = frozenset(
            name for name, child in properties.items() if child.get("nullable")
        )
        self._defaults = tuple(
            (name, child["default"], not child.get("nullable"))
            for name, child in properties.items()
            if child.get("default") is not None
        )
        self._additional, self._additional_default = self._beside(
            schema.get("additionalProperties")
        )
        self._items, self._items_default = self._beside(schema.get("items"))

    @classmethod
    def _beside(cls, schema: object) -> tuple[Self | None, tuple[bool, Any]]:
        if not isinstance(schema, Mapping):
            return None, (False, None)
        return cls(schema), (not schema.get("nullable"), schema.get("default"))

    def apply_root(self, obj: dict[str, Any], old: Mapping[str, Any]) -> None:
        """Fill in a whole object, in place, but for the parts that are the very same in `old`.

        Args:
            obj: the object.
            old: one that was filled in before.
        """
        self._apply_object(obj, old)

    def apply(self, value: Any) -> None:
        """Fill in defaults below `value`, in place."""
        if isinstance(value, dict):
            self._apply_object(value)
        elif isinstance(value, list) and self._items is not None:
            replaces, default = self._items_default
            for index, item in enumerate(value):
                if item is None and replaces and default is not None:
                    value[index] = copy.deepcopy(default)
                if isinstance(value[index], _CONTAINERS):
                    self._items.apply(value[index])

    def _apply_object(self, value: dict[str, Any], old: Mapping[str, Any] | None = None) -> None:
        for name, default, replaces_null in self._defaults:
            if name not in value or (replaces_null and value[name] is None):
                value[name] = copy.deepcopy(default)
        dropped: list[str] = []
        for name, item in value.items():
            if item is None:
                if self._drops_null(name):
                    dropped.append(name)
            elif isinstance(item, _CONTAINERS) and (old is None or old.get(name) is not item):
                child = self._properties.get(name, self._additional)
                if child is not None:
                    child.apply(item)
        for name in dropped:
            self._drop(value, name)

    def _drops_null(self, name: str) -> bool:
        if name in self._properties:
            return name not in self._nullable
        return self._additional is not None and self._additional_default[0]

    def _drop(self, value: dict[str, Any], name: str) -> None:
        default = None if name in self._properties else self._additional_default[1]
        if default is None:
            del value[name]
            return
        value[name] = copy.deepcopy(default)
        assert self._additional is not None
        self._additional.apply(value[name])
