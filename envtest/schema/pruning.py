"""What a schema drops from an object and fills in: unknown fields, defaults, nulls."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

from typing_extensions import override

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
        self._additional = self._additional_node(schema.get("additionalProperties"))
        items = schema.get("items")
        self._items = PruneNode(items) if isinstance(items, Mapping) else None

    @classmethod
    def _additional_node(cls, schema: object) -> Self | None:
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


_NO_OBJECT: Final[Mapping[str, Any]] = MappingProxyType({})


class _ChildDefault(NamedTuple):
    """The default of a list's items, or of a map's values.

    Args:
        replaces_null: whether a null counts as absent, because the schema does not allow null.
        default: the default value; None without one.
    """

    replaces_null: bool = False
    default: Any = None

    @property
    def fills_nulls(self) -> bool:
        """Whether a null becomes the default."""
        return self.replaces_null and self.default is not None


class DefaultNode:
    """What one schema node fills in; built only where defaults or nulls below it can matter.

    A null counts as absent where the schema does not allow null: it is replaced by the default, or
    dropped where there is none. Items of lists and values of maps are replaced only by a default;
    without one a null stays in a list.
    """

    __slots__ = (
        "_additional",
        "_additional_default",
        "_deep",
        "_defaults",
        "_items",
        "_items_default",
        "_nullable",
        "_properties",
    )

    def __init__(self, schema: Mapping[str, Any]) -> None:
        properties: Mapping[str, Any] = schema.get("properties") or {}
        kind = type(self)
        self._properties = {name: kind(child) for name, child in properties.items()}
        self._nullable = frozenset(
            name for name, child in properties.items() if child.get("nullable")
        )
        self._defaults = tuple(
            (name, child["default"], not child.get("nullable"))
            for name, child in properties.items()
            if child.get("default") is not None
        )
        self._additional, self._additional_default = self._child_node(
            schema.get("additionalProperties")
        )
        self._items, self._items_default = self._child_node(schema.get("items"))
        # The properties below which there can be anything to do; few of the many.
        self._deep = {name: node for name, node in self._properties.items() if not node.is_idle}

    @property
    def is_idle(self) -> bool:
        """Whether there is no default to fill in, and no null to drop, below this node."""
        if self._properties or self._additional is not None:
            return False
        return self._items is None or (self._items.is_idle and not self._items_default.fills_nulls)

    @classmethod
    def _child_node(cls, schema: object) -> tuple[Self | None, _ChildDefault]:
        """Return the node and the default of the schema of items or of a map's values."""
        if not isinstance(schema, Mapping):
            return None, _ChildDefault()
        return cls(schema), _ChildDefault(not schema.get("nullable"), schema.get("default"))

    def apply(self, value: Any, old: Mapping[str, Any] = _NO_OBJECT) -> None:
        """Fill in defaults in `value`, in place.

        Args:
            value: the value; there is nothing to do in a scalar.
            old: an object that was filled in before. Members that are the very same in it are
                spared a second look.
        """
        if type(value) is list:
            self._apply_items(value)
        if type(value) is not dict:
            return
        if self._defaults:
            self._fill_in(value)
        # Asked of all values at once, as it is rare.
        if None in value.values():
            self._drop_nulls(value)
        if self._additional is None:
            for name, child in self._deep.items():
                item = value.get(name)
                if type(item) in _CONTAINERS and old.get(name) is not item:
                    child.apply(item)
            return
        for name, item in value.items():
            if type(item) in _CONTAINERS and old.get(name) is not item:
                self._properties.get(name, self._additional).apply(item)

    def _fill_in(self, value: dict[str, Any]) -> None:
        """Set the properties of an object that are absent, or null where null is not allowed."""
        for name, default, replaces_null in self._defaults:
            if name not in value or (replaces_null and value[name] is None):
                value[name] = copy.deepcopy(default)

    def _apply_items(self, value: list[Any]) -> None:
        """Replace null items by the default, then fill in defaults below each item.

        The default of an item gets defaults below it, too. Without a default a null stays, and
        validation refuses it where null is not allowed.
        """
        items = self._items
        if items is None:
            return
        for index, item in enumerate(value):
            if item is None and self._items_default.fills_nulls:
                value[index] = copy.deepcopy(self._items_default.default)
            if type(value[index]) in _CONTAINERS:
                items.apply(value[index])

    def _drop_nulls(self, value: dict[str, Any]) -> None:
        """Drop each null that the schema does not allow; in a map, a default replaces it."""
        nulls = [name for name, item in value.items() if item is None]
        for name in filter(self._counts_as_absent, nulls):
            default = None if name in self._properties else self._additional_default.default
            if default is None:
                del value[name]
            else:
                value[name] = copy.deepcopy(default)

    def _counts_as_absent(self, name: str) -> bool:
        """Return whether a null under this name counts as absent: the schema allows no null."""
        if name in self._properties:
            return name not in self._nullable
        return self._additional is not None and self._additional_default.replaces_null


class AppliedDefaultNode(DefaultNode):
    """What one schema node fills in for server-side apply, which drops no null.

    An applied null stays where the schema has no default, and validation refuses it
    where null is not allowed.
    """

    __slots__ = ()

    @override
    def _drop_nulls(self, value: dict[str, Any]) -> None:
        default = self._additional_default.default
        if default is None:
            return
        for name, item in value.items():
            if item is None and name not in self._properties and self._counts_as_absent(name):
                value[name] = copy.deepcopy(default)
