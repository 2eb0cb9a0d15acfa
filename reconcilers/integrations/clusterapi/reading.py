"""Read claims and IPAddresses of the pools that IPAddressClaims name.

An IPAddress belongs to the claim of its own name. Whether a pass reads the caches or sends LISTs
is decided by `reconcilers/integrations/core/claimreading.py`.

A *promise* is an entry of a pool's journal: an address that the pool reserves for a claim. The
*facts* of a claim are what the claim and its IPAddress hold of a pool, and whether it waits.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from typing_extensions import override

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.meta import Key
from reconcilers.integrations.clusterapi.addresses import ClaimSpace
from reconcilers.integrations.clusterapi.answers import find_controlling_claim
from reconcilers.integrations.clusterapi.api import Cluster, IPAddress, IPAddressClaim
from reconcilers.integrations.clusterapi.caches import (
    CONTRACT_FIELDS,
    ClaimCaches,
    ClaimPool,
    ContractFields,
    compute_claim_facts,
    find_pool_name,
    make_holder,
)
from reconcilers.integrations.clusterapi.clusterpauses import list_cluster_pauses
from reconcilers.integrations.core.claimreading import ClaimReader, ClaimSource, ReadSource
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.promises.holdings import CHECK_SECONDS, Facts, HolderSource
from reconcilers.promises.journal import Promise

Reader = ClaimReader[ClaimPool, ClaimSpace]
"""Reads the claims and IPAddresses of pools of all kinds."""


@dataclass(frozen=True, slots=True)
class ContractSource(ClaimSource[ClaimPool, ClaimSpace, IPAddressClaim, IPAddress]):
    """The caches of IPAddressClaims and IPAddresses, of Cluster API's IPAM contract.

    Args:
        claims: all IPAddressClaims.
        addresses: all IPAddresses.
        clusters: all Clusters; None where the kind is not served.
        is_stopped: returns whether a claim must not be served now.
    """

    claims: Cache[IPAddressClaim]
    addresses: Cache[IPAddress]
    clusters: Cache[Cluster] | None
    is_stopped: Callable[[IPAddressClaim], bool]

    @property
    @override
    def fields(self) -> ContractFields:
        return CONTRACT_FIELDS

    @override
    def list_pools_of_address(self, address: IPAddress) -> Iterable[ClaimPool]:
        """Return the pool that an IPAddress names; empty for a kind that is not served here."""
        pool = find_pool_name(address)
        return () if pool is None else (pool,)

    @override
    def list_addresses_of_pool(self, pool: ClaimPool, space: ClaimSpace) -> Iterable[IPAddress]:
        return self.addresses.list_by_index(SPACE_INDEX, str(pool))

    @override
    def list_addresses_of_claim(self, claim: Key) -> Sequence[IPAddress]:
        """Return the IPAddress of a claim's name, the only one that can be the claim's."""
        address = self.addresses.get(claim)
        return () if address is None else (address,)

    @override
    def list_pause_sources(self) -> Sequence[HolderSource[ClaimPool, object]]:
        return list_cluster_pauses(
            self.clusters, self.claims, pools=self.list_pools_of_claim, holder=make_holder
        )

    @override
    def find_address(self, addresses: Iterable[IPAddress], promise: Promise) -> IPAddress | None:
        """Return the IPAddress that the claim of a promise owns; None if it owns none."""
        # The owner reference decides, not the claim: a person can wipe the claim's status, and
        # the IPAddress of the kept promise still holds the address.
        for address in addresses:
            owner = find_controlling_claim(address)
            if owner is not None and owner.uid == promise.uid:
                return address
        return None

    @override
    def compute_facts(
        self,
        pool: ClaimPool,
        space: ClaimSpace,
        claim: IPAddressClaim | None,
        addresses: Sequence[IPAddress],
    ) -> Facts | None:
        """Return the facts of a claim and its IPAddress; None if neither names the pool."""
        # Claim and IPAddress of one name can name different pools. Each counts for its own pool.
        address = next((address for address in addresses if find_pool_name(address) == pool), None)
        asker = claim if claim is not None and find_pool_name(claim) == pool else None
        is_stopped = asker is not None and self.is_stopped(asker)
        return compute_claim_facts(asker, address, space, is_stopped=is_stopped)


def make_source(caches: ClaimCaches) -> ContractSource:
    """Return the source from which a reader gets IPAddressClaims and their IPAddresses."""
    return ContractSource(
        caches.claims,
        caches.addresses,
        clusters=caches.clusters,
        is_stopped=caches.is_stopped,
    )


def make_reader(
    client: Client,
    caches: ClaimCaches,
    clock: Clock,
    patience: float,
    check_interval: float = CHECK_SECONDS,
) -> Reader:
    """Return the reader of claims and IPAddresses.

    Args:
        client: for LISTs.
        patience: seconds to wait for a cache that lags before a LIST is sent.
        check_interval: seconds between two checks that the stored holdings of a pool agree with
            the caches.
    """
    source = ReadSource(make_source(caches))
    return ClaimReader(
        client, [source], clock=clock, patience=patience, check_interval=check_interval
    )
