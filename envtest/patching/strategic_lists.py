"""Directives and lists of strategic merge patch.

Lists are merged item by item, in an order that suits both sides.
"""

from collections.abc import Callable
from typing import Any

from controller.managedfields import gotext
from controller.managedfields.errors import PatchError, bad_request, internal, unprocessable
from envtest.patching.hints import Hint, PatchHints

PATCH = "$patch"
DELETE = "delete"
REPLACE = "replace"
MERGE = "merge"
RETAIN_KEYS = "$retainKeys"
ELEMENT_ORDER = "$setElementOrder"
DELETE_FROM = "$deleteFromPrimitiveList"

Map = dict[str, Any]


def list_name(key: str, prefix: str) -> str:
    """Return the list that a directive such as `$setElementOrder/finalizers` is about.

    Raises:
        PatchError: 400, there is none in the key.
    """
    first, slash, name = key.partition("/")
    if first != prefix or not slash:
        list_kind = "primitive list" if prefix == DELETE_FROM else "setElementOrder list"
        raise bad_request(f"invalid patch format of {list_kind}")
    return name


def bad_retain_keys() -> PatchError:
    """Return the refusal of retained keys that are no list, or do not hold what the patch has."""
    return bad_request("invalid patch format of retainKeys")


def bad_type(expected: str, value: Any) -> PatchError:
    """Return the refusal of a value that is no map or list where one must be."""
    received = "%!s(<nil>)" if value is None else gotext.json_kind(value)
    return internal(f"expected a {expected}, but received a {received}")


def unknown_directive(directive: Any, patch: Map) -> PatchError:
    """Return the refusal of a value of `$patch`."""
    printable = directive if isinstance(directive, str) else _go_format_error(directive)
    return internal(f"unknown patch type: {printable} in map: {gotext.json_text(patch)}")


def _go_format_error(value: Any) -> str:
    """Return Go's text for a value that is printed as a string and is none."""
    if value is None:
        return "%!s(<nil>)"
    return f"%!s({gotext.json_kind(value)}={gotext.json_text(value)})"


def no_merge_key(item: Map, key: str) -> PatchError:
    """Return the refusal of an item that lacks the field by which items are the same."""
    return internal(f"map: {gotext.json_text(item)} does not contain declared merge key: {key}")


def check_items(*lists: list[Any]) -> bool:
    """Return whether the items of lists that are to be merged are maps.

    Raises:
        PatchError: 422 for lists in lists, 500 for a mixture of types or no items at all.
    """
    kinds = [gotext.json_kind(item) for items in lists for item in items]
    if not kinds:
        raise internal("no elements in any of the given slices")
    if kinds[0] == gotext.json_kind([]):
        raise unprocessable()
    if len(set(kinds)) > 1:
        raise internal(f"list element types are not identical: {gotext.json_text(list(lists))}")
    return kinds[0] == gotext.json_kind({})


def without_directives(value: Any) -> tuple[Any, bool]:
    """Return a value to be stored as it is, and whether it is to be stored at all."""
    if isinstance(value, dict):
        if PATCH in value:
            return None, False
        kept = {name: without_directives(inner) for name, inner in value.items()}
        return {name: inner for name, (inner, keep) in kept.items() if keep}, True
    if isinstance(value, list):
        items = map(without_directives, value)
        return [item for item, keep in items if keep], True
    return value, True


def without_nulls(value: Any) -> Any:
    """Return a value without the nulls in its maps."""
    if isinstance(value, dict):
        return {name: without_nulls(v) for name, v in value.items() if v is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


# The length up to which Go's stable sort is an insertion sort.
_SHORT = 20
Items = list[Any]
MergeMap = Callable[[Map, Map, PatchHints], Map]


def merge_list(original: Items, patch: Items, hint: Hint, merge_map: MergeMap) -> Items:
    """Merge two lists as their field says: item by item, or the patch as a whole."""
    if hint.strategy != MERGE:
        return patch
    if not original and not patch:
        return original
    if check_items(original, patch):
        if not hint.merge_key:
            raise internal(f"cannot merge lists without merge key for {hint.below.kind}")
        original, patch = _special_items(original, patch, hint.merge_key)
        merged = _merge_maps(original, patch, hint=hint, merge_map=merge_map)
    else:
        merged = _unique([*original, *patch])
    key = hint.merge_key
    known = _Known(patch, key)
    theirs = [item for item in merged if item in known]
    others = [item for item in merged if item not in known]
    return _in_order(theirs, others, order=patch, live=original, key=key)


def delete_from(original: Items, gone: Items, hint: Hint, merge_map: MergeMap) -> Items:
    """Take the items of one list out of another."""
    if not original and not gone:
        return original
    if check_items(original, gone):
        return merge_list(original, gone, hint=hint._replace(strategy=MERGE), merge_map=merge_map)
    known = _Known(gone, "")
    return [item for item in original if item not in known]


def merge_ordered(
    original: Items | None, patch: Items | None, order: Items, hint: Hint, merge_map: MergeMap
) -> Items | None:
    """Merge two lists and put the items in a given order; None if there is neither list.

    Items that only the server has keep their places among the others.
    """
    key = hint.merge_key
    _check_order(patch or [], order, key)
    if original is None and patch is None:
        return None
    if patch is None:
        merged = original or []
    elif original is None:
        merged, _ = without_directives(patch)
    else:
        merged = merge_list(original, patch, hint=hint, merge_map=merge_map)
    if key and merged:
        _check_keys(merged, order, key)
    known = _Known(order, key)
    theirs = [item for item in merged if item in known]
    others = [item for item in merged if item not in known]
    check_items(original or [], patch or [])
    return _in_order(theirs, others, order=order, live=original or [], key=key)


def _check_keys(merged: Items, order: Items, key: str) -> None:
    """Refuse items without a merge key, in the list or in the order for it."""
    for item in merged:
        _key_of(item, key)
    for place, item in enumerate(order):
        if not isinstance(item, dict):
            raise internal(f"value for key {place} is not a map")
        _key_of(item, key)


def _check_order(patch: Items, order: Items, key: str) -> None:
    """Refuse a patch whose items do not come in the order that it gives itself."""
    if not patch or not order:
        return
    places = iter(order)
    for item in patch:
        if key and not isinstance(item, dict):
            raise bad_type("map[string]interface {}", item)
        if isinstance(item, dict) and PATCH in item:
            continue
        for place in places:
            if _identity(_key_of(item, key)) == _identity(_key_of(place, key)):
                break
        else:
            raise internal(
                f"The order in patch list:\n{gotext.json_text(patch)}\n doesn't match "
                f"{ELEMENT_ORDER} list:\n{gotext.json_text(order)}\n"
            )


def _key_of(item: Any, key: str) -> Any:
    """Return the value by which items are the same: that of the merge key, or the item itself."""
    if not key:
        return item
    if not isinstance(item, dict):
        raise bad_type("map[string]interface {}", item)
    if key not in item:
        raise no_merge_key(item, key)
    return item[key]


def _identity(value: Any) -> str:
    """Return a text that is the same for values that Go takes for the same."""
    return f"{gotext.json_kind(value)} {gotext.json_text(value)}"


class _Known:
    """The items of a list, to be asked whether others are the same."""

    def __init__(self, items: Items, key: str) -> None:
        """Take the list, and the merge key if its items are maps."""
        self._key = key
        self._places: dict[str, int] = {}
        for place, item in enumerate(items):
            if not key or (isinstance(item, dict) and key in item):
                self._places.setdefault(_identity(_key_of(item, key)), place)

    def __contains__(self, item: Any) -> bool:
        """Return whether the list has such an item."""
        return self.place(item) >= 0

    def place(self, item: Any) -> int:
        """Return where the list has such an item, -1 if it has none."""
        return self._places.get(_identity(_key_of(item, self._key)), -1)


def _unique(items: Items) -> Items:
    """Return the items without repetitions."""
    return list({_identity(item): item for item in reversed(items)}.values())[::-1]


def _special_items(original: Items, patch: Items, key: str) -> tuple[Items, Items]:
    """Carry out the directives among the items of a patch; return what is left to merge."""
    plain: Items = []
    replace = False
    for item in patch:
        directive = item.get(PATCH)
        if PATCH not in item:
            plain.append(item)
        elif directive == DELETE:
            gone = _identity(_key_of(item, key))
            original = [
                entry for entry in original if key not in entry or _identity(entry[key]) != gone
            ]
        elif directive == REPLACE:
            replace = True
        elif directive == MERGE:
            raise internal("merging lists cannot yet be specified in the patch")
        else:
            raise unknown_directive(directive, item)
    return (plain, []) if replace else (original, plain)


def _merge_maps(original: Items, patch: Items, hint: Hint, merge_map: MergeMap) -> Items:
    """Merge maps into those with the same merge key, append the rest."""
    merged = list(original)
    places: dict[str, int] = {}
    for place, entry in enumerate(merged):
        if hint.merge_key in entry:
            places.setdefault(_identity(entry[hint.merge_key]), place)
    for item in patch:
        identity = _identity(_key_of(item, hint.merge_key))
        place = places.setdefault(identity, len(merged))
        if place < len(merged):
            merged[place] = merge_map(merged[place], item, hint.below)
        else:
            merged.append(item)
    return merged


def _in_order(theirs: Items, others: Items, order: Items, live: Items, key: str) -> Items:
    """Put the items of a patch in its order, and the others among them as they stand now."""
    by_order, by_live = _Known(order, key), _Known(live, key)
    other_items, patch_items = _arrange_items(others, by_live), _arrange_items(theirs, by_order)
    out: Items = []
    while other_items and patch_items:
        here, there = by_live.place(other_items[0]), by_live.place(patch_items[0])
        out.append((other_items if 0 <= here < there else patch_items).pop(0))
    return out + other_items + patch_items


def _arrange_items(items: Items, order: _Known) -> Items:
    """Put items in the order of a list that should hold them all.

    It does not if the patch gives an empty order for new items. The real server then sorts by a
    comparison that contradicts itself, so the outcome is that of its sort: insertion, for short
    lists. (For longer ones no client can rely on an order.)
    """
    places = [order.place(item) for item in items]
    if -1 not in places or len(items) > _SHORT:
        return [item for _, item in sorted(zip(places, items, strict=True), key=lambda p: p[0])]
    ranked = list(zip(places, items, strict=True))
    for end in range(1, len(ranked)):
        here = end
        while here and _comes_first(ranked[here][0], ranked[here - 1][0]):
            ranked[here - 1 : here + 1] = ranked[here], ranked[here - 1]
            here -= 1
    return [item for _, item in ranked]


def _comes_first(place: int, other: int) -> bool:
    """Return whether an item moves before its neighbour: also if either has no place."""
    return place < other if place >= 0 and other >= 0 else True
