"""Which changes are worth a look: pure functions from a change to yes or no.

A predicate saves queue entries, never memory, and it must never be needed for correctness:
reconcilers are level-based, so a look too many changes nothing. Additions, deletions and
re-creations (another uid) pass all of these; they decide updates.
"""

from collections.abc import Callable
from typing import Any

from controller.cache import Change

Predicate = Callable[[Change[Any]], bool]


def generation_changed(change: Change[Any]) -> bool:
    """Pass updates of the spec; those of status and metadata do not move the generation.

    Deletion passes too: the server moves the generation when it sets the deletionTimestamp.
    Kinds without a generation (core's Service before 1.36, say) never pass: use another one there.

    Args:
        change: what happened to one object.
    """
    return _differs(change, lambda obj: obj.metadata.generation)


def revision_changed(change: Change[Any]) -> bool:
    """Pass updates with another resourceVersion: all but replays of what is known.

    Args:
        change: what happened to one object.
    """
    return _differs(change, lambda obj: obj.metadata.resourceVersion)


def labels_changed(change: Change[Any]) -> bool:
    """Pass updates of labels.

    Args:
        change: what happened to one object.
    """
    return _differs(change, lambda obj: dict(obj.metadata.labels))


def annotations_changed(change: Change[Any]) -> bool:
    """Pass updates of annotations.

    Args:
        change: what happened to one object.
    """
    return _differs(change, lambda obj: dict(obj.metadata.annotations))


def any_of(*predicates: Predicate) -> Predicate:
    """Return a predicate that passes what any of `predicates` passes."""
    return lambda change: any(predicate(change) for predicate in predicates)


def all_of(*predicates: Predicate) -> Predicate:
    """Return a predicate that passes what all of `predicates` pass."""
    return lambda change: all(predicate(change) for predicate in predicates)


def not_(predicate: Predicate) -> Predicate:
    """Return a predicate that passes what `predicate` does not."""
    return lambda change: not predicate(change)


def _differs(change: Change[Any], aspect: Callable[[Any], object]) -> bool:
    old, new = change.old, change.new
    if old is None or new is None or old.metadata.uid != new.metadata.uid:
        return True
    return aspect(old) != aspect(new)
