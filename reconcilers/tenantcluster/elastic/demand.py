"""The demand of a tenant's Services: addresses in use, and Services that wait for an address.

*Growth* adds ranges to the tenant, *shrink* takes unused ones back. A Service that growth cannot
help is *unservable*, and no reason to grow. It asks for another pool, for another load balancer,
for a fixed address, or for a family that we do not have. A Service that is being deleted does not
count at all. Source for families: Kubernetes' documentation of spec.ipFamilyPolicy. The load
balancer's kind reads everything else that a Service asks for.

A tenant decides how many Services it has and how many addresses each shows, and the controller
serves other tenants, too. So the work is bounded, and other tasks run in between:

- Every loop is linear in Services and addresses.
- Of the Services without an address, at most MOST_SERVICES that growth can help are examined, and
  at most MOST_SERVICES that it cannot help.
- At most MOST_ADDRESSES are noted. If the Services show more, the demand is *cut*: every range
  counts as in use, because shrink must not take a range that a Service shows.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from anyio.lowlevel import checkpoint

from allocator import AddressRange, Family
from controller.slices import split_into_batches
from reconcilers.addressing import addresstexts, statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.services import LOAD_BALANCER, Service
from reconcilers.loadbalancers.port import ServiceView, ServiceViewer

REQUIRE_DUAL_STACK = "RequireDualStack"
PREFER_DUAL_STACK = "PreferDualStack"

OTHER_FAMILY = "OtherFamily"

MOST_SERVICES = 5_000
"""How many Services without an address are examined, of those that growth can help and of those
that it cannot; beyond that only the number is reported.

The growth that serves so many takes a tenant longer than the next passes, which examine others.
"""
MOST_ADDRESSES = 100_000
"""How many addresses that Services show are noted; a Service that has two counts twice."""
SERVICES_PER_TURN = 200
"""How many Services are read before other tasks run."""
ADDRESSES_PER_TURN = 2_000
"""How many addresses that Services show are read before other tasks run."""
WORK_OF_SERVICE = ADDRESSES_PER_TURN // SERVICES_PER_TURN
"""The work of reading one Service apart from its addresses, as a number of addresses."""
_FAMILY = {4: "IPv4", 6: "IPv6"}


@dataclass(frozen=True, slots=True)
class UnservableService:
    """A Service without an address that growth cannot help.

    Args:
        reason: CamelCase word for a condition.
        asks: what it asks for, as a sentence's end.
    """

    service: Service
    reason: str
    asks: str


@dataclass(frozen=True)
class Demand:
    """What the Services of one tenant show.

    Args:
        used: the addresses that Services of our class have, each once.
        waiting: the Services without an address that our pool could serve.
        unservable: the Services without an address that our pool could not serve at any size.
        shown_addresses: the addresses that Services of any class have.
        unexamined: how many Services without an address are in neither list, because the list was
            full.
        users: the addresses that Services of any class have, with the Services' namespace/name.
        views: the Services in `waiting` as the load balancer sees them, by uid.
        is_cut: whether the Services show more than MOST_ADDRESSES.
    """

    used: frozenset[AddressRange]
    waiting: tuple[Service, ...]
    unservable: tuple["UnservableService", ...] = ()
    shown_addresses: frozenset[AddressRange] = frozenset()
    unexamined: int = 0
    users: tuple[tuple[AddressRange, str], ...] = field(default=(), repr=False, compare=False)
    views: Mapping[str, ServiceView] = field(default_factory=dict, repr=False, compare=False)
    is_cut: bool = False
    _used_counter: "AddressCounter" = field(init=False, repr=False, compare=False)
    _shown_counter: "AddressCounter" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Sort the addresses once, for the binary searches of the counting methods.

        The class is frozen, so its own fields can be set only through `object`.
        """
        object.__setattr__(self, "_used_counter", AddressCounter(self.used))
        object.__setattr__(self, "_shown_counter", AddressCounter(self.shown_addresses))

    def count_used(self, span: AddressRange) -> int:
        """Return how many addresses of a range are in use; all if the demand is cut."""
        return span.size if self.is_cut else self._used_counter.count_in(span)

    def count_unassigned(self, spans: Iterable[AddressRange]) -> dict[int, int]:
        """Return how many addresses of some ranges no Service has, by family: 4 and 6.

        Both numbers are 0 if the demand is cut, because then every address counts as in use.
        """
        free = {4: 0, 6: 0}
        for span in spans:
            if not self.is_cut:
                free[span.family] += span.size - self._shown_counter.count_in(span)
        return free

    def count_needed_addresses(self, services: Iterable[Service]) -> int:
        """Return how many addresses waiting Services need; Services with one sharing key share."""
        keys = [self.views[service.metadata.uid].sharing_key for service in services]
        shared_number = len({key for key in keys if key})
        return shared_number + sum(not key for key in keys)

    def make_digest(self, service: Service) -> str:
        """Return a short hash of a waiting Service and of all that it asks for.

        A Service that changes what it asks for has another digest: growth may help it then.
        """
        spec, uid = service.spec, service.metadata.uid
        asked = (self.views[uid].requirements, ",".join(spec.ipFamilies))
        return names.compute_short_hash("|".join((uid, *asked, spec.ipFamilyPolicy or "")))

    def exhausts(self, spans: Iterable[AddressRange]) -> bool:
        """Return whether all addresses of a family are in use.

        True if there are no addresses, because then no Service can get one either.
        """
        all_spans = list(spans)
        is_full = dict.fromkeys({span.family for span in all_spans}, True)
        for span in all_spans:
            is_full[span.family] &= self.count_used(span) == span.size
        return not is_full or any(is_full.values())


class AddressCounter:
    """Counts the addresses of a set that lie in a range, by a binary search."""

    def __init__(self, addresses: Iterable[AddressRange]) -> None:
        self._sorted: dict[int, list[int]] = {4: [], 6: []}
        for address in addresses:
            self._sorted[address.family].append(address.first)
        for numbers in self._sorted.values():
            numbers.sort()

    def count_in(self, span: AddressRange) -> int:
        """Return how many of the addresses are in `span`."""
        numbers = self._sorted[span.family]
        return bisect_right(numbers, span.last) - bisect_left(numbers, span.first)


class DemandReader:
    """Computes the demand of a tenant, one Service after the other.

    Args:
        view_service: returns a Service as the load balancer sees it.
        families: the families, 4 and 6, that the tenant's pool has or could get.
    """

    def __init__(self, view_service: ServiceViewer, families: Collection[int]) -> None:
        self._view_service = view_service
        self._families = families
        self._used: set[AddressRange] = set()
        self._shown: set[AddressRange] = set()
        self._waiting: list[Service] = []
        self._views: dict[str, ServiceView] = {}
        self._unservable: list[UnservableService] = []
        self._unexamined = 0
        self._users: list[tuple[AddressRange, str]] = []
        self._is_cut = False

    def add(self, service: Service, addresses: Sequence[AddressRange]) -> None:
        """Add the addresses that a Service shows, or its request for one."""
        view, name = self._view_service(service), str(service.metadata.key)
        room = MOST_ADDRESSES - len(self._users)
        if len(addresses) > room:
            # The remaining addresses are dropped, and every range will count as in use.
            self._is_cut = True
            addresses = addresses[:room]
        self._shown.update(addresses)
        self._users += ((address, name) for address in addresses)
        if view.keeps_range:
            self._used.update(addresses)
        if not is_without_address(service):
            return  # it waits for nothing
        # Each list has a limit of its own: Services that growth cannot help may stay for ever.
        unservable = _find_unservable(service, view, self._families)
        if unservable is None and len(self._waiting) < MOST_SERVICES:
            self._waiting.append(service)
            self._views[service.metadata.uid] = view
        elif unservable is not None and len(self._unservable) < MOST_SERVICES:
            self._unservable.append(unservable)
        else:
            self._unexamined += 1

    @property
    def demand(self) -> Demand:
        """What the Services so far show."""
        return Demand(
            used=frozenset(self._used),
            waiting=tuple(self._waiting),
            unservable=tuple(self._unservable),
            shown_addresses=frozenset(self._shown),
            unexamined=self._unexamined,
            users=tuple(self._users),
            views=self._views,
            is_cut=self._is_cut,
        )


def compute_demand(
    services: Iterable[Service], view_service: ServiceViewer, families: Collection[int]
) -> Demand:
    """Return the demand of Services without a pause, for a program that runs no other tasks.

    Args:
        services: all Services of a tenant.
        view_service: returns a Service as the load balancer sees it.
        families: the families, 4 and 6, that the tenant has or could get.
    """
    reader = DemandReader(view_service, families)
    for service in services:
        reader.add(service, parse_addresses(service))
    return reader.demand


async def read_demand(
    services: Iterable[Service], view_service: ServiceViewer, families: Collection[int]
) -> Demand:
    """Return the demand of Services; other tasks run in between.

    Args:
        services: all Services of a tenant.
        view_service: returns a Service as the load balancer sees it.
        families: the families, 4 and 6, that the tenant has or could get.
    """
    reader = DemandReader(view_service, families)
    turns = ReadingTurns()
    for service in services:
        reader.add(service, await read_addresses(service, turns))
    return reader.demand


class ReadingTurns:
    """Lets other tasks run while the Services of a tenant are read."""

    def __init__(self) -> None:
        self._work = 0

    async def count(self, work: int) -> None:
        """Count work, and let other tasks run after each ADDRESSES_PER_TURN of it.

        Args:
            work: the work that was just done, as a number of addresses.
        """
        self._work += work
        if self._work >= ADDRESSES_PER_TURN:
            self._work = 0
            await checkpoint()


async def read_addresses(service: Service, turns: ReadingTurns) -> Sequence[AddressRange]:
    """Return the addresses that a Service shows; other tasks run in between.

    One Service of 1 MiB shows 50,000 addresses, so a pause between Services is not enough.

    Args:
        turns: counts the work of the loop over the Services.
    """
    await turns.count(WORK_OF_SERVICE)
    addresses: list[AddressRange] = []
    for batch in split_into_batches(service.status.loadBalancer.ingress):
        addresses += addresstexts.parse_addresses(ingress.ip for ingress in batch)
        await turns.count(len(batch))
    return addresses


def find_families(members: Iterable[IPAllocation]) -> set[Family]:
    """Return the families of a tenant's load-balancer addresses."""
    balancer_allocations = (
        allocation for allocation in members if allocation.spec.type == names.TYPE_LOADBALANCER
    )
    return {
        span.family
        for allocation in balancer_allocations
        for span in statusranges.list_held_ranges(allocation)
    }


def parse_addresses(service: Service) -> Sequence[AddressRange]:
    """Return the addresses that a Service shows; texts that cannot be parsed are left out."""
    return addresstexts.parse_addresses(
        ingress.ip for ingress in service.status.loadBalancer.ingress
    )


def is_without_address(service: Service) -> bool:
    """Return whether a Service should have an address and shows none.

    An ingress with a hostname alone does not count: no load balancer of ours writes one.
    """
    return (
        service.spec.type == LOAD_BALANCER
        and not service.metadata.is_terminating
        and not any(ingress.ip for ingress in service.status.loadBalancer.ingress)
    )


def _find_unservable(
    service: Service, view: ServiceView, families: Collection[int]
) -> UnservableService | None:
    """Return why our pool could not give a Service an address; None if it could."""
    if view.obstacle is not None:
        return UnservableService(service, view.obstacle.reason, view.obstacle.asks)
    if not _do_families_suffice(service, families):
        asked_families = " and ".join(service.spec.ipFamilies) or "IPv4"
        if service.spec.ipFamilyPolicy == REQUIRE_DUAL_STACK:
            asked_families = "both families"
        return UnservableService(service, OTHER_FAMILY, asked_families)
    return None


def _do_families_suffice(service: Service, families: Collection[int]) -> bool:
    """Return whether addresses of `families` suffice for a Service, by its ipFamilyPolicy.

    RequireDualStack needs both families, PreferDualStack one of the Service's families, and
    SingleStack all of its families, which is one.
    """
    requested_names = _list_family_names(service)
    available_names = {_FAMILY[family] for family in families}
    if service.spec.ipFamilyPolicy == REQUIRE_DUAL_STACK:
        return available_names >= {*requested_names, *_FAMILY.values()}
    if service.spec.ipFamilyPolicy == PREFER_DUAL_STACK:
        return bool(available_names & set(requested_names))
    return available_names >= set(requested_names)


def could_be_served(service: Service, free: Mapping[int, int]) -> bool:
    """Return whether free addresses suffice for a Service, by its ipFamilyPolicy.

    RequireDualStack needs an address of both families, PreferDualStack of one of the Service's
    families, and SingleStack of all of its families, which is one.

    Args:
        free: the number of free addresses, by family: 4 and 6.
    """
    has_free = [
        bool(free[family])
        for family, name in _FAMILY.items()
        if name in _list_family_names(service)
    ]
    if service.spec.ipFamilyPolicy == REQUIRE_DUAL_STACK:
        return all(free.values())
    if service.spec.ipFamilyPolicy == PREFER_DUAL_STACK:
        return any(has_free)
    return all(has_free)


def _list_family_names(service: Service) -> tuple[str, ...]:
    """Return the names of a Service's families; IPv4 for an old Service that names none."""
    return service.spec.ipFamilies or ("IPv4",)


class WaitingTimes:
    """Since when each Service of one tenant waits for an address, as this process has seen it.

    A Service that is created between two updates waits since its creation. A Service that existed
    at the last update and did not wait then has lost its address, or became a load balancer late:
    it waits since the present update. After a restart, only creation times are known.
    """

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}
        self._last_update: datetime | None = None

    def update(self, waiting: Iterable[Service], now: datetime) -> dict[str, float]:
        """Note which Services wait now; return for how many seconds each has waited, by uid."""
        since_before, last_update = self._since, self._last_update
        self._since = {
            service.metadata.uid: since_before.get(service.metadata.uid)
            or _find_wait_start(service, last_update, now)
            for service in waiting
        }
        self._last_update = now
        return {uid: (now - since).total_seconds() for uid, since in self._since.items()}


def _find_wait_start(service: Service, last_update: datetime | None, now: datetime) -> datetime:
    """Return when a Service began to wait; at the last update it did not wait.

    Args:
        last_update: the time of the last update; None if this is the first.
    """
    created = service.metadata.creationTimestamp
    if created is None or created > now:
        return now  # the time is absent, or the tenant's clock is ahead of ours
    if last_update is not None and created < last_update:
        return now  # it existed at the last update and did not wait
    return created
