"""MetalLB behind the port of load balancers.

One IPAddressPool holds the ranges of a tenant. Another pool, the *marker*, is changed after a
range was taken out: once MetalLB has counted the marker's addresses, it has read our pool without
the range. Before 0.15 MetalLB does not count (uptake.py).

A *projection* is the set of ranges that a tenant should hold. The *basis* of a pool is the cache
position that its content was computed from; a *mark* is the position at which the release of a
range began.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product, starmap

from typing_extensions import override

from allocator import AddressRange
from controller.cache import Change
from controller.client import Client
from controller.clock import Clock
from controller.errors import NotFound
from controller.meta import Object, Version
from reconcilers.addressing import addresstexts
from reconcilers.api import names
from reconcilers.api.services import Service
from reconcilers.clusteraccess.clusteridentity import (
    build_management_annotation,
    is_of_other_management,
)
from reconcilers.configuration.settings import TenantSettings
from reconcilers.loadbalancers.metallb.advertisement import Advertiser
from reconcilers.loadbalancers.metallb.installation.installer import BEING_INSTALLED
from reconcilers.loadbalancers.metallb.interference import find_interference
from reconcilers.loadbalancers.metallb.keptstate import MetalLBKeptState
from reconcilers.loadbalancers.metallb.kinds import (
    IP_ADDRESS_POOL,
    L2_ADVERTISEMENT,
    IPAddressPool,
    L2Advertisement,
)
from reconcilers.loadbalancers.metallb.projection import (
    NOT_INSTALLED,
    POOL_NAME,
    TenantMetalLB,
    is_empty,
    is_ours,
    make_offer,
    read_basis,
)
from reconcilers.loadbalancers.metallb.reading import (
    NOT_RUNNING,
    ProjectionCheck,
    ProjectionCheckMemory,
)
from reconcilers.loadbalancers.metallb.services import view_service
from reconcilers.loadbalancers.metallb.uptake import (
    MOST_ENTRIES,
    WithdrawalCheck,
    compute_metallb_counts,
    count_reported_addresses,
    describe_unusable,
    read_configuration_error,
    remove_marker,
)
from reconcilers.loadbalancers.ownernotes import names_other_owner
from reconcilers.loadbalancers.port import (
    CONTESTED,
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
    ServiceView,
    Unprovable,
    WatchedKind,
    WatchedOffers,
    Withdrawal,
    WithdrawalAnswer,
)


@dataclass(frozen=True, slots=True)
class MetalLBPoolReading(BalancerReading):
    """MetalLB's pools in a tenant.

    Args:
        pools: all pools, by name, also those of others.
    """

    pools: Mapping[str, IPAddressPool] = field(default_factory=dict)

    @property
    @override
    def pool_names(self) -> Sequence[str]:
        """The names of all pools: MetalLB hands out addresses from each."""
        return sorted(self.pools)


class MetalLBBalancer(LoadBalancer):
    """The MetalLB of one tenant.

    Args:
        client: of the tenant.
        namespace: MetalLB's namespace there.
        memory: the adapter's memory of the tenant.
        watched: our objects there as a watch shows them; None if nothing is watched.
        clock: the time.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        *,
        memory: BalancerMemory,
        watched: WatchedOffers | None,
        clock: Clock,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._kept_state = memory.get_or_create(MetalLBKeptState)
        self._watched = watched
        self._clock = clock
        self._withdrawal_check = WithdrawalCheck(client, namespace)
        self._projection_check = ProjectionCheck(
            client,
            namespace,
            watched=watched,
            clock=clock,
            memory=memory.get_or_create(ProjectionCheckMemory),
        )

    @override
    async def read(self) -> MetalLBPoolReading:
        """Read all pools live.

        `targets` has only the pool named POOL_NAME, whoever made it. It is empty if there is none.
        A tenant without MetalLB's kinds gives a reading that says so in `missing`.
        """
        try:
            pools = await self._make_metallb().read_pools()
        except BalancerBlocked as missing:
            return MetalLBPoolReading({}, missing.message)
        targets = {name: make_offer(pool) for name, pool in pools.items() if name == POOL_NAME}
        return MetalLBPoolReading(targets, pools=pools)

    @override
    async def read_targets(self) -> BalancerReading:
        """Read only the pool of our name live; a missing pool gives a reading without targets."""
        try:
            pool = await self._make_metallb().read_pool()
        except BalancerBlocked as missing:
            return BalancerReading({}, missing.message)
        return BalancerReading({} if pool is None else {POOL_NAME: make_offer(pool)})

    @override
    async def project(self, projection: Projection, confirm: Confirm, permit: Permit) -> None:
        """Write the pool; if there are ranges, also its L2Advertisement, and watch both."""
        self._kept_state.begin_pass()
        await self._make_metallb().project(projection, confirm, permit)
        if projection.entries:
            if self._watched is not None:
                self._watched.open()
            await self._make_advertiser().advertise(projection)

    @override
    async def overwrite(
        self, projection: Projection, position: int, permit: Permit
    ) -> Offer | None:
        """Overwrite a pool whose basis is above `position`, as after a restore from a backup.

        Returns:
            The offer of the pool as it was; None if there was no such pool.
        """
        metallb = self._make_metallb()
        live = await metallb.read_pool()
        if live is None or read_basis(live) <= position:
            return None  # the pool was not written after the backup
        await permit(make_offer(live))
        await metallb.overwrite(live, projection)
        if projection.entries:
            await self._make_advertiser().advertise(projection)
        return make_offer(live)

    @override
    async def prove_withdrawal(
        self, reading: BalancerReading, withdrawal: Withdrawal
    ) -> WithdrawalAnswer:
        """Return whether MetalLB has read its pools since the ranges left ours.

        Our pool must have been written since the mark, and must not hold the ranges. Then the
        marker decides.
        """
        assert isinstance(reading, MetalLBPoolReading), (
            "the reading is of another kind of balancer"
        )
        if not reading.is_served:
            # A stopped MetalLB may resume, and hand out the addresses that it read before.
            purpose = "to see that its kinds are not served any more"
            return Unprovable(purpose, ("not served", 0), reading.missing)
        pool = reading.pools.get(POOL_NAME)
        # If another TenantCluster took the pool over, that write removed our ranges, and a late
        # write of ours conflicts with it. So the pool's basis does not matter.
        is_taken = pool is not None and names_other_owner(pool, withdrawal.owner)
        if pool is not None and not is_taken and read_basis(pool) < withdrawal.mark:
            return NotYet("the tenant's MetalLB pool was not written since the deletion")
        if pool is not None and _may_hold(pool, withdrawal.spans):
            return NotYet("the tenant's MetalLB pool still has the range")
        # A missing pool is filled only from a live read, which leaves these ranges out. So the
        # withdrawal's own position serves as the basis.
        basis = withdrawal.position if pool is None or is_taken else read_basis(pool)
        owner = withdrawal.owner
        if is_taken:
            # The marker serves both TenantClusters, so it names the management cluster alone.
            owner = build_management_annotation(
                owner.get(names.ANNOTATION_PROJECTION_MANAGEMENT, "")
            )
        return await self._withdrawal_check.prove_withdrawal(
            reading.pools, withdrawal, basis=basis, owner=owner
        )

    @override
    async def read_health(self, projection: Projection) -> Health:
        """Return whether MetalLB has read the projected pool; a contest takes precedence."""
        # Without ranges there is no pool that MetalLB could read.
        health = Health()
        if projection.entries:
            health = await self._projection_check.read_health(projection)
        contest = self._kept_state.describe_contest(self._clock.monotonic())
        return Health(HealthState.CONTESTED, CONTESTED, contest) if contest else health

    @override
    async def find_stale_configuration(self, reading: BalancerReading) -> str | None:
        """Return why MetalLB uses an older configuration; "" for an unknown cause; else None."""
        assert isinstance(reading, MetalLBPoolReading), (
            "the reading is of another kind of balancer"
        )
        reported = await read_configuration_error(self._client, self._namespace)
        return describe_stale_configuration(reading.pools, reported)

    @override
    async def find_interference(self) -> str:
        """Return a sentence if MetalLB takes addresses from Services without a class; else ""."""
        return await find_interference(self._client, self._namespace)

    @override
    async def find_announcement_problem(self) -> str:
        """Return no problem: the projection itself writes the L2Advertisement that announces."""
        return ""

    @override
    async def remove(self, management: str, is_kept: IsKept) -> None:
        """Delete a pool without effect, which a process may have left, and the marker.

        `is_kept` is not asked: no object of MetalLB belongs to a single allocation.
        """
        pool = await self._make_metallb().read_pool()
        if pool is not None and is_empty(pool) and not is_of_other_management(pool, management):
            await self._client.delete(IP_ADDRESS_POOL, Version.from_object(pool))
        try:
            await remove_marker(self._client, self._namespace, management)
        except NotFound:
            return  # no release ever needed a marker

    def _make_metallb(self) -> TenantMetalLB:
        """Return a reader and writer of the pools, at the present time."""
        return TenantMetalLB(
            self._client, self._namespace, kept_state=self._kept_state, now=self._clock.monotonic()
        )

    def _make_advertiser(self) -> Advertiser:
        """Return a writer of the L2Advertisement, at the present time."""
        now = self._clock.monotonic()
        return Advertiser(self._client, self._namespace, kept_state=self._kept_state, now=now)


class MetalLBKind(LoadBalancerKind):
    """MetalLB as a backend of the port.

    Args:
        clock: the time.
        settings: three of them are used: MetalLB's namespace in tenants, the load-balancer class
            that it serves, and the bounded wait for a MetalLB before 0.15.
    """

    title = "MetalLB"
    missing_reason = NOT_INSTALLED
    absent_reasons = frozenset({NOT_INSTALLED, BEING_INSTALLED})
    not_reading_reason = NOT_RUNNING

    def __init__(self, clock: Clock, settings: TenantSettings) -> None:
        self._clock = clock
        self._namespace = settings.metallb_namespace
        self._served_class = settings.load_balancer_class
        self._wait = settings.metallb_wait

    @property
    @override
    def wait(self) -> float:
        """Seconds after which a withdrawal without a proof counts as done."""
        return self._wait

    @property
    @override
    def watches(self) -> Sequence[WatchedKind]:
        """The pool and its L2Advertisement, each by its fixed name."""
        kept_objects = (
            (IP_ADDRESS_POOL, names.METALLB_POOL),
            (L2_ADVERTISEMENT, names.METALLB_ADVERTISEMENT),
        )
        return [
            WatchedKind(
                resource,
                self._namespace,
                fields=f"metadata.name={name}",
                is_concerned=is_concerned,
                may_matter=may_be_edited,
            )
            for resource, name in kept_objects
        ]

    @override
    def make_balancer(
        self, client: Client, memory: BalancerMemory, watched: WatchedOffers | None = None
    ) -> MetalLBBalancer:
        """Return the MetalLB of one tenant, for one pass or check."""
        return MetalLBBalancer(
            client, self._namespace, memory=memory, watched=watched, clock=self._clock
        )

    @override
    def view_service(self, service: Service) -> ServiceView:
        """Return a Service as MetalLB sees it."""
        return view_service(service, self._served_class)

    @override
    def compute_check_delay(self, memory: BalancerMemory) -> float | None:
        """Return the seconds until a correction, or a check of the counts; None for neither."""
        now = self._clock.monotonic()
        delays = (
            memory.get_or_create(MetalLBKeptState).compute_check_delay(now),
            memory.get_or_create(ProjectionCheckMemory).compute_check_delay(now),
        )
        return min((seconds for seconds in delays if seconds is not None), default=None)

    @override
    def take_corrections(self, memory: BalancerMemory) -> Sequence[Correction]:
        """Return the edits by others that were undone since the last call."""
        return memory.get_or_create(MetalLBKeptState).take_unreported()


def is_concerned(obj: Object) -> bool:
    """Return whether an object in a tenant has the name of our pool or our L2Advertisement."""
    return obj.metadata.name in {names.METALLB_POOL, names.METALLB_ADVERTISEMENT}


def may_be_edited(change: Change[IPAddressPool] | Change[L2Advertisement]) -> bool:
    """Return whether a change is of fields that we write, or of MetalLB's count of the pool.

    Other changes need no pass: the number of addresses in use changes with every Service.
    """
    return _select_compared_parts(change.old) != _select_compared_parts(change.new)


def _select_compared_parts(obj: IPAddressPool | L2Advertisement | None) -> object:
    """Return the parts of an object whose change needs a pass; None without an object.

    They are the fields that we write, and how many addresses MetalLB counts in a pool.
    """
    if obj is None:
        return None
    count = count_reported_addresses(obj.status) if isinstance(obj, IPAddressPool) else None
    return (obj.metadata.uid, is_ours(obj), obj.spec, count)


def _may_hold(pool: IPAddressPool, spans: Iterable[AddressRange]) -> bool:
    """Return whether a pool has, or may have, an address of the ranges.

    A pool with too many entries to check may have one.
    """
    entries = pool.spec.addresses
    return len(entries) > MOST_ENTRIES or any(starmap(_may_overlap, product(entries, spans)))


def _may_overlap(entry: str, span: AddressRange) -> bool:
    """Return whether an entry overlaps a range; True also if the entry cannot be parsed."""
    parsed = addresstexts.parse_cidr_or_span(entry)
    return parsed is None or parsed.overlaps(span)


def describe_stale_configuration(pools: Mapping[str, IPAddressPool], reported: str) -> str | None:
    """Return why MetalLB hands out addresses by an older configuration than the stored one.

    Args:
        pools: all pools, by name.
        reported: the error that MetalLB itself reports; empty if it reports none.

    Returns:
        The cause, empty if the cause is not known; None if nothing shows that the configuration
        is older.
    """
    why = describe_unusable(pools) or reported
    if why:
        return why
    pool = pools.get(POOL_NAME)
    is_older = pool is not None and not _does_count_fit(pool)
    return "" if is_older else None


def _does_count_fit(pool: IPAddressPool) -> bool:
    """Return whether the counters in a pool's status fit the addresses in its spec.

    Lower counters fit: with avoidBuggyIPs, MetalLB leaves addresses out. Higher ones show that
    MetalLB still serves an older spec, unless the pool is larger than MetalLB can count. A status
    without counters fits.
    """
    parsed = (addresstexts.parse_cidr_or_span(entry) for entry in pool.spec.addresses)
    spans = [span for span in parsed if span is not None]
    count = count_reported_addresses(pool.status)
    size = sum(span.size for span in spans)
    return count is None or count <= max(size, *compute_metallb_counts(spans))
