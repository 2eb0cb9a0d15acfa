"""Read the claims and IPAddresses of a pool for a pass: from caches, or by LIST if they lag.

The position is what the watch of claims delivered; own answers never move it, or a replica could
believe to have read what it only wrote. The journal asks for no position of IPAddresses: what a
promise brought about is on record in the claim, and one made by hand was never promised. But what
a LIST showed, of claims or IPAddresses, is not forgotten: a cache counts again once it shows that.
"""

from typing import Any

from controller.client import Client
from controller.clock import Clock
from controller.meta import Key
from controller.resource import Resource
from reconcilers.integrations.clusterapi.addresses import PoolSpace
from reconcilers.integrations.clusterapi.api import IPAddressClaim
from reconcilers.integrations.clusterapi.caches import (
    ClaimCaches,
    address_holding,
    check_readable,
    claim_holding,
    space_name,
    space_of,
)
from reconcilers.integrations.core.contents import SPACE_INDEX, KeptContents, Source, contents_of
from reconcilers.integrations.core.rules import View
from reconcilers.networkpool.view import CacheWait

CLAIMS = "claims"
ADDRESSES = "addresses"


class Reader:
    """Reads what a pool's claims and IPAddresses hold.

    Args:
        client: for lists.
        caches: the caches.
        clock: the time.
        patience: seconds to wait for the cache before the server is asked.
    """

    def __init__(self, client: Client, caches: ClaimCaches, clock: Clock, patience: float) -> None:
        self._client = client
        self._caches = caches
        self._wait = CacheWait(clock, patience)
        self._sources = (
            Source(CLAIMS, caches.claims, claim_holding),
            Source(ADDRESSES, caches.addresses, address_holding),
        )
        self._kept = KeptContents[PoolSpace](self._sources, space_of)

    def cached(self, kind: Resource[Any], pool: Key, space: PoolSpace) -> View[IPAddressClaim]:
        """Return the view that the caches give, however old it is."""
        claims = self._caches.claims
        contents = self._kept.contents(space_name(kind, pool), space)
        return View(
            claims.position,
            contents,
            claims.get,
            self._caches.addresses.get,
            claims.unreadable.keys(),
        )

    async def at_least(
        self, kind: Resource[Any], pool: Key, space: PoolSpace, revision: int
    ) -> View[IPAddressClaim]:
        """Return a view that has read the claims up to `revision`, or all that there are now.

        Raises:
            Behind: the cache may still get there.
            UnreadableHolders: claims or IPAddresses that may be the pool's cannot be decoded.
            ControllerError: the list failed.
        """
        self.check_cached(kind, pool)
        name = space_name(kind, pool)
        has_read_claims = self._wait.has_read(self._caches.claims, revision, (CLAIMS, name))
        if has_read_claims and self._wait.has_read(self._caches.addresses, 0, (ADDRESSES, name)):
            return self.cached(kind, pool, space)
        return await self.live(kind, pool, space)

    def renewed(
        self, view: View[IPAddressClaim], kind: Resource[Any], pool: Key, space: PoolSpace
    ) -> View[IPAddressClaim]:
        """Return a view of now in place of one that was read before the pass waited.

        What a view of the caches finds is of now, what it holds is of when it was read. A promise
        that was kept meanwhile would be settled by the one, and free by the other. A view of
        lists is of one moment. It stays until both caches show what it shows.

        Raises:
            UnreadableHolders: claims or IPAddresses that may be the pool's cannot be decoded.
        """
        self.check_cached(kind, pool)
        addresses, name = self._caches.addresses, space_name(kind, pool)
        is_reached = self._caches.claims.position >= view.position
        if is_reached and self._wait.has_read_list(addresses, (ADDRESSES, name)):
            return self.cached(kind, pool, space)
        return view

    def check_cached(self, kind: Resource[Any], pool: Key) -> None:
        """Raise if the caches show objects that cannot be decoded and may be the pool's.

        Raises:
            UnreadableHolders: there are some.
        """
        claims, addresses = self._caches.claims, self._caches.addresses
        check_readable(kind, pool, claims.unreadable, addresses.unreadable)

    async def live(self, kind: Resource[Any], pool: Key, space: PoolSpace) -> View[IPAddressClaim]:
        """Return the view of lists that begin now.

        Raises:
            UnreadableHolders: claims or IPAddresses that may be the pool's cannot be decoded.
            ControllerError: a list failed.
        """
        name, within = space_name(kind, pool), pool.namespace
        claims = await self._client.list(self._caches.claim_kind, namespace=within)
        addresses = await self._client.list(self._caches.address_kind, namespace=within)
        check_readable(kind, pool, claims.unreadable, addresses.unreadable)
        mine = [one for one in claims.items if name in space_of(one)]
        theirs = [one for one in addresses.items if name in space_of(one)]
        self._wait.note_list((CLAIMS, name), mine)
        self._wait.note_list((ADDRESSES, name), theirs)
        contents = contents_of(space, zip(self._sources, (mine, theirs), strict=True))
        by_key = {one.metadata.key: one for one in claims.items}
        answers = {one.metadata.key: one for one in addresses.items}
        return View(claims.revision, contents, by_key.get, answers.get, claims.unreadable.keys())

    async def claims(self, kind: Resource[Any], pool: Key) -> list[IPAddressClaim]:
        """Return the claims that name a pool, by a list that begins now.

        Raises:
            UnreadableHolders: claims that may name it cannot be decoded.
            ControllerError: the list failed.
        """
        name = space_name(kind, pool)
        page = await self._client.list(self._caches.claim_kind, namespace=pool.namespace)
        check_readable(kind, pool, page.unreadable, {})
        return [one for one in page.items if name in space_of(one)]

    def count(self, kind: Resource[Any], pool: Key) -> int:
        """Return how many IPAddresses name a pool, as the cache shows it."""
        return len(self._caches.addresses.by_index(SPACE_INDEX, space_name(kind, pool)))

    async def count_live(self, kind: Resource[Any], pool: Key) -> int:
        """Return how many IPAddresses name a pool, by a list that begins now.

        Raises:
            UnreadableHolders: IPAddresses that may name it cannot be decoded.
            ControllerError: the list failed.
        """
        name = space_name(kind, pool)
        page = await self._client.list(self._caches.address_kind, namespace=pool.namespace)
        check_readable(kind, pool, {}, page.unreadable)
        return sum(name in space_of(one) for one in page.items)

    def forget(self, kind: Resource[Any], pool: Key) -> None:
        """Forget a pool that is gone."""
        name = space_name(kind, pool)
        self._kept.forget(name)
        for source in (CLAIMS, ADDRESSES):
            self._wait.forget((source, name))
