"""The balancer of tests behind the port of load balancers.

One AddressOffer holds the ranges of a tenant. It is never deleted with ranges in it. A range is
out when an offer without it was written since the mark, and the process in the tenant has
acknowledged exactly the generation that is stored. Each rule has a switch; with it off, laws must
break.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from allocator import AddressRange
from controller.client import Client
from controller.clock import Clock
from controller.errors import NotFound
from controller.meta import Version
from reconcilers.addressing import addresstexts
from reconcilers.api import names
from reconcilers.api.services import Service
from reconcilers.clusteraccess.clusteridentity import is_of_other_management
from reconcilers.loadbalancers.ownernotes import names_other_owner
from reconcilers.loadbalancers.port import (
    BEHIND,
    BalancerBlocked,
    BalancerMemory,
    BalancerReading,
    Confirm,
    Correction,
    Health,
    HealthState,
    IsKept,
    LoadBalancer,
    LoadBalancerKind,
    NotYet,
    Offer,
    Permit,
    Projection,
    Proven,
    ServiceView,
    Unprovable,
    WatchedKind,
    WatchedOffers,
    Withdrawal,
    WithdrawalAnswer,
)
from tests.reconcilers.memorybalancer.offers import ADDRESS_OFFER, OFFER_KEY, AddressOffer


@dataclass(frozen=True)
class Rules:
    """The rules of the port, each of which can be switched off.

    Args:
        refuses_older_views: an offer with a basis above the projection's is not written.
        creates_empty: a missing offer is created without ranges, and then filled.
        confirms: before it is filled, what the cache says is confirmed live.
        writes_what_was_read: a write has the version of the offer that was judged.
        waits_for_mark: an offer proves nothing that was not written since the mark.
        looks_for_range: an offer that has the range proves nothing.
        waits_for_process: an offer proves nothing that the process has not acknowledged.
        keeps_ranges: a Service that shows an address of a range keeps it.
        shows_acknowledgement: the process acknowledges at all; if not, nothing can be proven.
    """

    refuses_older_views: bool = True
    creates_empty: bool = True
    confirms: bool = True
    writes_what_was_read: bool = True
    waits_for_mark: bool = True
    looks_for_range: bool = True
    waits_for_process: bool = True
    keeps_ranges: bool = True
    shows_acknowledgement: bool = True


@dataclass(frozen=True, slots=True)
class OfferReading(BalancerReading):
    """The offer in a tenant; None if there is none."""

    offer: AddressOffer | None = None


@dataclass(slots=True)
class Unread:
    """Since when the process has not acknowledged the offer; None if it has."""

    since: float | None = None


class MemoryBalancer(LoadBalancer):
    """The balancer of one tenant."""

    def __init__(self, client: Client, rules: Rules, clock: Clock, memory: BalancerMemory) -> None:
        self._client = client
        self._rules = rules
        self._clock = clock
        self._unread = memory.get_or_create(Unread)

    @override
    async def read(self) -> OfferReading:
        try:
            offer = await self._find()
        except BalancerBlocked as missing:
            return OfferReading({}, missing.message)
        targets = {} if offer is None else {OFFER_KEY.name: _offer_of(offer)}
        return OfferReading(targets, offer=offer)

    @override
    async def read_targets(self) -> BalancerReading:
        return await self.read()

    @override
    async def project(self, projection: Projection, confirm: Confirm, permit: Permit) -> None:
        live = await self._find()
        if live is None and not projection.entries:
            return
        if live is not None:
            try:
                await permit(_offer_of(live))
            except BalancerBlocked:
                if projection.entries:
                    raise
                return
        if live is None:
            is_filled = not self._rules.creates_empty
            live = await self._create(projection, projection.entries if is_filled else ())
        if self._rules.refuses_older_views and _basis_of(live) > projection.basis:
            raise BalancerBlocked(BEHIND, "another replica has written a newer state")
        if not live.spec.entries and projection.entries and self._rules.confirms:
            confirmed = await confirm()
            if confirmed.entries != projection.entries:
                raise BalancerBlocked(BEHIND, "a live read shows other ranges")
        if (
            live.spec.entries != projection.entries
            or _basis_of(live) < projection.needed
            or not projection.owner.items() <= live.metadata.annotations.items()
        ):
            await self._write(live, projection)

    @override
    async def overwrite(
        self, projection: Projection, position: int, permit: Permit
    ) -> Offer | None:
        live = await self._find()
        if live is None or _basis_of(live) <= position:
            return None
        await permit(_offer_of(live))
        await self._write(live, projection)
        return _offer_of(live)

    @override
    async def prove_withdrawal(
        self, reading: BalancerReading, withdrawal: Withdrawal
    ) -> WithdrawalAnswer:
        assert isinstance(reading, OfferReading)
        if not reading.is_served:
            return Unprovable("to see that it is gone", ("not served", 0), reading.missing)
        if reading.offer is None:  # deleted only after it was empty, and that acknowledged
            return Proven()
        return self._judge(reading.offer, withdrawal)

    def _judge(self, offer: AddressOffer, withdrawal: Withdrawal) -> WithdrawalAnswer:
        rules = self._rules
        is_taken = names_other_owner(offer, withdrawal.owner)
        is_behind = _basis_of(offer) < withdrawal.mark and not is_taken
        if rules.waits_for_mark and is_behind:
            return NotYet("the offer was not written since the mark")
        if rules.looks_for_range and _has_any(offer, withdrawal.spans):
            return NotYet("the offer still has the range")
        if not rules.shows_acknowledgement:
            return Unprovable("to read", (offer.metadata.uid, offer.metadata.generation or 0))
        if rules.waits_for_process and not _is_acknowledged(offer):
            return NotYet("the process has not acknowledged the offer")
        return Proven()

    @override
    async def read_health(self, projection: Projection) -> Health:
        offer = await self._find()
        if not projection.entries or (offer is not None and _is_acknowledged(offer)):
            self._unread.since = None
            return Health()
        if self._unread.since is None:
            self._unread.since = self._clock.monotonic()
        message = "the process has not read the offer"
        return Health(
            HealthState.NOT_READING, "OfferNotRead", message=message, since=self._unread.since
        )

    @override
    async def find_stale_configuration(self, reading: BalancerReading) -> str | None:
        assert isinstance(reading, OfferReading)
        return None if reading.offer is None or _is_acknowledged(reading.offer) else ""

    @override
    async def find_interference(self) -> str:
        return ""

    @override
    async def find_announcement_problem(self) -> str:
        return ""

    @override
    async def remove(self, management: str, is_kept: IsKept) -> None:
        offer = await self._find()
        if offer is None or offer.spec.entries or is_of_other_management(offer, management):
            return
        await self._client.delete(ADDRESS_OFFER, Version.from_object(offer))

    async def _find(self) -> AddressOffer | None:
        try:
            return await self._client.get(ADDRESS_OFFER, OFFER_KEY)
        except NotFound:
            if await self._client.is_served(ADDRESS_OFFER):
                return None
            raise BalancerBlocked("OffersNotServed", "the tenant has no offers") from None

    async def _create(self, projection: Projection, entries: Sequence[str]) -> AddressOffer:
        body = _body(projection, entries)
        body["metadata"]["name"] = OFFER_KEY.name
        return await self._client.create(ADDRESS_OFFER, OFFER_KEY.namespace, body)

    async def _write(self, live: AddressOffer, projection: Projection) -> None:
        body = _body(projection, projection.entries)
        if self._rules.writes_what_was_read:
            await self._client.patch(ADDRESS_OFFER, Version.from_object(live), body)
        else:
            await self._client.apply(
                ADDRESS_OFFER, OFFER_KEY, body, manager=names.TENANT_FIELD_MANAGER, force=True
            )


class MemoryKind(LoadBalancerKind):
    """The balancer of tests.

    Args:
        clock: the time.
        rules: those that are switched on.
        wait: seconds for which a withdrawal is waited for that cannot be proven.
    """

    title = "the balancer of tests"
    missing_reason = "OffersNotServed"
    absent_reasons = frozenset({"OffersNotServed"})
    not_reading_reason = "OfferNotRead"

    def __init__(self, clock: Clock, rules: Rules | None = None, wait: float = 0.0) -> None:
        self._wait = wait
        self._clock = clock
        self._rules = rules or Rules()

    @property
    @override
    def wait(self) -> float:
        return self._wait

    @property
    @override
    def watches(self) -> Sequence[WatchedKind]:
        return ()

    @override
    def make_balancer(
        self, client: Client, memory: BalancerMemory, watched: WatchedOffers | None = None
    ) -> MemoryBalancer:
        return MemoryBalancer(client, self._rules, clock=self._clock, memory=memory)

    @override
    def view_service(self, service: Service) -> ServiceView:
        return ServiceView(self._rules.keeps_ranges and not service.spec.loadBalancerClass)

    @override
    def compute_check_delay(self, memory: BalancerMemory) -> float | None:
        return None if memory.get_or_create(Unread).since is None else 1.0

    @override
    def take_corrections(self, memory: BalancerMemory) -> Sequence[Correction]:
        return ()


def _offer_of(offer: AddressOffer) -> Offer:
    return Offer(
        metadata=offer.metadata,
        kind=ADDRESS_OFFER.kind,
        entries=offer.spec.entries,
        is_made_by_us=names.ANNOTATION_PROJECTION_BASIS in offer.metadata.annotations,
        basis=_basis_of(offer),
    )


def _basis_of(offer: AddressOffer) -> int:
    noted = offer.metadata.annotations.get(names.ANNOTATION_PROJECTION_BASIS, "0")
    return int(noted) if noted.isdecimal() else 0


def _is_acknowledged(offer: AddressOffer) -> bool:
    """Return whether the process acts on the generation that is stored: equal, never above."""
    return offer.status.observedGeneration == offer.metadata.generation


def _has_any(offer: AddressOffer, spans: Sequence[AddressRange]) -> bool:
    entries = [addresstexts.parse_cidr_or_span(entry) for entry in offer.spec.entries]
    return any(entry is None or any(map(entry.overlaps, spans)) for entry in entries)


def _body(projection: Projection, entries: Sequence[str]) -> dict[str, Any]:
    annotations = {names.ANNOTATION_PROJECTION_BASIS: str(projection.basis), **projection.owner}
    return {"metadata": {"annotations": annotations}, "spec": {"entries": list(entries)}}
