"""Strategic merge patch: a merge patch that merges some lists item by item.

Only built-in kinds support it; `hints` has their merge strategies. This module merges maps, and
`strategic_lists` merges lists.
"""

from typing import Any

from controller.managedfields import gotext
from controller.managedfields.errors import create_bad_request
from envtest.patching import strategic_lists
from envtest.patching.hints import PatchHints
from envtest.patching.strategic_lists import DELETE_FROM, ELEMENT_ORDER, PATCH, REPLACE, Map


def apply_strategic_patch(doc: Any, patch: Any, hints: PatchHints) -> Any:
    """Return the document with the patch merged in; it shares parts with both.

    Raises:
        PatchError: 400, 422 or 500, as the real server answers, mostly for misused directives.
    """
    if patch is None:
        return doc
    if not isinstance(patch, dict):
        raise create_bad_request(
            f"json: cannot unmarshal {gotext.name_json_type(patch)} into Go value of type "
            "map[string]interface {}"
        )
    return merge_map(doc if isinstance(doc, dict) else {}, patch, hints)


def merge_map(original: Map, patch: Map, hints: PatchHints) -> Map:
    """Return a map with a map of the patch merged in.

    Directives are handled before the other members: first `$patch`, which replaces all other
    handling, then `$retainKeys`, then `$setElementOrder`.
    """
    if PATCH in patch:
        return _apply_directive(patch)
    merged, rest = dict(original), dict(patch)
    _retain_keys(merged, rest)
    _apply_orders(merged, rest, hints)
    for key, value in rest.items():
        if key.startswith(DELETE_FROM):
            _delete_list_items(
                merged, strategic_lists.parse_list_name(key, DELETE_FROM), value=value, hints=hints
            )
        elif value is None:
            merged.pop(key, None)
        else:
            _merge_member(merged, key, value=value, hints=hints)
    return merged


def _apply_directive(patch: Map) -> Map:
    """Return the map that results from `$patch`: its other members, or empty for delete.

    Raises:
        PatchError: 500 for an unknown directive.
    """
    directive = patch[PATCH]
    if directive == REPLACE:
        return {key: value for key, value in patch.items() if key != PATCH}
    if directive == strategic_lists.DELETE:
        return {}
    raise strategic_lists.build_directive_error(directive, patch)


def _retain_keys(merged: Map, rest: Map) -> None:
    """Delete all members that `$retainKeys` does not name, in place.

    Raises:
        PatchError: 400 if it is no list, or if the patch sets a member that it does not name.
    """
    if strategic_lists.RETAIN_KEYS not in rest:
        return
    keys = rest.pop(strategic_lists.RETAIN_KEYS)
    if not isinstance(keys, list):
        raise strategic_lists.build_retain_keys_error()
    for key, value in rest.items():
        is_about_list = key.startswith((DELETE_FROM, ELEMENT_ORDER))
        if value is not None and not is_about_list and key not in keys:
            raise strategic_lists.build_retain_keys_error()
    for key in [key for key in merged if key not in keys]:
        del merged[key]


def _apply_orders(merged: Map, rest: Map, hints: PatchHints) -> None:
    """Merge each list with a `$setElementOrder` and sort it by that order, in place.

    The directives and the merged lists are removed from `rest`.
    """
    for key in [key for key in rest if key.startswith(ELEMENT_ORDER)]:
        order = rest.pop(key)
        if not isinstance(order, list):
            raise strategic_lists.build_type_error("[]interface {}", order)
        name = strategic_lists.parse_list_name(key, ELEMENT_ORDER)
        for container in (merged, rest):
            if name in container and not isinstance(container[name], list):
                raise strategic_lists.build_type_error("[]interface {}", container[name])
        hint = hints.get_list_hint(name)
        result = strategic_lists.merge_in_order(
            merged.get(name), rest.get(name), order=order, hint=hint, merge_map=merge_map
        )
        if result is not None:
            merged[name] = result
            rest.pop(name, None)


def _delete_list_items(merged: Map, name: str, value: Any, hints: PatchHints) -> None:
    """Remove scalars from a list, in place, as `$deleteFromPrimitiveList` says.

    A null removes the whole list. If either side is no list, nothing changes.
    """
    if value is None:
        merged.pop(name, None)
    elif isinstance(value, list) and isinstance(merged.get(name), list):
        merged[name] = strategic_lists.delete_items(
            merged[name], value, hint=hints.get_list_hint(name), merge_map=merge_map
        )


def _merge_member(merged: Map, key: str, value: Any, hints: PatchHints) -> None:
    """Merge a value that is not null into a member, in place.

    A map is merged into a map and a list into a list. Anything else replaces the member, and a map
    with a `$patch` removes it.
    """
    current = merged.get(key)
    if isinstance(current, dict) and isinstance(value, dict):
        hint = hints.get_map_hint(key)
        is_replaced = hint.strategy == REPLACE
        merged[key] = value if is_replaced else merge_map(current, value, hint.below)
    elif isinstance(current, list) and isinstance(value, list):
        merged[key] = strategic_lists.merge_list(
            current, value, hint=hints.get_list_hint(key), merge_map=merge_map
        )
    else:
        new, is_kept = strategic_lists.drop_directives(strategic_lists.drop_nulls(value))
        if is_kept:
            merged[key] = new
        else:
            merged.pop(key, None)
