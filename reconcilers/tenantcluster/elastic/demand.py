"""What a tenant's Services show: addresses in use, and Services that wait for one of ours.

A Service that growth cannot help is no demand: one that asks for another pool, for another load
balancer, for a fixed address, for a family that we do not have, or that is being deleted.
Source: Kubernetes' documentation of spec.ipFamilyPolicy. What a Service asks of the load balancer
is read by the balancer's kind.

A tenant decides how many Services it has and how many addresses each shows, and the controller
serves other tenants, too. So every loop here is linear in both and yields to other tasks. Of the
Services without an address at most MOST_SERVICES are examined that growth can help, and as many
that it cannot. At most MOST_ADDRESSES are noted; if the Services show more, every range counts as
in use, because a range that any Service shows must not shrink.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from anyio.lowlevel import checkpoint

from allocator import AddressRange, Family
from controller.slices import batches
from reconcilers.addressing import addresstexts, statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.services import LOAD_BALANCER, Service
from reconcilers.loadbalancers.port import Serves, ServiceView

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
"""What a Service costs beside its addresses, in addresses."""
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
        waiting: the Services without one that our pool could serve.
        unservable: the Services without one that our pool could not serve at any size.
        shown_addresses: the addresses that Services of any class have.
        unexamined: how many Services without one are in neither, as that has MOST_SERVICES.
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
        object.__setattr__(self, "_used_counter", AddressCounter(self.used))
        object.__setattr__(self, "_shown_counter", AddressCounter(self.shown_addresses))

    def in_use(self, span: AddressRange) -> int:
        """Return how many addresses of a range are in use; all if the demand is cut."""
        return span.size if self.is_cut else self._used_counter.count_in(span)

    def count_unassigned(self, spans: Iterable[AddressRange]) -> dict[int, int]:
        """Return how many addresses of some ranges no Service has, by family."""
        free = {4: 0, 6: 0}
        for span in spans:
            if not self.is_cut:
                free[span.family] += span.size - self._shown_counter.count_in(span)
        return free

    def count_needed_addresses(self, services: Iterable[Service]) -> int:
        """Return how many addresses serve waiting Services; sharers of one count once."""
        keys = [self.views[service.metadata.uid].sharing_key for service in services]
        return len({key for key in keys if key}) + sum(not key for key in keys)

    def digest(self, service: Service) -> str:
        """Return a short hash of a waiting Service and what decides whether it can be served."""
        spec, uid = service.spec, service.metadata.uid
        asked = (self.views[uid].requirements, ",".join(spec.ipFamilies))
        return names.short_hash("|".join((uid, *asked, spec.ipFamilyPolicy or "")))

    def exhausts(self, pool: Iterable[AddressRange]) -> bool:
        """Return whether every address of a family in `pool` is in use, or there are none."""
        parts = list(pool)
        full = dict.fromkeys({part.family for part in parts}, True)
        for part in parts:
            full[part.family] &= self.in_use(part) == part.size
        return not full or any(full.values())


class AddressCounter:
    """Counts the addresses of a set that lie in a range, without a look at each."""

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
    """Works out the demand of a tenant, one Service after the other.

    Args:
        serves: returns a Service as the load balancer sees it.
        families: 4, 6 or both: of which families the tenant's pool has addresses, or could have.
    """

    def __init__(self, serves: Serves, families: Collection[int]) -> None:
        self._serves = serves
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
        view, name = self._serves(service), str(service.metadata.key)
        room = MOST_ADDRESSES - len(self._users)
        if len(addresses) > room:
            self._is_cut, addresses = True, addresses[:room]
        self._shown.update(addresses)
        self._users += ((address, name) for address in addresses)
        if view.keeps_range:
            self._used.update(addresses)
        if not is_without_address(service):
            return
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


def demand_of(services: Iterable[Service], serves: Serves, families: Collection[int]) -> Demand:
    """Return the demand that Services show, at once; for programs with nothing else to do.

    Args:
        services: all of a tenant's.
        serves: as for `DemandReader`.
        families: as for `DemandReader`.
    """
    reader = DemandReader(serves, families)
    for service in services:
        reader.add(service, addresses(service))
    return reader.demand


async def read_demand(
    services: Iterable[Service], serves: Serves, families: Collection[int]
) -> Demand:
    """Return the demand that Services show; other tasks run in between.

    Args:
        services: all of a tenant's.
        serves: as for `DemandReader`.
        families: as for `DemandReader`.
    """
    reader, turns = DemandReader(serves, families), ReadingTurns()
    for service in services:
        reader.add(service, await read_addresses(service, turns))
    return reader.demand


class ReadingTurns:
    """Lets other tasks run while the Services of a tenant are read."""

    def __init__(self) -> None:
        self._work = 0

    async def count(self, work: int) -> None:
        """Let other tasks run if enough was read since they did.

        Args:
            work: what was read, in addresses.
        """
        self._work += work
        if self._work >= ADDRESSES_PER_TURN:
            self._work = 0
            await checkpoint()


async def read_addresses(service: Service, turns: ReadingTurns) -> Sequence[AddressRange]:
    """Return the same as `addresses`; other tasks run in between.

    A Service of 1 MiB shows 50,000 addresses, so a limit on Services alone is none on the work.

    Args:
        turns: of the loop over the Services.
    """
    await turns.count(WORK_OF_SERVICE)
    addresses: list[AddressRange] = []
    for batch in batches(service.status.loadBalancer.ingress):
        addresses += addresstexts.parse_addresses(ingress.ip for ingress in batch)
        await turns.count(len(batch))
    return addresses


def families(members: Iterable[IPAllocation]) -> set[Family]:
    """Return of which families a tenant has addresses."""
    balancers = (
        allocation for allocation in members if allocation.spec.type == names.TYPE_LOADBALANCER
    )
    return {
        span.family
        for allocation in balancers
        for span in statusranges.list_held_ranges(allocation)
    }


def addresses(service: Service) -> Sequence[AddressRange]:
    """Return the addresses that a Service has, without what cannot be parsed."""
    return addresstexts.parse_addresses(
        ingress.ip for ingress in service.status.loadBalancer.ingress
    )


def is_without_address(service: Service) -> bool:
    """Return whether a Service should have an address and shows none.

    An ingress with nothing but a hostname is no address: no load balancer of ours writes one.
    """
    return (
        service.spec.type == LOAD_BALANCER
        and not service.metadata.terminating
        and not any(ingress.ip for ingress in service.status.loadBalancer.ingress)
    )


def _find_unservable(
    service: Service, view: ServiceView, families: Collection[int]
) -> UnservableService | None:
    """Return why our pool could not give a Service an address; None if it could."""
    if view.obstacle is not None:
        return UnservableService(service, view.obstacle.reason, view.obstacle.asks)
    if not _fits(service, families):
        asked = " and ".join(service.spec.ipFamilies) or "IPv4"
        if service.spec.ipFamilyPolicy == REQUIRE_DUAL_STACK:
            asked = "both families"
        return UnservableService(service, OTHER_FAMILY, asked)
    return None


def _fits(service: Service, families: Collection[int]) -> bool:
    """Return whether addresses of `families` suffice for the families that a Service has."""
    requested = _ip_families(service)
    have = {_FAMILY[family] for family in families}
    if service.spec.ipFamilyPolicy == REQUIRE_DUAL_STACK:
        return have >= set(requested) and have >= set(_FAMILY.values())
    if service.spec.ipFamilyPolicy == PREFER_DUAL_STACK:
        return bool(have & set(requested))
    return have >= set(requested)


def could_be_served(service: Service, free: Mapping[int, int]) -> bool:
    """Return whether so many free addresses, by family, suffice for a Service.

    One that prefers two families is content with one.
    """
    fits = [
        bool(free[family]) for family, name in _FAMILY.items() if name in _ip_families(service)
    ]
    if service.spec.ipFamilyPolicy == REQUIRE_DUAL_STACK:
        return all(free.values())
    either = service.spec.ipFamilyPolicy == PREFER_DUAL_STACK
    return any(fits) if either else all(fits)


def _ip_families(service: Service) -> tuple[str, ...]:
    """Return a Service's families; one without any is from before dual stack: IPv4."""
    return service.spec.ipFamilies or ("IPv4",)


class WaitingTimes:
    """Since when each Service of one tenant waits, as far as this process has seen.

    The creation time is the first answer, and the only one after a restart. It is wrong for a
    Service that had an address and lost it, or that became a load balancer late: one that existed
    at the last update and did not wait begins to wait when it is first seen to.
    """

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}
        self._last_update: datetime | None = None

    def update(self, waiting: Iterable[Service], now: datetime) -> dict[str, float]:
        """Return for how many seconds each Service has waited, by uid.

        A creation time in the future, of a tenant's clock that is ahead of ours, counts as now.
        """
        before, last = self._since, self._last_update
        self._since = {
            service.metadata.uid: before.get(service.metadata.uid) or _begin(service, last, now)
            for service in waiting
        }
        self._last_update = now
        return {uid: (now - since).total_seconds() for uid, since in self._since.items()}


def _begin(service: Service, last_update: datetime | None, now: datetime) -> datetime:
    created = service.metadata.creationTimestamp
    if created is None or created > now or (last_update is not None and created < last_update):
        return now
    return created
