"""What makes a controller look: changes of a kind, filtered and mapped to keys."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from typing_extensions import override

from controller.cache import Change
from controller.clusterkinds import ClusterKind
from controller.informer import Informer, Registration
from controller.mapping import Mapping, keys_of
from controller.meta import Key, Object
from controller.predicates import Predicate
from controller.resource import Resource
from controller.workqueue import LOW_PRIORITY, WorkQueue

T = TypeVar("T", bound=Object)


class Trigger(Protocol):
    """What can feed a controller's queue."""

    @property
    def resource(self) -> Resource[Any] | None:
        """The kind whose objects the keys are of, as far as this trigger can tell."""
        ...

    async def wait_ready(self) -> None:
        """Return once what a reconciler would read because of this trigger can be read."""
        ...

    def connect(self, queue: WorkQueue[Key]) -> Registration:
        """Feed `queue` from now on, until the registration is closed."""
        ...


@dataclass(frozen=True, slots=True)
class Watch(Trigger, Generic[T]):
    """Changes of one kind that put keys into a controller's queue.

    Args:
        informer: delivers the changes.
        mapping: from the changed object to the keys to look at.
        predicate: which changes count; all if None.
    """

    informer: Informer[T]
    mapping: Mapping[T]
    predicate: Predicate | None = None

    @property
    @override
    def resource(self) -> Resource[T]:
        return self.informer.resource

    @override
    async def wait_ready(self) -> None:
        await self.informer.wait_synced()

    @override
    def connect(self, queue: WorkQueue[Key]) -> Registration:
        """Feed `queue` from now on, with every object that is there as a start.

        What is there already is queued with low priority, so that live changes go first.
        """
        feed = partial(_feed, queue, self.mapping, self.predicate)
        return self.informer.add_handler(feed)


@dataclass(frozen=True, slots=True)
class ClusterWatch(Trigger, Generic[T]):
    """Changes of one kind in other clusters that put keys into the queue of a controller here.

    Nothing waits for them: a cluster that cannot be reached keeps no controller from working.

    Args:
        kind: delivers the changes of all clusters that are open.
        mapping: from the cluster and the changed object in it to the keys to look at.
        predicate: which changes count; all if None.
    """

    kind: ClusterKind[T]
    mapping: Callable[[Key, T], Iterable[Key]]
    predicate: Predicate | None = None

    @property
    @override
    def resource(self) -> None:
        return None

    @override
    async def wait_ready(self) -> None:
        """Return at once."""

    @override
    def connect(self, queue: WorkQueue[Key]) -> Registration:
        def feed(cluster: Key, change: Change[T]) -> None:
            _feed(queue, partial(self.mapping, cluster), self.predicate, change)

        return self.kind.add_handler(feed)


def _feed(
    queue: WorkQueue[Key], mapping: Mapping[T], predicate: Predicate | None, change: Change[T]
) -> None:
    if predicate is not None and not predicate(change):
        return
    priority = LOW_PRIORITY if change.initial else 0
    for key in keys_of(change, mapping):
        queue.add(key, priority=priority)
