"""The fields of log lines about IPAddressClaims and IPAddresses that release an address."""

from collections.abc import Callable, Mapping

from controller.meta import Key
from reconcilers.integrations.clusterapi.api import (
    DELETE_FOR_MOVE,
    IPAddress,
    IPAddressClaim,
    PoolRef,
)
from reconcilers.integrations.clusterapi.caches import ClaimCaches, find_pool_kind, get_pool_key
from reconcilers.integrations.clusterapi.statuses import read_record
from reconcilers.reporting.releaselog import GONE, build_holder_fields


def release_fields(
    claim: Key, pool: PoolRef, address: str, prefix: int, reason: str
) -> dict[str, str]:
    """Return the fields of a log line about an address that a claim releases."""
    addresses = [f"{address}/{prefix}"]
    return build_holder_fields(
        f"IPAddressClaim {claim}", addresses, pool=f"{pool.kind} {pool.name}", reason=reason
    )


class ContractGoneLines:
    """Describes, for the log, claims and IPAddresses that people or other programs removed.

    Args:
        works_on: returns whether this replica works on the shard of a pool; None for all shards.
    """

    def __init__(self, caches: ClaimCaches, works_on: Callable[[Key], bool] | None) -> None:
        self._caches = caches
        self._works_on = works_on

    def find_recorded_address(self, claim: IPAddressClaim) -> Key | None:
        """Return the key of the IPAddress whose address a claim records; None without record.

        An IPAddress has the name of its claim.
        """
        return None if read_record(claim) is None else claim.metadata.key

    def describe_claim(self, gone: IPAddressClaim) -> Mapping[str, str] | None:
        """Return the fields of the line about a claim; None if its address is not ours."""
        record, ref = read_record(gone), gone.spec.poolRef
        if record is None or not self._is_ours(gone):
            return None
        return release_fields(
            gone.metadata.key, ref, address=record.address, prefix=record.prefix, reason=GONE
        )

    def describe_address(self, gone: IPAddress) -> Mapping[str, str] | None:
        """Return the fields of the line about an IPAddress; None if it is not ours."""
        if not self._is_ours(gone):
            return None
        spec, key = gone.spec, Key(gone.metadata.namespace, gone.spec.claimRef.name)
        return release_fields(
            key, spec.poolRef, address=spec.address, prefix=spec.prefix, reason=GONE
        )

    def _is_ours(self, gone: IPAddressClaim | IPAddress) -> bool:
        """Return whether this replica logs the release of an object's address."""
        kind = find_pool_kind(gone.spec.poolRef)
        # The address is of another provider's pool, or of a kind of pools that is not served.
        if kind is None or kind.kind not in self._caches.pools:
            return False
        # The object lives on in another cluster, and its address is not released.
        if DELETE_FOR_MOVE in gone.metadata.annotations:
            return False
        # With shards, only the replica that works on the pool logs the release.
        return self._works_on is None or self._works_on(get_pool_key(kind, gone))
