"""Pruning and defaulting by a schema: drop unknown fields, set defaults, replace or drop nulls."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

from typing_extensions import override

# Comparing types is faster than `isinstance`, and decoded JSON has no subclasses.
_CONTAINERS: Final = frozenset({dict, list})
_TYPE_META = frozenset({"apiVersion", "kind", "metadata"})


class PruneNode:
    """One schema node, compiled for dropping unknown fields.

    Args:
        schema: the schema; None for a value without one, all of whose fields are unknown.
    """

    __slots__ = ("_additional", "_embedded", "_items", "_preserve", "_properties")

    def __init__(self, schema: Mapping[str, Any] | None) -> None:
        schema = schema or {}
        self._preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        self._embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        properties: Mapping[str, Any] = schema.get("properties") or {}
        self._properties = {name: PruneNode(child) for name, child in properties.items()}
        self._additional = self._build_additional(schema.get("additionalProperties"))
        items = schema.get("items")
        self._items = PruneNode(items) if isinstance(items, Mapping) else None

    @classmethod
    def _build_additional(cls, schema: object) -> Self | None:
        """Return the node of additionalProperties; None if the schema has none."""
        # With a boolean the names of the map stay: validation refuses them for `false`. Their
        # values have no schema, so all fields below them are dropped.
        if isinstance(schema, Mapping):
            return cls(schema)
        return None if schema is None else cls(None)

    def prune_root(self, obj: dict[str, Any], unknown: list[str], old: Mapping[str, Any]) -> None:
        """Drop unknown fields of a whole object, in place, but not apiVersion, kind and metadata.

        Args:
            obj: the object.
            unknown: a list to which the paths of dropped fields are added, unsorted.
            old: an object that was pruned; parts that are the same Python object there are
                skipped.
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
        """Drop unknown fields at and below a value, in place.

        Args:
            value: an object or a list; other values have no fields.
            path: its path, empty for the root.
            unknown: a list to which the paths of dropped fields are added, unsorted.
            root: whether apiVersion, kind and metadata stay, because the value is a whole object.
            keep_all: whether unknown fields stay, because the list around the value keeps them.
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
        """Drop unknown fields of the items of a list, in place."""
        # Items without a schema have only unknown fields.
        items = self._items or (None if keep_all else _KEEP_NOTHING)
        if items is None:
            return
        for index, item in enumerate(value):
            if type(item) in _CONTAINERS:
                items.prune(item, f"{path}[{index}]", unknown, keep_all=keep_all)


_KEEP_NOTHING = PruneNode(None)


_NO_OBJECT: Final[Mapping[str, Any]] = MappingProxyType({})


class _ChildDefault(NamedTuple):
    """The default of a list's items, or of a map's values.

    Args:
        replaces_null: whether a null counts as absent, because the schema does not allow null.
        default: the default value; None if there is none.
    """

    replaces_null: bool = False
    default: Any = None

    @property
    def fills_nulls(self) -> bool:
        """Whether a null becomes the default."""
        return self.replaces_null and self.default is not None


class DefaultNode:
    """One schema node, compiled for setting defaults and for nulls that the schema does not allow.

    Such a null counts as absent. A default replaces it. Without a default, a null is dropped as a
    property or as a value of a map, and stays as an item of a list.
    """

    __slots__ = (
        "_additional",
        "_additional_default",
        "_defaults",
        "_items",
        "_items_default",
        "_nullable",
        "_properties",
        "_properties_with_work",
    )

    def __init__(self, schema: Mapping[str, Any]) -> None:
        properties: Mapping[str, Any] = schema.get("properties") or {}
        node_class = type(self)
        self._properties = {name: node_class(child) for name, child in properties.items()}
        self._nullable = frozenset(
            name for name, child in properties.items() if child.get("nullable")
        )
        # Name and default of a property, and whether the default also replaces null.
        self._defaults = tuple(
            (name, child["default"], not child.get("nullable"))
            for name, child in properties.items()
            if child.get("default") is not None
        )
        self._additional, self._additional_default = self._build_child(
            schema.get("additionalProperties")
        )
        self._items, self._items_default = self._build_child(schema.get("items"))
        # The properties below which there are defaults or nulls to replace; few have any.
        self._properties_with_work = {
            name: node for name, node in self._properties.items() if not node.has_nothing_to_set
        }

    @property
    def has_nothing_to_set(self) -> bool:
        """Whether this node has no defaults to set and no nulls to replace at any depth below."""
        # A null property, or a null value of a map, may have to be dropped.
        if self._properties or self._additional is not None:
            return False
        return self._items is None or (
            self._items.has_nothing_to_set and not self._items_default.fills_nulls
        )

    @classmethod
    def _build_child(cls, schema: object) -> tuple[Self | None, _ChildDefault]:
        """Return the node and the default of the schema of items or of a map's values."""
        if not isinstance(schema, Mapping):
            return None, _ChildDefault()
        return cls(schema), _ChildDefault(not schema.get("nullable"), schema.get("default"))

    def apply_defaults(self, value: Any, old: Mapping[str, Any] = _NO_OBJECT) -> None:
        """Set defaults at and below a value, and replace or drop nulls, in place.

        Args:
            value: an object or a list; other values stay.
            old: an object that has its defaults; members that are the same Python object there
                are skipped.
        """
        if type(value) is list:
            self._apply_items(value)
        if type(value) is not dict:
            return
        if self._defaults:
            self._set_defaults(value)
        # One fast test for all values, because nulls are rare.
        if None in value.values():
            self._replace_or_drop_nulls(value)
        if self._additional is None:
            for name, child in self._properties_with_work.items():
                item = value.get(name)
                if type(item) in _CONTAINERS and old.get(name) is not item:
                    child.apply_defaults(item)
            return
        for name, item in value.items():
            if type(item) in _CONTAINERS and old.get(name) is not item:
                self._properties.get(name, self._additional).apply_defaults(item)

    def _set_defaults(self, value: dict[str, Any]) -> None:
        """Set the properties of an object that are absent, or null where null is not allowed."""
        for name, default, replaces_null in self._defaults:
            if name not in value or (replaces_null and value[name] is None):
                value[name] = copy.deepcopy(default)

    def _apply_items(self, value: list[Any]) -> None:
        """Replace null items by the default, then set defaults below each item, in place.

        Defaults below an item are also set in the default of the item. Without a default a null
        stays, and validation refuses it if null is not allowed.
        """
        items = self._items
        if items is None:
            return
        for index, item in enumerate(value):
            if item is None and self._items_default.fills_nulls:
                value[index] = copy.deepcopy(self._items_default.default)
            if type(value[index]) in _CONTAINERS:
                items.apply_defaults(value[index])

    def _replace_or_drop_nulls(self, value: dict[str, Any]) -> None:
        """Replace or drop each null that the schema does not allow, in place.

        A null value of a map is replaced by the default, if there is one. All others are dropped;
        `_set_defaults` has replaced those of properties with a default before.
        """
        nulls = [name for name, item in value.items() if item is None]
        for name in filter(self._counts_as_absent, nulls):
            default = None if name in self._properties else self._additional_default.default
            if default is None:
                del value[name]
            else:
                value[name] = copy.deepcopy(default)

    def _counts_as_absent(self, name: str) -> bool:
        """Return whether a null under this name counts as absent, as the schema allows no null."""
        if name in self._properties:
            return name not in self._nullable
        return self._additional is not None and self._additional_default.replaces_null


class AppliedDefaultNode(DefaultNode):
    """One schema node, compiled for setting defaults after a server-side apply.

    Unlike other writes, an apply keeps a null without a default. Validation then refuses it if
    null is not allowed.
    """

    __slots__ = ()

    @override
    def _replace_or_drop_nulls(self, value: dict[str, Any]) -> None:
        """Replace each null value of a map by the default, if there is one; drop no null."""
        default = self._additional_default.default
        if default is None:
            return
        for name, item in value.items():
            if item is None and name not in self._properties and self._counts_as_absent(name):
                value[name] = copy.deepcopy(default)
