"""Records the objects of the management cluster and of all tenants for the time of a context.

    async with recording(management, {Key("team", "a"): tenant}, METALLB_OFFERS) as recorded:
        ...                                     # let things happen
        assert await recorded.findings() == []

Every kind is watched, and listed twenty times a second. When the holder of an address changes in
the management cluster, the kinds in tenants are listed at once, as Services may still show it.
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
from tests.audit.history import History, Observation
from tests.audit.records import OfferKind, Records

BETWEEN_LISTS = 0.05
"""Seconds between the requests of two successive lists."""

T = TypeVar("T", bound=Object)
V = TypeVar("V")


class Recording:
    """A recording that goes on.

    Args:
        kept: the records, which the observers fill.
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
        """Return the violations up to now, once every server has answered one more LIST."""
        now = self._clock.monotonic()
        for observer in self._observers:
            await observer.wait_for_list_since(now)
        return rules.list_findings(self.records)

    def summary(self) -> str:
        """Return a sentence for people about how closely the clusters were observed."""
        seconds = self._clock.monotonic() - self._begun
        histories = self.records.list_histories()
        rate = min(history.list_count for history in histories) / seconds
        silence = max(history.longest_gap_seconds for history in histories)
        unanswered = sum(observer.unanswered for observer in self._observers)
        blind = self.records.compute_blind_seconds()
        return (
            f"{seconds:.1f} s recorded, each kind listed {rate:.0f} times a second or more,"
            f" at most {1000 * silence:.0f} ms apart, {unanswered} lists without an answer;"
            f" what is given back {1000 * blind:.0f} ms too early would have been found"
        )


@asynccontextmanager
async def recording(
    management: Transport, tenants: Mapping[Key, Transport], offers: OfferKind[Any]
) -> AsyncIterator[Recording]:
    """Record for the time of the context; all objects were listed once when this yields.

    Args:
        management: leads to the management cluster.
        tenants: lead to the tenants, by TenantCluster.
        offers: the kind of pools that their load balancers read.
    """
    clock = SystemClock()
    kept = Records.for_tenants(tenants)
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

    def list_inside() -> None:
        for observer in inside:
            observer.request_list()

    outside: list[_Observer[Any, Any]] = [
        _Observer(
            IP_ALLOCATION,
            management,
            clock=clock,
            history=kept.allocations,
            view=records.make_holding,
            on_change=list_inside,
        ),
        _Observer(
            NETWORK_POOL,
            management,
            clock=clock,
            history=kept.pools,
            view=records.make_promises,
            on_change=list_inside,
        ),
    ]
    observers = [*outside, *inside]
    async with anyio.create_task_group() as group:
        begun = clock.monotonic()
        for observer in observers:
            group.start_soon(observer.run)
        for observer in observers:
            await observer.wait_for_list_since(begun)
        yield Recording(kept, observers, clock)
        group.cancel_scope.cancel()


class _Observer(Generic[T, V]):
    """Keeps the history of one kind on one server.

    Args:
        resource: the kind.
        transport: the server.
        clock: of all noted times.
        history: is filled.
        view: returns the recorded content of an object.
        on_change: is called when the watch shows that this content has changed.
    """

    def __init__(
        self,
        resource: Resource[T],
        transport: Transport,
        clock: Clock,
        history: History[V],
        view: Callable[[T], V],
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._resource = resource
        self._client = Client(transport)
        self._clock = clock
        self._history = history
        self._view = view
        self._on_change = on_change
        self._informer = Informer(resource, transport, clock)
        self._informer.add_handler(self._note_change)
        self._list_requested = anyio.Event()
        self._listed = anyio.Event()
        self._last_begin = float("-inf")
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
                    await self._list_requested.wait()
                self._list_requested = anyio.Event()

    def request_list(self) -> None:
        """Send the next LIST as soon as the present one is answered."""
        self._list_requested.set()

    async def wait_for_list_since(self, moment: float) -> None:
        """Wait for the answer of a LIST that was sent at a moment or later."""
        while self._last_begin < moment:
            await self._listed.wait()

    async def _list(self, began: float) -> None:
        try:
            page = await self._client.list(self._resource)
        except ControllerError:
            self.unanswered += 1
            return
        assert not page.unreadable, page.unreadable
        seen = [self._make_observation(item) for item in page.items]
        self._history.note_list(began, self._clock.monotonic(), revision=page.revision, items=seen)
        self._last_begin = began
        self._listed.set()
        self._listed = anyio.Event()

    def _note_change(self, change: Change[T]) -> None:
        arrived = self._clock.monotonic()
        old, new = change.old, change.new
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._history.note_deletion(arrived, old.metadata.uid)
        if new is not None:
            self._history.note_event(arrived, self._make_observation(new))
        if old is None or new is None or self._view(old) != self._view(new):
            self._on_change()

    def _make_observation(self, obj: T) -> Observation[V]:
        meta = obj.metadata
        return Observation(meta.key, meta.uid, revision=meta.revision, value=self._view(obj))
