"""Read claims and IPAddresses of the pools that IPAddressClaims name.

An IPAddress belongs to the claim of its own name. What a pass has read is decided by
`reconcilers/integrations/core/claimreading.py`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from typing_extensions import override

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.meta import Key
from reconcilers.integrations.clusterapi.addresses import ClaimSpace
from reconcilers.integrations.clusterapi.answers import controlling_claim
from reconcilers.integrations.clusterapi.api import (
    ADDRESS_KIND,
    CLAIM_KIND,
    IPAddress,
    IPAddressClaim,
)
from reconcilers.integrations.clusterapi.caches import (
    ClaimCaches,
    ClaimPool,
    check_readable,
    claim_facts,
    kind_of,
    pool_key,
)
from reconcilers.integrations.clusterapi.statuses import record_of, waits
from reconcilers.integrations.core.claimreading import ClaimReader, ClaimSource
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.promises.holdings import CHECK_SECONDS, Facts
from reconcilers.promises.journal import Promise

Reader = ClaimReader[ClaimPool, ClaimSpace]
"""Reads what claims hold of pools of all kinds."""


@dataclass(frozen=True, slots=True)
class ContractSource(ClaimSource[ClaimPool, ClaimSpace]):
    """IPAddressClaims with their IPAddresses.

    Args:
        claims: all IPAddressClaims.
        addresses: all IPAddresses.
    """

    claims: Cache[IPAddressClaim]
    addresses: Cache[IPAddress]

    @property
    @override
    def claim_kind(self) -> str:
        return CLAIM_KIND

    @property
    @override
    def address_kind(self) -> str:
        return ADDRESS_KIND

    @override
    def namespace_of(self, pool: ClaimPool) -> str:
        return pool.key.namespace

    @override
    def pool_of_claim(self, claim: IPAddressClaim) -> ClaimPool | None:
        return _pool_of(claim)

    @override
    def pool_of_address(self, address: IPAddress) -> ClaimPool | None:
        return _pool_of(address)

    @override
    def pools_of_address(self, address: IPAddress) -> Iterable[ClaimPool]:
        pool = _pool_of(address)
        return () if pool is None else (pool,)

    @override
    def addresses_of_pool(self, pool: ClaimPool, space: ClaimSpace) -> Iterable[IPAddress]:
        return self.addresses.by_index(SPACE_INDEX, str(pool))

    @override
    def claim_of_address(self, address: IPAddress) -> Key:
        return address.metadata.key

    @override
    def addresses_of(self, claim: Key) -> Sequence[IPAddress]:
        address = self.addresses.get(claim)
        return () if address is None else (address,)

    @override
    def find_address(self, addresses: Iterable[IPAddress], promise: Promise) -> IPAddress | None:
        # A claim without a record may have been served: a person can wipe its status.
        for address in addresses:
            owner = controlling_claim(address)
            if owner is not None and owner.uid == promise.uid:
                return address
        return None

    @override
    def facts_of(
        self,
        pool: ClaimPool,
        space: ClaimSpace,
        claim: IPAddressClaim | None,
        addresses: Sequence[IPAddress],
    ) -> Facts | None:
        address = next((address for address in addresses if _pool_of(address) == pool), None)
        is_of_pool = claim is not None and _pool_of(claim) == pool
        return claim_facts(claim if is_of_pool else None, address, space)

    @override
    def waits(self, claim: IPAddressClaim) -> bool:
        return waits(claim)

    @override
    def holds(self, claim: IPAddressClaim) -> bool:
        return record_of(claim) is not None

    @override
    def check_readable(
        self, pool: ClaimPool, claims: Mapping[Key, str], addresses: Mapping[Key, str]
    ) -> None:
        check_readable(pool.kind, pool.key, claims, addresses)


def source_of(caches: ClaimCaches) -> ContractSource:
    """Return IPAddressClaims with their IPAddresses, as a reader reads them."""
    return ContractSource(caches.claims, caches.addresses)


def make_reader(
    client: Client,
    caches: ClaimCaches,
    clock: Clock,
    patience: float,
    check_interval: float = CHECK_SECONDS,
) -> Reader:
    """Return the reader of claims and IPAddresses.

    Args:
        client: for lists.
        clock: the time.
        patience: seconds to wait for a cache before the server is read.
        check_interval: seconds between two checks of what is kept of a pool.
    """
    return ClaimReader(client, [source_of(caches)], clock, patience, check_interval)


def _pool_of(obj: IPAddressClaim | IPAddress) -> ClaimPool | None:
    """Return the pool that a claim or an IPAddress names; None if it is not served here."""
    kind = kind_of(obj.spec.poolRef)
    return None if kind is None else ClaimPool(kind, pool_key(kind, obj))
