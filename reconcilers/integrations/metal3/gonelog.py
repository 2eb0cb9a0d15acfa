"""Build the log lines about claims of IPPools whose addresses are released."""

from collections.abc import Mapping
from typing import Generic

from controller.meta import Key
from reconcilers.integrations.clusterapi.api import DELETE_FOR_MOVE
from reconcilers.integrations.metal3.api import POOL
from reconcilers.integrations.metal3.caches import Metal3Caches
from reconcilers.integrations.metal3.claimformats import AddressT, ClaimFormat, ClaimT
from reconcilers.integrations.metal3.entries import PoolSpaces
from reconcilers.reporting.releaselog import GONE, build_holder_fields


def release_fields(
    claim_format: ClaimFormat[ClaimT, AddressT], address: AddressT, reason: str
) -> dict[str, str]:
    """Return the fields of a log line about the release of an IPAddress."""
    claim, pool = (
        claim_format.find_claim_of_address(address),
        claim_format.find_pool_of_address(address),
    )
    holder = f"{claim_format.claims.kind} {claim or address.metadata.key}"
    return build_holder_fields(
        holder, [address.spec.address], pool=f"{POOL} {pool}", reason=reason
    )


class Metal3GoneLines(Generic[ClaimT, AddressT]):
    """Builds the log lines about claims and IPAddresses of one kind that others removed.

    Args:
        claim_format: reads the claims and IPAddresses.
        spaces: the spaces of pools, to derive an address from the name of its IPAddress.
    """

    def __init__(
        self, caches: Metal3Caches, claim_format: ClaimFormat[ClaimT, AddressT], spaces: PoolSpaces
    ) -> None:
        self._caches = caches
        self._claim_format = claim_format
        self._spaces = spaces

    def find_recorded_address(self, claim: ClaimT) -> Key | None:
        """Return the IPAddress that the status of a claim names; None if it names none."""
        name = self._claim_format.get_address_name(claim)
        return Key(claim.metadata.namespace, name) if name else None

    def describe_claim(self, gone: ClaimT) -> Mapping[str, str] | None:
        """Return the fields of the line about a claim; None for no line.

        There is no line if the claim was moved to another cluster, or if its pool is missing or
        the name of its IPAddress tells no address.
        """
        key, meta = self._claim_format.find_pool_of_claim(gone), gone.metadata
        pool = None if key is None else self._caches.pools.get(key)
        # `clusterctl move` deletes a claim here and keeps its address in the other cluster.
        if pool is None or DELETE_FOR_MOVE in meta.annotations:
            return None
        addresses = self._spaces.get_space(pool).find_named_addresses(
            self._claim_format.get_address_name(gone)
        )
        texts = [address.start_text for address in addresses[:1]]
        holder = f"{self._claim_format.claims.kind} {meta.key}"
        return (
            build_holder_fields(holder, texts, pool=f"{POOL} {key}", reason=GONE)
            if texts
            else None
        )

    def describe_address(self, gone: AddressT) -> Mapping[str, str] | None:
        """Return the fields of the line about an IPAddress; None for no line.

        There is no line if its pool is no existing IPPool, or if it was moved to another cluster.
        """
        pool = self._claim_format.find_pool_of_address(gone)
        is_ours = pool in self._caches.pools and DELETE_FOR_MOVE not in gone.metadata.annotations
        return release_fields(self._claim_format, gone, GONE) if is_ours else None
