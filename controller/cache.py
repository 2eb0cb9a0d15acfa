"""The objects of one kind as last known, indexed, with the responses to our own writes.

Two sources feed a cache. The reflector delivers the server's state: lists, events and bookmarks.
The highest resourceVersion that it delivered is the **position**: all changes up to it have been
seen. The client adds the responses to our own writes, which are ahead of the position. A response
is shown at once, so that no pass reads a state older than its own last write. When the position
has reached the response, the delivered state is shown instead.

One comparison decides whether a response is shown: is it above the position? That suffices because
the server delivers the changes of one kind in the order of their resourceVersions. When the
position passes a response, the event of that write or the deletion has been delivered. So no late
response can bring back an object whose deletion was delivered.

An object is visible if the cache shows it to readers. A pass is one call of a reconciler. The
history of a server is the sequence of its resourceVersions; a restored backup has another one. A
tombstone hides an object that our request deleted, until a watch or list shows the deletion.

Rejected: "the newer version of an object wins". It keeps a deleted object when the response to the
removal of the last finalizer, which has the old resourceVersion, arrives after the DELETED event.
"""

import heapq
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, TypeVar

from controller.argumenttypes import check_type
from controller.codec import Added, Deleted, Modified, ObjectEvent, Unreadable
from controller.indexes import Indexes, IndexFunction, NotIndexed, Tombstones
from controller.meta import Key, Object, Version
from controller.resource import Resource
from controller.slices import SLICE, exhaust, split_into_batches
from controller.unreadables import UnreadableObjects

T = TypeVar("T", bound=Object)
T_co = TypeVar("T_co", bound=Object, covariant=True)


@dataclass(frozen=True, slots=True)
class Change(Generic[T_co]):
    """How one object changed in the cache.

    Args:
        old: the object before; None if it was not in the cache.
        new: the object now; None if it is no longer in the cache. If its uid differs from that of
            `old`, the object was deleted and created again.
        initial: part of the first list, or of the objects that a new handler gets at first.
        final_state_unknown: the deletion was noticed by a list, so `old` may not be the last
            state of the object.
    """

    old: T_co | None
    new: T_co | None
    initial: bool = False
    final_state_unknown: bool = False


Subscriber = Callable[[Change[T]], None]
KeySubscriber = Callable[[Key], None]


class _ListedObjects(Generic[T]):
    """The objects of one list, by key.

    Args:
        revision: the list's resourceVersion.
        unreadable: the objects that could not be decoded, with the reason.
    """

    def __init__(self, revision: int, unreadable: dict[Key, str]) -> None:
        self.revision = revision
        self.unreadable = unreadable
        self.items: dict[Key, T] = {}
        self.uids: set[str] = set()

    def add(self, item: T, failure: str | None) -> None:
        """Add an object; `failure` says why it cannot be indexed, None if it can."""
        self.uids.add(item.metadata.uid)
        if failure is None:
            self.items[item.metadata.key] = item
        else:
            self.unreadable[item.metadata.key] = failure

    def order_keys(self, cached_keys: Iterable[Key]) -> Iterable[Key]:
        """Return the keys of unreadable, then of absent, then of readable objects.

        Unreadable objects come first. So a pass between two steps knows of all of them, and takes
        nothing for free that such an object may hold.

        Args:
            cached_keys: the keys in the cache; those that the list lacks are the absent ones.
        """
        listed_keys = self.items.keys() | self.unreadable.keys()
        absent_keys = (key for key in cached_keys if key not in listed_keys)
        # A key may be in both if the list has an object twice; it is returned once.
        unreadable_keys = (key for key in self.unreadable if key not in self.items)
        return chain(unreadable_keys, absent_keys, self.items)


def check_cache_key(key: object, resource: Resource[Any]) -> None:
    """Raise TypeError if `key` is no tuple (a Key is one), but an object or a text for example.

    Args:
        key: as the caller passed it.
        resource: the kind, for the message.
    """
    argument = f"Cache.get of {resource.full_name}: key"
    check_type(key, tuple, argument=argument, expected="a controller.Key(namespace, name)")


class Cache(Generic[T]):
    """The objects of one kind. They are shared and never copied: callers must not change them.

    Changes are delivered synchronously to the subscribers, after the cache has been updated.

    Args:
        resource: the kind.
        indexes: by index name, a pure function from an object to its values.
        admits: returns whether an object is in the watched scope. A response to our own write
            may be outside of it.
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
        """The highest resourceVersion of all lists, events and bookmarks so far; at first 0.

        It decreases only when a list shows that the server's history was replaced."""
        self.is_synced = False
        """Whether a list has been delivered."""
        self.is_history_confirmed = True
        """False from the moment the server could not be reached until the next list: it may
        come back restored from a backup, with another history. False too while a long list is
        put into the cache in slices."""
        self.replaced_histories = 0
        """How many lists showed that the server's history was replaced."""
        self._objects: dict[Key, T] = {}
        # For each key whose object in `_objects` is the response to our own write: the object that
        # the reflector delivered; None if it delivered none.
        self._delivered: dict[Key, T | None] = {}
        # A heap of the revisions of own writes, so that the position passes the lowest first.
        self._own_writes: list[tuple[int, Key]] = []
        self._tombstones = Tombstones()
        self._unreadable = UnreadableObjects(indexes or {})
        self._indexes = Indexes[T](indexes or {}, resource.full_name)
        self._subscribers: list[Subscriber[T]] = []
        self._key_subscribers: list[KeySubscriber] = []
        # No further event comes up to this revision, because a list or a bookmark said so. After
        # an event at the position more may come at the same revision: objects of kind Event whose
        # time to live ends together are deleted at one resourceVersion.
        self._complete_revision = 0

    def get(self, key: Key) -> T | None:
        """Return the object with that `key`; None if the cache has none.

        Raises:
            TypeError: `key` is no Key, but an object or a text, for example.
        """
        try:
            obj = self._objects.get(key)
        except TypeError:  # `key` cannot be hashed, so it is no Key: the check below raises
            obj = None
        if obj is None:  # a hit needs no check, which saves time in each pass
            check_cache_key(key, self.resource)
        return obj

    def list_by_index(self, index: str, value: str) -> tuple[T, ...]:
        """Return the objects that have `value` in `index`, sorted by key.

        Raises:
            KeyError: there is no index of that name.
        """
        return tuple(self._objects[key] for key in self._indexes.get_keys(index, value))

    @property
    def highest_revision(self) -> int:
        """The highest resourceVersion of the delivered state and of own writes still shown."""
        return max([self.position, *(revision for revision, _ in self._own_writes)])

    @property
    def unreadable(self) -> UnreadableObjects:
        """The objects whose latest version could not be decoded or indexed, with the reason.

        An older version that could be read stays in the cache. Code that must know every object
        (to know which addresses are taken, for example) has to check this, too.
        """
        return self._unreadable

    @property
    def unindexed(self) -> int:
        """The number of unreadable objects for which an index function raised."""
        return sum(isinstance(reason, NotIndexed) for reason in self._unreadable.values())

    @property
    def tombstones(self) -> int:
        """The number of deletions by us that the watch has not delivered yet."""
        return len(self._tombstones)

    def __iter__(self) -> Iterator[T]:
        """Iterate over all objects, in no order."""
        return iter(self._objects.values())

    def __len__(self) -> int:
        """Return the number of objects in the cache."""
        return len(self._objects)

    def __contains__(self, key: object) -> bool:
        """Return whether the cache has an object with that key."""
        return key in self._objects

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Call `subscriber` with every change from now on; it must not raise."""
        self._subscribers.append(subscriber)

    def unsubscribe(self, subscriber: Subscriber[T]) -> None:
        """Stop calling `subscriber`; does nothing if it is not subscribed."""
        if subscriber in self._subscribers:
            self._subscribers.remove(subscriber)

    def subscribe_unreadable(self, subscriber: KeySubscriber) -> None:
        """Call `subscriber` with the key of each object that is, or was until now, unreadable.

        That is: at each version that cannot be read, and when such an object is deleted or can be
        read again. It must not raise.
        """
        self._key_subscribers.append(subscriber)

    def unsubscribe_unreadable(self, subscriber: KeySubscriber) -> None:
        """Stop calling `subscriber`; does nothing if it is not subscribed."""
        if subscriber in self._key_subscribers:
            self._key_subscribers.remove(subscriber)

    def apply_own_write(self, obj: T) -> bool:
        """Show `obj`, the response to a write of ours, until the watch has passed that write.

        Returns:
            Whether `obj` is shown.
        """
        key, revision = obj.metadata.key, obj.metadata.revision
        old = self._objects.get(key)
        if revision <= self.position or (old is not None and old.metadata.revision >= revision):
            return False  # the cache has this version of the object or a later one
        if self._tombstones.hide_deleted(obj) is None:
            return False  # the object was deleted after the write
        if not self._admits(obj):
            return False  # the watch's selectors leave the object out
        if self._indexes.find_index_failure(obj) is not None:
            return False  # the event of the write will report the object as unreadable
        self._delivered.setdefault(key, old)  # shown again if the watch leaves the write out
        heapq.heappush(self._own_writes, (revision, key))
        self._set_object(key, obj)
        self._notify([Change(old, obj)])
        return True

    def mark_deleted(self, version: Version) -> None:
        """Hide an object that the server says it has deleted, however late the watch is.

        Args:
            version: the object as it was when its deletion was requested.
        """
        key = version.key
        visible = self._objects.get(key)
        delivered = self._delivered.get(key)
        # An object of that name with another uid and an older revision is deleted, too: otherwise
        # the server could not have created the object of `version`.
        deleted = [
            obj
            for obj in (visible, delivered)
            if obj is not None
            and (obj.metadata.uid == version.uid or obj.metadata.revision <= version.revision)
        ]
        for obj in deleted:
            self._tombstones.add(key, obj.metadata.uid, obj.metadata.revision)
        if self.position < version.revision:
            # The watch has yet to deliver this version, perhaps the object's first one. The
            # tombstone hides it then.
            self._tombstones.add(key, version.uid, version.revision)
        if visible in deleted:
            self._delivered.pop(key, None)
            self._set_object(key, None)
            self._notify([Change(visible, None)])
        elif delivered in deleted:
            # The visible object is our own write to a recreated object, and stays. The delivered
            # object of that name, which would be shown after it, was deleted.
            self._delivered[key] = None

    def apply(self, event: ObjectEvent[T]) -> None:
        """Apply an event of the watch; drop an event that the cache's state already includes.

        Args:
            event: as decoded.
        """
        # At the position itself an event is new, unless a list or a bookmark reached it.
        if event.revision < self.position or event.revision <= self._complete_revision:
            return
        key = event.key
        old = self._objects.get(key)
        if isinstance(event, Added | Modified):
            if old is not None and _are_same_version(old, event.object):
                # The event of our own write, which is shown already: it stays, with its indexes.
                event = Modified(old)
            elif (failure := self._indexes.find_index_failure(event.object)) is not None:
                # An object that cannot be indexed counts as unreadable.
                event = Unreadable(key, event.revision, failure)
        was_unreadable = key in self._unreadable
        if isinstance(event, Unreadable):
            self._apply_unreadable(event)
        else:
            self._unreadable.remove(key)
            obj = None if isinstance(event, Deleted) else event.object
            self._deliver(key, self._tombstones.hide_deleted(obj), event)
            if obj is None:  # the deletion is delivered, so nothing is left to hide
                self._tombstones.remove(key, event.object.metadata.uid)
        changes = self._list_changes({key: old}, _are_same_version)
        changes += self._advance_position(event.revision)
        self._notify(changes)
        if was_unreadable or isinstance(event, Unreadable):
            self._notify_unreadable([key])

    def apply_bookmark(self, revision: int) -> None:
        """Move the position to `revision`: there are no further changes up to it."""
        self._complete_revision = max(revision, self._complete_revision)
        if revision > self.position:
            self._notify(self._advance_position(revision))

    def unconfirm_history(self) -> None:
        """Note that the server could not be reached, so that it may have been restored.

        Objects that were deleted may exist again, so the tombstones are removed. The history is
        confirmed again by the next list; the reflector requests the newest state for it.
        """
        self.is_history_confirmed = False
        self._tombstones.clear()

    def replace(
        self,
        items: Iterable[T],
        revision: int,
        unreadable: Mapping[Key, str] | None = None,
        *,
        replaced: bool = False,
    ) -> None:
        """Replace all delivered objects by the objects of a list, in one step.

        `replace_in_slices` describes the rules for lists of another history.

        Args:
            items: the decoded objects.
            revision: the list's resourceVersion.
            unreadable: the objects in the list that could not be decoded, with the reason.
            replaced: whether the list is known to be from another history.
        """
        exhaust(self._replace(items, revision, unreadable, replaced=replaced, size=sys.maxsize))

    def replace_in_slices(
        self,
        items: Iterable[T],
        revision: int,
        unreadable: Mapping[Key, str] | None = None,
        *,
        replaced: bool = False,
    ) -> Iterator[None]:
        """Replace all delivered objects by the objects of a list, some of them at each step.

        Between two steps each object is in its old state; or it is in the state of the list, and
        its change has been delivered to the subscribers. So their data agrees with the cache.
        `position` and `synced` change with the last step, so before it nobody takes the cache for
        complete. `is_history_confirmed` is False meanwhile, so passes that need the state of one
        moment wait. Rejected: replacing all objects in one step and delivering the changes in
        slices after it. Subscribers would be behind the cache, and a pass that reads both may take
        something for free that is not.

        A list below the position is from another history: etcd was restored from a backup, or the
        address now leads to another cluster. (The caller must know that the list is not a stale
        response; a list without resourceVersion never is stale.) Then all own writes and
        tombstones are dropped, and equal resourceVersions no longer mean equal objects. Objects of
        two histories never mix, so all objects are replaced in one step. A restored history that
        has already passed our position looks like the old history. So objects are also compared by
        their contents after the server could not be reached.

        Args:
            items: the decoded objects.
            revision: the list's resourceVersion.
            unreadable: the objects in the list that could not be decoded, with the reason.
            replaced: the list is below the highest resourceVersion that was known before it was
                requested, so it is from another history even if it is above the position.
        """
        return self._replace(items, revision, unreadable, replaced=replaced, size=SLICE)

    def _replace(
        self,
        items: Iterable[T],
        revision: int,
        unreadable: Mapping[Key, str] | None,
        *,
        replaced: bool,
        size: int,
    ) -> Iterator[None]:
        """Replace all delivered objects by those of a list, `size` of them at each step.

        In the steps before that, the index functions are called with the listed objects, which
        shows whether these can be indexed. `replace_in_slices` has the rules.
        """
        listed = _ListedObjects[T](revision, dict(unreadable or {}))
        for batch in split_into_batches(items):
            for item in batch:
                listed.add(item, self._indexes.find_index_failure(item))
            yield  # the cache has not changed yet: only the index functions were called
        # After the server could not be reached, its history may be another. There an equal
        # resourceVersion may belong to another content, so contents are compared.
        are_equal: Callable[[T, T], bool] = (
            _are_same_version if self.is_history_confirmed else operator.eq
        )
        dropped_writes: dict[Key, T | None] = {}
        if replaced or revision < self.position:
            are_equal, size = operator.eq, sys.maxsize  # in one step: histories never mix
            dropped_writes = self._drop_history()
        self._tombstones.remove_absent(revision, listed.uids)
        # The keys of all objects that the list may change or lack, each once.
        cached_keys = dict.fromkeys(chain(self._objects, dropped_writes, self._unreadable))
        # An empty list has a step, too: the last step completes the list.
        steps = [*split_into_batches(listed.order_keys(cached_keys), size)] or [()]
        initial = not self.is_synced
        # Between two steps the cache is no state that the server ever had.
        self.is_history_confirmed = self.is_history_confirmed and len(steps) == 1
        for number, keys in enumerate(steps, start=1):
            old_objects = {key: self._objects.get(key) for key in keys}
            # For readers a dropped write was the old object, not the delivered object that has
            # replaced it since. There are dropped writes only if this step replaces all objects.
            old_objects |= dropped_writes
            unreadable_keys = [k for k in keys if k in listed.unreadable or k in self._unreadable]
            for key in keys:
                self._put_listed(key, listed, are_equal)
            if number == len(steps):
                # A write that the last step drops may be of any key. For a key of this step the
                # object from before the step counts.
                old_objects = self._complete_list(listed) | old_objects
            self._notify(
                self._list_changes(
                    old_objects, are_equal, final_state_unknown=True, initial=initial
                )
            )
            self._notify_unreadable(unreadable_keys)
            if number < len(steps):
                yield

    def _put_listed(
        self, key: Key, listed: "_ListedObjects[T]", are_equal: Callable[[T, T], bool]
    ) -> None:
        """Put the listed object of a key into the cache.

        While our own write is newer, it stays shown, and the listed object is kept as delivered. A
        key without a listed object is removed from the cache. An unreadable object keeps its
        last readable version there.
        """
        item = self._tombstones.hide_deleted(listed.items.get(key))
        if key not in listed.unreadable:
            self._unreadable.remove(key)
        else:
            self._unreadable.put(key, listed.unreadable[key])
            if item is None:
                item = self._objects.get(key)  # the last version that could be read
        if self._find_own_revision(key) > listed.revision:
            self._delivered[key] = item  # the list was made before our write
            return
        self._delivered.pop(key, None)
        visible = self._objects.get(key)
        if visible is None or item is None or not are_equal(visible, item):
            self._set_object(
                key, item
            )  # else keep the present object: passes and indexes share it

    def _drop_history(self) -> dict[Key, T | None]:
        """Drop own writes and tombstones, because the server's history was replaced.

        The delivered objects are shown in place of the own writes.

        Returns:
            The own writes that were shown until now, by key.
        """
        self.replaced_histories += 1
        dropped: dict[Key, T | None] = {key: self._objects[key] for key in self._delivered}
        for key, delivered in self._delivered.items():
            self._set_object(key, delivered)
        self._delivered.clear()
        self._own_writes.clear()
        self._tombstones.clear()
        return dropped

    def _complete_list(self, listed: "_ListedObjects[T]") -> dict[Key, T | None]:
        """Note that all of a list is in the cache, and move the position to the list's revision.

        Returns:
            The own writes that were shown and that the list does not contain, by key.
        """
        # Once more: a deletion between two steps may have added a tombstone.
        self._tombstones.remove_absent(listed.revision, listed.uids)
        self.position = self._complete_revision = listed.revision
        self.is_history_confirmed = self.is_synced = True
        return self._drop_passed(listed.revision)

    def _apply_unreadable(self, event: Unreadable) -> None:
        """Note why an object cannot be read; its last readable version stays in the cache.

        A deletion needs only the key, so an unreadable object is deleted like any other.
        """
        if event.deleted:
            self._unreadable.remove(event.key)
            self._deliver(event.key, None, event)
            return
        self._unreadable.put(event.key, event.reason)
        # An own write that this event has passed counts as delivered from now on: it is the last
        # version that could be decoded.
        if self._find_own_revision(event.key) <= event.revision:
            self._delivered.pop(event.key, None)

    def _deliver(self, key: Key, obj: T | None, event: ObjectEvent[T]) -> None:
        """Show the object of an event, or keep it for later while our own write is newer.

        Args:
            key: namespace and name of the object.
            obj: None for a deletion, and for an object that a tombstone hides.
            event: the event that delivers the object or its deletion.
        """
        own_write = self._objects[key] if key in self._delivered else None
        # A deletion ends the own write to the object of its uid, even if its event has a lower
        # revision. The deletion of an earlier object of that name (another uid) does not: our
        # write is to the recreated object.
        ends_own_write = (
            isinstance(event, Deleted)
            and own_write is not None
            and event.object.metadata.uid == own_write.metadata.uid
        )
        if self._find_own_revision(key) > event.revision and not ends_own_write:
            self._delivered[key] = obj
        else:
            self._delivered.pop(key, None)
            self._set_object(key, obj)

    def _find_own_revision(self, key: Key) -> int:
        """Return the revision of our own write that is shown for `key`; 0 if none is shown."""
        return self._objects[key].metadata.revision if key in self._delivered else 0

    def _set_object(self, key: Key, obj: T | None) -> None:
        """Put an object into the cache and its indexes; None removes the object of `key`."""
        old = self._objects.get(key)
        if obj is old:
            return
        self._indexes.move(key, old, obj)
        if obj is None:
            self._objects.pop(key, None)
        else:
            self._objects[key] = obj

    def _advance_position(self, revision: int) -> list[Change[T]]:
        """Move the position; drop own writes that it passed and that were not delivered.

        The watch delivers each write before the position passes it, unless the watch's selectors
        exclude the object.

        Returns:
            The changes that result from dropping own writes.
        """
        self.position = revision
        dropped = self._drop_passed(revision)
        return self._list_changes(dropped, _are_same_version, final_state_unknown=True)

    def _drop_passed(self, revision: int) -> dict[Key, T | None]:
        """Drop own writes up to `revision` that were not delivered; return these by key."""
        dropped: dict[Key, T | None] = {}
        while self._own_writes and self._own_writes[0][0] <= revision:
            _, key = heapq.heappop(self._own_writes)
            # At 0 no own write is shown, because the object was delivered. Above `revision`, a
            # newer own write is shown.
            if 0 < self._find_own_revision(key) <= revision:
                dropped[key] = self._objects[key]
                self._set_object(key, self._delivered.pop(key))
        return dropped

    def _list_changes(
        self,
        old_objects: Mapping[Key, T | None],
        are_equal: Callable[[T, T], bool],
        *,
        final_state_unknown: bool = False,
        initial: bool = False,
    ) -> list[Change[T]]:
        """Return the changes from the old objects to the objects now in the cache.

        Args:
            old_objects: by key, the object that was in the cache; None if there was none.
            are_equal: returns whether two objects are equal, so that there is no change.
            final_state_unknown: set in the changes that are deletions.
            initial: set in the changes that are no deletions.
        """
        changes = []
        for key, old in old_objects.items():
            new = self._objects.get(key)
            if old is not None and new is not None:
                is_unchanged = are_equal(old, new)
            else:
                is_unchanged = old is new  # both are None: the key had no object and has none
            if not is_unchanged:
                is_deletion = new is None
                changes.append(
                    Change(
                        old,
                        new,
                        initial=initial and not is_deletion,
                        final_state_unknown=final_state_unknown and is_deletion,
                    )
                )
        return changes

    def _notify_unreadable(self, keys: Iterable[Key]) -> None:
        """Call the subscribers for unreadable objects, all of them even if one unsubscribes."""
        for key in keys:
            for subscriber in tuple(self._key_subscribers):
                subscriber(key)

    def _notify(self, changes: Iterable[Change[T]]) -> None:
        """Call the subscribers with each change, all of them even if one unsubscribes."""
        for change in changes:
            for subscriber in tuple(self._subscribers):
                subscriber(change)


def _are_same_version(first: Object, other: Object) -> bool:
    """Return whether both are one object at one version: a response and its event, say."""
    a, b = first.metadata, other.metadata
    return a.resourceVersion == b.resourceVersion and a.uid == b.uid
