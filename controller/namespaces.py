"""Namespaces that come and go, and informers of one kind in each of them.

For operators whose roles are bound in single namespaces, so that they may not list a kind in all
namespaces. Each namespace has a list, a watch and a cache of its own. So a namespace that the
server refuses delays no other.

    NamespaceSet ─→ NamespacesInformer ─→ an Informer for each namespace ─→ handlers
     add, remove         one cache to read

When a namespace leaves the set, its own cache delivers its objects as deleted, in slices, as for a
list.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Generic, TypeVar

import anyio
from typing_extensions import override

from controller.cache import Change, check_cache_key
from controller.callbacks import check_plain, safe_repr
from controller.errors import ControllerError, SourceError
from controller.health import Check, Failing
from controller.informer import Handler, Informer, Registration
from controller.informergroups import InformerGroup
from controller.loggers import get_logger
from controller.meta import Key, Object, Version
from controller.resource import Resource, Scope

T = TypeVar("T", bound=Object)

log = get_logger(__name__)


class NamespaceChanges:
    """The names of changed namespaces, until one reader takes them.

    The reader then processes only these names. There may be thousands of namespaces, which are
    listed at different times; to process all names at each change would keep the event loop busy.

    Args:
        names: the first names for the reader.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = dict.fromkeys(names)
        self._name_added = anyio.Event()

    def add(self, name: str) -> None:
        """Add a name, and wake the reader."""
        self._names[name] = None
        self._name_added.set()

    def take(self) -> list[str]:
        """Return the names that were added since the last call, in that order."""
        names, self._names = list(self._names), {}
        self._name_added = anyio.Event()
        return names

    async def wait(self) -> None:
        """Return once there is a name to take."""
        if not self._names:
            await self._name_added.wait()


class NamespaceSet:
    """The namespaces that informers watch; it may change while they run.

    The set is kept in memory: each process fills its own, also one that waits to lead.

    Args:
        names: the first namespaces.

    Raises:
        TypeError: a name is no text.
        ValueError: a name is empty.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        if isinstance(names, str):
            raise TypeError(f"NamespaceSet needs a list of names: write NamespaceSet([{names!r}])")
        self._names = {_require_name(name) for name in names}
        self._readers: list[NamespaceChanges] = []

    def __iter__(self) -> Iterator[str]:
        """Yield the names, sorted."""
        return iter(sorted(self._names))

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    @contextmanager
    def watch_changes(self) -> Iterator[NamespaceChanges]:
        """Yield the names of namespaces that enter or leave the set, or are listed by an informer.

        The first names are all names of the set.
        """
        reader = NamespaceChanges(self)
        self._readers.append(reader)
        try:
            yield reader
        finally:
            self._readers.remove(reader)

    def note_change(self, name: str) -> None:
        """Give a name to the readers of `watch_changes`, and wake them.

        Args:
            name: the namespace that entered the set, was listed, or has left.
        """
        for reader in self._readers:
            reader.add(name)

    def add(self, name: str) -> None:
        """Watch a namespace from now on; it need not exist, and roles need not grant it yet.

        Args:
            name: the name of the namespace.

        Raises:
            TypeError: the name is no text.
            ValueError: the name is empty, which would mean all namespaces.
        """
        if _require_name(name) not in self._names:
            self._names.add(name)
            self.note_change(name)

    def remove(self, name: str) -> None:
        """Watch a namespace no longer; does nothing if it is not in the set.

        Its objects leave the caches shortly after that, and handlers get them as deleted.

        Args:
            name: the name of the namespace.
        """
        if name in self._names:
            self._names.remove(name)
            self.note_change(name)

    def replace(self, names: Iterable[str]) -> None:
        """Add the namespaces of `names` that the set lacks, and remove all others.

        Args:
            names: the names of all namespaces to watch.

        Raises:
            TypeError: a name is no text; the set is unchanged.
            ValueError: a name is empty; the set is unchanged.
        """
        target = NamespaceSet(names)  # raises for a wrong name before anything changes
        for name in set(self._names).difference(target):
            self.remove(name)
        for name in target:
            self.add(name)

    def follow(self, namespaces: Informer[Any]) -> Registration:
        """Keep the set equal to the namespaces in an informer's cache.

        If the informer has a label selector, the label decides. The set is current in every
        process, also while it waits to lead.

        Args:
            namespaces: has the namespaces to watch in its cache.

        Raises:
            TypeError: `namespaces` is no informer.
            ValueError: `namespaces` is the informer of another kind.
        """
        if not isinstance(namespaces, Informer):
            raise TypeError(
                "NamespaceSet.follow needs an informer of namespaces, as Manager.get_informer"
                f" returns it, not {safe_repr(namespaces)}"
            )
        if namespaces.resource.full_name != "namespaces":
            raise ValueError(
                f"NamespaceSet.follow needs an informer of namespaces, not of"
                f" {namespaces.resource.full_name}"
            )

        def update_set(change: Change[Any]) -> None:
            """Add or remove the namespace that changed."""
            if change.new is not None:
                self.add(change.new.metadata.name)
            elif change.old is not None:
                self.remove(change.old.metadata.name)

        return namespaces.add_handler(update_set)


@dataclass(eq=False, slots=True)
class _Member(Generic[T]):
    """The informer of one namespace.

    Args:
        informer: lists and watches the namespace.
        was_attempted: whether the namespace's first list has succeeded or failed.
        watch_scope: is cancelled when the namespace leaves the set.
        retry_scope: is cancelled when the namespace comes back, while handlers that raised on its
            last changes are called again.
    """

    informer: Informer[T]
    was_attempted: bool = False
    watch_scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    retry_scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    @property
    def is_leaving(self) -> bool:
        """Whether the namespace has left the set, and its objects are being dropped."""
        return self.watch_scope.cancel_called


class UnreadableInNamespaces(Mapping[Key, str]):
    """The unreadable objects of all namespaces, with the reasons.

    Args:
        informers: by namespace.
    """

    def __init__(self, informers: Mapping[str, Informer[Any]]) -> None:
        self._informers = informers

    @override
    def __getitem__(self, key: Key) -> str:
        """Return why an object is unreadable; raise KeyError if it is not."""
        return self._informers[key.namespace].cache.unreadable[key]

    @override
    def __iter__(self) -> Iterator[Key]:
        return chain.from_iterable(
            informer.cache.unreadable for informer in self._informers.values()
        )

    @override
    def __len__(self) -> int:
        return sum(len(informer.cache.unreadable) for informer in self._informers.values())


class NamespacesCache(Generic[T]):
    """The objects of one kind in all namespaces of a set, to read as one cache.

    Args:
        resource: the kind.
        informers: by namespace; the mapping changes with the set.
        indexes: the names of the indexes.
    """

    def __init__(
        self,
        resource: Resource[T],
        informers: Mapping[str, Informer[T]],
        indexes: Iterable[str],
    ) -> None:
        self._resource = resource
        self._informers = informers
        self._indexes = frozenset(indexes)
        self._unreadable = UnreadableInNamespaces(informers)

    def get(self, key: Key) -> T | None:
        """Return the object with that `key`; None if the caches have none.

        Raises:
            TypeError: `key` is no Key, but an object or a text, for example.
        """
        check_cache_key(key, self._resource)
        informer = self._informers.get(key.namespace)
        return informer.cache.get(key) if informer is not None else None

    def list_by_index(self, index: str, value: str) -> tuple[T, ...]:
        """Return the objects that have `value` in `index`, sorted by key.

        Raises:
            KeyError: there is no index of that name.
        """
        if index not in self._indexes:
            raise KeyError(index)  # also while there is no cache that would raise it
        return tuple(
            chain.from_iterable(
                informer.cache.list_by_index(index, value)
                for _, informer in sorted(self._informers.items())
            )
        )

    @property
    def is_history_confirmed(self) -> bool:
        """Whether `Cache.is_history_confirmed` is true in the cache of each namespace."""
        return all(informer.cache.is_history_confirmed for informer in self._informers.values())

    @property
    def unreadable(self) -> Mapping[Key, str]:
        """The objects whose latest version could not be decoded or indexed, with the reason."""
        return self._unreadable

    def __iter__(self) -> Iterator[T]:
        """Iterate over all objects, in no order."""
        return chain.from_iterable(informer.cache for informer in self._informers.values())

    def __len__(self) -> int:
        return sum(len(informer.cache) for informer in self._informers.values())

    def __contains__(self, key: object) -> bool:
        """Return whether there is an object with that key; False for a value that is no Key."""
        return isinstance(key, Key) and self.get(key) is not None


class NamespacesInformer(Generic[T]):
    """An informer of one kind in the namespaces of a set.

    A namespace that the server refuses (401, 403) is retried with back-off. The log, `failures`
    and the metric of informers without a list name it. The other namespaces are served meanwhile.
    Readiness does not depend on a refused namespace while at least one namespace can be listed.

    Args:
        resource: the kind.
        namespaces: the namespaces that are watched; the set may change.
        create: creates the informer of a namespace.
        scope: the selectors; the namespace is empty.
        indexes: the names of the indexes.
    """

    def __init__(
        self,
        resource: Resource[T],
        namespaces: NamespaceSet,
        create: Callable[[str], Informer[T]],
        *,
        scope: Scope,
        indexes: Iterable[str],
    ) -> None:
        self.resource = resource
        self.namespaces = namespaces
        """The set."""
        self.scope = scope
        """The selectors; the namespace is empty."""
        self._create = create
        self._group: InformerGroup[str, T] = InformerGroup()
        self._members: dict[str, _Member[T]] = {}
        self._attempted: set[str] = set()
        """The namespaces in the set whose first list has succeeded or failed."""
        self._was_listed = False
        """Whether the namespaces were listed once; readiness does not wait for later ones."""
        self.cache: NamespacesCache[T] = NamespacesCache(resource, self._group.informers, indexes)
        """The objects in all namespaces."""

    @property
    def namespace_names(self) -> tuple[str, ...]:
        """The namespaces that are watched."""
        return tuple(self.namespaces)

    @property
    def failures(self) -> Mapping[str, ControllerError]:
        """By namespace, why list or watch fails; without namespaces whose cache is current."""
        errors = {
            name: member.informer.last_error for name, member in self._current_members.items()
        }
        return {name: error for name, error in errors.items() if error is not None}

    @property
    def silent_seconds(self) -> float:
        """The most seconds since the last list, event or bookmark of a namespace."""
        return max((informer.silent_seconds for informer in self._informers), default=0.0)

    @property
    def lag_seconds(self) -> float:
        """Seconds since the oldest write of ours that its watch has not delivered; 0 for none."""
        return max((informer.lag_seconds for informer in self._informers), default=0.0)

    @property
    def unlisted_count(self) -> int:
        """The number of namespaces without a first list."""
        return sum(self.find_listed(name) is None for name in self.namespaces)

    @property
    def _informers(self) -> Iterable[Informer[T]]:
        """The informers of all namespaces, including namespaces that are leaving the set."""
        return self._group.informers.values()

    @property
    def _current_members(self) -> dict[str, _Member[T]]:
        """The members whose namespace is in the set."""
        return {name: member for name, member in self._members.items() if not member.is_leaving}

    @property
    def _is_synced(self) -> bool:
        """Whether a first list was tried in each namespace and at least one succeeded.

        True for an empty set.
        """
        if len(self._attempted) < len(self.namespaces):
            return False  # decided without a loop, because each first list asks for this
        names = tuple(self.namespaces)
        return self._attempted.issuperset(names) and (
            not names or any(self.find_listed(name) is not None for name in names)
        )

    def find_listed(self, namespace: str) -> Informer[T] | None:
        """Return the informer of a namespace; None unless it is in the set and was listed.

        Args:
            namespace: the name of the namespace.
        """
        member = self._members.get(namespace)
        if member is None or member.is_leaving or member.informer.unlisted_count:
            return None
        return member.informer

    def is_attached(self, namespace: str, informer: Informer[T]) -> bool:
        """Return whether an informer still delivers changes to the handlers.

        Args:
            namespace: the name of the namespace.
            informer: the informer of the namespace that `find_listed` returned.
        """
        return self._group.informers.get(namespace) is informer

    def create_check(self) -> Check:
        """Return a readiness check that fails while a namespace that may be listed is not.

        The check also fails while the server refuses all namespaces. A namespace that enters the
        set after the others were listed does not count until its first list has been tried.
        """
        kind = self.resource.full_name
        parts = ("informer", kind, "namespaces", self.scope.labels, self.scope.fields)
        return Check("/".join(part for part in parts if part), self._find_failing)

    def _find_failing(self) -> Failing | None:
        """Return the first failure of a namespace that is not refused; None if there is none.

        Refusals count only if all namespaces are refused.
        """
        kind, current = self.resource.full_name, self._current_members
        refused: dict[str, ControllerError] = {}
        for name in self.namespaces:
            member = current.get(name)
            if member is None or not member.was_attempted:
                if self._was_listed:
                    continue  # it has just entered the set; the other namespaces are served
                return Failing(f"{kind} not listed yet", f"in namespace {name}")
            informer = member.informer
            if informer.refusal is not None:
                refused[name] = informer.refusal
            elif (failing := informer.create_check().run()) is not None:
                return Failing(failing.problem, f"in namespace {name}: {failing.why}")
        if refused and len(refused) == len(self.namespaces):
            # Each refusal is a SourceError with its verb; the type of `refusal` is wider.
            verbs = (error.verb for error in refused.values() if isinstance(error, SourceError))
            verb = next(verbs, "list")
            why = "; ".join(f"in namespace {name}: {error}" for name, error in refused.items())
            return Failing(f"cannot {verb} {kind} in any namespace", why)
        return None

    def add_handler(self, handler: Handler[T], *, replayed: bool = True) -> Registration:
        """Call `handler` with every object in the cache, then with every change from now on.

        Objects of a namespace that leaves the set are delivered as deleted, with
        `final_state_unknown`. All else is as in `Informer.add_handler`.

        Args:
            handler: a plain function that gets each change.
            replayed: False to leave out the objects in the cache.

        Raises:
            TypeError: the handler is async or cannot be called.
        """
        check_plain(handler, "the handler of an informer", "change")
        # The group itself replays the objects of all informers, so no informer does.
        return self._group.subscribe(
            lambda _, informer: informer.add_handler(handler, replayed=False), replayed=replayed
        )

    def add_unreadable_handler(
        self, handler: Callable[[Key], None], *, replayed: bool = True
    ) -> Registration:
        """Call `handler` with the keys of objects that cannot be decoded or indexed.

        Args:
            handler: a plain function that gets the key for each version that cannot be read, and
                when the object is deleted or can be read again.
            replayed: False to leave out the objects that are unreadable now.

        Raises:
            TypeError: the handler is async or cannot be called.
        """
        check_plain(handler, "the handler of unreadable objects", "key")
        # The group itself replays the objects of all informers, so no informer does.
        return self._group.subscribe(
            lambda _, informer: informer.add_unreadable_handler(handler, replayed=False),
            replayed=replayed,
        )

    def apply_own_write(self, obj: T) -> None:
        """Show `obj`, the response to a write of ours, until the watch delivers it."""
        member = self._members.get(obj.metadata.namespace)
        # If the namespace is leaving, its watch has ended and would never remove the object.
        if member is not None and not member.is_leaving:
            member.informer.apply_own_write(obj)

    def mark_deleted(self, version: Version) -> None:
        """Hide an object that the server says it has deleted.

        Args:
            version: the object as it was when its deletion was requested.
        """
        informer = self._group.informers.get(version.namespace)
        if informer is not None:
            informer.mark_deleted(version)

    def retry_now(self) -> None:
        """Retry failed lists and watches without further delay: the served kinds have changed."""
        for informer in self._informers:
            informer.retry_now()

    async def wait_synced(self) -> None:
        """Return once each namespace was tried and one was listed, or the set is empty."""
        with self.namespaces.watch_changes() as changes:
            while not self._is_synced:
                changes.take()
                await changes.wait()

    async def run(self) -> None:
        """Keep the caches of the namespaces in the set current until cancelled."""
        with self.namespaces.watch_changes() as changes:
            async with anyio.create_task_group() as group:
                while True:
                    for name in changes.take():
                        member = self._members.get(name)
                        if name not in self.namespaces:
                            self._stop_watching(name)
                        elif member is None:
                            group.start_soon(
                                self._watch_while_in_set, name, self._add_member(name)
                            )
                        elif member.is_leaving:
                            # The namespace came back: `_watch_while_in_set` ends the old informer
                            # at once, and starts a new one.
                            member.retry_scope.cancel()
                    # An empty set counts as synced, but nothing in it was listed.
                    if len(self.namespaces) > 0 and self._is_synced:
                        self._was_listed = True
                    await changes.wait()

    def _add_member(self, name: str) -> _Member[T]:
        """Create the informer of a namespace, and register all handlers before its first list."""
        member = self._members[name] = _Member(self._create(name))
        self._group.attach(name, member.informer)
        return member

    def _stop_watching(self, name: str) -> None:
        """Stop watching a namespace that has left the set.

        `_watch_while_in_set` then drops its objects.
        """
        self._attempted.discard(name)
        if name in self._members:
            self._members[name].watch_scope.cancel()

    async def _watch_while_in_set(self, name: str, member: _Member[T]) -> None:
        """Watch a namespace until it has left the set and its objects are dropped.

        If it came back meanwhile, it is watched again by a new informer.
        """
        while True:
            await self._watch_until_left(name, member)
            await self._drop_objects(member)
            self._group.detach(name)
            del self._members[name]
            self.namespaces.note_change(name)  # controllers are connected to the old informer
            if name not in self.namespaces:
                return
            member = self._add_member(name)

    async def _watch_until_left(self, name: str, member: _Member[T]) -> None:
        """Run the informer of a namespace until `_stop_watching`; note how its first list ends."""
        with member.watch_scope:
            async with anyio.create_task_group() as group:
                group.start_soon(self._note_first_list, name, member)
                await member.informer.run()

    async def _drop_objects(self, member: _Member[T]) -> None:
        """Deliver the objects of a namespace that has left as deleted, to each handler.

        A handler that raises is retried for some minutes, not for ever: its informer would stay in
        memory. If the namespace comes back meanwhile, the handler is called one last time without
        a delay, because the new informer must not deliver objects before the old one has ended.
        """
        await member.informer.drop_objects()
        with member.retry_scope:
            await member.informer.finish_deliveries()
        if member.retry_scope.cancel_called:
            await member.informer.finish_deliveries_now()

    async def _note_first_list(self, name: str, member: _Member[T]) -> None:
        """Note in the set that the first list of a namespace has succeeded or failed.

        A failure is logged, and the success after it.
        """
        await member.informer.wait_attempted()
        member.was_attempted = True
        # The namespace may have left the set while it was listed.
        if name in self.namespaces and not member.is_leaving:
            self._attempted.add(name)
        self.namespaces.note_change(name)
        if not member.informer.unlisted_count:
            return
        log.error(
            "A namespace cannot be listed, the others are served",
            resource=self.resource.full_name,
            unserved=name,
            error=str(member.informer.last_error),
        )
        await member.informer.wait_synced()
        log.info(
            "A namespace can be listed, it is served",
            resource=self.resource.full_name,
            served=name,
        )
        self.namespaces.note_change(name)


def _require_name(name: object) -> str:
    """Return `name` if it can be the name of a namespace.

    Raises:
        TypeError: `name` is no text.
        ValueError: `name` is empty, which would mean all namespaces.
    """
    if not isinstance(name, str):
        raise TypeError(f"a NamespaceSet has names of namespaces, not {safe_repr(name)}")
    if not name:
        raise ValueError(
            "a namespace has a name: to watch all namespaces, ask for the informer without"
            " namespaces="
        )
    return name
