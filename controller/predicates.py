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
    old, new = change.old, change.new
    if old is None or new is None or old.metadata.uid != new.metadata.uid:
        return True
    return bool(old.metadata.generation != new.metadata.generation)
