"""Which Services MetalLB could give an address of our pool.

Sources: MetalLB's documentation of its annotations and of sharing; Kubernetes' of
spec.loadBalancerClass.
"""

from reconcilers.addressing.addresstexts import parse_ends
from reconcilers.api.services import Service
from reconcilers.loadbalancers.metallb.projection import POOL_NAME
from reconcilers.loadbalancers.port import OTHER_CLASS, Obstacle, ServiceView
from reconcilers.reporting.wording import truncate

_POOL = ("metallb.io/address-pool", "metallb.universe.tf/address-pool")
_ADDRESSES = ("metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs")
_SHARING = ("metallb.io/allow-shared-ip", "metallb.universe.tf/allow-shared-ip")
_LONGEST = 80
_MOST_FIXED = 2
"""MetalLB gives a Service one address of each family."""


def view_service(service: Service, ours: str) -> ServiceView:
    """Return a Service as MetalLB sees it.

    What Kubernetes refuses, as a node port that is taken, is no Service that could wait. The type
    of a Service does not matter: what it shows counts until MetalLB has cleared it.

    Args:
        ours: the load-balancer class that MetalLB serves; empty for Services without one.
    """
    is_ours = (service.spec.loadBalancerClass or "") == ours
    obstacle = None
    pool = _annotation(service, _POOL)
    fixed = _annotation(service, _ADDRESSES) or service.spec.loadBalancerIP
    if not is_ours:
        theirs = service.spec.loadBalancerClass or "none"
        obstacle = Obstacle(OTHER_CLASS, f"load-balancer class {truncate(theirs, _LONGEST)}")
    elif pool not in {"", POOL_NAME}:
        obstacle = Obstacle("OtherPool", f"IPAddressPool {truncate(pool, _LONGEST)}")
    elif fixed:
        obstacle = Obstacle("FixedAddress", f"the address {truncate(fixed, _LONGEST)}")
    key = _annotation(service, _SHARING)
    requested = (parse_ends(ip, ip) for ip in map(str.strip, fixed.split(",", _MOST_FIXED)))
    return ServiceView(
        is_ours,
        obstacle,
        sharing_key=key,
        requirements=f"{pool}|{key}",
        fixed_addresses=tuple(address for address in requested if address is not None),
    )


def _annotation(service: Service, either: tuple[str, str]) -> str:
    """Return the value of the first of two annotations that is set, the newer name first."""
    carried = service.metadata.annotations
    return next((carried[name] for name in either if carried.get(name)), "")
