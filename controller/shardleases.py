"""One Lease for each shard: which shards this process holds, and how they move.

    NAME-COUNT-0 … NAME-COUNT-(COUNT-1)    a Lease for each shard, by the rules of leases.py
    NAME-COUNT-member-HASH                 a Lease for each replica, which only this replica writes

Every replica reads all these Leases once in a retry period, by their label. The members are the
replicas whose own Lease was renewed within the renew deadline. `assign_shards` assigns each shard
to a member. A replica tries to acquire the shards that are assigned to it. It gives back a shard
that is assigned to another replica: it begins no more work for the shard, lets running work end,
cancels the rest, and releases the Lease. So a new replica gets its shards within a few retry
periods. The shards of a replica that is gone are taken as soon as their Leases have expired.

The record of a Lease is its spec: who holds it, and when it was renewed. To hold a shard is to
hold its Lease. A replica that does not hold its own Lease is no member.

For a while replicas may differ about the members. Then two replicas may try to acquire a shard, of
which its Lease admits one; or no replica tries until it reads the Leases again. Only the Lease of
a shard decides which replica works on it.

A shard that is lost (not renewed in time, or held by another process) is given up at once: its
work is cancelled before another process can have the Lease. The process goes on with its other
shards. Only if the work does not end, `hold_shards` raises LeaderLost, and the process must exit.

With another number of shards all Leases have other names. While replicas with both numbers run,
two replicas may work on one key, as after a freeze.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

import anyio

from controller.client import Client
from controller.clock import Clock
from controller.errors import ControllerError
from controller.health import Check, Failing
from controller.jobs import LEADING_SHARD, ShardWork
from controller.leases import (
    LEASES,
    OVERDUE_SECONDS,
    Elector,
    FailedAttempts,
    LeaderLost,
    Lease,
    LeaseSettings,
    LeaseSpec,
)
from controller.loggers import get_logger
from controller.meta import Key, Version
from controller.shards import (
    assign_shards,
    build_lease_name,
    build_member_lease_name,
    build_member_prefix,
)
from controller.supervisor import call_guarded

LABEL = "shards-of"
"""The label of all Leases of one division into shards."""
FORGOTTEN_AFTER = 20
"""The Lease of a replica is deleted when it has not been renewed for so many lease durations."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _ObservedRecord:
    """The record of a replica's Lease.

    Args:
        spec: the record; each renewal changes it.
        since: when (monotonic seconds) this process first read the Lease with this record.
    """

    spec: LeaseSpec
    since: float


class ShardLeases:
    """Takes part in the elections for all shards.

    Args:
        client: for the requests.
        clock: for delays and deadlines.
        settings: the identity and the times; the key's name is the first part of all names.
        work: begins the work for a shard that this process acquires, and ends it afterwards.
        grace_seconds: how long running work may go on when a shard is given back.
        report: called with the name of a shard's Lease, and 1 when this process begins to hold it,
            0 when it no longer holds it.
        count_failure: called at each failed attempt at one of the Leases, for a metric.
    """

    def __init__(  # noqa: PLR0913 - two of them are for metrics
        self,
        client: Client,
        clock: Clock,
        settings: LeaseSettings,
        work: ShardWork,
        *,
        grace_seconds: float = 0.0,
        report: Callable[[str, float], None] = lambda _name, _is_held: None,
        count_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._settings = settings
        self._work = work
        self._grace = grace_seconds
        self._report = report
        self._count_failure = count_failure
        self._name = f"{settings.key.name}-{work.shards.count}"
        names = [self._get_lease_name(shard) for shard in range(work.shards.count)]
        self._electors = {self._get_key(name): self._create_elector(name) for name in names}
        name_parts = settings.key.name, work.shards.count
        self._member_prefix = build_member_prefix(*name_parts)
        self._member_key = self._get_key(build_member_lease_name(*name_parts, settings.identity))
        self._member = self._create_elector(self._member_key.name)
        self._became_member = anyio.Event()
        self._member_records: dict[str, _ObservedRecord] = {}
        self._members: frozenset[str] = frozenset()
        self._assignment: Mapping[int, str] = {}
        self._members_updated = anyio.Event()
        self._read_at = clock.monotonic()
        self._failed_reads = FailedAttempts(
            clock,
            self._get_key(self._name),
            count=count_failure,
            verbs="get, list, create, update and delete",
        )

    def _get_lease_name(self, shard: int) -> str:
        """Return the name of a shard's Lease."""
        return build_lease_name(self._settings.key.name, self._work.shards.count, shard)

    def _get_key(self, name: str) -> Key:
        """Return the key of the Lease with that name."""
        return Key(self._settings.key.namespace, name)

    def _create_elector(self, name: str) -> Elector:
        """Return an elector for the Lease with that name, which gets the label of all Leases."""
        settings = replace(self._settings, key=self._get_key(name), labels={LABEL: self._name})
        return Elector(self._client, self._clock, settings, count_failure=self._count_failure)

    def create_check(self) -> Check:
        """Return a liveness check that fails when work continues after a shard's lease expired."""

        def find_failure() -> Failing | None:
            """Return a failure if work for a shard goes on after its lease expired, else None."""
            overdue = max(elector.overdue_seconds for elector in self._electors.values())
            if overdue <= OVERDUE_SECONDS:
                return None
            return Failing("the lease has passed and the work goes on", f"for {overdue:.0f} s")

        return Check("leader-election", find_failure)

    def create_reading_check(self) -> Check:
        """Return a readiness check that fails when this replica cannot get its shards.

        A replica that cannot read the Leases, or cannot hold a Lease of its own, is no member and
        gets no shards. A shard that is assigned to it and whose Lease no process can hold has no
        worker.
        """

        def find_failure() -> Failing | None:
            """Return a failure if the Leases were not read for too long, or one cannot be held.

            None otherwise.
            """
            electors = [self._member, *self._electors.values()]
            failures = [elector.holder_failure for elector in electors]
            if self._clock.monotonic() - self._read_at <= self._settings.lease_duration:
                return next(filter(None, failures), None)
            # A replica without a Lease of its own does not read the Leases, so name that reason.
            why = self._failed_reads.problem or (failures[0].why if failures[0] else "")
            return Failing("the leases of the shards cannot be read", why)

        return Check("shards", find_failure)

    async def run(self) -> None:
        """Acquire, hold and give back shards until cancelled; call `release` after it.

        Raises:
            LeaderLost: a shard was lost, and its work does not end; the process must exit.
        """
        async with anyio.create_task_group() as group:
            group.start_soon(self._renew_membership)
            group.start_soon(self._read_leases_regularly)
            for shard, elector in enumerate(self._electors.values()):
                group.start_soon(self._hold_while_assigned, shard, elector)

    async def release(self) -> None:
        """Release all Leases, and delete the Lease of this replica; the work must have ended.

        This takes at most the timeouts of two requests; failures are logged.
        """
        async with anyio.create_task_group() as group:
            for elector in self._electors.values():
                group.start_soon(elector.release)
            group.start_soon(self._give_up_membership)

    async def _give_up_membership(self) -> None:
        """Release and delete the Lease of this replica, so that others take its shards now."""
        if not self._member.is_leading:
            return  # it has no Lease, or has lost it
        await self._member.release()
        with self._clock.move_on_after(self._settings.request_seconds):
            await self._try_request(self._delete_own_member)

    async def _delete_own_member(self) -> None:
        """Delete the Lease of this replica if its release has succeeded."""
        lease = await self._client.get(LEASES, self._member_key)
        if not lease.spec.holderIdentity:
            await self._client.delete(LEASES, Version.from_object(lease))

    async def _try_request(self, request: Callable[[], Awaitable[object]]) -> None:
        """Make a request that deletes a Lease, and log its failure.

        The failure is not raised: its only effect is that an obsolete Lease stays longer.
        """
        try:
            await call_guarded(request)
        except ControllerError as error:
            log.warning("A request for the leases of shards failed", error=str(error))

    async def _renew_membership(self) -> None:
        """Acquire and renew the Lease of this replica until cancelled, again after each loss."""
        while True:
            await self._member.acquire()
            self._became_member.set()
            try:
                await call_guarded(self._member.hold)
            except LeaderLost as error:
                log.warning(
                    "Membership lease lost, other replicas take its shards", reason=str(error)
                )

    async def _read_leases_regularly(self) -> None:
        """Read all Leases once in a retry period until cancelled; failures are counted and logged.

        The first read waits until this replica has its own Lease and is a member.
        """
        await self._became_member.wait()
        while True:
            seconds = self._settings.request_seconds
            try:
                with self._clock.move_on_after(seconds) as scope:
                    await call_guarded(self._read_leases)
            except ControllerError as error:
                self._failed_reads.note_failure(str(error), error)
            else:
                if scope.cancelled_caught:
                    self._failed_reads.note_failure(f"no answer within {seconds:g} s", None)
                else:
                    self._failed_reads.note_success()
            await self._clock.sleep(self._settings.retry_period)

    async def _read_leases(self) -> None:
        """Read all Leases, and update the members; the process with shard 0 deletes old Leases."""
        page = await self._client.list(
            LEASES, namespace=self._settings.key.namespace, labels=f"{LABEL}={self._name}"
        )
        now = self._read_at = self._clock.monotonic()
        records = {}
        for lease in page.items:
            key = lease.metadata.key
            if key in self._electors:
                self._electors[key].note_record(lease)
            elif key.name.startswith(self._member_prefix):
                record = self._member_records.get(key.name)
                if record is None or record.spec != lease.spec:
                    record = _ObservedRecord(lease.spec, now)
                records[key.name] = record
        self._member_records = records
        self._update_members(now)
        if LEADING_SHARD in self._work.shards.held:  # one process is enough
            await self._delete_forgotten(page.items, now)

    def _update_members(self, now: float) -> None:
        """Compute the members and the assignment of shards, and wake the tasks of all shards.

        This replica is a member only while it holds its Lease; the record may still name it later.
        """
        own_identity = self._settings.identity
        identities = {
            record.spec.holderIdentity or ""
            for record in self._member_records.values()
            if now - record.since < self._settings.renew_deadline
        }
        other_members = identities - {own_identity, ""}  # a released Lease has no holder
        members = frozenset(other_members | ({own_identity} if self._member.is_leading else set()))
        if members != self._members:
            log.info("The replicas that share the shards", members=sorted(members))
            self._members = members
            self._assignment = assign_shards(self._work.shards.count, members)
        self._members_updated.set()
        self._members_updated = anyio.Event()

    async def _delete_forgotten(self, leases: Iterable[Lease], now: float) -> None:
        """Delete the Leases of replicas that have been gone for long."""
        longest_seconds = FORGOTTEN_AFTER * self._settings.lease_duration
        for lease in leases:
            record = self._member_records.get(lease.metadata.name)
            if record is not None and now - record.since >= longest_seconds:
                delete = partial(self._client.delete, LEASES, Version.from_object(lease))
                await self._try_request(delete)

    def _is_assigned_here(self, shard: int) -> bool:
        """Return whether a shard is assigned to this replica, which still is a member."""
        return self._member.is_leading and self._assignment.get(shard) == self._settings.identity

    async def _wait_until_assigned(self, shard: int) -> None:
        """Wait until a shard is assigned to this replica."""
        while not self._is_assigned_here(shard):
            await self._members_updated.wait()

    async def _wait_until_unassigned(self, shard: int) -> None:
        """Wait until a shard is not assigned to this replica any more."""
        while self._is_assigned_here(shard):
            await self._members_updated.wait()

    async def _hold_while_assigned(self, shard: int, elector: Elector) -> None:
        """Hold a shard whenever it is assigned to this replica, until cancelled."""
        while True:
            await self._wait_until_assigned(shard)
            if await self._acquire(shard, elector):
                await self._hold(shard, elector)
            await elector.release()  # does nothing if the Lease was not acquired, or was lost

    async def _acquire(self, shard: int, elector: Elector) -> bool:
        """Acquire a shard, and return True; False if it is assigned to another replica first."""
        async with anyio.create_task_group() as group:

            async def give_up() -> None:
                """End the attempts once the shard is assigned to another replica."""
                await self._wait_until_unassigned(shard)
                group.cancel_scope.cancel()

            group.start_soon(give_up)
            await elector.acquire()
            group.cancel_scope.cancel()
        return elector.is_leading

    async def _hold(self, shard: int, elector: Elector) -> None:
        """Work on a shard until it is assigned to another replica or lost, and its work has ended.

        Raises:
            LeaderLost: the shard was lost, and its work does not end in time.
        """
        name = self._get_lease_name(shard)
        loss_errors: list[Exception] = []
        self._report(name, 1)
        try:
            async with anyio.create_task_group() as group:

                async def renew() -> None:
                    """Renew the lease; if it is lost, keep the error and end the waits below."""
                    try:
                        await call_guarded(elector.hold)
                    except Exception as error:  # noqa: BLE001 - logged below
                        loss_errors.append(error)
                        group.cancel_scope.cancel()

                group.start_soon(renew)
                await self._work.begin(shard)
                await self._wait_until_unassigned(shard)
                log.info("Releasing a shard", lease=name)
                await self._work.end(shard, self._grace)
                group.cancel_scope.cancel()
        finally:
            self._report(name, 0)
        if loss_errors:
            # Without a grace period: another process may take the lease when it expires.
            log.warning("Lost a shard", lease=name, reason=str(loss_errors[0]))
            with self._clock.move_on_after(self._settings.ending_seconds) as scope:
                await self._work.end(shard)
            if scope.cancelled_caught:
                raise LeaderLost(
                    f"lease {name} is lost and its work has not ended in time"
                ) from loss_errors[0]


@asynccontextmanager
async def hold_shards(leases: ShardLeases, lost: anyio.Event) -> AsyncIterator[None]:
    """Take part in the elections for shards inside the context; release all Leases at its end.

    All work has to run inside the context. The context raises LeaderLost in an exception group.

    Args:
        leases: takes part.
        lost: set when a shard is lost and its work does not end.
    """

    async def run() -> None:
        """Run the elections; set `lost` at once if they fail, however long the work takes."""
        try:
            await call_guarded(leases.run)
        except Exception:
            lost.set()
            raise

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            yield
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await leases.release()
