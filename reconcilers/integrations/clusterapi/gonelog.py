"""Log lines about addresses that are free because others removed their objects.

An address is free once no claim records it and no IPAddress has it. Releases by this program have
lines of their own (answers.py); here are those that a person brings about by removing finalizers.
"""

from collections.abc import Callable

from controller.meta import Key
from reconcilers.integrations.clusterapi.api import (
    DELETE_FOR_MOVE,
    IPAddress,
    IPAddressClaim,
    PoolRef,
)
from reconcilers.integrations.clusterapi.caches import ClaimCaches, kind_of, pool_key
from reconcilers.integrations.clusterapi.statuses import record_of
from reconcilers.reporting.releaselog import GONE, GoneHolders, holder_fields


def release_fields(
    claim: Key, pool: PoolRef, address: str, prefix: int, reason: str
) -> dict[str, str]:
    """Return the fields of a log line about an address that a claim gives back."""
    addresses = [f"{address}/{prefix}"]
    return holder_fields(
        f"IPAddressClaim {claim}", addresses, pool=f"{pool.kind} {pool.name}", reason=reason
    )


class GoneAddresses:
    """Logs claims and IPAddresses that go without a release of ours.

    Args:
        works_on: returns whether this replica works on the shard of a pool; None for all shards.
    """

    def __init__(self, caches: ClaimCaches, works_on: Callable[[Key], bool] | None) -> None:
        self._caches = caches
        self._works_on = works_on
        logged = caches.logged
        self.of_claims = GoneHolders("released IPAddressClaim", self._describe_claim, logged)
        self.of_addresses = GoneHolders("released IPAddress", self._describe_address, logged)

    def _describe_claim(self, gone: IPAddressClaim) -> dict[str, str] | None:
        """Return the fields of a claim's line; None while an IPAddress has its address."""
        record, key, addresses = record_of(gone), gone.metadata.key, self._caches.addresses
        if record is None or key in addresses or key in addresses.unreadable:
            return None
        if not self._is_ours(gone, gone.spec.poolRef):
            return None
        return release_fields(
            key, gone.spec.poolRef, address=record.address, prefix=record.prefix, reason=GONE
        )

    def _describe_address(self, gone: IPAddress) -> dict[str, str] | None:
        """Return the fields of an IPAddress's line; None while a claim keeps its address."""
        spec, claims = gone.spec, self._caches.claims
        key = Key(gone.metadata.namespace, spec.claimRef.name)
        claim = claims.get(key)
        is_kept = claim is not None and not claim.metadata.terminating
        if is_kept or key in claims.unreadable or not self._is_ours(gone, spec.poolRef):
            return None
        return release_fields(
            key, spec.poolRef, address=spec.address, prefix=spec.prefix, reason=GONE
        )

    def _is_ours(self, gone: IPAddressClaim | IPAddress, pool: PoolRef) -> bool:
        """Return whether a pool that is served here is named; not of what moves to a cluster."""
        kind = kind_of(pool)
        if kind is None or kind.kind not in self._caches.pools:
            return False
        if DELETE_FOR_MOVE in gone.metadata.annotations:
            return False
        return self._works_on is None or self._works_on(pool_key(kind, gone))
