"""What a tenant's Services show: addresses in use, and Services that wait for one of ours.

A Service that growth cannot help is no demand: one that asks for another pool, for another load
balancer, for a fixed address, for a family that we do not have, or that is being deleted.
Sources: MetalLB's documentation of its annotations and of sharing; Kubernetes' of
spec.loadBalancerClass and spec.ipFamilyPolicy.

A tenant decides how many Services it has, and the controller serves other tenants, too. So every
loop here is linear in the Services and yields to other tasks. Of the Services without an address
at most MOST_SERVICES are examined that growth can help, and as many that it cannot. The addresses
of all Services are read: a range that any of them shows must not shrink.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from anyio.lowlevel import checkpoint

from allocator import AddressRange, Family
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import LOAD_BALANCER, Service

REQUIRE_DUAL_STACK = "RequireDualStack"
PREFER_DUAL_STACK = "PreferDualStack"

OTHER_CLASS = "OtherClass"
OTHER_FAMILY = "OtherFamily"

_POOL = ("metallb.io/address-pool", "metallb.universe.tf/address-pool")
_ADDRESSES = ("metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs")
_SHARING = ("metallb.io/allow-shared-ip", "metallb.universe.tf/allow-shared-ip")
MOST_SERVICES = 5_000
"""How many Services without an address are examined, of those that growth can help and of those
that it cannot; beyond that only the number is reported.

The growth that serves so many takes a tenant longer than the next passes, which examine others.
"""
SERVICES_PER_TURN = 200
"""How many Services are read before other tasks run."""
_LONGEST = 80
_FAMILY = {4: "IPv4", 6: "IPv6"}


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A Service without an address that growth cannot help.

    Args:
        service: the Service.
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
        elsewhere: the Services without one that it could not, however large it were.
        shown: the addresses that Services of any class have.
        unexamined: how many Services without one are in neither, as that has MOST_SERVICES.
        users: the addresses that Services of any class have, with the Services' namespace/name.
    """

    used: frozenset[AddressRange]
    waiting: tuple[Service, ...]
    elsewhere: tuple["Elsewhere", ...] = ()
    shown: frozenset[AddressRange] = frozenset()
    unexamined: int = 0
    users: tuple[tuple[AddressRange, str], ...] = field(default=(), repr=False, compare=False)
    _used_counter: "AddressCounter" = field(init=False, repr=False, compare=False)
    _shown_counter: "AddressCounter" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_used_counter", AddressCounter(self.used))
        object.__setattr__(self, "_shown_counter", AddressCounter(self.shown))

    def in_use(self, held: AddressRange) -> int:
        """Return how many addresses of a range are in use."""
        return self._used_counter.count_in(held)

    def unassigned(self, held: Iterable[AddressRange]) -> dict[int, int]:
        """Return how many addresses of some ranges no Service has, by family."""
        free = {4: 0, 6: 0}
        for span in held:
            free[span.family] += span.size - self._shown_counter.count_in(span)
        return free

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
        ours: the load-balancer class that MetalLB there serves; empty for Services without one.
        families: 4, 6 or both: of which families the tenant's pool has addresses, or could have.
    """

    def __init__(self, ours: str, families: Collection[int]) -> None:
        self._ours = ours
        self._families = families
        self._used: set[AddressRange] = set()
        self._shown: set[AddressRange] = set()
        self._waiting: list[Service] = []
        self._elsewhere: list[Elsewhere] = []
        self._unexamined = 0
        self._users: list[tuple[AddressRange, str]] = []

    def add(self, service: Service) -> None:
        """Note what one Service shows, or what it waits for."""
        shown = addresses(service)
        self._shown.update(shown)
        self._users += ((address, str(service.metadata.key)) for address in shown)
        if is_ours(service, self._ours):
            self._used.update(shown)
        if not _is_without(service):
            return
        # Each list has a limit of its own: Services that growth cannot help may stay for ever.
        elsewhere = _elsewhere(service, self._ours, self._families)
        if elsewhere is None and len(self._waiting) < MOST_SERVICES:
            self._waiting.append(service)
        elif elsewhere is not None and len(self._elsewhere) < MOST_SERVICES:
            self._elsewhere.append(elsewhere)
        else:
            self._unexamined += 1

    @property
    def demand(self) -> Demand:
        """What the Services so far show."""
        return Demand(
            used=frozenset(self._used),
            waiting=tuple(self._waiting),
            elsewhere=tuple(self._elsewhere),
            shown=frozenset(self._shown),
            unexamined=self._unexamined,
            users=tuple(self._users),
        )


def demand_of(services: Iterable[Service], ours: str, families: Collection[int]) -> Demand:
    """Return what `services` show, at once; for programs with nothing else to do.

    Args:
        services: all of a tenant's.
        ours: as for `DemandReader`.
        families: as for `DemandReader`.
    """
    reader = DemandReader(ours, families)
    for service in services:
        reader.add(service)
    return reader.demand


async def read_demand(services: Iterable[Service], ours: str, families: Collection[int]) -> Demand:
    """Return what `services` show; other tasks run in between.

    Args:
        services: all of a tenant's.
        ours: as for `DemandReader`.
        families: as for `DemandReader`.
    """
    reader = DemandReader(ours, families)
    for number, service in enumerate(services, 1):
        reader.add(service)
        if number % SERVICES_PER_TURN == 0:
            await checkpoint()
    return reader.demand


def families(members: Iterable[IPAllocation]) -> set[Family]:
    """Return of which families a tenant has addresses."""
    balancers = (one for one in members if one.spec.type == names.TYPE_LOADBALANCER)
    return {held.family for one in balancers for held in ranges.all_held(one)}


def is_ours(service: Service, ours: str) -> bool:
    """Return whether a Service is for the load balancer with class `ours`.

    Its type does not matter: what it shows counts until MetalLB has cleared it.
    """
    return (service.spec.loadBalancerClass or "") == ours


def addresses(service: Service) -> Sequence[AddressRange]:
    """Return the addresses that a Service has, without what cannot be parsed."""
    shown = (one.ip for one in service.status.loadBalancer.ingress if one.ip)
    found = (ranges.parsed(ip, ip) for ip in shown)
    return [one for one in found if one is not None]


def _is_without(service: Service) -> bool:
    """Return whether a Service should have an address and shows none.

    An ingress with nothing but a hostname is no address: MetalLB never writes one.
    """
    return (
        service.spec.type == LOAD_BALANCER
        and not service.metadata.terminating
        and not any(one.ip for one in service.status.loadBalancer.ingress)
    )


def _elsewhere(service: Service, ours: str, families: Collection[int]) -> Elsewhere | None:
    """Return why our pool could not give a Service an address; None if it could.

    What Kubernetes refuses, as a node port that is taken, is no Service that could wait.
    """
    pool = annotation(service, _POOL)
    fixed = annotation(service, _ADDRESSES) or service.spec.loadBalancerIP
    if not is_ours(service, ours):
        theirs = service.spec.loadBalancerClass or "none"
        return Elsewhere(service, OTHER_CLASS, f"load-balancer class {_short(theirs)}")
    if pool not in {"", names.METALLB_POOL}:
        return Elsewhere(service, "OtherPool", f"IPAddressPool {_short(pool)}")
    if fixed:
        return Elsewhere(service, "FixedAddress", f"the address {_short(fixed)}")
    if not _fits(service, families):
        asked = " and ".join(service.spec.ipFamilies) or "IPv4"
        if service.spec.ipFamilyPolicy == REQUIRE_DUAL_STACK:
            asked = "both families"
        return Elsewhere(service, OTHER_FAMILY, asked)
    return None


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def annotation(service: Service, either: tuple[str, str]) -> str:
    """Return the value of the first of two annotations that is set, the newer name first."""
    carried = service.metadata.annotations
    return next((carried[name] for name in either if carried.get(name)), "")


def _fits(service: Service, families: Collection[int]) -> bool:
    """Return whether addresses of `families` suffice for the families that a Service has."""
    wanted = _ip_families(service)
    have = {_FAMILY[family] for family in families}
    if service.spec.ipFamilyPolicy == REQUIRE_DUAL_STACK:
        return have >= set(wanted) and have >= set(_FAMILY.values())
    if service.spec.ipFamilyPolicy == PREFER_DUAL_STACK:
        return bool(have & set(wanted))
    return have >= set(wanted)


def could_be_served(service: Service, free: Mapping[int, int]) -> bool:
    """Return whether so many free addresses, by family, suffice for a Service.

    One that prefers two families is content with one.
    """
    wanted = [
        bool(free[family]) for family, name in _FAMILY.items() if name in _ip_families(service)
    ]
    if service.spec.ipFamilyPolicy == REQUIRE_DUAL_STACK:
        return all(free.values())
    either = service.spec.ipFamilyPolicy == PREFER_DUAL_STACK
    return any(wanted) if either else all(wanted)


def _ip_families(service: Service) -> tuple[str, ...]:
    """Return a Service's families; one without any is from before dual stack: IPv4."""
    return service.spec.ipFamilies or ("IPv4",)


def addresses_wanted(waiting: Iterable[Service]) -> int:
    """Return how many addresses serve `waiting`: Services that may share one count once."""
    keys = [annotation(service, _SHARING) for service in waiting]
    return len({key for key in keys if key}) + sum(not key for key in keys)


def requirements(service: Service) -> str:
    """Return the uid of a Service and all that decides whether our pool can serve it."""
    spec = service.spec
    return "|".join(
        (
            service.metadata.uid,
            annotation(service, _POOL),
            annotation(service, _SHARING),
            ",".join(spec.ipFamilies),
            spec.ipFamilyPolicy or "",
        )
    )


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
