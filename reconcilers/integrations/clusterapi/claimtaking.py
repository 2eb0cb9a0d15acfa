"""Choose the address of an IPAddressClaim: the one it already has, or the lowest free block.

A *block* is what a pool hands out to one claim: a single address, or a prefix. The choice is only
a promise: the pass over the pool writes it to the pool's journal, and then to the claim.
"""

from collections.abc import Sequence

from allocator import AddressRange, PoolExhausted
from controller.resource import Resource
from reconcilers.integrations.clusterapi.addresses import PoolSpace, to_addresses, to_blocks
from reconcilers.integrations.clusterapi.answers import (
    explain_unusable,
    make_ready_finding,
    must_be_recorded,
)
from reconcilers.integrations.clusterapi.api import CLAIM_KIND, IPAddress, IPAddressClaim
from reconcilers.integrations.clusterapi.caches import (
    ClaimCaches,
    ServedPool,
    make_holder,
)
from reconcilers.integrations.clusterapi.statuses import (
    ClaimRecord,
    is_finding_shown,
    read_restored_record,
)
from reconcilers.integrations.core.claimproblems import (
    ALLOCATION_FAILED,
    POOL_EXHAUSTED,
    POOL_NOT_READY,
    ClaimProblem,
)
from reconcilers.integrations.core.claimreading import ClaimSpaceView
from reconcilers.integrations.core.restoredrequests import RestoredRequests
from reconcilers.networkpool.facts import describe_holder
from reconcilers.promises.choosing import Refused, Taken
from reconcilers.promises.journal import Journal, PromisedRange
from reconcilers.promises.unreadable import UnreadableObject


class ClaimTaker:
    """Takes blocks of one pool for claims, on one reading of the pool.

    Args:
        caches: the caches, for undecodable IPAddresses and for the conditions of claims.
        pool: as it was read.
        settled: its journal, without the promises that are over.
        space: what it may hand out.
        view: its claims and IPAddresses, with the holdings of requests of all kinds.
        observed: ranges that another allocator has handed out, but no request holds.
        restored: the claims that may still get an IPAddress from a restore; None if no claim may.
        closed: why the pool hands out no further address; empty if it still does.
    """

    kind = CLAIM_KIND
    """The kind of the requests, by its full name."""

    def __init__(  # noqa: PLR0913 - what was read, and the pool
        self,
        caches: ClaimCaches,
        pool_kind: Resource[ServedPool],
        pool: ServedPool,
        settled: Journal,
        space: PoolSpace,
        view: ClaimSpaceView[IPAddressClaim, IPAddress],
        *,
        observed: Sequence[AddressRange] = (),
        restored: RestoredRequests[IPAddressClaim] | None = None,
        closed: str = "",
    ) -> None:
        self.find = view.find
        self._caches = caches
        self._pool_name = f"{pool_kind.kind} {pool.metadata.name}"
        self._space = space
        self._view = view
        self._observed = [to_blocks(space, part) for part in observed]
        self._restored = restored
        self._closed = closed
        self._promised = [
            to_blocks(space, part.range) for promise in settled.promises for part in promise.ranges
        ]

    def is_refusal_shown(self, asker: IPAddressClaim, refused: Refused) -> bool:
        """Return whether a claim shows a refusal already."""
        finding = make_ready_finding(
            asker, self._caches, ClaimProblem(refused.reason, refused.message)
        )
        return is_finding_shown(asker, finding)

    def take(self, asker: IPAddressClaim) -> Taken | None:
        """Take the address to promise to a claim; None if the claim has to wait for its IPAddress.

        The first of these that exists is its address: the address of the IPAddress of the claim's
        name, the address that the claim recorded before a restore, the lowest free block.

        Args:
            asker: a claim without an address in its status.

        Raises:
            Refused: no block is free, the pool hands out none, or the IPAddress cannot be used for
                the claim.
        """
        blocks = self._take_blocks(asker)
        if blocks is None:
            return None
        return Taken((PromisedRange(to_addresses(self._space, blocks), self._space.name),))

    def _take_blocks(self, claim: IPAddressClaim) -> AddressRange | None:
        """Return the blocks to promise to a claim; None if the claim has to wait.

        It waits until the address of its IPAddress is recorded on it, and while a restore from a
        backup may still create its IPAddress.

        Raises:
            Refused: the claim gets no address; the message says why.
        """
        key = claim.metadata.key
        # The IPAddress of the claim's name may hold an address that this pass would not know.
        if key in self._caches.addresses.unreadable:
            raise Refused(ALLOCATION_FAILED, f"{UnreadableObject('IPAddress', key)}")
        if addresses := self._view.list_addresses_of_claim(key):
            return self._find_adopted_blocks(claim, addresses[0])
        restored = read_restored_record(claim)
        if restored is not None:
            origin = f"claim {key} had {restored.address}"
            return self._find_own_blocks(claim, restored, origin)
        # A restore may still bring back the claim's IPAddress with the address of its machine.
        if self._restored is not None and self._restored.seconds_left(claim) > 0:
            return None
        if self._closed:
            raise Refused(POOL_NOT_READY, f"{self._pool_name} is not ready: {self._closed}")
        try:
            return self._view.holdings.get_space(self._space.name).take_lowest(1)[0]
        except PoolExhausted:
            raise Refused(POOL_EXHAUSTED, f"{self._pool_name} has no free address") from None

    def _find_adopted_blocks(
        self, claim: IPAddressClaim, address: IPAddress
    ) -> AddressRange | None:
        """Return the blocks of the IPAddress of a claim's name; None if the claim has to wait.

        Args:
            claim: a claim without an address in its status.

        Raises:
            Refused: the IPAddress cannot be used for the claim.
        """
        if reason := explain_unusable(address, claim):
            raise Refused(ALLOCATION_FAILED, reason)
        # The IPAddressClaim controller records the address on the claim before it is promised.
        if must_be_recorded(address, claim):
            return None
        record = ClaimRecord(address.spec.address, address.spec.prefix)
        return self._find_own_blocks(claim, record, f"IPAddress {claim.metadata.key} exists")

    def _find_own_blocks(
        self, claim: IPAddressClaim, record: ClaimRecord, origin: str
    ) -> AddressRange:
        """Return the blocks of the address that a claim has already.

        Args:
            claim: a claim without an address in its status.
            record: the address.
            origin: where the address comes from, as the beginning of a refusal's message.

        Raises:
            Refused: another claim or allocator has the address, too, or it is of another family.
        """
        blocks = self._space.find_blocks(record.address, record.prefix)
        if blocks is None:
            raise Refused(
                ALLOCATION_FAILED, f"{origin} and is not of the family of {self._pool_name}"
            )
        holdings = self._view.holdings
        other = holdings.find_other_holder(blocks, make_holder(claim), self._space.name)
        if other is not None:
            why = f"but {describe_holder(other)} has {record.address} too"
            raise Refused(ALLOCATION_FAILED, f"{origin}, {why}")
        if any(blocks.overlaps(part) for part in self._observed):
            why = f"but an IPAMAllocation has {record.address}"
            raise Refused(ALLOCATION_FAILED, f"{origin}, {why}")
        if any(blocks.overlaps(promised) for promised in self._promised):
            raise Refused(ALLOCATION_FAILED, f"{origin}, but its address is promised to another")
        return blocks
