"""Strategic merge patch: a merge patch in which some lists are merged item by item.

It exists for built-in kinds only; what to merge by which key stands in their Go types. Here are
the maps, `strategic_lists` has the lists.
"""

from typing import Any

from controller.managedfields import gotext
from controller.managedfields.errors import bad_request
from envtest.patching import strategic_lists
from envtest.patching.hints import PatchHints
from envtest.patching.strategic_lists import DELETE_FROM, ELEMENT_ORDER, PATCH, REPLACE, Map


def strategic_merge(doc: Any, patch: Any, hints: PatchHints) -> Any:
    """Return the document with the patch merged in; parts of both are shared, not copied.

    Raises:
        PatchError: 400, 422 or 500 as the real server has it, mostly for misused directives.
    """
    if patch is None:
        return doc
    if not isinstance(patch, dict):
        raise bad_request(
            f"json: cannot unmarshal {gotext.json_kind(patch)} into Go value of type "
            "map[string]interface {}"
        )
    return merge_map(doc if isinstance(doc, dict) else {}, patch, hints)


def merge_map(original: Map, patch: Map, hints: PatchHints) -> Map:
    """Merge a map into another."""
    if PATCH in patch:
        return _follow_directive(patch)
    merged, rest = dict(original), dict(patch)
    _retain_keys(merged, rest)
    _apply_orders(merged, rest, hints)
    for key, value in rest.items():
        if key.startswith(DELETE_FROM):
            _delete_from(
                merged, strategic_lists.list_name(key, DELETE_FROM), value=value, hints=hints
            )
        elif value is None:
            merged.pop(key, None)
        else:
            _merge_member(merged, key, value=value, hints=hints)
    return merged


def _follow_directive(patch: Map) -> Map:
    """Return the map that a directive puts in place of one; empty if it deletes the map."""
    directive = patch[PATCH]
    if directive == REPLACE:
        return {key: value for key, value in patch.items() if key != PATCH}
    if directive == strategic_lists.DELETE:
        return {}
    raise strategic_lists.unknown_directive(directive, patch)


def _retain_keys(merged: Map, rest: Map) -> None:
    """Drop the members that are not to be retained; the patch may set only retained ones."""
    if strategic_lists.RETAIN_KEYS not in rest:
        return
    keys = rest.pop(strategic_lists.RETAIN_KEYS)
    if not isinstance(keys, list):
        raise strategic_lists.bad_retain_keys()
    for key, value in rest.items():
        about_list = key.startswith((DELETE_FROM, ELEMENT_ORDER))
        if value is not None and not about_list and key not in keys:
            raise strategic_lists.bad_retain_keys()
    for key in [key for key in merged if key not in keys]:
        del merged[key]


def _apply_orders(merged: Map, rest: Map, hints: PatchHints) -> None:
    """Merge the lists that the patch gives an order for, and put them in that order."""
    for key in [key for key in rest if key.startswith(ELEMENT_ORDER)]:
        order = rest.pop(key)
        if not isinstance(order, list):
            raise strategic_lists.bad_type("[]interface {}", order)
        name = strategic_lists.list_name(key, ELEMENT_ORDER)
        for holder in (merged, rest):
            if name in holder and not isinstance(holder[name], list):
                raise strategic_lists.bad_type("[]interface {}", holder[name])
        hint = hints.items(name)
        result = strategic_lists.merge_ordered(
            merged.get(name), rest.get(name), order=order, hint=hint, merge_map=merge_map
        )
        if result is not None:
            merged[name] = result
            rest.pop(name, None)


def _delete_from(merged: Map, name: str, value: Any, hints: PatchHints) -> None:
    """Take scalars out of a list."""
    if value is None:
        merged.pop(name, None)
    elif isinstance(value, list) and isinstance(merged.get(name), list):
        merged[name] = strategic_lists.delete_from(
            merged[name], value, hint=hints.items(name), merge_map=merge_map
        )


def _merge_member(merged: Map, key: str, value: Any, hints: PatchHints) -> None:
    """Merge a value that is not null into a member."""
    here = merged.get(key)
    if isinstance(here, dict) and isinstance(value, dict):
        hint = hints.member(key)
        whole = hint.strategy == REPLACE
        merged[key] = value if whole else merge_map(here, value, hint.below)
    elif isinstance(here, list) and isinstance(value, list):
        merged[key] = strategic_lists.merge_list(
            here, value, hint=hints.items(key), merge_map=merge_map
        )
    else:
        new, keep = strategic_lists.without_directives(strategic_lists.without_nulls(value))
        if keep:
            merged[key] = new
        else:
            merged.pop(key, None)
