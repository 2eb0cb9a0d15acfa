"""One pass over one pool that claims are served from.

gone?              forget it
being deleted?     hand out nothing; go when no IPAddress names it and nothing is promised
no finalizer?      add it
no memory?         fence it: void whatever was promised before
otherwise          read, choose, write the journal, write the claims, then the pool's status

The journal is an annotation, so it and the status are two writes; only the journal is promised on.
The status is written last, from what the caches show then.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from typing_extensions import override

from allocator import AddressRange, InvalidPool
from controller.client import Client
from controller.clock import Clock
from controller.errors import (
    ApiError,
    ControllerError,
)
from controller.finalizers import add_finalizer, has_finalizer, remove_finalizer
from controller.meta import Key
from controller.outcome import SETTLED, Again, Blocked, Outcome
from controller.resource import Resource
from reconcilers.configuration.settings import PoolSettings
from reconcilers.integrations.clusterapi.addresses import PoolSpace
from reconcilers.integrations.clusterapi.api import (
    JOURNALS,
    POOL_FINALIZER,
    POOL_NOT_READY,
    IPAddressClaim,
    is_paused,
)
from reconcilers.integrations.clusterapi.caches import (
    ClaimCaches,
    Standing,
    geometry_of,
    space_name,
)
from reconcilers.integrations.clusterapi.choosing import Chooser
from reconcilers.integrations.clusterapi.granting import Granting
from reconcilers.integrations.clusterapi.leftovers import Leftovers
from reconcilers.integrations.clusterapi.poolstatus import PoolStatuses
from reconcilers.integrations.clusterapi.reading import Reader, has_read
from reconcilers.integrations.clusterapi.restoredclaims import RestoredClaims
from reconcilers.integrations.clusterapi.statuses import waits
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.core.passes import JournalReconciler
from reconcilers.integrations.core.rules import Choice, Refusal, View
from reconcilers.promises.journal import Journal
from reconcilers.promises.keeping import Kept
from reconcilers.promises.reading import highest_revision
from reconcilers.promises.results import WriteResult
from reconcilers.promises.unreadable import HOLDERS_UNKNOWN, holders_unknown_message
from reconcilers.reporting.conditions import READY, Finding
from reconcilers.reporting.wording import count_noun


@dataclass(frozen=True, slots=True)
class PoolParts:
    """What passes over pools of all kinds share.

    Args:
        client: for the requests.
        caches: the caches.
        reader: reads claims and IPAddresses.
        granting: writes claims.
        leftovers: takes away IPAddresses that no promise and no claim names.
        statuses: writes the pools' statuses.
        restored: the claims that may still get an IPAddress from a restore.
        clock: the time.
        settings: intervals, and how much is done at once.
    """

    client: Client
    caches: ClaimCaches
    reader: Reader
    granting: Granting
    leftovers: Leftovers
    statuses: PoolStatuses
    restored: RestoredClaims
    clock: Clock
    settings: PoolSettings


class PoolWriteRefused(ControllerError):
    """The API server refused a write of the pool itself in a way that only a person ends.

    Args:
        error: the API server's answer.
    """

    def __init__(self, error: ApiError) -> None:
        super().__init__(str(error))
        self.request = error.request
        self.error = error


class PoolReconciler(JournalReconciler[Any]):
    """Hands out the addresses of the pools of one kind.

    Args:
        kind: of the pools.
        parts: what it works with.
    """

    def __init__(self, kind: Resource[Any], parts: PoolParts) -> None:
        pools = parts.caches.pools[kind.kind]
        super().__init__(
            pools,
            JOURNALS,
            caches=parts.caches,
            client=parts.client,
            clock=parts.clock,
            settings=parts.settings,
        )
        self._parts = parts

    @override
    def _is_left_alone(self, pool: Any) -> bool:
        return False

    @override
    def _forget(self, key: Key) -> None:
        self._parts.reader.forget(self.kind, key)

    @override
    async def _pass(self, pool: Any) -> Outcome:
        try:
            return await self._pass_once(pool)
        except PoolWriteRefused as refused:
            await self._refuse_all(pool, f"it cannot be written: {refused.error}")
            raise refused.error from None

    async def _pass_once(self, pool: Any) -> Outcome:
        """Serve a pool's claims once, or write why the pool does not serve."""
        if pool.metadata.terminating:
            return await self._reconcile_deleted(pool)
        pool = await self._with_finalizer(pool)
        try:
            space = self.geometry(pool)
        except InvalidPool as invalid:
            why = "; ".join(invalid.messages)
            await self._write_ready(pool, Finding(READY, False, "ValidationFailed", why))
            return Blocked("ValidationFailed", await self._refuse_all(pool, why))
        if is_paused(pool.metadata.annotations):
            await self._write_status(pool, space)
            return SETTLED
        pool, journal, view = await self._with_memory(pool, space)
        return await self._serve(pool, journal, space, view)

    async def _refuse_all(self, pool: Any, why: str) -> float | None:
        """Write on each claim that waits for a pool why the pool serves no claim.

        Returns:
            In how many seconds to write the claims whose write was refused; None without such.
        """
        caches, key = self._parts.caches, pool.metadata.key
        if is_paused(pool.metadata.annotations):
            return None
        text = describe_not_ready(self.kind, pool, why)
        named = caches.claims.by_index(SPACE_INDEX, space_name(self.kind, key))
        waiting = [c for c in named if waits(c) and caches.standing(c) is Standing.SERVE]
        return await self._parts.granting.refuse(
            [Refusal(claim, POOL_NOT_READY, text) for claim in waiting], pool, self.kind
        )

    @override
    async def _report_unreadable(self, pool: Any, why: str) -> None:
        await self._write_ready(pool, Finding(READY, False, HOLDERS_UNKNOWN, unknown(pool, why)))
        await self._refuse_all(pool, why)

    def geometry(self, pool: Any) -> PoolSpace:
        """Return what a pool may hand out; raises InvalidPool if it cannot be read."""
        return geometry_of(pool)

    def why_closed(self, pool: Any) -> str:
        """Return why a pool hands out no further address; empty if it does."""
        del pool
        return ""

    async def also_held(self, pool: Any, space: PoolSpace) -> Sequence[AddressRange]:
        """Return the blocks that others than claims and IPAddresses hold; raises Behind."""
        del pool, space
        return ()

    async def _with_finalizer(self, pool: Any) -> Any:
        with _writing_pool():
            return await add_finalizer(self._parts.client, self.kind, pool, POOL_FINALIZER)

    @override
    async def _write_journal(self, pool: Any, journal: Journal) -> tuple[Any, Journal]:
        with _writing_pool():
            return await super()._write_journal(pool, journal)

    async def _write_ready(self, pool: Any, ready: Finding) -> None:
        """Write a pool's Ready condition, which says why it does not serve."""
        with _writing_pool():
            await self._parts.statuses.write(self.kind, pool, None, ready)

    async def _write_status(
        self, pool: Any, space: PoolSpace, ready: Finding | None = None
    ) -> None:
        """Write a pool's figures and conditions.

        Args:
            pool: the pool.
            space: what it may hand out.
            ready: its condition Ready; None for the one of a pool that serves.
        """
        holdings = self._parts.reader.cached(self.kind, pool.metadata.key, space).holdings
        with _writing_pool():
            await self._parts.statuses.write_figures(self.kind, pool, space, holdings, ready)

    async def _with_memory(
        self, pool: Any, space: PoolSpace
    ) -> tuple[Any, Journal, View[IPAddressClaim]]:
        """Return the pool with a memory, its journal, and a view that has read as far as that."""
        key, reader = pool.metadata.key, self._parts.reader
        journal = JOURNALS.read(pool.metadata)
        if JOURNALS.kind in journal.revisions:
            view = await reader.at_least(self.kind, key, space, journal)
            if has_read(view, journal):
                return pool, journal, view
            # A LIST has not got there: a number is of another cluster, or of a lost history.
        pool, journal = await self._fence(pool)
        return pool, journal, await reader.at_least(self.kind, key, space, journal)

    @override
    async def _write_fence(self, pool: Any) -> tuple[Any, Journal]:
        """Void whatever was promised before the pool was read, then give it a memory.

        What kept promises left of claims that are gone by now, the LIST of IPAddresses shows.
        """
        key, reader = pool.metadata.key, self._parts.reader
        listed = await reader.claims(self.kind, key)
        claims = await self._parts.granting.fence.void_earlier(listed)
        addresses = await reader.addresses(self.kind, key)  # after the claims that they were for
        journal = JOURNALS.with_revision(highest_revision(claims), (), highest_revision(addresses))
        return await self._write_journal(pool, journal)

    async def _serve(
        self, pool: Any, journal: Journal, space: PoolSpace, view: View[IPAddressClaim]
    ) -> Outcome:
        """Write promises to the pool, then addresses and refusals to claims, then the status."""
        also_held = await self.also_held(pool, space)
        view = self._parts.reader.renewed(view, self.kind, pool.metadata.key, space)
        restored = self._parts.restored
        closed, limits = self.why_closed(pool), self._limits(pool)
        chooser = Chooser(
            self._parts.caches,
            self.kind,
            pool,
            journal,
            space,
            view,
            restored,
            closed,
            limits,
        )
        choice = chooser.choose(also_held, self._parts.settings.batch)
        promised = [grant.promise for grant in choice.grants]
        pool, journal = await self._promise(
            pool, journal, choice.journal, promised, choice.settled
        )
        kept = await self._keep(pool, space, view, choice)
        unwritten = await self._parts.granting.refuse(choice.refusals, pool, self.kind)
        leftover = await self._parts.leftovers.collect(self.kind, view, choice)
        await self._write_status(pool, space)
        outcome = self._next(
            pool, journal, choice.settled, kept, more=choice.more, later=unwritten
        )
        later = restored.seconds_until_next(space_name(self.kind, pool.metadata.key))
        return _sooner(_sooner(outcome, leftover), later)

    async def _keep(
        self,
        pool: Any,
        space: PoolSpace,
        view: View[IPAddressClaim],
        choice: Choice[IPAddressClaim],
    ) -> list[Kept[IPAddressClaim]]:
        """Keep the new promises, and those earlier ones that are due."""
        fresh = [(grant.promise, grant.request) for grant in choice.grants]
        due = self._earlier(pool, choice.journal, (promise for promise, _ in fresh))
        earlier = [
            (promise, claim) for promise in due if (claim := view.at_version(promise)) is not None
        ]
        granting = self._parts.granting
        kept = await granting.keep([*earlier, *fresh], pool, self.kind, space)
        self._parts.reader.note_kept(
            self.kind, pool.metadata.key, [entry.promise for entry in kept]
        )
        void = partial(granting.void_refused, pool=pool, pool_kind=self.kind)
        return await self._void_refused(pool, kept, void)

    async def _reconcile_deleted(self, pool: Any) -> Outcome:
        """Take the finalizer off when no IPAddress names the pool and nothing is promised.

        The cache may show that there are some; only a live LIST may show that there are none. What
        may still be promised is voided before, so that no late write can come after.
        """
        if not has_finalizer(pool, POOL_FINALIZER):
            return SETTLED
        count = await self.blockers(pool)
        if not count:
            with _writing_pool():
                await remove_finalizer(self._parts.client, self.kind, pool, POOL_FINALIZER)
            return SETTLED
        message = f"{count_noun(count, 'IPAddress is', 'IPAddresses are')} in use"
        waiting = Finding(READY, False, "Deleting", message)
        try:
            await self._write_status(pool, self.geometry(pool), waiting)
        except InvalidPool:
            await self._write_ready(pool, waiting)
        return Blocked("Deleting", self._parts.settings.requeue_deleting)

    async def blockers(self, pool: Any) -> int:
        """Return how many IPAddresses the deletion of a pool has to wait for.

        If none, what the pool may have promised is void when this returns.

        Raises:
            UnreadableHolders: objects that may hold its addresses cannot be decoded.
        """
        key, reader = pool.metadata.key, self._parts.reader
        reader.check_cached(self.kind, key)
        count = reader.count(self.kind, key) or await reader.count_live(self.kind, key)
        if not count:
            claims = await reader.claims(self.kind, key)
            journal = JOURNALS.read(pool.metadata)
            open_to = {promise.uid for promise in journal.promises}
            known = JOURNALS.kind in journal.revisions
            risky = [
                claim
                for claim in claims
                if waits(claim) and (not known or claim.metadata.uid in open_to)
            ]
            await self._parts.granting.fence.void_earlier(risky)
            count = await reader.count_live(self.kind, key) if risky else 0
        return count


def describe_not_ready(kind: Resource[Any], pool: Any, why: str) -> str:
    """Return the message of claims that wait for a pool which serves no claim."""
    return f"{kind.kind} {pool.metadata.name} is not ready: {why}"


def unknown(pool: Any, why: str) -> str:
    """Return the message of a pool while objects that may hold its addresses are unreadable."""
    effect = "it is not deleted" if pool.metadata.terminating else "nothing is handed out"
    return holders_unknown_message(why, effect)


def refused_for_good(error: ApiError) -> bool:
    """Return whether a write was refused in a way that only a person ends."""
    return WriteResult.of_error(error) is WriteResult.REFUSED


@contextmanager
def _writing_pool() -> Iterator[None]:
    """Raise PoolWriteRefused if the write of a pool in this block is refused for good."""
    try:
        yield
    except ApiError as error:
        if refused_for_good(error):
            raise PoolWriteRefused(error) from error
        raise


def _sooner(outcome: Outcome, seconds: float | None) -> Outcome:
    """Return the outcome, with the next pass in so many seconds at the latest."""
    if seconds is None or (isinstance(outcome, Again) and outcome.after <= seconds):
        return outcome
    return Again(seconds)
