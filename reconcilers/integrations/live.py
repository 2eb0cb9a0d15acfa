"""Views of the pools of all integrations, kept current by watches while a reader wants them.

Meanwhile the API server is asked every few seconds which kinds it serves, because the reader may
lack the permission to watch CustomResourceDefinitions. A platform whose kinds are not served shows
nothing. If a kind that holds addresses may not be read, only the total of its pools is known.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import anyio

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.errors import ControllerError, Forbidden, NotFound
from controller.indexes import IndexFunction
from controller.informer import Informer
from controller.jobs import run_in_background
from controller.meta import Key, Object
from controller.resource import Resource
from controller.transport import Transport
from reconcilers.api.networkpool import NetworkPool
from reconcilers.configuration.integrationnames import INTEGRATIONS
from reconcilers.integrations.core.live import LivePlatform, PlatformSource, WatchedResource
from reconcilers.integrations.core.platforms import Platform
from reconcilers.integrations.core.scopedlists import NotRead, find_readable_namespace
from reconcilers.integrations.core.views import Views, Wanted, merge_views, want_every_pool
from reconcilers.integrations.poolkinds import as_readable
from reconcilers.integrations.registry import list_platforms
from reconcilers.spaces.offers import PoolName

LOOK_SECONDS = 10.0
"""Seconds between two requests for the kinds that are served."""
KEPT_SECONDS = 60.0
"""Seconds that watches stay after the last reader, so that a reloaded page finds them."""
FIRST_SECONDS = 3.0
"""Seconds to wait for the first lists; kinds that are not listed by then are shown as unread."""

Changed = Callable[[Collection[PoolName]], None]
ObjectT = TypeVar("ObjectT", bound=Object)


@dataclass(frozen=True, slots=True)
class _Session:
    """The watches of one platform, for as long as the same kinds of it are served.

    Args:
        served_kinds: the served kinds of the platform.
        live: the watches and views of the platform; None if a kind that they need is not served.
        scope: cancelling it ends the watches.
        not_read: the kinds that the user may not read; they are not watched.
    """

    served_kinds: frozenset[Resource[Object]]
    live: LivePlatform | None
    scope: anyio.CancelScope
    not_read: Sequence[NotRead]

    @property
    def watched(self) -> Sequence[WatchedResource[Object]]:
        """The watched kinds of the platform; empty if the platform is not served."""
        return self.live.watched if self.live is not None else ()

    def get_if_ready(self) -> LivePlatform | None:
        """Return the platform's views, once each of its kinds was listed or is forbidden to list.

        None before that, and if the platform or one of its kinds is not served (any more).
        """
        informers = [watched.informer for watched in self.readable]
        is_answered = all(
            informer.cache.is_synced or _is_forbidden(informer) for informer in informers
        )
        return self.live if is_answered and not any(map(_is_gone, informers)) else None

    @property
    def readable(self) -> Sequence[WatchedResource[Object]]:
        """The kinds that the user may read, at least in one namespace."""
        return [
            watched
            for watched in self.watched
            if find_readable_namespace(watched.informer.resource, self.not_read) is not None
        ]

    def list_concerned_pools(self) -> set[PoolName]:
        """Return the pools that the platform's objects concern."""
        return {name for watched in self.watched for name in watched.list_concerned_pools()}


def _is_forbidden(informer: Informer[Object]) -> bool:
    """Return whether the API server forbids to read a kind."""
    error = informer.last_error
    return error is not None and isinstance(error.__cause__, Forbidden)


def _is_gone(informer: Informer[Object]) -> bool:
    """Return whether the API server no longer serves a kind."""
    error = informer.last_error
    return error is not None and isinstance(error.__cause__, NotFound)


def _is_unknown(informer: Informer[Object]) -> bool:
    """Return whether there may be objects of a kind that were not read.

    The kind is forbidden, or not listed yet. A kind that is no longer served has no objects.
    """
    return _is_forbidden(informer) or not (informer.cache.is_synced or _is_gone(informer))


class LiveViews:
    """Views of the pools of the platforms whose kinds are served now.

    Args:
        transport: the API server, with the permissions of the user.
        networkpools: all NetworkPools, which the caller watches.
        platforms: the names of the integrations to show.
        not_read: the kinds that the user may not read; they are not watched.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        networkpools: Cache[NetworkPool],
        platforms: Collection[str] = INTEGRATIONS,
        *,
        not_read: Sequence[NotRead] = (),
    ) -> None:
        self.looked = anyio.Event()
        """Set once the served kinds are known, and their objects are listed.

        If the lists take longer than `FIRST_SECONDS`, it is set without them.
        """
        self._transport = transport
        self._clock = clock
        self._not_read = not_read
        self._source = PlatformSource(self._informer, networkpools)
        self._platforms = list(list_platforms(platforms))
        self._sessions: dict[int, _Session] = {}
        """By the position of the platform in `_platforms`."""
        self._changed: Changed | None = None
        self._wanted_until = 0.0
        """The time (monotonic seconds) until which a reader wants the views."""
        self._wanted = anyio.Event()
        """Set while a reader wants the views."""
        self._error: ControllerError | None = None
        """Why the last look at the served kinds failed; None if it succeeded."""

    def on_change(self, changed: Changed) -> None:
        """Call `changed` from now on with the pools that a change concerns, if any."""
        self._changed = changed

    def keep_current(self, seconds: float = KEPT_SECONDS) -> None:
        """Keep all views current for at least `seconds` from now on."""
        self._wanted_until = max(self._wanted_until, self._clock.monotonic() + seconds)
        self._wanted.set()

    def list_pool_names(self) -> list[PoolName]:
        """Return the pools of the platforms that can be shown now, in order."""
        return [name for live in self._list_ready() for name in live.list_pool_names()]

    def build_views(self, wants: Wanted = want_every_pool) -> Views:
        """Return the current views of the wanted pools.

        Args:
            wants: returns whether a pool is wanted.
        """
        not_read = [*self._not_read, *self.list_not_read()]
        platform_views = [live.make_views(wants, not_read) for live in self._list_ready()]
        views = merge_views([*platform_views, Views(not_read=self.list_not_read())])
        pictures = [as_readable(pool, not_read) for pool in views.pictures]
        return replace(views, pictures=pictures)

    def list_not_read(self) -> list[NotRead]:
        """Return the kinds that the API server forbids to read, or that are not listed yet.

        Kinds that the constructor's `not_read` forbids everywhere are left out.
        """
        if not self._sessions:  # which kinds are served is not known yet
            kinds = {
                kind.full_name for platform in self._platforms for kind in platform.live_kinds
            }
            forbidden = {limit.kind for limit in self._not_read if not limit.except_namespace}
            return [NotRead(name) for name in sorted(kinds - forbidden)]
        return [
            NotRead(watched.informer.resource.full_name)
            for session in self._sessions.values()
            for watched in session.readable
            if _is_unknown(watched.informer)
        ]

    def list_failures(self) -> Iterator[str]:
        """Yield the errors because of which views may be stale."""
        if self._error is not None:
            yield str(self._error)
        for session in self._sessions.values():
            for watched in session.watched:
                is_refused = _is_forbidden(watched.informer) or _is_gone(watched.informer)
                if watched.informer.last_error is not None and not is_refused:
                    yield str(watched.informer.last_error)

    async def run(self) -> None:
        """Keep all views current while a reader wants them, until cancelled."""
        while True:
            await self._wanted.wait()
            async with anyio.create_task_group() as group:
                while self._clock.monotonic() < self._wanted_until:
                    await self._look(group)
                    await self._clock.sleep(LOOK_SECONDS)
                group.cancel_scope.cancel()
            self._sessions = {}
            self._wanted = anyio.Event()

    def _list_ready(self) -> Iterator[LivePlatform]:
        """Yield the platforms that can be shown."""
        for session in self._sessions.values():
            live = session.get_if_ready()
            if live is not None:
                yield live

    async def _look(self, group: anyio.abc.TaskGroup) -> None:
        """Read which kinds are served, and restart the watches of platforms whose kinds changed.

        The first successful look also waits up to FIRST_SECONDS for the lists of all kinds.
        """
        client = Client(self._transport)
        kinds = [kind for platform in self._platforms for kind in platform.live_kinds]
        try:
            served_kinds = await client.list_served(kinds)
        except ControllerError as error:
            self._error = error
            self._notify()
            return
        self._error = None
        sessions_before = self._sessions
        for position, platform in enumerate(self._platforms):
            session = self._sessions.get(position)
            platform_kinds = served_kinds.intersection(platform.live_kinds)
            if session is None or session.served_kinds != platform_kinds:
                self._restart_watches(position, platform, served_kinds=platform_kinds, group=group)
        if self._sessions is not sessions_before:
            self._notify()  # `not_read` has changed, even if no kind is served
        if not self.looked.is_set():
            with self._clock.move_on_after(FIRST_SECONDS):
                for session in self._sessions.values():
                    for watched in session.readable:
                        await watched.informer.wait_synced()
            self.looked.set()

    def _restart_watches(
        self,
        position: int,
        platform: Platform,
        served_kinds: frozenset[Resource[Object]],
        group: anyio.abc.TaskGroup,
    ) -> None:
        """Replace the watches of a platform by watches of the kinds that are served now.

        Args:
            position: the position of the platform in `_platforms`.
            served_kinds: the served kinds of the platform.
            group: runs the new watches.
        """
        old_session = self._sessions.get(position)
        if old_session is not None:
            old_session.scope.cancel()
        live = platform.make_live_platform(served_kinds, self._source)
        session = _Session(served_kinds, live, scope=anyio.CancelScope(), not_read=self._not_read)
        self._sessions = dict(sorted({**self._sessions, position: session}.items()))
        if session.live is not None:
            group.start_soon(self._follow, session)

    async def _follow(self, session: _Session) -> None:
        """Run the watches of a platform until its scope is cancelled; report changed pools."""
        for watched in session.watched:
            watched.subscribe(self._notify)
            watched.informer.cache.subscribe_unreadable(partial(self._note_unreadable, session))
        try:
            with session.scope:
                async with run_in_background(
                    [watched.informer.run for watched in session.readable]
                ):
                    for watched in session.readable:
                        await watched.informer.wait_attempted()
                    # Some kinds may be forbidden; then the lists of the others suffice for views.
                    self._notify(session.list_concerned_pools())
                    for watched in session.readable:
                        await watched.informer.wait_synced()
                    self._notify(session.list_concerned_pools())
                    await anyio.sleep_forever()
        finally:
            # These include NetworkPools: what claims hold of them is unknown without the watches.
            self._notify(session.list_concerned_pools())

    def _note_unreadable(self, session: _Session, _: Key) -> None:
        """Report that all pools of a platform may have changed.

        An object that cannot be decoded may concern any of them.
        """
        names = session.live.list_pool_names() if session.live is not None else ()
        self._notify({*session.list_concerned_pools(), *names})

    def _notify(self, pools: Collection[PoolName] = ()) -> None:
        """Report that the views of these pools may have changed, or only the limits if none."""
        if self._changed is not None:
            self._changed(pools)

    def _informer(
        self, resource: Resource[ObjectT], indexes: Mapping[str, IndexFunction[ObjectT]], /
    ) -> Informer[ObjectT]:
        """Return an informer of a kind in the readable namespace; the caller runs it."""
        within = find_readable_namespace(resource, self._not_read) or ""
        return Informer(
            resource,
            self._transport,
            self._clock,
            namespace=within,
            indexes=indexes,
            streams=True,
        )
