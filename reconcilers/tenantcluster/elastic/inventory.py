"""What a tenant's Services show: addresses in use, and who waits for one that we could give.

A Service that growth cannot help is no demand: one that asks for another pool, for another load
balancer, for an address of its own, for a family that we do not have, or that is on its way out.
Sources: MetalLB's documentation of its annotations and of sharing; Kubernetes' of
spec.loadBalancerClass and spec.ipFamilyPolicy.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from allocator import AddressRange
from reconcilers import ranges
from reconcilers.api.resources import Service
from reconcilers.tenantcluster.metallb import POOL_NAME

LOAD_BALANCER = "LoadBalancer"
REQUIRE_DUAL_STACK = "RequireDualStack"
PREFER_DUAL_STACK = "PreferDualStack"

_POOL = ("metallb.io/address-pool", "metallb.universe.tf/address-pool")
_ADDRESSES = ("metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs")
_SHARING = ("metallb.io/allow-shared-ip", "metallb.universe.tf/allow-shared-ip")
_FAMILY = {4: "IPv4", 6: "IPv6"}


@dataclass(frozen=True, slots=True)
class Inventory:
    """What the Services of one tenant show.

    Args:
        used: the addresses that Services of our class have, each once.
        waiting: the Services without one that our pool could serve.
    """

    used: frozenset[AddressRange]
    waiting: tuple[Service, ...]

    def in_use(self, held: AddressRange) -> int:
        """Return how many addresses of a range are in use."""
        return sum(held.contains(one) for one in self.used)

    def exhausts(self, pool: Iterable[AddressRange]) -> bool:
        """Return whether every address of `pool` is in use; one without addresses always is."""
        return all(self.in_use(part) == part.size for part in pool)


def take(services: Iterable[Service], ours: str, families: Collection[int]) -> Inventory:
    """Return what `services` show.

    Args:
        services: all of a tenant's.
        ours: the load-balancer class that MetalLB there serves; empty for Services without one.
        families: 4, 6 or both: of which families the tenant's pool has addresses, or could have.
    """
    known = [one for one in services if is_ours(one, ours)]
    used = frozenset(address for one in known for address in addresses(one))
    return Inventory(used, tuple(one for one in known if wants_one(one, families)))


def is_ours(service: Service, ours: str) -> bool:
    """Return whether a Service is the business of the load balancer with class `ours`.

    Of whatever type it is: what it shows counts until MetalLB has cleared it.
    """
    return (service.spec.loadBalancerClass or "") == ours


def addresses(service: Service) -> Sequence[AddressRange]:
    """Return the addresses that a Service has; what is no address says nothing."""
    shown = (one.ip for one in service.status.loadBalancer.ingress if one.ip)
    found = (ranges.parsed(ip, ip) for ip in shown)
    return [one for one in found if one is not None]


def wants_one(service: Service, families: Collection[int]) -> bool:
    """Return whether a Service of ours waits for an address that our pool could give it.

    An ingress with nothing but a hostname is no address: MetalLB never writes one.
    """
    return (
        service.spec.type == LOAD_BALANCER
        and not service.metadata.terminating
        and not any(one.ip for one in service.status.loadBalancer.ingress)
        and asked(service, _POOL) in {"", POOL_NAME}
        and not asked(service, _ADDRESSES)
        and not service.spec.loadBalancerIP
        and _fits(service, families)
    )


def asked(service: Service, annotations: tuple[str, str]) -> str:
    """Return what the first of two annotations says that is there; the newer name goes first."""
    carried = service.metadata.annotations
    return next((carried[name] for name in annotations if carried.get(name)), "")


def _fits(service: Service, families: Collection[int]) -> bool:
    """Return whether addresses of `families` suffice for the families that a Service has.

    A Service without any is an old one, from before dual stack: IPv4.
    """
    wanted = service.spec.ipFamilies or ("IPv4",)
    have = {_FAMILY[family] for family in families}
    if service.spec.ipFamilyPolicy == REQUIRE_DUAL_STACK:
        return have >= set(wanted) and have >= set(_FAMILY.values())
    if service.spec.ipFamilyPolicy == PREFER_DUAL_STACK:
        return bool(have & set(wanted))
    return have >= set(wanted)


def addresses_wanted(waiting: Iterable[Service]) -> int:
    """Return how many addresses serve `waiting`: Services that may share one count once."""
    keys = [asked(service, _SHARING) for service in waiting]
    return len({key for key in keys if key}) + sum(not key for key in keys)


def asking(service: Service) -> str:
    """Return everything about a Service that decides whether our pool can serve it."""
    spec = service.spec
    return "|".join(
        (
            service.metadata.uid,
            asked(service, _POOL),
            asked(service, _SHARING),
            ",".join(spec.ipFamilies),
            spec.ipFamilyPolicy or "",
        )
    )
