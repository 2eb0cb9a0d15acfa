"""Which fields of a stored object differ from those that a field manager applies.

The comparison needs no schema. `managedFields` of the stored object says which fields and list
entries the manager owns, as a tree whose names are path elements: `f:replicas` is a field,
`k:{"name":"web"}` an entry of a list that is a map, `v:"wet"` one of a list that is a set, and
`.` the field itself (https://kubernetes.io/docs/reference/using-api/server-side-apply/). A field
that is neither desired nor in the tree belongs to others, or is a default of the server: it is
left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from controller.appliedvalues import digest_values

Json = Mapping[str, Any]

_ABSENT = object()
"""Stands for a field that an object does not have; equal to no JSON value."""
_IDENTITY = ("name", "namespace")
"""Fields of the metadata that say which object it is; no manager owns them."""


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field, or an entry of a list, that an apply of the desired object is to change.

    Args:
        paths: the paths to report, for example `spec.replicas`. There is more than one if several
            fields of a value with one owner differ.
        desired: the desired value; _ABSENT if the manager owns the field and is to give it up.
        stored: the stored value; _ABSENT if the object does not have the field.
    """

    paths: tuple[str, ...]
    desired: object = _ABSENT
    stored: object = _ABSENT

    @property
    def digest(self) -> bytes:
        """The digest of path and values, for AppliedValues; empty for a field to give up.

        An apply always gives up a field that the body lacks, so such a difference never stays
        after it. If the difference were remembered, the field could stay for ever.
        """
        if self.desired is _ABSENT:
            return b""
        stored = () if self.stored is _ABSENT else (self.stored,)
        return digest_values(self.paths[0], self.desired, stored)


def find_differences(
    desired: Json, stored: Json, manager: str, api_version: str
) -> Iterator[FieldDifference]:
    """Yield the fields in which a stored object differs from what a manager applies.

    Args:
        desired: all fields that the manager is to own.
        stored: the object as the server has it, with `managedFields`.
        manager: the field manager.
        api_version: of the apply; the manager owns other fields in other versions.
    """
    # No manager owns the fields that say which object it is.
    meta = {name: value for name, value in desired["metadata"].items() if name not in _IDENTITY}
    fields = {
        name: value
        for name, value in desired.items()
        if name not in {"apiVersion", "kind", "metadata"}
    }
    if meta:
        fields["metadata"] = meta
    yield from _compare_fields(
        fields, stored, owned=_find_owned_fields(stored, manager, api_version), path=""
    )


def _find_owned_fields(stored: Json, manager: str, api_version: str) -> Json:
    """Return the tree of fields that the manager owns by its applies; empty if it owns none."""
    for entry in stored["metadata"].get("managedFields") or ():
        if (
            entry.get("manager") == manager
            and entry.get("operation") == "Apply"
            and entry.get("apiVersion") == api_version
            and not entry.get("subresource")
        ):
            owned: Json = entry.get("fieldsV1") or {}
            return owned
    return {}


def _compare_values(
    desired: object, stored: object, owned: Json, path: str
) -> Iterator[FieldDifference]:
    """Compare a value that the manager owns: part by part if it owns parts, else as a whole.

    Without owned parts there are two cases. The value has one owner, as an atomic list has, and is
    compared as a whole. Or the desired value is an empty map or list: the manager owns the map or
    list, and not the parts that others put into it.

    Args:
        desired: the desired value.
        stored: the stored value; may be _ABSENT.
        owned: the tree of the parts that the manager owns in the value.
        path: the path of the value.
    """
    has_parts = any(name != "." for name in owned)
    if isinstance(desired, dict) and isinstance(stored, dict) and (has_parts or not desired):
        yield from _compare_fields(desired, stored, owned=owned, path=path)
    elif isinstance(desired, list) and isinstance(stored, list) and (has_parts or not desired):
        yield from _compare_entries(desired, stored, owned=owned, path=path)
    elif desired != stored:
        yield FieldDifference(_list_unequal_paths(desired, stored, path), desired, stored)


def _list_unequal_paths(desired: object, stored: object, path: str) -> tuple[str, ...]:
    """Return the paths of the desired fields in which two maps differ.

    Return `path` alone for other values, and if the stored map only has more fields.
    """
    if not isinstance(desired, dict) or not isinstance(stored, dict):
        return (path,)
    names = [name for name in desired if desired[name] != stored.get(name, _ABSENT)]
    return tuple(f"{path}.{name}" for name in names) or (path,)


def _compare_fields(
    desired: Json, stored: Json, owned: Json, path: str
) -> Iterator[FieldDifference]:
    """Compare the fields of a map; the arguments are those of `_compare_values`."""
    for name, value in desired.items():
        field_path = f"{path}.{name}" if path else name
        stored_value = stored.get(name, _ABSENT)
        owned_parts = owned.get(f"f:{name}")
        if owned_parts is None:  # never applied, or another manager has written it since
            paths = _list_unequal_paths(value, stored_value, field_path)
            yield FieldDifference(paths, value, stored_value)
        else:
            yield from _compare_values(value, stored_value, owned=owned_parts, path=field_path)
    for element in owned:
        name = element.removeprefix("f:")
        if element != "." and name not in desired:  # the manager applied the field earlier
            yield FieldDifference((f"{path}.{name}" if path else name,))


def _compare_entries(
    desired: Sequence[Any], stored: Sequence[Any], owned: Json, path: str
) -> Iterator[FieldDifference]:
    """Compare the entries of a list that is a set or a map, in any order.

    The arguments are those of `_compare_values`.
    """
    # An element without its first two characters, `k:` or `v:`, is JSON.
    elements = {
        element: msgspec.json.decode(element[2:].encode()) for element in owned if element != "."
    }
    element_by_index = _pair_entries(desired, elements)
    for index, entry in enumerate(desired):
        element = element_by_index.get(index)
        if element is None:  # never applied, or another manager has written it since
            yield FieldDifference((f"{path}[{_describe_entry(entry)}]",), entry)
            continue
        stored_entry = next(
            (
                candidate
                for candidate in stored
                if _is_named_by(element, elements[element], candidate)
            ),
            _ABSENT,
        )
        entry_path = f"{path}[{element[2:]}]"
        yield from _compare_values(entry, stored_entry, owned=owned[element], path=entry_path)
    # Elements that name no desired entry: the manager applied these entries earlier.
    for element in elements.keys() - set(element_by_index.values()):
        yield FieldDifference((f"{path}[{element[2:]}]",))


def _pair_entries(desired: Sequence[Any], elements: Json) -> dict[int, str]:
    """Return the path element that names each desired entry, by the index of the entry.

    An entry that no element names is left out, and an element names one entry at most.

    Entries with all their key fields are paired first. A port without `protocol` would otherwise
    get the element of the SCTP port of the same number.

    Args:
        desired: the entries of the list.
        elements: by path element, the key fields or the value of each owned entry.
    """
    element_by_index: dict[int, str] = {}
    unpaired = dict(elements)
    for needs_all_keys in (True, False):
        for index, entry in enumerate(desired):
            if index in element_by_index:
                continue  # paired in the first round
            for element, keys in unpaired.items():
                if needs_all_keys and isinstance(entry, dict) and not keys.keys() <= entry.keys():
                    continue  # left for the second round
                if _is_named_by(element, keys, entry):
                    element_by_index[index] = element
                    del unpaired[element]
                    break
    return element_by_index


def _is_named_by(element: str, keys: Any, entry: Any) -> bool:
    """Return whether a path element names an entry of a list.

    A key field that the entry leaves out has the schema's default, as `protocol` of a port has.

    Args:
        element: the path element, `k:` or `v:` and JSON.
        keys: the decoded JSON of the element: the key fields, or the value of a set.
        entry: the entry of the list, desired or stored.
    """
    if element.startswith("v:"):
        return bool(entry == keys)
    return isinstance(entry, dict) and all(
        entry.get(name, value) == value for name, value in keys.items()
    )


def _describe_entry(entry: object) -> str:
    """Return a short text for an entry of a list, for a message.

    For a dictionary that is its name, or the first 60 characters of its JSON if it has no name;
    for another entry, the entry itself.
    """
    name = entry.get("name") if isinstance(entry, dict) else entry
    return str(name) if name is not None else msgspec.json.encode(entry).decode()[:60]
