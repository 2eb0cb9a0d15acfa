"""One Lease for each shard: which shards this process holds, and how they move.

    NAME-COUNT-0 … NAME-COUNT-(COUNT-1)    a Lease for each shard, by the rules of leases.py
    NAME-COUNT-member-HASH                 a Lease for each replica, which only that one writes

Every replica reads all of them once in a retry period, by their label. Those whose own Lease was
renewed within the renew deadline are the members, and `assign_shards` shares the shards out.
A replica tries for the shards that it is to have, and gives back those that another is to
have: it begins no more work for them, lets running work end, cancels what is left, and releases
the Lease. So a new replica gets its part within a few retry periods, and the shards of one that is
gone are taken as soon as their Leases have expired.

Replicas may be of different opinion about who the members are, for a while. Then a shard is tried
for by two, of which its Lease admits one, or by none until the next look. Who works on a shard is
decided by its Lease and by nothing else.

A shard that is lost (not renewed in time, or held by another) is given up at once: its work is
cancelled before another can have the Lease. The process goes on with its other shards; only if
the work does not end does `hold_shards` raise LeaderLost, and the process must exit.

With another number of shards all Leases have other names. While replicas with both numbers run,
two may work on one key, as after a freeze.
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
from controller.shards import assign_shards, lease_name, member_lease_name, member_prefix
from controller.supervisor import call_guarded

LABEL = "shards-of"
"""The label of all Leases of one division into shards."""
FORGOTTEN_AFTER = 20
"""The Lease of a replica is deleted when it has not been renewed for so many lease durations."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The record of a replica's Lease, and when (monotonic seconds) it was seen to change."""

    spec: LeaseSpec
    since: float


class ShardLeases:
    """Takes part in the elections for all shards.

    Args:
        client: for the requests.
        clock: for delays and deadlines.
        settings: the identity and the times; the key's name is the first part of all names.
        work: what is begun and ended as shards come and go.
        grace_seconds: how long running work may go on when a shard is given back.
        report: called with the name of a shard's Lease and 1 when it is held from now on, 0 when
            it is not.
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
        report: Callable[[str, float], None] = lambda _name, _held: None,
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
        names = [self._lease_name(shard) for shard in range(work.shards.count)]
        self._electors = {self._key(name): self._elector(name) for name in names}
        names_of = settings.key.name, work.shards.count
        self._member_prefix = member_prefix(*names_of)
        self._member_key = self._key(member_lease_name(*names_of, settings.identity))
        self._member = self._elector(self._member_key.name)
        self._joined = anyio.Event()
        self._seen: dict[str, _Seen] = {}
        self._members: frozenset[str] = frozenset()
        self._wanted: Mapping[int, str] = {}
        self._looked = anyio.Event()
        self._looked_at = clock.monotonic()
        self._failed_looks = FailedAttempts(
            clock,
            self._key(self._name),
            count=count_failure,
            verbs="get, list, create, update and delete",
        )

    def _lease_name(self, shard: int) -> str:
        return lease_name(self._settings.key.name, self._work.shards.count, shard)

    def _key(self, name: str) -> Key:
        return Key(self._settings.key.namespace, name)

    def _elector(self, name: str) -> Elector:
        settings = replace(self._settings, key=self._key(name), labels={LABEL: self._name})
        return Elector(self._client, self._clock, settings, count_failure=self._count_failure)

    def check(self) -> Check:
        """Return a liveness check that fails when work continues after a shard's lease expired."""

        def run() -> Failing | None:
            overdue = max(elector.overdue_seconds for elector in self._electors.values())
            if overdue <= OVERDUE_SECONDS:
                return None
            return Failing("the lease has passed and the work goes on", f"for {overdue:.0f} s")

        return Check("leader-election", run)

    def check_reading(self) -> Check:
        """Return a readiness check that fails when no shard can be had here.

        A replica that cannot read the Leases, or cannot have a Lease of its own, is no member and
        gets no shards. A shard that is to be here and whose Lease nothing can hold has no worker.
        """

        def run() -> Failing | None:
            electors = [self._member, *self._electors.values()]
            failing = [elector.holder_failure for elector in electors]
            if self._clock.monotonic() - self._looked_at <= self._settings.lease_duration:
                return next(filter(None, failing), None)
            why = self._failed_looks.problem or (failing[0].why if failing[0] else "")
            return Failing("the leases of the shards cannot be read", why)

        return Check("shards", run)

    async def run(self) -> None:
        """Take, hold and give back shards until cancelled; `release` has to follow.

        Raises:
            LeaderLost: a shard was lost, and its work does not end; the process must exit.
        """
        async with anyio.create_task_group() as group:
            group.start_soon(self._renew_membership)
            group.start_soon(self._look_regularly)
            for shard, elector in enumerate(self._electors.values()):
                group.start_soon(self._take_part, shard, elector)

    async def release(self) -> None:
        """Release all Leases, and delete that of this replica; the work must have ended.

        It takes at most the timeout of two requests; failures are logged.
        """
        async with anyio.create_task_group() as group:
            for elector in self._electors.values():
                group.start_soon(elector.release)
            group.start_soon(self._leave)

    async def _leave(self) -> None:
        if not self._member.leading:
            return
        await self._member.release()
        with self._clock.move_on_after(self._settings.request_seconds):
            await self._request_logged(self._delete_own_member)

    async def _delete_own_member(self) -> None:
        lease = await self._client.get(LEASES, self._member_key)
        if not lease.spec.holderIdentity:
            await self._client.delete(LEASES, Version.from_object(lease))

    async def _request_logged(self, request: Callable[[], Awaitable[object]]) -> None:
        """Make a request, and log why it failed if it does."""
        try:
            await call_guarded(request)
        except ControllerError as error:
            log.warning("A request for the leases of shards failed", error=str(error))

    async def _renew_membership(self) -> None:
        """Acquire and renew the Lease of this replica, anew after each loss, until cancelled."""
        while True:
            await self._member.acquire()
            self._joined.set()
            try:
                await call_guarded(self._member.hold)
            except LeaderLost as error:
                log.warning(
                    "Membership lease lost, other replicas take its shards", reason=str(error)
                )

    async def _look_regularly(self) -> None:
        await self._joined.wait()
        while True:
            seconds = self._settings.request_seconds
            try:
                with self._clock.move_on_after(seconds) as scope:
                    await call_guarded(self._look)
            except ControllerError as error:
                self._failed_looks.note_failure(str(error), error)
            else:
                if scope.cancelled_caught:
                    self._failed_looks.note_failure(f"no answer within {seconds:g} s", None)
                else:
                    self._failed_looks.note_success()
            await self._clock.sleep(self._settings.retry_period)

    async def _look(self) -> None:
        """Read all Leases, and find out who the members are."""
        page = await self._client.list(
            LEASES, namespace=self._settings.key.namespace, labels=f"{LABEL}={self._name}"
        )
        now = self._looked_at = self._clock.monotonic()
        seen = {}
        for lease in page.items:
            key = lease.metadata.key
            if key in self._electors:
                self._electors[key].note_record(lease)
            elif key.name.startswith(self._member_prefix):
                known = self._seen.get(key.name)
                unchanged = known is not None and known.spec == lease.spec
                seen[key.name] = known if known and unchanged else _Seen(lease.spec, now)
        self._seen = seen
        self._set_members(now)
        if LEADING_SHARD in self._work.shards.held:
            await self._delete_forgotten(page.items, now)

    def _set_members(self, now: float) -> None:
        """Note who the members are now, and wake the tasks of all shards."""
        ours = self._settings.identity
        others = {
            seen.spec.holderIdentity or ""
            for seen in self._seen.values()
            if now - seen.since < self._settings.renew_deadline
        }
        members = frozenset(others - {ours, ""} | ({ours} if self._member.leading else set()))
        if members != self._members:
            log.info("The replicas that share the shards", members=sorted(members))
            self._members, self._wanted = members, assign_shards(self._work.shards.count, members)
        self._looked.set()
        self._looked = anyio.Event()

    async def _delete_forgotten(self, leases: Iterable[Lease], now: float) -> None:
        """Delete the Leases of replicas that have been gone for long."""
        patience = FORGOTTEN_AFTER * self._settings.lease_duration
        for lease in leases:
            seen = self._seen.get(lease.metadata.name)
            if seen is not None and now - seen.since >= patience:
                delete = partial(self._client.delete, LEASES, Version.from_object(lease))
                await self._request_logged(delete)

    def _is_ours(self, shard: int) -> bool:
        """Return whether this replica is to have a shard."""
        return self._member.leading and self._wanted.get(shard) == self._settings.identity

    async def _wait_moved(self, shard: int, *, here: bool) -> None:
        while self._is_ours(shard) is not here:
            await self._looked.wait()

    async def _take_part(self, shard: int, elector: Elector) -> None:
        """Hold a shard for as long as the division gives it to this replica, again and again."""
        while True:
            await self._wait_moved(shard, here=True)
            if await self._acquire(shard, elector):
                await self._hold(shard, elector)
            await elector.release()

    async def _acquire(self, shard: int, elector: Elector) -> bool:
        """Try for a shard until it is held here, or until another is to have it."""
        async with anyio.create_task_group() as group:

            async def give_up() -> None:
                await self._wait_moved(shard, here=False)
                group.cancel_scope.cancel()

            group.start_soon(give_up)
            await elector.acquire()
            group.cancel_scope.cancel()
        return elector.leading

    async def _hold(self, shard: int, elector: Elector) -> None:
        """Work on a shard until another is to have it or it is lost; return when work has ended.

        Raises:
            LeaderLost: it was lost, and the work does not end.
        """
        name = self._lease_name(shard)
        lost: list[Exception] = []
        self._report(name, 1)
        try:
            async with anyio.create_task_group() as group:

                async def renew() -> None:
                    try:
                        await call_guarded(elector.hold)
                    except Exception as error:  # noqa: BLE001 - logged below
                        lost.append(error)
                        group.cancel_scope.cancel()

                group.start_soon(renew)
                await self._work.begin(shard)
                await self._wait_moved(shard, here=False)
                log.info("Releasing a shard", lease=name)
                await self._work.end(shard, self._grace)
                group.cancel_scope.cancel()
        finally:
            self._report(name, 0)
        if lost:
            log.warning("Lost a shard", lease=name, reason=str(lost[0]))
            with self._clock.move_on_after(self._settings.ending_seconds) as scope:
                await self._work.end(shard)
            if scope.cancelled_caught:
                raise LeaderLost(
                    f"lease {name} is lost and its work has not ended in time"
                ) from lost[0]


@asynccontextmanager
async def hold_shards(leases: ShardLeases, lost: anyio.Event) -> AsyncIterator[None]:
    """Take part in the elections for shards inside the context; release all at its end.

    All work has to run inside the context. When it raises LeaderLost, it is in an exception group.

    Args:
        leases: takes part.
        lost: set when a shard is lost and its work does not end.
    """

    async def run() -> None:
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
