"""Pruning: fields that the schema does not name are dropped, and told to the client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

# A look at the type is quicker than `isinstance`; what was decoded has no others.
_CONTAINERS: Final = frozenset({dict, list})
_TYPE_META = frozenset({"apiVersion", "kind", "metadata"})


class PruneNode:
    """What one schema node keeps.

    Args:
        schema: the schema; None for a place without one, where nothing is kept.
    """

    __slots__ = ("_additional", "_embedded", "_items", "_preserve", "_properties")

    def __init__(self, schema: Mapping[str, Any] | None) -> None:
        schema = schema or {}
        self._preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        self._embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        properties: Mapping[str, Any] = schema.get("properties") or {}
        self._properties = {name: PruneNode(child) for name, child in properties.items()}
        self._additional = self._beyond(schema.get("additionalProperties"))
        items = schema.get("items")
        self._items = PruneNode(items) if isinstance(items, Mapping) else None

    @classmethod
    def _beyond(cls, schema: object) -> Self | None:
        # A boolean lets names stand (`false` is for validation to refuse) but says nothing about
        # what is inside: scalars stay, the rest is emptied.
        if isinstance(schema, Mapping):
            return cls(schema)
        return None if schema is None else cls(None)

    def prune_root(self, obj: dict[str, Any], unknown: list[str], old: Mapping[str, Any]) -> None:
        """Drop unknown fields of a whole object: apiVersion, kind and metadata always stay.

        Args:
            obj: the object, changed in place.
            unknown: where paths go, unsorted.
            old: an object that was pruned; parts that are the very same are left out.
        """
        for name, item in list(obj.items()):
            if name in _TYPE_META:
                continue
            child = self._properties.get(name, self._additional)
            if child is not None:
                if type(item) in _CONTAINERS and old.get(name) is not item:
                    child.prune(item, name, unknown)
            elif not self._preserve:
                del obj[name]
                unknown.append(name)

    def prune(
        self,
        value: Any,
        path: str,
        unknown: list[str],
        *,
        root: bool = False,
        keep_all: bool = False,
    ) -> None:
        """Drop unknown fields below `value`, in place; append their paths to `unknown`.

        Args:
            value: an object or a list; of anything else nothing can be dropped.
            path: where it stands, "" for the root.
            unknown: where paths go, unsorted.
            root: whether apiVersion, kind and metadata stay here whatever the schema says.
            keep_all: whether unknown fields stay: items of a list that preserves them do so too.
        """
        keep_all = keep_all or self._preserve
        if type(value) is list:
            self._prune_items(value, path, unknown, keep_all=keep_all)
        if type(value) is not dict:
            return
        root = root or self._embedded
        properties, additional = self._properties, self._additional
        dropped: list[str] = []
        for name, item in value.items():
            child = properties.get(name, additional)
            if child is None:
                if not (keep_all or (root and name in _TYPE_META)):
                    dropped.append(name)
            elif type(item) in _CONTAINERS and not (root and name in _TYPE_META):
                child.prune(item, f"{path}.{name}" if path else name, unknown)
        for name in dropped:
            del value[name]
            unknown.append(f"{path}.{name}" if path else name)

    def _prune_items(
        self, value: list[Any], path: str, unknown: list[str], *, keep_all: bool
    ) -> None:
        items = self._items or (None if keep_all else _NOTHING)
        if items is None:
            return
        for index, item in enumerate(value):
            if type(item) in _CONTAINERS:
                items.prune(item, f"{path}[{index}]", unknown, keep_all=keep_all)


_NOTHING = PruneNode(None)
