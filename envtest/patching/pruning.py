"""Taking out of a merged object what its applier does not apply any more.

A field goes if the applier applied it last time, does not now, and nobody else owns it.
"""

from typing import Any

from envtest.patching import fieldset
from envtest.patching.compare import claimed
from envtest.patching.entries import Managed, Owned
from envtest.patching.fieldset import Fields
from envtest.patching.model import Node
from envtest.patching.removing import remove, with_named
from envtest.patching.tracking import Write


def prune(write: Write, merged: dict[str, Any], managed: Managed, last: Owned) -> dict[str, Any]:
    """Return the merged object without what the applier has dropped.

    Args:
        write: the request and the versions of the type.
        merged: the live object with the applied one merged in.
        managed: who owns what, the applier with the new claims.
        last: what the applier owned before.
    """
    model = write.model_of(last.api_version)
    if model is None:
        return merged
    root = model.root
    whole = write.converted(merged, last.api_version)
    pruned = remove(root, whole, with_named(root, last.fields))
    pruned = _with_owned(write, whole, pruned, managed, last.api_version)
    pruned = write.converted(pruned, last.api_version)
    left = fieldset.difference(_named(root, whole), _named(root, pruned))
    dropped = fieldset.intersection(left, with_named(root, last.fields))
    return write.converted(remove(root, whole, dropped), write.api_version)


def _with_owned(
    write: Write, whole: dict[str, Any], pruned: dict[str, Any], managed: Managed, first: str
) -> dict[str, Any]:
    """Return the pruned object with what somebody owns put back, version by version.

    The version that was pruned in comes first, as conversion to others may need what it brings.
    """
    owned: dict[str, Fields] = {first: {}}
    for entry in managed.values():
        owned[entry.api_version] = fieldset.union(owned.get(entry.api_version, {}), entry.fields)
    for version, fields in owned.items():
        model = write.model_of(version)
        if model is None or not fields:
            continue
        root = model.root
        whole, pruned = write.converted(whole, version), write.converted(pruned, version)
        kept = fieldset.union(_named(root, pruned), with_named(root, fields))
        pruned = remove(root, whole, fieldset.difference(_named(root, whole), kept))
    return pruned


def _named(root: Node, obj: dict[str, Any]) -> Fields:
    """Return the fields of an object with all named ones on the way to them."""
    return with_named(root, claimed(root, obj))
