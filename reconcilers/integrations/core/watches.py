"""Which changes enqueue passes, as far as that is the same for all integrations."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from controller.cache import Change
from controller.informer import Informer
from controller.meta import Key, Object
from controller.triggers import KeyWatch, Trigger, Watch, spec_at_once, to_self
from controller.workqueue import LOW_PRIORITY
from reconcilers.spaces.announcing import OverlapAnnouncer

T = TypeVar("T", bound=Object)


def watch_pools(
    pools: Informer[T], overlaps: OverlapAnnouncer, gather: float
) -> tuple[Trigger, Trigger]:
    """Return the triggers of a pool itself: its changes, and those of its overlaps.

    A pass that only reports overlaps comes after those that give addresses.

    Args:
        overlaps: announces pools whose overlaps with others have changed.
        gather: seconds that changes wait to be taken in by one pass over their pool.
    """
    return (
        Watch(pools, to_self, delay=spec_at_once(gather), unreadable=lambda pool: [pool]),
        KeyWatch(overlaps.of_kind(pools.resource.kind), LOW_PRIORITY),
    )


def watch_by_key(
    informer: Informer[T],
    mapping: Callable[[Key], Iterable[Key]],
    predicate: Callable[[Change[T]], bool],
) -> Watch[T]:
    """Return a watch that maps objects by their keys, whether they can be decoded or not."""
    return Watch(informer, lambda obj: mapping(obj.metadata.key), predicate, unreadable=mapping)


def metadata_changed(change: Change[T]) -> bool:
    """Return whether an object came, went or has other metadata than a new resourceVersion."""
    old, new = change.old, change.new
    if old is None or new is None or old.metadata.uid != new.metadata.uid:
        return True
    before = replace(old.metadata, resourceVersion="")
    return before != replace(new.metadata, resourceVersion="")
