"""What makes a controller look: changes of a kind, filtered and mapped to keys."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from controller.cache import Change
from controller.informer import Informer, Registration
from controller.mapping import Mapping, keys_of
from controller.meta import Key, Object
from controller.predicates import Predicate
from controller.workqueue import LOW_PRIORITY, WorkQueue

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class Watch(Generic[T]):
    """Changes of one kind that put keys into a controller's queue.

    Args:
        informer: delivers the changes.
        mapping: from the changed object to the keys to look at.
        predicate: which changes count; all if None.
    """

    informer: Informer[T]
    mapping: Mapping[T]
    predicate: Predicate | None = None

    def connect(self, queue: WorkQueue[Key]) -> Registration:
        """Feed `queue` from now on, with every object that is there as a start.

        What is there already is queued with low priority, so that live changes go first.
        """

        def handle(change: Change[T]) -> None:
            if self.predicate is not None and not self.predicate(change):
                return
            priority = LOW_PRIORITY if change.initial else 0
            for key in keys_of(change, self.mapping):
                queue.add(key, priority=priority)

        return self.informer.add_handler(handle)
