"""Watches that all integrations use: each says which changes enqueue passes over which objects."""

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
    """Return two triggers of passes over a pool: its own changes, and changes of its overlaps.

    A change of overlaps has low priority, because it only changes a condition of the pool. Passes
    that hand out addresses come first. A pool that cannot be decoded is enqueued by its key.

    Args:
        overlaps: announces pools whose overlaps with other pools have changed.
        gather: seconds that a change waits, so that one pass handles several changes. A change of
            the spec does not wait.
    """
    return (
        Watch(pools, to_self, delay=spec_at_once(gather), unreadable=lambda pool: [pool]),
        KeyWatch(overlaps.get_pools_of_kind(pools.resource.kind), LOW_PRIORITY),
    )


def watch_by_key(
    informer: Informer[T],
    mapping: Callable[[Key], Iterable[Key]],
    predicate: Callable[[Change[T]], bool],
) -> Watch[T]:
    """Return a watch that enqueues by the key of an object, even if it cannot be decoded.

    Args:
        mapping: returns the keys to enqueue for the key of an object.
        predicate: returns whether a change of a decoded object enqueues anything.
    """
    return Watch(informer, lambda obj: mapping(obj.metadata.key), predicate, unreadable=mapping)


def has_metadata_changed(change: Change[T], finalizer: str) -> bool:
    """Return whether an object was created, deleted or recreated, or changed in its metadata.

    The resourceVersion does not count: it changes with every write, also of the status. Nor does
    the addition of our finalizer: the pass that adds the finalizer goes on with the answer.

    Args:
        finalizer: our finalizer of the kind.
    """
    old, new = change.old, change.new
    if old is None or new is None or old.metadata.uid != new.metadata.uid:
        return True
    finalizers = old.metadata.finalizers
    if finalizer in new.metadata.finalizers and finalizer not in finalizers:
        finalizers = (*finalizers, finalizer)
    version = new.metadata.resourceVersion
    return replace(old.metadata, resourceVersion=version, finalizers=finalizers) != new.metadata
