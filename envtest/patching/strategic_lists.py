"""Directives and lists of strategic merge patch.

Lists are merged item by item. The result keeps the order of the patch, and among these items the
order of the items that only the server has.
"""

from collections.abc import Callable
from typing import Any

from controller.managedfields import gotext
from controller.managedfields.errors import (
    PatchError,
    create_bad_request,
    create_unclassified_error,
    create_unprocessable_error,
)
from envtest.patching.hints import Hint, PatchHints

PATCH = "$patch"
DELETE = "delete"
REPLACE = "replace"
MERGE = "merge"
RETAIN_KEYS = "$retainKeys"
ELEMENT_ORDER = "$setElementOrder"
DELETE_FROM = "$deleteFromPrimitiveList"

Map = dict[str, Any]


def parse_list_name(key: str, prefix: str) -> str:
    """Return the name of the list in a directive such as `$setElementOrder/finalizers`.

    Raises:
        PatchError: 400 if the key has no such name.
    """
    first, slash, name = key.partition("/")
    if first != prefix or not slash:
        list_kind = "primitive list" if prefix == DELETE_FROM else "setElementOrder list"
        raise create_bad_request(f"invalid patch format of {list_kind}")
    return name


def build_retain_keys_error() -> PatchError:
    """Return 400 for a `$retainKeys` that is no list, or lacks a member that the patch sets."""
    return create_bad_request("invalid patch format of retainKeys")


def build_type_error(expected: str, value: Any) -> PatchError:
    """Return 500 for a value that is not the map or list that it must be."""
    received = "%!s(<nil>)" if value is None else gotext.name_json_type(value)
    return create_unclassified_error(f"expected a {expected}, but received a {received}")


def build_directive_error(directive: Any, patch: Map) -> PatchError:
    """Return 500 for an unknown value of `$patch`."""
    printable = directive if isinstance(directive, str) else _format_go_error(directive)
    return create_unclassified_error(
        f"unknown patch type: {printable} in map: {gotext.encode_json(patch)}"
    )


def _format_go_error(value: Any) -> str:
    """Return a value that is no string as Go prints it with `%s`."""
    if value is None:
        return "%!s(<nil>)"
    return f"%!s({gotext.name_json_type(value)}={gotext.encode_json(value)})"


def build_merge_key_error(item: Map, key: str) -> PatchError:
    """Return 500 for an item without the merge key."""
    return create_unclassified_error(
        f"map: {gotext.encode_json(item)} does not contain declared merge key: {key}"
    )


def are_items_maps(*lists: list[Any]) -> bool:
    """Return whether the items of the given lists are maps; all must be of one type.

    Raises:
        PatchError: 422 if the items are lists, 500 if they differ in type or there are none.
    """
    item_types = [gotext.name_json_type(item) for items in lists for item in items]
    if not item_types:
        raise create_unclassified_error("no elements in any of the given slices")
    if item_types[0] == gotext.name_json_type([]):
        raise create_unprocessable_error()
    if len(set(item_types)) > 1:
        raise create_unclassified_error(
            f"list element types are not identical: {gotext.encode_json(list(lists))}"
        )
    return item_types[0] == gotext.name_json_type({})


def drop_directives(value: Any) -> tuple[Any, bool]:
    """Return a value without the maps in it that have a `$patch`, and whether to store it.

    The value itself is not stored if it is such a map.
    """
    if isinstance(value, dict):
        if PATCH in value:
            return None, False
        members = {name: drop_directives(inner) for name, inner in value.items()}
        return {name: inner for name, (inner, is_kept) in members.items() if is_kept}, True
    if isinstance(value, list):
        items = map(drop_directives, value)
        return [item for item, is_kept in items if is_kept], True
    return value, True


def drop_nulls(value: Any) -> Any:
    """Return a copy of a value without the nulls in its maps."""
    if isinstance(value, dict):
        return {name: drop_nulls(v) for name, v in value.items() if v is not None}
    return [drop_nulls(item) for item in value] if isinstance(value, list) else value


# The length up to which Go's stable sort is an insertion sort.
_SHORT = 20
Items = list[Any]
MergeMap = Callable[[Map, Map, PatchHints], Map]


def merge_list(original: Items, patch: Items, hint: Hint, merge_map: MergeMap) -> Items:
    """Return two lists merged item by item, or the patch's list if the strategy is not merge."""
    if hint.strategy != MERGE:
        return patch
    # `are_items_maps` refuses two empty lists, because they show no type of items.
    if not original and not patch:
        return original
    if are_items_maps(original, patch):
        if not hint.merge_key:
            raise create_unclassified_error(
                f"cannot merge lists without merge key for {hint.below.kind}"
            )
        original, patch = _apply_item_directives(original, patch, hint.merge_key)
        merged = _merge_maps(original, patch, hint=hint, merge_map=merge_map)
    else:
        merged = _drop_repeated([*original, *patch])
    key = hint.merge_key
    patch_index = _ItemIndex(patch, key)
    ordered_items = [item for item in merged if item in patch_index]
    other_items = [item for item in merged if item not in patch_index]
    return _arrange_with_live_items(
        ordered_items, other_items, order=patch, live=original, key=key
    )


def delete_items(original: Items, deleted: Items, hint: Hint, merge_map: MergeMap) -> Items:
    """Return a list without the items of another list.

    As in the real server, lists of maps are merged instead.
    """
    # `are_items_maps` refuses two empty lists, because they show no type of items.
    if not original and not deleted:
        return original
    if are_items_maps(original, deleted):
        return merge_list(
            original, deleted, hint=hint._replace(strategy=MERGE), merge_map=merge_map
        )
    deleted_index = _ItemIndex(deleted, "")
    return [item for item in original if item not in deleted_index]


def merge_in_order(
    original: Items | None, patch: Items | None, order: Items, hint: Hint, merge_map: MergeMap
) -> Items | None:
    """Return two lists merged and sorted by an order of items; None if neither list exists.

    Items that are not in the order stay where they are among the others.
    """
    key = hint.merge_key
    _refuse_wrong_order(patch or [], order, key)
    if original is None and patch is None:
        return None
    if patch is None:
        merged = original or []
    elif original is None:
        merged, _ = drop_directives(patch)
    else:
        merged = merge_list(original, patch, hint=hint, merge_map=merge_map)
    if key and merged:
        _refuse_missing_keys(merged, order, key)
    order_index = _ItemIndex(order, key)
    ordered_items = [item for item in merged if item in order_index]
    other_items = [item for item in merged if item not in order_index]
    # Called for its errors, which the real server reports only now.
    are_items_maps(original or [], patch or [])
    return _arrange_with_live_items(
        ordered_items, other_items, order=order, live=original or [], key=key
    )


def _refuse_missing_keys(merged: Items, order: Items, key: str) -> None:
    """Refuse items without the merge key, in the list or in its order.

    Raises:
        PatchError: 500.
    """
    for item in merged:
        _read_key(item, key)
    for index, item in enumerate(order):
        if not isinstance(item, dict):
            raise create_unclassified_error(f"value for key {index} is not a map")
        _read_key(item, key)


def _refuse_wrong_order(patch: Items, order: Items, key: str) -> None:
    """Refuse a patch whose list is not sorted by its own `$setElementOrder`.

    An empty list, or an empty order, fits everything.

    Raises:
        PatchError: 500.
    """
    if not patch or not order:
        return
    # Each search continues after the previous match, so the matches have the order of `order`.
    following_items = iter(order)
    for item in patch:
        if key and not isinstance(item, dict):
            raise build_type_error("map[string]interface {}", item)
        # A directive is no item of the result, so it has no place in the order.
        if isinstance(item, dict) and PATCH in item:
            continue
        identity = _build_identity(_read_key(item, key))
        for ordered_item in following_items:
            if identity == _build_identity(_read_key(ordered_item, key)):
                break
        else:
            raise create_unclassified_error(
                f"The order in patch list:\n{gotext.encode_json(patch)}\n doesn't match "
                f"{ELEMENT_ORDER} list:\n{gotext.encode_json(order)}\n"
            )


def _read_key(item: Any, key: str) -> Any:
    """Return the value of the merge key in an item; without a key, the item itself."""
    if not key:
        return item
    if not isinstance(item, dict):
        raise build_type_error("map[string]interface {}", item)
    if key not in item:
        raise build_merge_key_error(item, key)
    return item[key]


def _build_identity(value: Any) -> str:
    """Return a string that is equal for values that are equal in Go."""
    return f"{gotext.name_json_type(value)} {gotext.encode_json(value)}"


class _ItemIndex:
    """The positions of the items of a list, by their identity."""

    def __init__(self, items: Items, key: str) -> None:
        """Index a list; `key` is the merge key, empty for items that are scalars."""
        self._key = key
        self._positions: dict[str, int] = {}
        for position, item in enumerate(items):
            # An item without the merge key has no identity.
            if not key or (isinstance(item, dict) and key in item):
                self._positions.setdefault(_build_identity(_read_key(item, key)), position)

    def __contains__(self, item: Any) -> bool:
        """Return whether the list has an item of the same identity."""
        return self.get_position(item) >= 0

    def get_position(self, item: Any) -> int:
        """Return the position of the item of the same identity; -1 if there is none."""
        return self._positions.get(_build_identity(_read_key(item, self._key)), -1)


def _drop_repeated(items: Items) -> Items:
    """Return the items without repetitions; of equal items the last one stays."""
    last_first = {_build_identity(item): item for item in reversed(items)}
    return list(last_first.values())[::-1]


def _apply_item_directives(original: Items, patch: Items, key: str) -> tuple[Items, Items]:
    """Apply the directives among the items of a patch.

    `delete` removes an item of the original, and `replace` all of them.

    Returns:
        The two lists that remain to be merged.
    """
    plain_items: Items = []
    is_replaced = False
    for item in patch:
        directive = item.get(PATCH)
        if PATCH not in item:
            plain_items.append(item)
        elif directive == DELETE:
            deleted_identity = _build_identity(_read_key(item, key))
            original = [
                entry
                for entry in original
                if key not in entry or _build_identity(entry[key]) != deleted_identity
            ]
        elif directive == REPLACE:
            is_replaced = True
        elif directive == MERGE:
            raise create_unclassified_error("merging lists cannot yet be specified in the patch")
        else:
            raise build_directive_error(directive, item)
    return (plain_items, []) if is_replaced else (original, plain_items)


def _merge_maps(original: Items, patch: Items, hint: Hint, merge_map: MergeMap) -> Items:
    """Merge each map of a patch into the map with the same merge key, or else append it."""
    merged = list(original)
    positions: dict[str, int] = {}
    for position, entry in enumerate(merged):
        if hint.merge_key in entry:
            positions.setdefault(_build_identity(entry[hint.merge_key]), position)
    for item in patch:
        identity = _build_identity(_read_key(item, hint.merge_key))
        position = positions.setdefault(identity, len(merged))
        if position < len(merged):
            merged[position] = merge_map(merged[position], item, hint.below)
        else:
            merged.append(item)
    return merged


def _arrange_with_live_items(
    ordered_items: Items, other_items: Items, order: Items, live: Items, key: str
) -> Items:
    """Return the items of a patch in its order; the live list places all others among them.

    Args:
        ordered_items: the merged items that the order has.
        other_items: the merged items that only the server has.
        order: the order of the patch.
        live: the stored list.
        key: the merge key.
    """
    order_index, live_index = _ItemIndex(order, key), _ItemIndex(live, key)
    others = _arrange_items(other_items, live_index)
    ordered = _arrange_items(ordered_items, order_index)
    out: Items = []
    while others and ordered:
        # An item of the server comes first if it precedes the next ordered item in the live list.
        other_position, ordered_position = (
            live_index.get_position(others[0]),
            live_index.get_position(ordered[0]),
        )
        out.append((others if 0 <= other_position < ordered_position else ordered).pop(0))
    return out + others + ordered


def _arrange_items(items: Items, order: _ItemIndex) -> Items:
    """Return items in the order of a list that normally has all of them.

    If the list lacks some, the real server sorts by an inconsistent comparison, so the result
    depends on its algorithm. For short lists that is insertion sort, which is repeated here. For
    longer lists no client can rely on an order.
    """
    positions = [order.get_position(item) for item in items]
    if -1 not in positions or len(items) > _SHORT:
        return [item for _, item in sorted(zip(positions, items, strict=True), key=lambda p: p[0])]
    ranked = list(zip(positions, items, strict=True))
    for end in range(1, len(ranked)):
        index = end
        while index and _moves_before(ranked[index][0], ranked[index - 1][0]):
            ranked[index - 1 : index + 1] = ranked[index], ranked[index - 1]
            index -= 1
    return [item for _, item in ranked]


def _moves_before(position: int, other: int) -> bool:
    """Return whether an item moves before its neighbour; always if either has no position."""
    return position < other if position >= 0 and other >= 0 else True
