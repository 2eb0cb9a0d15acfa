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
from controller.conditions import rfc3339
from controller.meta import Key
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.metal3.addressnames import canonical_text
from reconcilers.integrations.metal3.api import POOLS, Metal3Pool
from reconcilers.integrations.metal3.caches import Metal3Caches, SideCaches
from reconcilers.integrations.metal3.entries import EntrySpace, is_never_given, parse_single
from reconcilers.integrations.metal3.sides import AddressT, ClaimT


@dataclass(slots=True)
class _KeptIndexes:
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
        self._kept: dict[Key, _KeptIndexes] = {}
        for side in caches.sides.values():  # metal3's kinds, and those of Cluster API
            side.visit(self._follow)  # subscribes to the changes of the side's caches

    async def write(self, pool: Metal3Pool, space: EntrySpace) -> Metal3Pool:
        """Write which claims have which addresses, if the pool's status differs.

        Args:
            pool: as it was written last.
            space: what it may hand out.

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
        status: Mapping[str, Any] = {"indexes": changed, "lastUpdated": rfc3339(self._clock.now())}
        return await self._client.patch_status(POOLS, pool, status)

    def forget(self, pool: Key) -> None:
        """Forget a pool that is gone."""
        self._kept.pop(pool, None)

    def read_indexes(self, pool: Key, space: EntrySpace) -> Mapping[str, str]:
        """Return the addresses of a pool by the names of their claims, as the caches show them.

        If claims of both kinds have one name, the address of the IPClaim is returned. Texts that
        are no address, and addresses that the definition of the kind does not allow, are left out:
        the API server would reject the whole status.
        """
        # Removed until all is up to date: if anything raises, the next call reads all addresses.
        kept = self._kept.pop(pool, None)
        if kept is None or kept.space is not space:
            kept = _KeptIndexes(space, {}, self._list_names(pool))
        for name in kept.changed:
            addresses = self._list_addresses(pool, space, name)  # the best one comes first
            if (address := next(addresses, None)) is not None:
                kept.indexes[name] = address
            else:
                kept.indexes.pop(name, None)
        kept.changed.clear()
        self._kept[pool] = kept
        return kept.indexes

    def _list_names(self, pool: Key) -> set[str]:
        """Return the names of all claims of a pool, and of those that its IPAddresses name."""
        names: set[str] = set()
        for side in self._caches.sides.values():
            names.update(side.visit(partial(_list_names_of_kind, pool)))
        return names

    def _list_addresses(self, pool: Key, space: EntrySpace, name: str) -> Iterator[str]:
        """Yield the addresses of claims of a name, those of the IPClaim first.

        Of several IPAddresses of a claim, the one that its status names comes first.
        """
        for side in self._caches.sides.values():
            yield from side.visit(partial(_list_addresses_of_kind, pool, space, name))

    def _follow(self, side_caches: SideCaches[ClaimT, AddressT], /) -> None:
        """Note each change of the claims and IPAddresses of one kind."""
        side_caches.claims.subscribe(partial(self._note_claim, side_caches))
        side_caches.addresses.subscribe(partial(self._note_address, side_caches))

    def _note_claim(
        self, side_caches: SideCaches[ClaimT, AddressT], change: Change[ClaimT]
    ) -> None:
        """Note a changed claim in its pool, and in the pool that it named before."""
        for claim in (change.old, change.new):
            if claim is not None:
                self._note(side_caches.side.pool_of_claim(claim), claim.metadata.name)

    def _note_address(
        self, side_caches: SideCaches[ClaimT, AddressT], change: Change[AddressT]
    ) -> None:
        """Note the claim of a changed IPAddress, as it names it now and as it did before."""
        for address in (change.old, change.new):
            if address is not None:
                claim = side_caches.side.claim_of_address(address)
                if claim is not None:
                    self._note(side_caches.side.pool_of_address(address), claim.name)

    def _note(self, pool: Key | None, name: str) -> None:
        """Note that claims of a name have changed; a pool without entry reads all anyway."""
        kept = None if pool is None else self._kept.get(pool)
        if kept is not None:
            kept.changed.add(name)


def _list_names_of_kind(pool: Key, side_caches: SideCaches[ClaimT, AddressT], /) -> Iterator[str]:
    """Yield the names of the claims of a kind that concern a pool."""
    for claim in side_caches.claims.by_index(SPACE_INDEX, str(pool)):
        yield claim.metadata.name
    for address in side_caches.addresses.by_index(SPACE_INDEX, str(pool)):
        key = side_caches.side.claim_of_address(address)
        if key is not None:
            yield key.name


def _list_addresses_of_kind(
    pool: Key, space: EntrySpace, name: str, side_caches: SideCaches[ClaimT, AddressT], /
) -> Iterator[str]:
    """Yield the addresses of a claim of one kind in the order in which they are preferred.

    First comes the IPAddress that the status names, then other IPAddresses by name, then the
    address that the name in the status stands for, whose IPAddress may be missing.
    """
    key = Key(pool.namespace, name)
    claim = side_caches.claims.get(key)
    is_of_pool = claim is not None and side_caches.side.pool_of_claim(claim) == pool
    status_name = side_caches.side.address_name(claim) if claim is not None and is_of_pool else ""
    addresses = [
        address
        for address in side_caches.addresses_of(key)
        if side_caches.side.pool_of_address(address) == pool
    ]

    def order(address: AddressT) -> tuple[bool, str]:
        """Return a sort key: the IPAddress that the status names comes first."""
        return address.metadata.name != status_name, address.metadata.name

    parsed = [parse_single(address.spec.address) for address in sorted(addresses, key=order)]
    if claim is not None and is_of_pool and side_caches.side.holds(claim):
        parsed += space.find_named_addresses(status_name)[:1]
    for entry in parsed:
        if entry is not None and not is_never_given(entry):
            yield canonical_text(entry)
