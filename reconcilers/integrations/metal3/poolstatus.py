"""Write the status of an IPPool: which claims have which addresses, in metal3's form.

The status is for people, for metal3's webhook, and for metal3's controller after a return to it.
Decisions of this program never depend on it. It has no conditions, because the definition of the
kind prunes them.

The addresses of a pool are stored between passes. A pass reads only the claims that have changed;
otherwise its cost would grow with the size of the pool.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from controller.cache import Change
from controller.client import Client
from controller.clock import Clock
from controller.conditions import format_rfc3339
from controller.meta import Key
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.metal3.addressnames import format_canonical
from reconcilers.integrations.metal3.api import POOLS, Metal3Pool
from reconcilers.integrations.metal3.caches import IPPoolClaimCaches, Metal3Caches
from reconcilers.integrations.metal3.claimformats import AddressT, ClaimT
from reconcilers.integrations.metal3.entries import EntrySpace, is_never_given, parse_single


@dataclass(slots=True)
class _StoredIndexes:
    """The addresses of a pool by the names of their claims, as the caches showed them.

    Args:
        space: what the pool may hand out; if that changes, all addresses are read again.
        indexes: the addresses.
        changed: the names of claims that have changed since the addresses were read.
    """

    space: EntrySpace
    indexes: dict[str, str]
    changed: set[str] = field(default_factory=set)


class PoolIndexes:
    """Writes `status.indexes` and `status.lastUpdated` of pools.

    Args:
        client: for the writes.
        caches: the claims and IPAddresses of both kinds; their changes are followed from now on.
    """

    def __init__(self, client: Client, caches: Metal3Caches, clock: Clock) -> None:
        self._client = client
        self._caches = caches
        self._clock = clock
        self._stored: dict[Key, _StoredIndexes] = {}
        for (
            claim_caches
        ) in caches.claim_caches_by_kind.values():  # metal3's kinds, and those of Cluster API
            claim_caches.visit(self._subscribe)

    async def write(self, pool: Metal3Pool, space: EntrySpace) -> Metal3Pool:
        """Write which claims have which addresses, if the pool's status differs.

        Args:
            pool: the pool as it was written last.
            space: what the pool may hand out.

        Returns:
            The pool, as it is after the write.

        Raises:
            Conflict: the pool changed meanwhile.
            ControllerError: the write failed.
        """
        previous, current = pool.status.indexes, self.read_indexes(pool.metadata.key, space)
        if previous == current:
            return pool
        changed: dict[str, str | None] = {
            claim: address for claim, address in current.items() if previous.get(claim) != address
        }
        changed |= dict.fromkeys(previous.keys() - current.keys())  # None deletes an entry
        status: Mapping[str, Any] = {
            "indexes": changed,
            "lastUpdated": format_rfc3339(self._clock.now()),
        }
        return await self._client.patch_status(POOLS, pool, status)

    def forget(self, pool: Key) -> None:
        """Forget a pool that is gone."""
        self._stored.pop(pool, None)

    def read_indexes(self, pool: Key, space: EntrySpace) -> Mapping[str, str]:
        """Return the addresses of a pool by the names of their claims, as the caches show them.

        If claims of both kinds have one name, the address of the IPClaim is returned. Texts that
        are no address, and addresses that the definition of the kind does not allow, are left out:
        the API server would reject the whole status.
        """
        # Removed until all is up to date: if anything raises, the next call reads all addresses.
        stored = self._stored.pop(pool, None)
        if stored is None or stored.space is not space:
            stored = _StoredIndexes(space, {}, self._list_names(pool))
        for name in stored.changed:
            addresses = self._list_addresses(pool, space, name)
            if (address := next(addresses, None)) is not None:
                stored.indexes[name] = address
            else:
                stored.indexes.pop(name, None)
        stored.changed.clear()
        self._stored[pool] = stored
        return stored.indexes

    def _list_names(self, pool: Key) -> set[str]:
        """Return the names of all claims of a pool, also of claims that its IPAddresses name."""
        names: set[str] = set()
        for claim_caches in self._caches.claim_caches_by_kind.values():
            names.update(claim_caches.visit(partial(_list_names_of_kind, pool)))
        return names

    def _list_addresses(self, pool: Key, space: EntrySpace, name: str) -> Iterator[str]:
        """Yield the addresses of the claims of a name: first of the IPClaim, which is preferred.

        Of several IPAddresses of a claim, the IPAddress that its status names comes first.
        """
        for claim_caches in self._caches.claim_caches_by_kind.values():
            yield from claim_caches.visit(partial(_list_addresses_of_kind, pool, space, name))

    def _subscribe(self, claim_caches: IPPoolClaimCaches[ClaimT, AddressT], /) -> None:
        """Subscribe to the changes of the claims and IPAddresses of one kind."""
        claim_caches.claims.subscribe(partial(self._note_claim, claim_caches))
        claim_caches.addresses.subscribe(partial(self._note_address, claim_caches))

    def _note_claim(
        self, claim_caches: IPPoolClaimCaches[ClaimT, AddressT], change: Change[ClaimT]
    ) -> None:
        """Note a changed claim in its pool, and in the pool that it named before."""
        for claim in (change.old, change.new):
            if claim is not None:
                self._note(
                    claim_caches.claim_format.find_pool_of_claim(claim), claim.metadata.name
                )

    def _note_address(
        self, claim_caches: IPPoolClaimCaches[ClaimT, AddressT], change: Change[AddressT]
    ) -> None:
        """Note the claims that a changed IPAddress names now and named before."""
        for address in (change.old, change.new):
            if address is not None:
                claim = claim_caches.claim_format.find_claim_of_address(address)
                if claim is not None:
                    self._note(claim_caches.claim_format.find_pool_of_address(address), claim.name)

    def _note(self, pool: Key | None, name: str) -> None:
        """Note that claims of a name have changed, for the next `read_indexes` of a pool.

        Nothing is noted for a pool without stored addresses, because it reads all its claims.
        """
        stored = None if pool is None else self._stored.get(pool)
        if stored is not None:
            stored.changed.add(name)


def _list_names_of_kind(
    pool: Key, claim_caches: IPPoolClaimCaches[ClaimT, AddressT], /
) -> Iterator[str]:
    """Yield the names of the claims of a kind that concern a pool."""
    for claim in claim_caches.claims.list_by_index(SPACE_INDEX, str(pool)):
        yield claim.metadata.name
    for address in claim_caches.addresses.list_by_index(SPACE_INDEX, str(pool)):
        key = claim_caches.claim_format.find_claim_of_address(address)
        if key is not None:
            yield key.name


def _list_addresses_of_kind(
    pool: Key, space: EntrySpace, name: str, claim_caches: IPPoolClaimCaches[ClaimT, AddressT], /
) -> Iterator[str]:
    """Yield the addresses of a claim of one kind in the order in which they are preferred.

    First comes the IPAddress that the status names, then other IPAddresses by name, then the
    address that the name in the status stands for, whose IPAddress may be missing.
    """
    key = Key(pool.namespace, name)
    claim = claim_caches.claims.get(key)
    is_of_pool = claim is not None and claim_caches.claim_format.find_pool_of_claim(claim) == pool
    status_name = (
        claim_caches.claim_format.get_address_name(claim)
        if claim is not None and is_of_pool
        else ""
    )
    addresses = [
        address
        for address in claim_caches.list_addresses_of_claim(key)
        if claim_caches.claim_format.find_pool_of_address(address) == pool
    ]

    def order(address: AddressT) -> tuple[bool, str]:
        """Return a sort key: the IPAddress that the status names comes first."""
        return address.metadata.name != status_name, address.metadata.name

    parsed = [parse_single(address.spec.address) for address in sorted(addresses, key=order)]
    if claim is not None and is_of_pool and claim_caches.claim_format.has_address(claim):
        parsed += space.find_named_addresses(status_name)[:1]
    for address_range in parsed:
        if address_range is not None and not is_never_given(address_range):
            yield format_canonical(address_range)
