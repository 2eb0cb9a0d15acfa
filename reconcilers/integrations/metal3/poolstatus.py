"""The status of an IPPool: which claims have which addresses, in metal3's form.

It is for metal3's webhook, for people and for a return to its controller. It is never read back.
It has no conditions: the definition of the kind prunes them.
"""

from collections.abc import Mapping
from typing import Any

from controller.client import Client
from controller.clock import Clock
from controller.conditions import rfc3339
from controller.meta import Key
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.metal3.addressnames import canonical_text
from reconcilers.integrations.metal3.api import POOLS, Metal3Pool
from reconcilers.integrations.metal3.caches import Metal3Caches
from reconcilers.integrations.metal3.entries import EntrySpace, is_never_given, parse_single


class PoolIndexes:
    """Writes `status.indexes` and `status.lastUpdated` of pools.

    Args:
        client: for the writes.
        clock: the time.
    """

    def __init__(self, client: Client, caches: Metal3Caches, clock: Clock) -> None:
        self._client = client
        self._caches = caches
        self._clock = clock

    async def write(self, pool: Metal3Pool, space: EntrySpace) -> Metal3Pool:
        """Write which claims have which addresses, if the pool shows something else.

        Args:
            pool: as it was written last.
            space: what it may hand out.

        Raises:
            Conflict: the pool changed meanwhile.
            ControllerError: the write failed.
        """
        previous, current = pool.status.indexes, self.indexes_of(pool.metadata.key, space)
        changed: dict[str, str | None] = {
            claim: address for claim, address in current.items() if previous.get(claim) != address
        }
        changed |= dict.fromkeys(previous.keys() - current.keys())
        if not changed:
            return pool
        status: Mapping[str, Any] = {"indexes": changed, "lastUpdated": rfc3339(self._clock.now())}
        return await self._client.patch_status(POOLS, pool, status)

    def indexes_of(self, pool: Key, space: EntrySpace) -> dict[str, str]:
        """Return the addresses of a pool by the names of their claims, as the caches show them.

        If claims of both kinds have one name, the address of the IPClaim is returned. Texts that
        are no address, and addresses that the definition of the kind refuses, are left out: they
        would make the API server refuse the whole status.
        """
        indexes: dict[str, str] = {}
        for caches in self._caches.sides.values():
            side = caches.side
            for address in caches.addresses.by_index(SPACE_INDEX, str(pool)):
                claim, parsed = side.claim_of_address(address), parse_single(address.spec.address)
                if claim is not None and parsed is not None and not is_never_given(parsed):
                    indexes.setdefault(claim.name, canonical_text(parsed))
            for claim_object in caches.claims.by_index(SPACE_INDEX, str(pool)):
                name = claim_object.metadata.name
                if name not in indexes and side.holds(claim_object):
                    addresses = space.addresses_named(side.address_name(claim_object))
                    if addresses and not is_never_given(addresses[0]):
                        indexes[name] = canonical_text(addresses[0])
        return indexes
