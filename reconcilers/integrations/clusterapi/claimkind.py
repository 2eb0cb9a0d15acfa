"""IPAddressClaims as requests of pools, for NetworkPools and pools of the in-cluster provider.

IPAddressClaim, IPAddress and Cluster are the kinds of Cluster API's IPAM contract, after which
classes of this package are named. This module builds the objects that a pass over a pool uses for
claims: one that reads and writes them, one that takes addresses for them, and the clean-up of
their IPAddresses. Each kind of pools adds the space that it hands out and the status that it
reports.

A *refusal* is the reason why a claim gets no address. It is written to the claim's status.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from allocator import AddressRange
from controller.client import Client
from controller.clock import Clock
from controller.events import Recorder
from controller.resource import Resource
from reconcilers.configuration.settings import PoolSettings
from reconcilers.integrations.clusterapi.addresses import PoolSpace
from reconcilers.integrations.clusterapi.api import IPAddressClaim, is_paused
from reconcilers.integrations.clusterapi.caches import (
    CONTRACT_FIELDS,
    ClaimCaches,
    ClaimPool,
    ServedPool,
)
from reconcilers.integrations.clusterapi.claimtaking import ClaimTaker
from reconcilers.integrations.clusterapi.granting import ContractStatuses, make_claim_writes
from reconcilers.integrations.clusterapi.leftovers import Leftovers
from reconcilers.integrations.clusterapi.reading import Reader, make_source
from reconcilers.integrations.core.claimkind import ClaimKind
from reconcilers.integrations.core.claimreading import ClaimsReading
from reconcilers.integrations.core.restoredrequests import RestoredRequests
from reconcilers.integrations.core.rules import SpaceView
from reconcilers.promises.choosing import AskerRefusal, ServedAskers
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.journal import Journal, Promise

PoolT = TypeVar("PoolT", bound=ServedPool)
ContractReading = ClaimsReading[PoolSpace]
"""What a pass read of a pool that serves claims alone, or of the claims of a NetworkPool."""


@dataclass(frozen=True, slots=True)
class ClaimParts:
    """The objects that passes over pools of all kinds use for claims.

    Args:
        reader: reads claims and IPAddresses.
        recorder: records events.
        leftovers: deletes IPAddresses that no promise and no claim names.
        restored: the claims whose IPAddress a restore from backup may still recreate.
        settings: intervals, and how many writes run at once.
    """

    client: Client
    caches: ClaimCaches
    reader: Reader
    recorder: Recorder
    leftovers: Leftovers
    restored: RestoredRequests[IPAddressClaim]
    clock: Clock
    settings: PoolSettings


class ContractClaims(Generic[PoolT]):
    """Cluster API's IPAddressClaims as requests of pools of one kind.

    Args:
        pools: the kind of the pools.
        parts: the reader and writers that all kinds of pools share.
    """

    def __init__(self, pools: Resource[PoolT], parts: ClaimParts) -> None:
        self._pools = pools
        self._parts = parts
        self.requests = ClaimKind(
            pools,
            self.make_pool_name,
            source=make_source(parts.caches),
            reader=parts.reader,
            statuses=ContractStatuses(parts.caches),
            writes=make_claim_writes(
                pools,
                parts.client,
                parts.caches,
                recorder=parts.recorder,
                clock=parts.clock,
                settings=parts.settings,
            ),
            is_stopped=parts.caches.is_stopped,
        )
        """The claims, for the passes over pools."""

    def make_pool_name(self, pool: PoolT) -> ClaimPool:
        """Return the name by which readers know a pool."""
        return ClaimPool(self._pools, pool.metadata.key)

    def serve_askers(
        self,
        pool: PoolT,
        settled: Journal,
        reading: ContractReading,
        *,
        closed: str = "",
        observed: Sequence[AddressRange] = (),
    ) -> ServedAskers[IPAddressClaim]:
        """Return the claims that ask for addresses of a pool, with what takes them.

        Args:
            pool: as it was read.
            settled: its journal, without the promises that are over.
            reading: of the pool.
            closed: why the pool hands out no further address; empty if it still does.
            observed: ranges that another allocator has handed out, but no request holds.
        """
        taker = ClaimTaker(
            self._parts.caches,
            self._pools,
            pool=pool,
            settled=settled,
            space=reading.space,
            view=reading.view_of(CONTRACT_FIELDS),
            observed=observed,
            restored=self._parts.restored,
            closed=closed,
        )
        return ServedAskers(taker)

    def list_refusals_of_waiting(
        self, pool: PoolT, holdings: Holdings, why: str
    ) -> list[AskerRefusal[IPAddressClaim]]:
        """Return the refusals of claims that wait for a pool which serves no claim.

        A claim that shows its refusal already is left out.

        Args:
            holdings: of the pool, as the caches show them.
            why: why the pool serves no claim, for the message.
        """
        # A paused pool leaves its claims alone, so their statuses are not written either.
        if is_paused(pool.metadata.annotations):
            return []
        return self.requests.list_refusals_of_waiting(pool, holdings, why)

    async def refuse_waiting(self, pool: PoolT, holdings: Holdings, why: str) -> float | None:
        """Write to each claim that waits for a pool why the pool serves no claim.

        Args:
            holdings: of the pool, as the caches show them.
            why: why the pool serves no claim, for the message.

        Returns:
            Seconds until writes that the API server rejected are retried; None if there are none.
        """
        refusals = self.list_refusals_of_waiting(pool, holdings, why)
        return await self.requests.writes.refuse(refusals, pool)

    async def finish(
        self,
        pool: PoolT,
        view: SpaceView[IPAddressClaim],
        *,
        promises: Iterable[Promise],
        refusals: Sequence[AskerRefusal[IPAddressClaim]],
        due: Sequence[AskerRefusal[IPAddressClaim]],
    ) -> float | None:
        """Write refusals, and delete leftover IPAddresses that have the name of a waiting claim.

        Args:
            pool: as it was written last.
            view: the claims that the pass has read.
            promises: the open promises of the pool.
            refusals: all refusals of this pass.
            due: the refusals to write now; the others are shown already, or wait for a retry.

        Returns:
            Seconds until another pass is due: for a rejected write, a leftover IPAddress, or a
            claim that waits for a restore. None if no further pass is due.
        """
        await self.requests.writes.refuse(due, pool)
        waits = (
            self.requests.writes.seconds_until_due(refusals),
            await self._parts.leftovers.delete_leftovers(
                self._pools, view, refusals=refusals, promises=promises
            ),
            self._parts.restored.seconds_until_next(str(self.make_pool_name(pool))),
        )
        return min((seconds for seconds in waits if seconds is not None), default=None)
