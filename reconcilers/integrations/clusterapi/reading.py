"""Read the claims and IPAddresses of a pool for a pass: from caches, or by LIST if they lag.

The position is what the watch of claims delivered; own answers never move it, or a replica could
believe to have read what it only wrote. The journal has a position of IPAddresses as well: what a
promise brought about is on record in the claim, but an IPAddress outlives a claim whose finalizer
a person removed, and a claim whose status was wiped has no record. An IPAddress that was made by
hand was never promised. But what a LIST showed, of claims or IPAddresses, is not forgotten: a
cache counts again once it shows that.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from controller.client import Client
from controller.clock import Clock
from controller.meta import Key
from controller.resource import Resource
from reconcilers.integrations.clusterapi.addresses import ClaimSpace, PoolSpace
from reconcilers.integrations.clusterapi.answers import controlling_claim
from reconcilers.integrations.clusterapi.api import (
    ADDRESS_KIND,
    CLAIM_KIND,
    IPAddress,
    IPAddressClaim,
)
from reconcilers.integrations.clusterapi.caches import (
    ClaimCaches,
    check_readable,
    claim_facts,
    claim_holdings,
    holder_of,
    space_name,
    space_of,
)
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.core.rules import View
from reconcilers.promises.holdings import (
    CHECK_SECONDS,
    Facts,
    Holdings,
    KeptHoldings,
    indexed_source,
)
from reconcilers.promises.identities import Holder, find_by_key
from reconcilers.promises.journal import Identity, Journal, Promise
from reconcilers.promises.reading import CacheWait
from reconcilers.promises.settling import CreatedEffects, settle

CLAIMS = "claims"
ADDRESSES = "addresses"


def _find_revision(
    find_address: Callable[[Key], IPAddress | None], promise: Promise
) -> int | None:
    """Return the resourceVersion of the IPAddress that was made for a promise; None without one.

    A claim without a record may have been served: a person can wipe its status.
    """
    address = find_address(promise.key)
    owner = controlling_claim(address) if address is not None else None
    if address is None or owner is None or owner.uid != promise.uid:
        return None
    return address.metadata.revision


def has_memory(journal: Journal) -> bool:
    """Return whether a journal has a revision of claims, and one of their IPAddresses.

    Without the second one it is not known which addresses IPAddresses without claim hold.
    """
    return CLAIM_KIND in journal.revisions and ADDRESS_KIND in journal.revisions


def has_read(view: View[Any], journal: Journal) -> bool:
    """Return whether a view has read claims and IPAddresses as far as a journal with memory says.

    Args:
        view: of a pool.
        journal: of the pool; with memory.
    """
    effects_read = view.effects.position if view.effects is not None else 0
    has_read_claims = view.position >= journal.revisions[CLAIM_KIND]
    return has_read_claims and effects_read >= journal.revisions[ADDRESS_KIND]


class Reader:
    """Reads what a pool's claims and IPAddresses hold.

    Args:
        client: for lists.
        caches: the caches.
        clock: the time.
        patience: seconds to wait for the cache before the server is asked.
        check_interval: seconds between two checks of what is kept of a pool.
    """

    def __init__(
        self,
        client: Client,
        caches: ClaimCaches,
        clock: Clock,
        patience: float,
        check_interval: float = CHECK_SECONDS,
    ) -> None:
        self._client = client
        self._caches = caches
        self._wait = CacheWait(clock, patience)
        self._kept = KeptHoldings[str, PoolSpace](
            [
                indexed_source(cache, SPACE_INDEX, space_of, holder_of)
                for cache in (caches.claims, caches.addresses)
            ],
            self.facts_of,
            lambda space: space.layouts,
            clock=clock,
            check_interval=check_interval,
        )
        self._created: dict[str, dict[Identity, int]] = {}
        """By space: the resourceVersions of the IPAddresses of promises of its journal."""

    def facts_of(self, pool: str, holder: Holder, space: ClaimSpace) -> Facts | None:
        """Return the facts of a claim and its IPAddress for a pool, as the caches show them."""
        claim = self._caches.claims.get(holder.key)
        address = self._caches.addresses.get(holder.key)
        return claim_facts(
            claim if claim is not None and pool in space_of(claim) else None,
            address if address is not None and pool in space_of(address) else None,
            space,
        )

    def read_cached(
        self, kind: Resource[Any], pool: Key, space: PoolSpace
    ) -> View[IPAddressClaim]:
        """Return the view that the caches give, however old it is."""
        return self.with_holdings(kind, pool, self._kept.holdings(space_name(kind, pool), space))

    def with_holdings(
        self, kind: Resource[Any], pool: Key, holdings: Holdings
    ) -> View[IPAddressClaim]:
        """Return the view that the caches give.

        Args:
            kind: of the pool.
            pool: the pool.
            holdings: of the pool, as the caches show them.
        """
        claims = self._caches.claims
        return View(
            claims.position,
            holdings,
            find_by_key(CLAIM_KIND, claims.get),
            self._caches.addresses.get,
            claims.unreadable.keys(),
            self._cached_effects(space_name(kind, pool)),
        )

    def _cached_effects(self, name: str) -> CreatedEffects:
        addresses = self._caches.addresses
        find = partial(_find_revision, addresses.get)
        return CreatedEffects(ADDRESS_KIND, addresses.position, find, self._created.get(name, {}))

    async def at_least(
        self, kind: Resource[Any], pool: Key, space: PoolSpace, journal: Journal
    ) -> View[IPAddressClaim]:
        """Return a view that has read as far as a journal says, or all that there is now.

        It lists, too, if the caches do not show which IPAddresses were created for promises that
        are over.

        Raises:
            Behind: the cache may still get there.
            UnreadableHolders: claims or IPAddresses that may be the pool's cannot be decoded.
            ControllerError: the list failed.
        """
        self.check_cached(kind, pool)
        if self.suffices(kind, pool, journal):
            return self.read_cached(kind, pool, space)
        return await self.live(kind, pool, space, journal)

    def suffices(self, kind: Resource[Any], pool: Key, journal: Journal) -> bool:
        """Return whether the caches have read as far as a journal says; False to LIST.

        That is also so if the caches do not show which IPAddresses were created for promises that
        are over.

        Raises:
            Behind: a cache may still get there.
        """
        name, revisions = space_name(kind, pool), journal.revisions
        self._note_shown(name, journal)
        claims, addresses = self._caches.claims, self._caches.addresses
        of_claims = revisions.get(CLAIM_KIND, 0)
        of_addresses = revisions.get(ADDRESS_KIND, 0)
        has_read_claims = self._wait.has_read(claims, of_claims, (CLAIMS, name))
        if not has_read_claims or not self._wait.has_read(
            addresses, of_addresses, (ADDRESSES, name)
        ):
            return False
        view = self.with_holdings(kind, pool, Holdings())
        still_open = settle(journal, CLAIM_KIND, view).promises
        return still_open == settle(journal, CLAIM_KIND, view, view.effects).promises

    def note_kept(self, kind: Resource[Any], pool: Key, promises: Iterable[Promise]) -> None:
        """Note the IPAddresses that were made for promises just now, before they may go again."""
        created = self._created.setdefault(space_name(kind, pool), {})
        for promise in promises:
            revision = _find_revision(self._caches.addresses.get, promise)
            if revision is not None:
                created[promise.identity] = revision

    def _note_shown(self, name: str, journal: Journal) -> None:
        """Note which IPAddresses of a journal's promises the cache shows; forget dropped ones."""
        known, created = self._created.get(name, {}), dict[Identity, int]()
        for promise in journal.promises:
            if promise.kind != CLAIM_KIND:
                continue
            cached_revision = _find_revision(self._caches.addresses.get, promise)
            revision = known.get(promise.identity) if cached_revision is None else cached_revision
            if revision is not None:
                created[promise.identity] = revision
        self._created[name] = created

    def check_cached(self, kind: Resource[Any], pool: Key) -> None:
        """Raise if the caches show objects that cannot be decoded and may be the pool's.

        Raises:
            UnreadableHolders: there are some.
        """
        claims, addresses = self._caches.claims, self._caches.addresses
        check_readable(kind, pool, claims.unreadable, addresses.unreadable)

    async def live(
        self, kind: Resource[Any], pool: Key, space: ClaimSpace, journal: Journal
    ) -> View[IPAddressClaim]:
        """Return the view of lists that begin now.

        The IPAddresses are listed after the claims. So the IPAddress of a promise that is over by
        the list of claims is in the list, or was deleted.

        Raises:
            UnreadableHolders: claims or IPAddresses that may be the pool's cannot be decoded.
            ControllerError: a list failed.
        """
        name, within = space_name(kind, pool), pool.namespace
        claims = await self._client.list(self._caches.claim_kind, namespace=within)
        addresses = await self._client.list(self._caches.address_kind, namespace=within)
        check_readable(kind, pool, claims.unreadable, addresses.unreadable)
        of_pool = {claim.metadata.key: claim for claim in claims.items if name in space_of(claim)}
        addresses_of_pool = {
            address.metadata.key: address
            for address in addresses.items
            if name in space_of(address)
        }
        self._wait.note_list((CLAIMS, name), of_pool.values())
        self._wait.note_list((ADDRESSES, name), addresses_of_pool.values())
        holdings = claim_holdings(of_pool, addresses_of_pool, space)
        by_key = {claim.metadata.key: claim for claim in claims.items}
        answers = {address.metadata.key: address for address in addresses.items}
        created = self._created.setdefault(name, {})
        find = partial(_find_revision, answers.get)
        effects = CreatedEffects(ADDRESS_KIND, addresses.revision, find, created)
        view = View(
            claims.revision,
            holdings,
            find_by_key(CLAIM_KIND, by_key.get),
            answers.get,
            claims.unreadable.keys(),
            effects,
        )
        still_open = {p.identity for p in settle(journal, CLAIM_KIND, view).promises}
        for promise in journal.promises:
            if promise.identity not in still_open:
                address = answers.get(promise.key)
                created[promise.identity] = address.metadata.revision if address is not None else 0
        return view

    async def claims(self, kind: Resource[Any], pool: Key) -> tuple[int, list[IPAddressClaim]]:
        """Return the claims that name a pool, by a list that begins now, and its revision.

        Raises:
            UnreadableHolders: claims that may name it cannot be decoded.
            ControllerError: the list failed.
        """
        name = space_name(kind, pool)
        page = await self._client.list(self._caches.claim_kind, namespace=pool.namespace)
        check_readable(kind, pool, page.unreadable, {})
        return page.revision, [claim for claim in page.items if name in space_of(claim)]

    async def addresses(self, kind: Resource[Any], pool: Key) -> list[IPAddress]:
        """Return the IPAddresses that name a pool, by a list that begins now.

        Raises:
            UnreadableHolders: IPAddresses that may name it cannot be decoded.
            ControllerError: the list failed.
        """
        name = space_name(kind, pool)
        page = await self._client.list(self._caches.address_kind, namespace=pool.namespace)
        check_readable(kind, pool, {}, page.unreadable)
        return [address for address in page.items if name in space_of(address)]

    def count(self, kind: Resource[Any], pool: Key) -> int:
        """Return how many IPAddresses name a pool, as the cache shows it."""
        return len(self._caches.addresses.by_index(SPACE_INDEX, space_name(kind, pool)))

    def forget(self, kind: Resource[Any], pool: Key) -> None:
        """Forget a pool that is gone."""
        name = space_name(kind, pool)
        self._kept.forget(name)
        self._created.pop(name, None)
        for source in (CLAIMS, ADDRESSES):
            self._wait.forget((source, name))
