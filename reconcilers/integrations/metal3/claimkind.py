"""Serve one kind of claims in passes over IPPools."""

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Generic, Protocol

from typing_extensions import override

from controller.client import Client
from controller.clock import Clock
from controller.events import Recorder
from controller.meta import Key
from reconcilers.configuration.settings import PoolSettings
from reconcilers.integrations.core.claimkind import ClaimKind
from reconcilers.integrations.core.claimreading import ClaimsReading
from reconcilers.integrations.core.restoredrequests import RestoredRequests
from reconcilers.integrations.metal3.addresswrites import AddressWrites
from reconcilers.integrations.metal3.api import POOLS, Metal3Pool
from reconcilers.integrations.metal3.caches import IPPoolClaimCaches, Metal3Caches, Metal3Reader
from reconcilers.integrations.metal3.claimformats import AddressT, ClaimT, EitherClaim
from reconcilers.integrations.metal3.entries import EntrySpace
from reconcilers.integrations.metal3.granting import make_claim_writes
from reconcilers.integrations.metal3.taking import EntryTaker, TakenAddresses
from reconcilers.promises.choosing import AskerRefusal, ServedAskers, select_refusals
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.journal import Journal
from reconcilers.promises.requestkinds import ServedRequests

Metal3Requests = ClaimKind[Metal3Pool, ClaimT, AddressT, Key, EntrySpace]
"""Claims of one kind, as the engine serves them from IPPools."""


@dataclass(frozen=True, slots=True)
class Metal3Parts:
    """The objects that passes over pools share for all kinds of claims.

    Args:
        reader: reads claims and IPAddresses.
        recorder: records events.
        settings: intervals, and how many writes run at once.
        generator: random numbers, for pools with random addresses.
    """

    client: Client
    caches: Metal3Caches
    reader: Metal3Reader
    recorder: Recorder
    clock: Clock
    settings: PoolSettings
    generator: Random


class ServedClaims(Protocol):
    """Claims of one kind as a pass over an IPPool sees them, whichever kind it is."""

    @property
    def claim_kind(self) -> str:
        """The full name of the kind."""
        ...

    @property
    def served_requests(
        self,
    ) -> ServedRequests[Metal3Pool, EitherClaim, ClaimsReading[EntrySpace]]:
        """The claims, for the passes over pools of all kinds; the same object each time."""
        ...

    def serve_askers(
        self, pool: Metal3Pool, reading: ClaimsReading[EntrySpace], unavailable: TakenAddresses
    ) -> ServedAskers[EitherClaim]:
        """Return the object that takes addresses of a pool for claims of this kind, in one pass.

        Args:
            pool: the pool as it was read.
            reading: the pool's claims and IPAddresses, as the pass read them.
            unavailable: the addresses that are promised, or chosen in this pass. The kinds share
                this object, and add the addresses that they take.
        """
        ...

    async def refuse(
        self, pool: Metal3Pool, refusals: Iterable[AskerRefusal[EitherClaim]]
    ) -> float | None:
        """Write to claims of this kind why they get no address, unless they show it already.

        Args:
            refusals: of claims of all kinds; those of other kinds are ignored.

        Returns:
            Seconds until writes that the API server rejected are retried; None if there are none.
        """
        ...

    async def refuse_waiting(self, pool: Metal3Pool, holdings: Holdings, why: str) -> float | None:
        """Write to each claim that waits for a pool why the pool serves no claim.

        Args:
            holdings: of the pool, as the caches show them.
            why: why the pool serves no claim, for the message.

        Returns:
            Seconds until writes that the API server rejected are retried; None if there are none.
        """
        ...

    async def count_blockers(self, pool: Metal3Pool, journal: Journal) -> int:
        """Return how many holders of addresses the deletion of a pool has to wait for.

        If there are none, promises of the pool to claims of this kind are voided before this
        returns, by writes to the claims.

        Raises:
            UnreadableHolders: objects that may hold its addresses cannot be decoded.
            ControllerError: a request failed.
        """
        ...

    def seconds_until_restored(self, pool: Metal3Pool) -> float | None:
        """Return in how many seconds the first restored claim of a pool may get any address.

        Returns:
            None if no claim of the pool waits for its IPAddress.
        """
        ...


class Metal3Claims(ServedClaims, Generic[ClaimT, AddressT]):
    """Claims of one kind that IPPools serve.

    Args:
        parts: the objects that passes share.
        caches: the caches of the claims of this kind and their IPAddresses.
    """

    def __init__(self, parts: Metal3Parts, caches: IPPoolClaimCaches[ClaimT, AddressT]) -> None:
        self._parts = parts
        self._caches = caches
        claim_format = caches.claim_format
        self._restored = RestoredRequests(
            caches.claims,
            parts.clock,
            is_waiting=claim_format.is_waiting,
            spaces=lambda claim: map(str, caches.list_pools_of_claim(claim)),
        )
        self._requests: Metal3Requests[ClaimT, AddressT] = ClaimKind(
            POOLS,
            lambda pool: pool.metadata.key,
            source=caches,
            reader=parts.reader,
            statuses=claim_format,
            writes=make_claim_writes(
                parts.client,
                caches,
                AddressWrites(parts.client, parts.caches, caches),
                recorder=parts.recorder,
                clock=parts.clock,
                settings=parts.settings,
            ),
            is_stopped=lambda claim: bool(caches.why_claim_stops(claim)),
        )

    @property
    @override
    def claim_kind(self) -> str:
        return self._caches.claim_kind

    @property
    @override
    def served_requests(self) -> ServedRequests[Metal3Pool, ClaimT, ClaimsReading[EntrySpace]]:
        return self._requests.served_requests

    @override
    async def refuse(
        self, pool: Metal3Pool, refusals: Iterable[AskerRefusal[EitherClaim]]
    ) -> float | None:
        """Write the refusals of claims of this kind; those of other kinds are left out."""
        of_kind = select_refusals(self._caches.claim_format.claims.type, refusals)
        return await self._requests.writes.refuse(of_kind, pool)

    @override
    async def refuse_waiting(self, pool: Metal3Pool, holdings: Holdings, why: str) -> float | None:
        return await self._requests.refuse_waiting(pool, holdings, why)

    @override
    async def count_blockers(self, pool: Metal3Pool, journal: Journal) -> int:
        return await self._requests.count_blockers(pool, journal)

    @override
    def seconds_until_restored(self, pool: Metal3Pool) -> float | None:
        return self._restored.seconds_until_next(str(pool.metadata.key))

    @override
    def serve_askers(
        self, pool: Metal3Pool, reading: ClaimsReading[EntrySpace], unavailable: TakenAddresses
    ) -> ServedAskers[ClaimT]:
        """Return the object that takes addresses of a pool for claims of this kind."""
        taker = EntryTaker(
            self._caches.claim_format,
            pool=pool,
            space=reading.space,
            view=reading.view_of(self._caches.claim_format),
            unavailable=unavailable,
            restore_seconds_left=self._restored.seconds_left,
            generator=self._parts.generator,
        )
        return ServedAskers(taker)
