"""Watches and lists the management cluster and all tenants, for the time of a context.

    async with recording(management, {Key("team", "a"): tenant}, METALLB_OFFERS) as recorded:
        ...                                     # let things happen
        assert await recorded.findings() == []

Every kind is watched, and listed twenty times a second; and in a tenant at once when addresses
change hands in the management cluster, as it matters then who shows them.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

import anyio

from controller.cache import Change
from controller.client import Client
from controller.clock import Clock, SystemClock
from controller.errors import ControllerError
from controller.informer import Informer
from controller.meta import Key, Object
from controller.resource import Resource
from controller.transport import Transport
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.api.services import SERVICE
from tests.audit import records, rules
from tests.audit.history import History, Sighting
from tests.audit.records import OfferKind, Records

BETWEEN_LISTS = 0.05
"""Seconds from asking for a list to asking for the next one."""

T = TypeVar("T", bound=Object)
V = TypeVar("V")


class Recording:
    """What is being recorded.

    Args:
        kept: by the observers.
        observers: of every kind on every server.
        clock: of the observers.
    """

    def __init__(
        self, kept: Records, observers: "Sequence[_Observer[Any, Any]]", clock: Clock
    ) -> None:
        self.records = kept
        self._observers = observers
        self._clock = clock
        self._begun = clock.monotonic()

    async def findings(self) -> list[str]:
        """Return the violations up to now; every server has to answer once more."""
        now = self._clock.monotonic()
        for observer in self._observers:
            await observer.listed_since(now)
        return rules.findings(self.records)

    def summary(self) -> str:
        """Return how closely was looked, for people."""
        seconds = self._clock.monotonic() - self._begun
        histories = self.records.histories()
        rate = min(history.reads for history in histories) / seconds
        silence = max(history.longest_silence for history in histories)
        unanswered = sum(observer.unanswered for observer in self._observers)
        blind = self.records.blind_seconds()
        return (
            f"{seconds:.1f} s recorded, each kind listed {rate:.0f} times a second or more,"
            f" at most {1000 * silence:.0f} ms apart, {unanswered} lists without an answer;"
            f" what is given back {1000 * blind:.0f} ms too early would have been found"
        )


@asynccontextmanager
async def recording(
    management: Transport, tenants: Mapping[Key, Transport], offers: OfferKind[Any]
) -> AsyncIterator[Recording]:
    """Record for the time of the context; everything was seen once when this yields.

    Args:
        management: the way into the management cluster.
        tenants: the ways into tenants, by TenantCluster.
        offers: what their load balancers read.
    """
    clock = SystemClock()
    kept = Records.of(tenants)
    inside: list[_Observer[Any, Any]] = [
        observer
        for key, transport in tenants.items()
        for observer in (
            _Observer(
                SERVICE,
                transport,
                clock=clock,
                history=kept.tenants[key].services,
                view=records.list_shown_addresses,
            ),
            _Observer(
                offers.resource,
                transport,
                clock=clock,
                history=kept.tenants[key].pools,
                view=offers.list_addresses,
            ),
        )
    ]

    def look_inside() -> None:
        for observer in inside:
            observer.list_again()

    outside: list[_Observer[Any, Any]] = [
        _Observer(
            IP_ALLOCATION,
            management,
            clock=clock,
            history=kept.allocations,
            view=records.holding,
            moved=look_inside,
        ),
        _Observer(
            NETWORK_POOL,
            management,
            clock=clock,
            history=kept.pools,
            view=records.promises,
            moved=look_inside,
        ),
    ]
    observers = [*outside, *inside]
    async with anyio.create_task_group() as group:
        begun = clock.monotonic()
        for observer in observers:
            group.start_soon(observer.run)
        for observer in observers:
            await observer.listed_since(begun)
        yield Recording(kept, observers, clock)
        group.cancel_scope.cancel()


class _Observer(Generic[T, V]):
    """Keeps the history of one kind on one server.

    Args:
        resource: the kind.
        transport: the server.
        clock: by which everything is noted.
        history: where it is noted.
        view: what is remembered of an object.
        moved: called when the watch shows that this has changed for an object.
    """

    def __init__(
        self,
        resource: Resource[T],
        transport: Transport,
        clock: Clock,
        history: History[V],
        view: Callable[[T], V],
        moved: Callable[[], None] = lambda: None,
    ) -> None:
        self._resource = resource
        self._client = Client(transport)
        self._clock = clock
        self._history = history
        self._view = view
        self._moved = moved
        self._informer = Informer(resource, transport, clock)
        self._informer.add_handler(self._see)
        self._list_again = anyio.Event()
        self._listed = anyio.Event()
        self._last_began = float("-inf")
        self.unanswered = 0
        """How many lists failed."""

    async def run(self) -> None:
        """Watch and list until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._informer.run)
            await self._informer.wait_synced()
            while True:
                began = self._clock.monotonic()
                await self._list(began)
                with self._clock.move_on_after(began + BETWEEN_LISTS - self._clock.monotonic()):
                    await self._list_again.wait()
                self._list_again = anyio.Event()

    def list_again(self) -> None:
        """Ask for the next list as soon as the present one has come."""
        self._list_again.set()

    async def listed_since(self, moment: float) -> None:
        """Wait until a list has come that was asked for at a moment or later."""
        while self._last_began < moment:
            await self._listed.wait()

    async def _list(self, began: float) -> None:
        try:
            page = await self._client.list(self._resource)
        except ControllerError:
            self.unanswered += 1
            return
        assert not page.unreadable, page.unreadable
        seen = [self._sighting(item) for item in page.items]
        self._history.note_list(began, self._clock.monotonic(), revision=page.revision, items=seen)
        self._last_began = began
        self._listed.set()
        self._listed = anyio.Event()

    def _see(self, change: Change[T]) -> None:
        arrived = self._clock.monotonic()
        old, new = change.old, change.new
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._history.deletion(arrived, old.metadata.uid)
        if new is not None:
            self._history.event(arrived, self._sighting(new))
        if old is None or new is None or self._view(old) != self._view(new):
            self._moved()

    def _sighting(self, obj: T) -> Sighting[V]:
        meta = obj.metadata
        return Sighting(meta.key, meta.uid, revision=meta.revision, value=self._view(obj))
