"""Which claims of a pool get which addresses: a pure decision on what was read.

Passes over pools carry it out, and `plan` shows it without a cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from allocator import AddressRange, PoolExhausted
from controller.resource import Resource
from reconcilers.integrations.clusterapi.addresses import PoolSpace
from reconcilers.integrations.clusterapi.answers import ready_of_refused, why_not
from reconcilers.integrations.clusterapi.api import (
    ALLOCATION_FAILED,
    JOURNALS,
    POOL_EXHAUSTED,
    POOL_NOT_READY,
    IPAddress,
    IPAddressClaim,
)
from reconcilers.integrations.clusterapi.caches import ClaimCaches, Standing, holder_of
from reconcilers.integrations.clusterapi.restoredclaims import RestoredClaims
from reconcilers.integrations.clusterapi.statuses import shows
from reconcilers.integrations.core.rules import Choice, Refusal, Refused, View, choose
from reconcilers.promises.journal import Journal
from reconcilers.promises.settling import settle
from reconcilers.promises.shares import NO_LIMITS, Limits
from reconcilers.promises.unreadable import UnreadableObject


def blocks_of(space: PoolSpace, addresses: AddressRange) -> AddressRange:
    """Return the blocks of a space that a range of addresses touches."""
    shift = space.shift
    return AddressRange(addresses.first >> shift, addresses.last >> shift, addresses.family)


def addresses_of(space: PoolSpace, blocks: AddressRange) -> AddressRange:
    """Return the addresses of a range of blocks."""
    shift = space.shift
    last = (blocks.last + 1 << shift) - 1
    return AddressRange(blocks.first << shift, last, blocks.family)


@dataclass(frozen=True, slots=True)
class Chooser:
    """Decides for one pool, on one reading of it.

    Args:
        caches: the caches, for what stops a claim.
        kind: of the pool.
        pool: as it was read.
        journal: of the pool.
        space: what it may hand out.
        view: its claims and IPAddresses.
        restored: the claims that may still get an IPAddress from a restore; None for none.
        closed: why the pool hands out no further address; empty if it does.
        limits: which claims may get an address.
    """

    caches: ClaimCaches
    kind: Resource[Any]
    pool: Any
    journal: Journal
    space: PoolSpace
    view: View[IPAddressClaim]
    restored: RestoredClaims | None = None
    closed: str = ""
    limits: Limits = NO_LIMITS

    def choose(
        self, also_held: Sequence[AddressRange], batch: int, *, refuse_each: bool = False
    ) -> Choice[IPAddressClaim]:
        """Return which claims get which addresses, and which get none.

        Args:
            also_held: blocks that others than claims and IPAddresses hold.
            batch: the most to serve at once.
            refuse_each: include the refusals of claims that show them already.
        """
        promised = [
            blocks_of(self.space, part.range)
            for promise in settle(
                self.journal, JOURNALS.kind, self.view, self.view.effects
            ).promises
            for part in promise.ranges
        ]
        return choose(
            self.journal,
            JOURNALS.kind,
            self.view,
            to_blocks=partial(blocks_of, self.space),
            to_addresses=partial(addresses_of, self.space),
            also_held=also_held,
            take=lambda claim: self._take_blocks(claim, promised, also_held),
            shows=lambda refusal: not refuse_each and self._is_shown(refusal),
            batch=batch,
            limits=self.limits,
        )

    def _is_shown(self, refusal: Refusal[IPAddressClaim]) -> bool:
        claim = refusal.request
        finding = ready_of_refused(claim, self.caches, refusal.reason, refusal.message)
        return shows(claim, finding)

    def _take_blocks(
        self,
        claim: IPAddressClaim,
        promised: Sequence[AddressRange],
        also_held: Sequence[AddressRange],
    ) -> AddressRange | None:
        """Return the blocks to promise to a claim; None if it must not be served now.

        If an IPAddress of the claim's name exists, they are the blocks of its address; otherwise
        the lowest free block, which is taken from the space.

        Args:
            claim: one without an address.
            promised: blocks of the pool's open promises.
            also_held: blocks that others than claims and IPAddresses hold.

        Raises:
            Refused: no block is free, the pool hands out none, or the IPAddress cannot be used for
                the claim.
        """
        key = claim.metadata.key
        if self.caches.standing(claim) is Standing.STOP:
            return None
        if key in self.caches.addresses.unreadable:
            raise Refused(ALLOCATION_FAILED, f"{UnreadableObject('IPAddress', key)}")
        address: IPAddress | None = self.view.answer(key)
        if address is not None:
            return self._adopt_blocks(claim, address, promised, also_held)
        if self.restored is not None and self.restored.seconds_left(claim) > 0:
            return None
        if self.closed:
            raise Refused(POOL_NOT_READY, f"{self._pool_name} is not ready: {self.closed}")
        try:
            return self.view.holdings.space().first(1)[0]
        except PoolExhausted:
            raise Refused(POOL_EXHAUSTED, f"{self._pool_name} has no free address") from None

    @property
    def _pool_name(self) -> str:
        return f"{self.kind.kind} {self.pool.metadata.name}"

    def _adopt_blocks(
        self,
        claim: IPAddressClaim,
        address: IPAddress,
        promised: Sequence[AddressRange],
        also_held: Sequence[AddressRange],
    ) -> AddressRange:
        """Return the blocks of the IPAddress of a claim's name.

        Args:
            claim: one without an address.
            address: the IPAddress.
            promised: blocks of the pool's open promises.
            also_held: blocks that others than claims and IPAddresses hold.

        Raises:
            Refused: the IPAddress cannot be used for the claim.
        """
        key = claim.metadata.key
        if reason := why_not(address, claim):
            raise Refused(ALLOCATION_FAILED, reason)
        blocks = self.space.held(address.spec.address, address.spec.prefix)
        name = f"IPAddress {key} exists"
        if blocks is None:
            raise Refused(
                ALLOCATION_FAILED, f"{name} and is not of the family of {self._pool_name}"
            )
        other = self.view.holdings.other_holder(blocks, holder_of(claim))
        if other is not None:
            raise Refused(
                ALLOCATION_FAILED, f"{name}, but {other.key} has {address.spec.address} too"
            )
        if any(blocks.overlaps(one) for one in also_held):
            what = f"but an IPAllocation has {address.spec.address}, too"
            raise Refused(ALLOCATION_FAILED, f"{name}, {what}")
        if any(blocks.overlaps(one) for one in promised):
            raise Refused(ALLOCATION_FAILED, f"{name}, but its address is promised to another")
        return blocks
