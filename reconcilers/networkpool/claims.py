"""Claims as requests of a NetworkPool beside IPAllocations, as far as a pass has to know them.

IPAddressClaims and IPAddresses are kinds of another project. The integration with that project
reads and writes them while it is on and the API server serves them. So `PoolClaims`, by which a
pool sees its claims, exists only at times. `ClaimService` returns it, or tells why it is absent;
it has five answers:

    served       the PoolClaims
    unknown      raises Behind: discovery has not answered, or restarted
    incomplete   raises Behind: one of the two kinds is not served, and objects of the other hold
    absent       None, if the pool has no entry for claims; with an entry only once the entry has
                 not changed for a while
    off          None, if the pool has no entry; otherwise raises Behind

The entry is what the journal says of claims: the revisions of both kinds, and promises to claims.
It is read as it is stored, so it counts even if the journal is lost.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from controller.meta import Key, Object
from reconcilers.api import names
from reconcilers.api.networkpool import Assignment, NetworkPool
from reconcilers.networkpool.view import ClaimView, NetworkPoolReading
from reconcilers.promises.choosing import AskerRefusal, ServedAskers
from reconcilers.promises.holdings import Facts, HolderSource, Holdings
from reconcilers.promises.identities import Holder, Tenant
from reconcilers.promises.journal import Journal, Promise
from reconcilers.promises.reading import Behind
from reconcilers.promises.requestkinds import ServedRequests
from reconcilers.promises.unreadable import UnreadableObject

CLAIMS_OFF_RETRY = 10.0
"""Seconds between two passes over a pool whose wait only a person can end."""


class PoolClaims(Protocol):
    """The claims of all NetworkPools, while they are served.

    Only the integration knows the type of claims. Here a claim is any Object.
    """

    @property
    def served_requests(self) -> ServedRequests[NetworkPool, Object, NetworkPoolReading]:
        """The claims, for the passes over pools; the same object each time."""
        ...

    @property
    def is_history_confirmed(self) -> bool:
        """Whether their caches were relisted since the API server was last out of reach."""
        ...

    @property
    def sources(self) -> Sequence[HolderSource[Key, None]]:
        """The caches of claims and IPAddresses: both show what a claim holds."""
        ...

    def find_facts(self, pool: Key, holder: Holder) -> Facts | None:
        """Return the facts of a claim for a pool, as the caches show it; None without facts."""
        ...

    def find_tenant(self, pool: Key, holder: Holder) -> Tenant | None:
        """Return the tenant of a claim; None if the claim is not known."""
        ...

    def read_cached(self, pool: Key, holdings: Holdings) -> ClaimView:
        """Return the claims of a pool as the caches show them, however old they are.

        Args:
            holdings: of the pool, as the caches show them.
        """
        ...

    def can_read_cached(self, pool: NetworkPool, journal: Journal) -> bool:
        """Return whether a pass may use the caches of claims; False if it has to LIST.

        Raises:
            Behind: the caches may still reach the revisions of the journal.
        """
        ...

    def find_unreadable(self, pool: Key) -> Sequence[UnreadableObject]:
        """Return the claims and IPAddresses that cannot be decoded and may concern the pool."""
        ...

    async def read_lists(self, pool: NetworkPool, journal: Journal) -> ClaimView:
        """Return the claims of a pool by LISTs that begin now.

        Raises:
            UnreadableHolders: objects that may hold addresses of the pool cannot be decoded.
            ControllerError: a LIST failed.
        """
        ...

    def is_paused(self, pool: NetworkPool) -> bool:
        """Return whether a pool gives nothing to claims for now; claims keep what they hold."""
        ...

    def serve_askers(
        self,
        pool: NetworkPool,
        settled: Journal,
        reading: NetworkPoolReading,
        *,
        closed: str,
    ) -> ServedAskers[Object]:
        """Return the claims that wait for a pool, with the taker that chooses their addresses.

        Args:
            pool: as it was read.
            settled: its journal, without the promises that are over.
            reading: of the pool, with its claims.
            closed: why the pool hands out no further address; empty if it does.
        """
        ...

    def list_due_refusals(
        self, refusals: Iterable[AskerRefusal[Object]]
    ) -> Sequence[AskerRefusal[Object]]:
        """Return the refusals to write now: those that their claims do not show yet."""
        ...

    async def finish(
        self,
        pool: NetworkPool,
        view: ClaimView,
        *,
        promises: Sequence[Promise],
        refusals: Sequence[AskerRefusal[Object]],
        due: Sequence[AskerRefusal[Object]],
    ) -> float | None:
        """Write refusals, and delete IPAddresses that stand in the way of claims.

        Args:
            pool: as it was written last.
            promises: the open promises of the pool.
            refusals: of claims.
            due: those of `refusals` that a write of the pool backs.

        Returns:
            In how many seconds another pass is due; None if only a change calls for it.
        """
        ...

    def make_block_refusals(
        self, pool: NetworkPool, holdings: Holdings, why: str
    ) -> Sequence[AskerRefusal[Object]]:
        """Return the refusals of claims that wait for a pool that hands out nothing.

        A claim that shows its refusal already is left out.

        Args:
            holdings: of the pool, as the caches show them, with claims.
            why: the reason, in a sentence.
        """
        ...

    async def refuse(
        self, pool: NetworkPool, refusals: Sequence[AskerRefusal[Object]]
    ) -> float | None:
        """Write refusals on claims that show something else.

        Returns:
            In how many seconds to try the claims again whose write the API server rejected; None
            if there are none.
        """
        ...

    def count_addresses(self, pool: Key) -> int:
        """Return how many IPAddresses name a pool, as the cache shows it."""
        ...

    async def count_blockers(self, pool: NetworkPool, journal: Journal) -> int:
        """Return how many IPAddresses the deletion of a pool waits for.

        If there are none, this also voids all promises of the pool to claims.

        Raises:
            UnreadableHolders: objects that may hold addresses of the pool cannot be decoded.
        """
        ...

    def forget(self, pool: Key) -> None:
        """Drop what is remembered of a pool."""
        ...


Entry = tuple[tuple[tuple[str, str], ...], tuple[Assignment, ...]]
"""What a journal says of claims: revisions, and promises."""


def find_entry(pool: NetworkPool) -> Entry | None:
    """Return the journal's entry for claims, as it is stored in the pool; None if it has none."""
    kinds = {names.KIND_CLAIMS, names.KIND_ADDRESSES}
    status = pool.status
    revisions = sorted(
        (kind, revision) for kind, revision in status.revisions.items() if kind in kinds
    )
    promises = tuple(entry for entry in status.assignments if entry.kind in kinds)
    return (tuple(revisions), promises) if revisions or promises else None


class ClaimService:
    """Answers whether claims are served; this class is for a process without the integration.

    A pool with an entry for claims may have IPAddresses, which this process does not read, so it
    hands out nothing and is not deleted. Another replica may serve claims. So this is reported by
    the rules for waits, by which replicas do not overwrite each other (promises/waitlog.py).
    """

    pool_claims: PoolClaims | None = None
    """The claims, while they are served."""

    def find_pool_claims(self, pool: NetworkPool) -> PoolClaims | None:
        """Return the claims of NetworkPools; None if no claim can hold addresses of this pool.

        Raises:
            Behind: that is not known, or this process does not read all holders of addresses.
        """
        self.check_counts(pool)
        return None

    def check_counts(self, pool: NetworkPool) -> None:
        """Check that this process reads all objects that count for the figures of a pool.

        Otherwise a replica that serves claims would write other figures, in turn with this one.

        Raises:
            Behind: the pool has an entry for claims, which this process does not read.
        """
        if find_entry(pool) is not None:
            reason = (
                "status.revisions or status.assignments shows that IPAddressClaims were served,"
                " and the integration is off; start the controller with"
                " --integration=clusterapi, or make sure that no IPAddress of this pool is in use"
                " and set both fields to null"
            )
            raise Behind(CLAIMS_OFF_RETRY, reason)

    def forget(self, pool: Key) -> None:
        """Forget a pool that is gone, or that another replica works on from now on.

        This class remembers nothing of pools.
        """
