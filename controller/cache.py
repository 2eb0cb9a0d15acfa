"""What a controller believes the world looks like: objects of one kind, indexed, always current.

Two sources feed it. The reflector delivers the world as the API server tells it: lists, events,
bookmarks. Their resourceVersions make up the **position**: everything up to it has been seen.
The client adds the answers to our own writes, which are ahead of the position: they are
shown at once, so that no pass sees a world older than its own last write, and they stand only
until the position has reached them. From there on the delivered world alone counts.

That a single comparison (is the answer above the position?) is enough rests on the server
delivering the changes of one kind in the order of their resourceVersions: when the position
passes an own answer, its echo has come, or its deletion has. So no answer that is late can
bring back an object whose end was delivered. Rejected: "the newer version of an object wins",
which keeps a ghost when the answer to the removal of the last finalizer, carrying the old
resourceVersion, arrives after the DELETED event.
"""

import heapq
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from controller.burials import Burials
from controller.codec import Added, Deleted, Modified, Unreadable
from controller.indexes import Indexes, IndexFunction
from controller.meta import Key, Object, Version
from controller.resource import Resource

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """How one object changed, as the cache shows it.

    Args:
        old: what was shown; None for an object that is new here.
        new: what is shown now; None for an object that is gone. If its uid differs
            from that of `old`, the object was deleted and created again.
        initial: part of the first list, or of the replay to a handler that came late.
        final_state_unknown: the deletion was not seen, only its result; `old` may not be the
            last state.
    """

    old: T | None
    new: T | None
    initial: bool = False
    final_state_unknown: bool = False


Subscriber = Callable[[Change[T]], None]


class Cache(Generic[T]):
    """The objects of one kind, shared and never copied: nobody may mutate them.

    Changes are delivered synchronously to the subscribers, after all state has moved.

    Args:
        resource: the kind.
        indexes: by name, a pure function from an object to its values there.
        admits: whether an own answer is about an object that the lists and watches would show.
    """

    def __init__(
        self,
        resource: Resource[T],
        *,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        admits: Callable[[T], bool] = lambda _: True,
    ) -> None:
        self.resource = resource
        self._admits = admits
        self.position = 0
        """The highest resourceVersion that list, event or bookmark delivered; 0 before the first.

        It falls only when a list shows that the server's history is another one."""
        self.synced = False
        """Whether a list has been delivered."""
        self._shown: dict[Key, T] = {}
        # Objects shown from an own answer, with what was delivered for their key.
        self._beneath: dict[Key, T | None] = {}
        self._own_revisions: list[tuple[int, Key]] = []
        self._burials = Burials()
        self._unreadable: dict[Key, str] = {}
        self._indexes = Indexes[T](indexes or {})
        self._subscribers: list[Subscriber[T]] = []

    def get(self, key: Key) -> T | None:
        """Return the object, or None.

        Args:
            key: namespace and name.
        """
        return self._shown.get(key)

    def by_index(self, index: str, value: str) -> tuple[T, ...]:
        """Return the objects that have `value` in `index`, sorted by key.

        Raises:
            KeyError: there is no index of that name.
        """
        return tuple(self._shown[key] for key in self._indexes.keys(index, value))

    @property
    def unreadable(self) -> Mapping[Key, str]:
        """Objects whose latest bytes could not be decoded, with the reason.

        Their older decoded version, if there was one, is still shown. Whoever must know every
        object (what is taken, say) has to look here before trusting the rest.
        """
        return self._unreadable

    @property
    def burials(self) -> int:
        """How many deletions were answered and have not been delivered yet."""
        return len(self._burials)

    def __iter__(self) -> Iterator[T]:
        """Return all objects, in no order."""
        return iter(self._shown.values())

    def __len__(self) -> int:
        return len(self._shown)

    def __contains__(self, key: object) -> bool:
        return key in self._shown

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Deliver all further changes to `subscriber`, which must not raise."""
        self._subscribers.append(subscriber)

    def unsubscribe(self, subscriber: Subscriber[T]) -> None:
        """Deliver no more changes to `subscriber`; unknown ones are ignored."""
        if subscriber in self._subscribers:
            self._subscribers.remove(subscriber)

    def own(self, obj: T) -> bool:
        """Show the server's answer to a write of ours, if it is ahead of the position.

        Args:
            obj: as the server answered with it.

        Returns:
            Whether it is shown.
        """
        key, revision = obj.metadata.key, obj.metadata.revision
        old = self._shown.get(key)
        if revision <= self.position or (old is not None and old.metadata.revision >= revision):
            return False
        if self._burials.visible(obj) is None or not self._admits(obj):
            return False
        self._beneath.setdefault(key, old)
        heapq.heappush(self._own_revisions, (revision, key))
        self._show(key, obj)
        self._deliver([Change(old, obj)])
        return True

    def gone(self, at: Version) -> None:
        """Show no more what the server told us it has deleted, however long the watch may lag.

        Args:
            at: the object as it was when we asked for its deletion.
        """
        key, shown = at.key, self._shown.get(at.key)
        beneath = self._beneath.get(key)
        # What had that name before it has ended, too.
        ended = [
            one
            for one in (shown, beneath)
            if one is not None
            and (one.metadata.uid == at.uid or one.metadata.revision <= at.revision)
        ]
        for one in ended:
            self._burials.bury(key, one.metadata.uid, one.metadata.revision)
        if self.position < at.revision:
            self._burials.bury(key, at.uid, at.revision)
        if shown in ended:
            self._beneath.pop(key, None)
            self._show(key, None)
            self._deliver([Change(shown, None)])
        elif beneath in ended:
            self._beneath[key] = None

    def apply(self, event: Added[T] | Modified[T] | Deleted[T] | Unreadable) -> None:
        """Take an event of the watch; one at or below the position was seen and is dropped.

        Args:
            event: as decoded.
        """
        if event.revision <= self.position:
            return
        key = event.key
        old = self._shown.get(key)
        if isinstance(event, Unreadable):
            self._apply_unreadable(event)
        else:
            self._unreadable.pop(key, None)
            obj = None if isinstance(event, Deleted) else event.object
            self._place(key, self._burials.visible(obj), event)
            if obj is None:
                self._burials.ended(key, event.object.metadata.uid)
        changes = self._difference({key: old}, _same)
        changes += self._advance(event.revision)
        self._deliver(changes)

    def bookmark(self, revision: int) -> None:
        """Move the position: nothing else happened up to `revision`."""
        if revision > self.position:
            self._deliver(self._advance(revision))

    def replace(
        self, items: Iterable[T], revision: int, unreadable: Mapping[Key, str] | None = None
    ) -> None:
        """Take a list: what is not in it is gone.

        A list below the position tells of another history: etcd was restored from a backup, or
        the address now leads to another cluster. The caller must know that it is no stale answer
        (a list without resourceVersion never is). All own answers belong to the lost history and
        go with it, and equal numbers no longer mean equal objects. (A restored history that has
        run past our position before we came back cannot be told from the old one by numbers;
        that is why etcd is restored with its revision raised.)

        Args:
            items: the decoded objects.
            revision: the list's resourceVersion.
            unreadable: the objects that are in the list and could not be decoded.
        """
        before = dict(self._shown)
        present = {item.metadata.key: item for item in items}
        self._unreadable = dict(unreadable or {})
        same: Callable[[T, T], bool] = _same
        if revision < self.position:
            self._drop_own()
            self._burials.clear()
            same = operator.eq
        self._burials.listed(revision, {one.metadata.uid for one in present.values()})
        listed = {key: one for key, one in present.items() if self._burials.visible(one)}
        for key in self._unreadable:
            kept = self._shown.get(key)
            if kept is not None and key not in listed:
                listed[key] = kept
        for key in [key for key in self._shown if key not in listed]:
            self._place_listed(key, None, revision, same)
        for key, item in listed.items():
            self._place_listed(key, item, revision, same)
        self.position = revision
        initial, self.synced = not self.synced, True
        gone = {key: old for key, old in before.items() if key not in listed}
        rest = {key: before.get(key) for key in listed}
        self._deliver(
            self._difference(gone, same, unknown=True)
            + self._difference(rest, same, initial=initial)
        )

    def _apply_unreadable(self, event: Unreadable) -> None:
        if event.deleted:
            self._unreadable.pop(event.key, None)
            self._place(event.key, None, event)
            return
        self._unreadable[event.key] = event.reason
        # What is shown now is the last version that could be read, wherever it came from.
        if self._own_revision(event.key) <= event.revision:
            self._beneath.pop(event.key, None)

    def _place(
        self, key: Key, obj: T | None, event: Added[T] | Modified[T] | Deleted[T] | Unreadable
    ) -> None:
        """Put what an event delivered for `key` where it belongs: shown, or beneath our answer."""
        ended = isinstance(event, Deleted) and event.object.metadata.uid == self._own_uid(key)
        if self._own_revision(key) > event.revision and not ended:
            self._beneath[key] = obj
        else:
            self._beneath.pop(key, None)
            self._show(key, obj)

    def _place_listed(
        self, key: Key, obj: T | None, revision: int, same: Callable[[T, T], bool]
    ) -> None:
        """Put what a list at `revision` says of `key` where it belongs."""
        if self._own_revision(key) > revision:
            self._beneath[key] = obj
            return
        self._beneath.pop(key, None)
        shown = self._shown.get(key)
        if shown is not None and obj is not None and same(shown, obj):
            return  # keep the object that everybody shares already
        self._show(key, obj)

    def _own_revision(self, key: Key) -> int:
        """Return the revision of the own answer shown for `key`; 0 if none is."""
        return self._shown[key].metadata.revision if key in self._beneath else 0

    def _own_uid(self, key: Key) -> str | None:
        return self._shown[key].metadata.uid if key in self._beneath else None

    def _show(self, key: Key, obj: T | None) -> None:
        self._indexes.move(key, self._shown.get(key), obj)
        if obj is None:
            self._shown.pop(key, None)
        else:
            self._shown[key] = obj

    def _advance(self, revision: int) -> list[Change[T]]:
        """Move the position, and let go of own answers that it passed without an echo.

        With an ordered watch none is left to let go, except one that the watch's selectors hide.
        """
        self.position = revision
        before: dict[Key, T | None] = {}
        while self._own_revisions and self._own_revisions[0][0] <= revision:
            _, key = heapq.heappop(self._own_revisions)
            if 0 < self._own_revision(key) <= revision:
                before[key] = self._shown[key]
                self._show(key, self._beneath.pop(key))
        return self._difference(before, _same, unknown=True)

    def _drop_own(self) -> None:
        for key, delivered in self._beneath.items():
            self._show(key, delivered)
        self._beneath.clear()
        self._own_revisions.clear()

    def _difference(
        self,
        before: Mapping[Key, T | None],
        same: Callable[[T, T], bool],
        *,
        unknown: bool = False,
        initial: bool = False,
    ) -> list[Change[T]]:
        changes = []
        for key, old in before.items():
            new = self._shown.get(key)
            if (old is None and new is None) or (
                old is not None and new is not None and same(old, new)
            ):
                continue
            changes.append(Change(old, new, initial, unknown and new is None))
        return changes

    def _deliver(self, changes: Iterable[Change[T]]) -> None:
        for change in changes:
            for subscriber in tuple(self._subscribers):
                subscriber(change)


def _same(one: Object, other: Object) -> bool:
    """Whether these are the same object at the same version; an own answer and its echo are."""
    a, b = one.metadata, other.metadata
    return a.resourceVersion == b.resourceVersion and a.uid == b.uid
