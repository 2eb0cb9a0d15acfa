"""One kind of claims as passes over IPPools serve it."""

from dataclasses import dataclass
from random import Random
from typing import Generic

from controller.client import Client
from controller.clock import Clock
from controller.events import Recorder
from controller.meta import Key
from reconcilers.configuration.settings import PoolSettings
from reconcilers.integrations.core.claimkind import ClaimKind
from reconcilers.integrations.core.claimreading import ClaimsReading
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.core.restoredrequests import RestoredRequests
from reconcilers.integrations.metal3.addresswrites import AddressWrites
from reconcilers.integrations.metal3.api import POOLS, Metal3Pool
from reconcilers.integrations.metal3.caches import (
    Metal3Caches,
    Metal3Reader,
    SideCaches,
    claim_indexes,
)
from reconcilers.integrations.metal3.entries import EntrySpace
from reconcilers.integrations.metal3.granting import make_claim_writes
from reconcilers.integrations.metal3.sides import AddressT, ClaimT
from reconcilers.integrations.metal3.taking import EntryTaker, TakenAddresses

Metal3Requests = ClaimKind[Metal3Pool, ClaimT, AddressT, Key, EntrySpace]
"""Claims of one kind, as the engine serves them from IPPools."""


@dataclass(frozen=True, slots=True)
class Metal3Parts:
    """What passes over pools and claims share.

    Args:
        client: for the requests.
        reader: reads claims and IPAddresses.
        addresses: writes IPAddresses.
        recorder: takes the events.
        clock: the time.
        settings: intervals, and how much is done at once.
        generator: of random numbers, for pools with a random strategy.
    """

    client: Client
    caches: Metal3Caches
    reader: Metal3Reader
    addresses: AddressWrites
    recorder: Recorder
    clock: Clock
    settings: PoolSettings
    generator: Random


class Metal3Claims(Generic[ClaimT, AddressT]):
    """Claims of one kind that IPPools serve.

    Args:
        parts: what passes share.
        caches: of the kind.
    """

    def __init__(self, parts: Metal3Parts, caches: SideCaches[ClaimT, AddressT]) -> None:
        self._parts = parts
        self._caches = caches
        side = caches.side
        self.restored = RestoredRequests(
            caches.claims, parts.clock, waits=side.waits, spaces=claim_indexes(side)[SPACE_INDEX]
        )
        """The claims that may still get an IPAddress from a restore."""
        self.requests: Metal3Requests[ClaimT, AddressT] = ClaimKind(
            POOLS,
            lambda pool: pool.metadata.key,
            source=caches,
            reader=parts.reader,
            statuses=side,
            writes=make_claim_writes(
                parts.client,
                caches,
                parts.addresses,
                recorder=parts.recorder,
                clock=parts.clock,
                settings=parts.settings,
            ),
            is_served=lambda claim: not parts.caches.why_claim_stops(claim),
        )
        """The claims, for the passes over pools."""

    def make_taker(
        self, pool: Metal3Pool, reading: ClaimsReading[EntrySpace], unavailable: TakenAddresses
    ) -> EntryTaker[ClaimT, AddressT]:
        """Return the taker of addresses of a pool for claims of this kind.

        Args:
            pool: as it was read.
            reading: of the pool.
            unavailable: the addresses that are promised, or chosen in this pass.
        """
        return EntryTaker(
            self._parts.caches,
            self._caches.side,
            pool=pool,
            space=reading.space,
            view=reading.view_of(self._caches.side),
            unavailable=unavailable,
            restores=self.restored.seconds_left,
            generator=self._parts.generator,
        )
