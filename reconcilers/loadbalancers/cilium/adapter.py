"""Cilium's LB-IPAM behind the port of load balancers.

Each IPAllocation has a CiliumLoadBalancerIPPool of its own. Cilium's operator *acknowledges* a
generation of a pool by counts of its addresses in the pool's status. Acknowledged generations
prove that Cilium does not hand out a range any more (release.py).

A *projection* is the set of ranges that a tenant should hold. The *basis* of a pool is the cache
position that it was computed from, in an annotation. port.py has the other words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from typing_extensions import override

from controller.cache import Change
from controller.client import Client
from controller.clock import Clock
from controller.errors import MalformedAnswer
from controller.meta import Object
from reconcilers.api import names
from reconcilers.api.services import SERVICE, Service
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.clusteraccess.clusteridentity import is_of_other_management
from reconcilers.loadbalancers.cilium.announcements import find_announcement_problem
from reconcilers.loadbalancers.cilium.leader import read_leader
from reconcilers.loadbalancers.cilium.poolclient import NOT_INSTALLED, PoolClient, ServedVersion
from reconcilers.loadbalancers.cilium.pools import (
    CILIUM_POOL,
    CiliumPool,
    choose_nonce,
    find_conflict,
    is_acknowledged,
    is_operator_silent,
    is_ours,
    make_annotations,
    make_blocks,
    make_offer,
    make_pool_name,
    read_allocation_uid,
)
from reconcilers.loadbalancers.cilium.projection import CiliumKeptState, PoolProjection
from reconcilers.loadbalancers.cilium.release import (
    LEADER_NOT_NEEDED,
    Leader,
    ReleaseMemory,
    ReleaseWrite,
    decide_step,
    judge_takeover,
)
from reconcilers.loadbalancers.cilium.services import view_service
from reconcilers.loadbalancers.port import (
    CONTESTED,
    READING_GRACE_SECONDS,
    BalancerBlocked,
    BalancerMemory,
    BalancerReading,
    Confirm,
    Correction,
    Health,
    HealthState,
    IsKept,
    LoadBalancer,
    LoadBalancerKind,
    NotYet,
    Offer,
    Permit,
    Projection,
    Proven,
    ServiceView,
    ServiceViewer,
    Unprovable,
    WatchedKind,
    WatchedOffers,
    Withdrawal,
    WithdrawalAnswer,
)

NOT_RUNNING = "CiliumNotRunning"
"""The reason while Cilium's operator has not acknowledged a pool as it stands."""
CONFLICT = "CiliumPoolConflict"
"""The reason where another pool overlaps one of ours, and Cilium switches ours off."""
_ACKNOWLEDGEMENT_CHECK_SECONDS = 1.0
"""Seconds until the next check of an operator that may be about to acknowledge its pools."""


@dataclass(frozen=True, slots=True)
class CiliumPoolReading(BalancerReading):
    """Cilium's pools in a tenant.

    Args:
        pools: all pools that can be decoded, by name, also those of others.
        unreadable: the names of the pools that cannot be decoded.
    """

    pools: Mapping[str, CiliumPool] = field(default_factory=dict)
    unreadable: frozenset[str] = frozenset()

    @property
    @override
    def pool_names(self) -> Sequence[str]:
        """The names of all pools that can be decoded: Cilium hands out addresses from each."""
        return sorted(self.pools)


@dataclass(slots=True)
class OperatorSilence:
    """Since when the operator of one tenant has not acknowledged the projection.

    Args:
        entries: the projected ranges.
        since: in monotonic seconds; None while all pools of the projection are acknowledged.
    """

    entries: tuple[str, ...] = ()
    since: float | None = None


class CiliumBalancer(LoadBalancer):
    """The LB-IPAM of one tenant.

    Args:
        client: of the tenant.
        memory: the adapter's memory of the tenant, or of one release there.
        watched: our pools in the tenant as a watch shows them; None if nothing is watched.
        clock: the time.
        wait: for how many seconds an earlier leader may still hand out addresses after another
            operator took its Lease.
    """

    def __init__(
        self,
        client: Client,
        memory: BalancerMemory,
        watched: WatchedOffers | None,
        clock: Clock,
        wait: float,
    ) -> None:
        self._client = client
        self._pools = PoolClient(client, memory.get_or_create(ServedVersion))
        self._kept_state = memory.get_or_create(CiliumKeptState)
        self._silence = memory.get_or_create(OperatorSilence)
        self._release = memory.get_or_create(ReleaseMemory)
        self._watched = watched
        self._clock = clock
        self._wait = wait

    @override
    async def read(self) -> CiliumPoolReading:
        """Read all pools live; our own are the targets.

        A tenant without Cilium's kinds gives a reading that says so in `missing`.
        """
        try:
            pools, unreadable = await self._pools.list_readable()
        except BalancerBlocked as missing:
            return CiliumPoolReading({}, missing.message)
        targets = {name: make_offer(pool) for name, pool in sorted(pools.items()) if is_ours(pool)}
        return CiliumPoolReading(targets, pools=pools, unreadable=unreadable)

    @override
    async def read_targets(self) -> BalancerReading:
        """Read all pools, as `read` does: one LIST returns the pools of all allocations."""
        return await self.read()

    @override
    async def project(self, projection: Projection, confirm: Confirm, permit: Permit) -> None:
        """Write the pools; watch them from then on if there are ranges."""
        self._kept_state.begin_pass()
        await self._make_pool_writer().project(projection, confirm, permit)
        if projection.entries and self._watched is not None:
            self._watched.open()

    @override
    async def overwrite(
        self, projection: Projection, position: int, permit: Permit
    ) -> Offer | None:
        """Write `projection` over pools with a basis above `position`; return the first."""
        return await self._make_pool_writer().overwrite(projection, position, permit)

    @override
    async def prove_withdrawal(
        self, reading: BalancerReading, withdrawal: Withdrawal
    ) -> WithdrawalAnswer:
        """Take and write the next step of a release, as release.py decides it.

        A complete proof still waits if another operator took the Lease a short while ago.
        """
        assert isinstance(reading, CiliumPoolReading), "the reading is of another kind of balancer"
        if not reading.is_served:
            # A stopped operator may resume, and hand out the addresses that it read before.
            purpose = "to see that its kinds are not served any more"
            return Unprovable(purpose, ("not served", 0), reading.missing)
        if (name := make_pool_name(withdrawal.allocation)) in reading.unreadable:
            return NotYet(f"{CILIUM_POOL.kind} {name} in the tenant cannot be read; delete it")
        now = self._clock.monotonic()
        # Only a range of which a Service with a sharing key had an address needs the leader.
        leader = await read_leader(self._client) if withdrawal.release_note else LEADER_NOT_NEEDED
        step = decide_step(reading.pools, withdrawal, memory=self._release, now=now, leader=leader)
        if step.write is not None:
            pool = reading.pools[make_pool_name(withdrawal.allocation)]
            await self._write(pool, step.write, withdrawal=withdrawal, leader=leader)
        if isinstance(step.answer, Proven):
            # Read the Lease again, last: an operator that has lost it since the first read may
            # still write.
            last_leader = await read_leader(self._client)
            return judge_takeover(last_leader, self._clock.now(), self._wait)
        return step.answer

    async def _write(
        self, pool: CiliumPool, write: ReleaseWrite, withdrawal: Withdrawal, leader: Leader
    ) -> None:
        """Write the next step of a release, and remember the generation that the server returned.

        Args:
            pool: the pool by the reading that was judged.
            write: which step to write.
            withdrawal: the ranges that are released.
            leader: the operator that leads. It is noted on a pool that is emptied: if a Service
                with a sharing key had an address, the proof needs another leader later.
        """
        spec: dict[str, object]
        match write:
            case ReleaseWrite.DRAIN:
                spec = {"disabled": True}
            case ReleaseWrite.EMPTY:
                # None removes the field. With a selector that Cilium cannot read, the operator
                # would not acknowledge the write.
                removed_fields = (*pool.spec.edited_fields, "serviceSelector")
                spec = {"blocks": make_blocks(()), **dict.fromkeys(removed_fields)}
            case ReleaseWrite.NONCE:
                spec = {"allowFirstLastIPs": choose_nonce(pool)}
        uid = withdrawal.allocation.uid
        annotations = make_annotations(withdrawal.position, withdrawal.owner, uid)
        is_noted = names.ANNOTATION_EMPTIED_UNDER in pool.metadata.annotations
        # An earlier note stays while the pool is drained, or gets a nonce: the proof needs another
        # leader than the one under which the pool was emptied.
        if leader.holder and (write is ReleaseWrite.EMPTY or not is_noted):
            annotations[names.ANNOTATION_EMPTIED_UNDER] = leader.holder
        written = await self._pools.patch(
            pool, {"metadata": {"annotations": annotations}, "spec": spec}
        )
        self._release.note_write(written, self._clock.monotonic(), leader)

    @override
    async def read_health(self, projection: Projection) -> Health:
        """Return whether Cilium uses the projected pools, and since when it does not.

        A contest with another writer in the tenant comes first.
        """
        now = self._clock.monotonic()
        if contest := self._kept_state.describe_contest(now):
            return Health(HealthState.CONTESTED, CONTESTED, contest)
        silence = self._silence
        # Without allocations there is no pool that Cilium could use.
        problem = await self._find_problem(projection) if projection.allocations else None
        if problem is None:
            silence.since = None
            return Health()
        if silence.since is None or silence.entries != projection.entries:
            # The operator gets time again for pools that it cannot know yet.
            silence.entries, silence.since = projection.entries, now
        reason, message = problem
        return Health(HealthState.NOT_READING, reason, message=message, since=silence.since)

    async def _find_problem(self, projection: Projection) -> tuple[str, str] | None:
        """Return reason and message if Cilium does not use a pool of the projection; else None."""
        projected_names = [make_pool_name(ranges.allocation) for ranges in projection.allocations]
        pools = await self._pools.list(frozenset(projected_names))
        unacknowledged = []
        for name in projected_names:
            pool = pools.get(name)
            if pool is not None and (conflict := find_conflict(pool)):
                return CONFLICT, f"Cilium does not use {CILIUM_POOL.kind} {name}: {conflict}"
            if pool is None or not is_acknowledged(pool):
                unacknowledged.append(name)
        if not unacknowledged:
            return None
        operator = "Cilium's operator in the tenant"
        if is_operator_silent(pools):
            return NOT_RUNNING, (
                f"{operator} has never acknowledged a {CILIUM_POOL.kind}: it does not run, or"
                " LB-IPAM is off"
            )
        return NOT_RUNNING, (
            f"{operator} has not acknowledged {CILIUM_POOL.kind} {min(unacknowledged)} as it is"
            " now: it does not run, or does not keep up"
        )

    @override
    async def find_stale_configuration(self, reading: BalancerReading) -> str | None:
        """Return the conflict of one of our pools, or "" if one is not acknowledged; else None."""
        assert isinstance(reading, CiliumPoolReading), "the reading is of another kind of balancer"
        our_pools = [reading.pools[name] for name in reading.targets]
        for pool in our_pools:
            if conflict := find_conflict(pool):
                return conflict
        if all(map(is_acknowledged, our_pools)):
            return None
        return ""  # the operator may not run, or may be slow

    @override
    async def find_interference(self) -> str:
        """Return no interference: without a pool, LB-IPAM leaves all Services alone."""
        return ""

    @override
    async def find_announcement_problem(self) -> str:
        """Return a sentence if no policy of Cilium announces addresses; else ""."""
        return await find_announcement_problem(self._client)

    @override
    async def remove(self, management: str, is_kept: IsKept) -> None:
        """Delete our emptied pools, once the operator has acknowledged that they are empty.

        If the operator has never counted any pool, LB-IPAM is off: no acknowledgement will come.
        """
        pools = await self._pools.list()
        for pool in pools.values():
            is_own = is_ours(pool) and not is_of_other_management(pool, management)
            hands_out_nothing = not pool.blocks and (
                is_acknowledged(pool) or is_operator_silent(pools)
            )
            if is_own and hands_out_nothing and not is_kept(read_allocation_uid(pool)):
                await self._pools.delete(pool)

    def _make_pool_writer(self) -> PoolProjection:
        """Return a writer of the tenant's pools, at the present time."""
        now = self._clock.monotonic()
        return PoolProjection(
            self._pools, self._list_services, kept_state=self._kept_state, now=now
        )

    async def _list_services(self) -> Sequence[Service]:
        """Read all Services of the tenant live.

        Raises:
            MalformedAnswer: a Service cannot be decoded, so it may show an address of ours.
            ControllerError: the tenant did not answer.
        """
        page = await self._client.list(SERVICE)
        if page.unreadable:
            raise MalformedAnswer(f"Services that cannot be read: {sorted(page.unreadable)}")
        return page.items


class CiliumKind(LoadBalancerKind):
    """Cilium's LB-IPAM as a backend of the port.

    Args:
        clock: the time.
        wait: seconds to wait where there is no proof: for an operator that acknowledges no pool,
            or for one that lost its Lease and may still be about to write.
    """

    title = "Cilium"
    missing_reason = NOT_INSTALLED
    absent_reasons = frozenset({NOT_INSTALLED})
    not_reading_reason = NOT_RUNNING

    def __init__(self, clock: Clock, wait: float) -> None:
        self._clock = clock
        self._wait = wait

    @property
    @override
    def wait(self) -> float:
        """Seconds after which a withdrawal without a proof counts as done."""
        return self._wait

    @property
    @override
    def watches(self) -> Sequence[WatchedKind]:
        """All pools of the tenant; passes follow only from changes of ours."""
        return [
            WatchedKind(
                CILIUM_POOL, "", fields="", is_concerned=is_concerned, may_matter=may_be_edited
            )
        ]

    @override
    def make_balancer(
        self, client: Client, memory: BalancerMemory, watched: WatchedOffers | None = None
    ) -> CiliumBalancer:
        """Return the LB-IPAM of one tenant, for one pass or check."""
        return CiliumBalancer(client, memory, watched=watched, clock=self._clock, wait=self._wait)

    @override
    def view_service(self, service: Service) -> ServiceView:
        """Return a Service as LB-IPAM sees it if the pools select all Services."""
        return view_service(service)

    @override
    def make_service_viewer(self, tenant: TenantCluster, /) -> ServiceViewer:
        """Return the view of Services by the selector in the tenant's spec."""
        return partial(view_service, selector=tenant.service_selector)

    @override
    def compute_check_delay(self, memory: BalancerMemory) -> float | None:
        """Return the seconds until the tenant is checked again; None for never.

        For READING_GRACE_SECONDS without an acknowledgement a check is due each second, because
        the operator may be about to write it. A check is also due when an edit may be corrected.
        """
        now = self._clock.monotonic()
        since = memory.get_or_create(OperatorSilence).since
        is_about_to_read = since is not None and now - since < READING_GRACE_SECONDS
        delays = (
            _ACKNOWLEDGEMENT_CHECK_SECONDS if is_about_to_read else None,
            memory.get_or_create(CiliumKeptState).compute_check_delay(now),
        )
        return min((seconds for seconds in delays if seconds is not None), default=None)

    @override
    def take_corrections(self, memory: BalancerMemory) -> Sequence[Correction]:
        """Return the edits by others that were undone since the last call."""
        return memory.get_or_create(CiliumKeptState).take_unreported()


def is_concerned(obj: Object) -> bool:
    """Return whether an object in a tenant is a pool of ours."""
    return isinstance(obj, CiliumPool) and is_ours(obj)


def may_be_edited(change: Change[CiliumPool]) -> bool:
    """Return whether a change is of fields that we write, or of the operator's acknowledgement.

    Other changes need no pass: the number of addresses in use changes with every Service.
    """
    return _list_written_parts(change.old) != _list_written_parts(change.new)


def _list_written_parts(pool: CiliumPool | None) -> object:
    """Return the parts of a pool whose change needs a pass; None without a pool.

    The generation stands for all fields of spec, which are ours.
    """
    if pool is None:
        return None
    meta = pool.metadata
    operator_findings = (is_acknowledged(pool), find_conflict(pool))
    return (meta.uid, meta.generation, is_ours(pool), operator_findings)
