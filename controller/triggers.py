"""Triggers: which changes of which kind put which keys into a controller's queue.

A `Watch` names three things: an informer that delivers changes, a predicate that drops changes,
and a mapping from a changed object to the keys to enqueue.

A predicate saves queue entries, not memory, and nothing may depend on it for correctness:
reconcilers are level-based, so an extra reconciliation changes nothing. A mapping is called with
the old and with the new state of a changed object, because a removed owner or reference needs a
reconciliation as much as an added one.

Mappings, predicates and delays are plain functions. Their results are checked (callbacks.py), and
a change on which one of them fails is delivered again (redelivery.py).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from controller.cache import Change
from controller.callbacks import (
    call_for_flag,
    call_for_keys,
    call_for_seconds,
    check_plain,
    safe_repr,
)
from controller.clusters import ClusterKind
from controller.informer import Informer, Registration
from controller.meta import Key, Object
from controller.namespaces import NamespacesInformer
from controller.resource import Resource
from controller.slices import exhaust
from controller.workqueue import LOW_PRIORITY

T = TypeVar("T", bound=Object)
Mapping = Callable[[T], Iterable[Key]]
Predicate = Callable[[Change[Any]], bool]
Delay = Callable[[Change[Any]], float]


class KeySink(Protocol):
    """Takes keys: a work queue, or a filter that passes only some keys on to a queue."""

    def add_after(self, key: Key, seconds: float, *, priority: int = 0) -> None:
        """Queue `key` in `seconds`, or earlier if it is queued earlier already."""


def to_self(obj: Object) -> Iterable[Key]:
    """Map an object to its own key.

    Args:
        obj: the object that changed.
    """
    return (obj.metadata.key,)


def to_owner(owner: Resource[Any]) -> Mapping[Any]:
    """Return a mapping from an object to its controlling owner, if that is of the given kind.

    The version in the owner reference is ignored: an object keeps its owner when the owner's API
    gets a new version.

    Args:
        owner: the owner's kind; if it is namespaced, the owner is in the object's own namespace.

    Raises:
        TypeError: `owner` is no Resource.
    """
    if not isinstance(owner, Resource):
        raise TypeError(f"to_owner needs the Resource of the owner's kind, not {safe_repr(owner)}")

    def list_owners(obj: Object) -> Iterable[Key]:
        """Yield the key of the controlling owner if it is of the given kind."""
        meta = obj.metadata
        for reference in meta.ownerReferences:
            group = reference.apiVersion.rpartition("/")[0]
            if reference.controller and (reference.kind, group) == (owner.kind, owner.group):
                yield Key(meta.namespace if owner.namespaced else "", reference.name)

    return list_owners


def generation_changed(change: Change[Any]) -> bool:
    """Pass updates that changed the spec; updates of status and metadata keep the generation.

    Additions, deletions and re-creations (another uid) always pass, and so does the update that
    sets the deletionTimestamp, because the server increments the generation with it. Kinds
    without a generation (core's Service before 1.36, for example) never pass.

    Args:
        change: what happened to one object.
    """
    old, new = change.old, change.new
    if old is None or new is None or old.metadata.uid != new.metadata.uid:
        return True
    return bool(old.metadata.generation != new.metadata.generation)


def spec_at_once(others: float) -> Delay:
    """Return a delay of 0 for changes of the spec, and of `others` seconds for all other changes.

    For kinds whose reconciler writes a count of frequent changes into a status or an annotation.
    The response to its own write is a change, too. Without a delay each write would cause the next
    one, however long other changes are gathered.

    Args:
        others: seconds until changes of status and metadata are due.
    """

    def delay(change: Change[Any]) -> float:
        """Return 0 if `generation_changed` passes the change, else `others`."""
        return 0.0 if generation_changed(change) else others

    return delay


@dataclass(frozen=True, slots=True)
class Watch(Generic[T]):
    """Enqueues keys when objects of one kind change.

    Args:
        informer: delivers the changes. In a set of namespaces a controller gets keys of a
            namespace once all kinds that it watches in that set were listed there.
        mapping: from a changed object to the keys to enqueue. It is called with the old and with
            the new state of the object, and the keys of both are enqueued.
        predicate: returns whether a change counts; None if all changes count.
        delay: seconds until a change is due, so that one reconciliation handles all changes until
            then: a number, or a function of the change; None if every change is due at once.
        priority: the priority of the keys, except those of the first list. LOW_PRIORITY for
            objects of another kind than the reconciled one, whose own changes then go first.
        unreadable: from the key of an object that cannot be decoded or indexed to the keys to
            enqueue. It is called at each version of such an object, and when the object is deleted
            or can be read again. None enqueues no keys. The reconciler finds the key in
            `Cache.unreadable`: the object is not absent.
        is_required: whether the controller starts only once the kind was listed. False if its
            reconciler reads objects from the server that the cache does not show. A kind that is
            not served, or may not be listed, then does not keep the controller from working.

    Raises:
        TypeError: a function is async, cannot be called or takes other arguments, or `informer`
            is no informer.
    """

    informer: Informer[T] | NamespacesInformer[T]
    mapping: Mapping[T]
    predicate: Predicate | None = None
    delay: Delay | float | None = None
    priority: int = 0
    unreadable: Callable[[Key], Iterable[Key]] | None = None
    is_required: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.informer, Resource):
            raise TypeError(
                "a Watch needs an informer:"
                f" Manager.get_informer({self.informer.plural.upper()}), not the Resource itself"
            )
        if not hasattr(self.informer, "add_handler"):
            raise TypeError(
                "a Watch needs an informer, as Manager.get_informer returns it, not"
                f" {safe_repr(self.informer)}"
            )
        _check_functions(self.mapping, self.predicate, self.delay, "object")
        if self.unreadable is not None:
            check_plain(self.unreadable, "the mapping of unreadable objects of a Watch", "key")

    @property
    def resource(self) -> Resource[T]:
        """The kind that is watched."""
        return self.informer.resource

    async def wait_ready(self) -> None:
        """Return once the informer's first list has been delivered."""
        await self.informer.wait_synced()

    def connect(self, queue: KeySink, *, replayed: bool = True) -> Registration:
        """Enqueue keys from now on, first those of all objects in the cache.

        The objects in the cache are enqueued with low priority, so that live changes go first.

        Args:
            queue: gets the keys.
            replayed: False to leave out the objects in the cache, for a caller that runs the
                registration's `replay` itself.

        Returns:
            The registration; closing it stops the enqueuing.
        """
        changes = self.informer.add_handler(
            partial(
                _enqueue, queue, self.mapping, self.predicate, self.delay, priority=self.priority
            ),
            replayed=replayed,
        )
        if self.unreadable is None:
            return changes
        keys = self.informer.add_unreadable_handler(
            partial(_enqueue_unreadable, queue, self.unreadable, self.priority),
            replayed=replayed,
        )

        def close() -> None:
            """Close the registrations of both handlers."""
            changes.close()
            keys.close()

        def replay() -> Iterator[None]:
            """Replay the cached objects, then the unreadable objects, some at each step."""
            yield from changes.replay()
            yield from keys.replay()

        return Registration(close, replay)


@dataclass(frozen=True, slots=True)
class ClusterWatch(Generic[T]):
    """Enqueues keys here when objects of one kind change in other clusters.

    A controller does not wait for these caches at its start: a cluster that cannot be reached
    keeps no controller from working.

    Args:
        kind: delivers the changes of all clusters that are open.
        mapping: from the cluster's key and a changed object in it to the keys to enqueue.
        predicate: returns whether a change counts; None if all changes count.

    Raises:
        TypeError: a function is async, cannot be called or takes other arguments.
    """

    kind: ClusterKind[T]
    mapping: Callable[[Key, T], Iterable[Key]]
    predicate: Predicate | None = None

    resource: ClassVar[None] = None
    """None: the keys are not of the kind that is watched."""

    def __post_init__(self) -> None:
        _check_functions(self.mapping, self.predicate, None, "cluster", "object")

    async def wait_ready(self) -> None:
        """Return at once, because no controller waits for other clusters."""

    def connect(self, queue: KeySink, *, replayed: bool = True) -> Registration:
        """Enqueue keys from now on, first those of all objects in the open clusters' caches.

        Args:
            queue: gets the keys.
            replayed: False to leave out the objects that are in the caches now.

        Returns:
            The registration; closing it stops the enqueuing.
        """

        def handle(cluster: Key, change: Change[T]) -> None:
            """Queue the keys of a change in one cluster."""
            _enqueue(
                queue,
                partial(self.mapping, cluster),
                predicate=self.predicate,
                delay=None,
                change=change,
            )

        return self.kind.add_handler(handle, replayed=replayed)


class KeySource(Protocol):
    """A part of the process that announces keys."""

    def add_handler(self, handler: Callable[[Key], None]) -> Registration:
        """Call `handler` with each key that is announced from now on."""


@dataclass(frozen=True, slots=True)
class KeyWatch:
    """Enqueues keys that another part of the process announces.

    Args:
        source: announces the keys.
        priority: the priority of the keys. LOW_PRIORITY lets keys of changed objects go first.
    """

    source: KeySource
    priority: int = 0

    resource: ClassVar[None] = None
    """None: no kind is watched."""

    async def wait_ready(self) -> None:
        """Return at once, because there is no list to wait for."""

    def connect(self, queue: KeySink, *, replayed: bool = True) -> Registration:
        """Enqueue keys from now on.

        Args:
            queue: gets the keys.
            replayed: False to leave out the keys that the source replays.

        Returns:
            The registration; closing it stops the enqueuing.
        """
        registration = self.source.add_handler(
            lambda key: queue.add_after(key, 0.0, priority=self.priority)
        )
        if replayed:
            exhaust(registration.replay())
        return registration


Trigger = Watch[Any] | ClusterWatch[Any] | KeyWatch
"""The types that can feed the queue of a controller."""
_TRIGGERS = (Watch, ClusterWatch, KeyWatch)


def check_triggers(controller: str, triggers: object) -> None:
    """Raise an error for triggers that a controller cannot use: an informer as Watch, for example.

    Args:
        controller: the name of the controller, for the message.
        triggers: the argument `watches`, as the caller passed it.

    Raises:
        TypeError: `triggers` is no sequence of Watch, ClusterWatch and KeyWatch.
        ValueError: `triggers` is empty.
    """
    if isinstance(triggers, _TRIGGERS):
        raise TypeError(f"controller {controller}: watches must be a list: write [Watch(...)]")
    if not isinstance(triggers, Sequence) or isinstance(triggers, str):
        raise TypeError(
            f"controller {controller}: watches must be a list of Watch, not {safe_repr(triggers)}"
        )
    for trigger in triggers:
        if isinstance(trigger, Informer | NamespacesInformer):
            name = trigger.resource.full_name
            raise TypeError(
                f"controller {controller}: watches has the informer of {name}: say which keys its"
                " changes put into the queue, for example Watch(informer, to_self)"
            )
        if not isinstance(trigger, _TRIGGERS):
            raise TypeError(
                f"controller {controller}: watches has {safe_repr(trigger)}, which is not a Watch"
            )
    if not triggers:
        raise ValueError(f"controller {controller} watches nothing, so it would never run")


def list_keys(change: Change[T], mapping: Mapping[T]) -> tuple[Key, ...]:
    """Return the keys that a change maps to, each once, the keys of the old state first."""
    old_keys = call_for_keys(mapping, change.old) if change.old is not None else ()
    new_keys = call_for_keys(mapping, change.new) if change.new is not None else ()
    if len(new_keys) < 2 and old_keys in ((), new_keys):
        return new_keys  # the usual case, which has no key twice: one key, before and after
    return tuple(dict.fromkeys(old_keys + new_keys))


def _enqueue_unreadable(
    queue: KeySink, mapping: Callable[[Key], Iterable[Key]], priority: int, unreadable: Key
) -> None:
    """Queue the keys that the key of an unreadable object maps to."""
    for key in dict.fromkeys(call_for_keys(mapping, unreadable)):
        queue.add_after(key, 0.0, priority=priority)


def _check_functions(
    mapping: object, predicate: object | None, delay: object | None, *mapped: str
) -> None:
    """Raise TypeError for a function of a Watch or ClusterWatch that cannot be called.

    Args:
        mapping: the function from an object to keys.
        predicate: the function that drops changes; None if there is none.
        delay: a function of the change, or seconds; None if every change is due at once.
        *mapped: the names of the arguments that the mapping is called with.

    Raises:
        TypeError: a function is async, cannot be called or takes other arguments.
    """
    if mapping is to_owner:
        raise TypeError(
            "the mapping of a Watch is to_owner itself, which makes a mapping: write"
            " to_owner(KIND) with the Resource of the owner"
        )
    check_plain(mapping, "the mapping of a Watch", *mapped)
    if predicate is not None:
        check_plain(predicate, "the predicate of a Watch", "change")
    if delay is not None and not isinstance(delay, int | float):
        check_plain(delay, "the delay of a Watch", "change")


def _enqueue(
    queue: KeySink,
    mapping: Mapping[T],
    predicate: Predicate | None,
    delay: Delay | float | None,
    change: Change[T],
    *,
    priority: int = 0,
) -> None:
    """Queue the keys of a change that passes the predicate.

    Objects of the first list get LOW_PRIORITY, other changes `priority`.
    """
    if predicate is not None and not call_for_flag(predicate, change):
        return
    seconds = call_for_seconds(delay, change) if callable(delay) else delay or 0.0
    for key in list_keys(change, mapping):
        queue.add_after(key, seconds, priority=LOW_PRIORITY if change.initial else priority)
