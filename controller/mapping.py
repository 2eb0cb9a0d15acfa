"""Whose turn is it when an object changes: from an object to the keys to be looked at.

A mapping is asked about the old and the new state of a changed object, because the owner or the
reference that was taken away needs the look as much as the one that was put in.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from controller.cache import Change
from controller.meta import Key, Object

T = TypeVar("T", bound=Object)
Mapping = Callable[[T], Iterable[Key]]


def to_self(obj: Object) -> Iterable[Key]:
    """Map an object to its own key.

    Args:
        obj: the object that changed.
    """
    return (obj.metadata.key,)


def to_owner(kind: str, group: str, *, namespaced: bool = True) -> Mapping[Any]:
    """Return a mapping from an object to its controlling owner of a kind.

    The owner's version is ignored: an object keeps its owner when the API moves on.

    Args:
        kind: the owner's kind.
        group: the owner's API group; empty for the core group.
        namespaced: whether the owner lives in a namespace, which is then the object's own.
    """

    def owners(obj: Object) -> Iterable[Key]:
        meta = obj.metadata
        for owner in meta.ownerReferences:
            owner_group = owner.apiVersion.rpartition("/")[0]
            if owner.controller and owner.kind == kind and owner_group == group:
                yield Key(meta.namespace if namespaced else "", owner.name)

    return owners


def keys_of(change: Change[T], mapping: Mapping[T]) -> tuple[Key, ...]:
    """Return the keys that a change concerns, each once, those of the old state first."""
    states = (state for state in (change.old, change.new) if state is not None)
    return tuple(dict.fromkeys(key for state in states for key in mapping(state)))
