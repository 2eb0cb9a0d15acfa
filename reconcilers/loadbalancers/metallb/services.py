"""Decides which Services MetalLB could give an address of our pool.

Sources: MetalLB's documentation of its annotations and of sharing; Kubernetes' of
spec.loadBalancerClass.

An *obstacle* is the reason why no address of ours can serve a Service.
"""

from reconcilers.addressing.addresstexts import parse_ends
from reconcilers.api.services import Service
from reconcilers.loadbalancers.metallb.projection import POOL_NAME
from reconcilers.loadbalancers.port import OTHER_CLASS, Obstacle, ServiceView
from reconcilers.reporting.wording import truncate

_POOL_ANNOTATIONS = ("metallb.io/address-pool", "metallb.universe.tf/address-pool")
_ADDRESS_ANNOTATIONS = ("metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs")
_SHARING_ANNOTATIONS = ("metallb.io/allow-shared-ip", "metallb.universe.tf/allow-shared-ip")
_LONGEST_QUOTE = 80
"""How many characters of a tenant's text a message has."""
_MOST_FIXED_ADDRESSES = 2
"""MetalLB gives a Service one address of each family."""


def view_service(service: Service, served_class: str) -> ServiceView:
    """Return a Service as MetalLB sees it.

    The type of the Service does not matter: an address that it shows counts until MetalLB has
    cleared it.

    Args:
        served_class: the load-balancer class that MetalLB serves; empty for Services without one.
    """
    is_served = (service.spec.loadBalancerClass or "") == served_class
    obstacle = None
    pool = _find_annotation(service, _POOL_ANNOTATIONS)
    fixed_addresses = (
        _find_annotation(service, _ADDRESS_ANNOTATIONS) or service.spec.loadBalancerIP
    )
    if not is_served:
        service_class = service.spec.loadBalancerClass or "none"
        obstacle = Obstacle(
            OTHER_CLASS, f"load-balancer class {truncate(service_class, _LONGEST_QUOTE)}"
        )
    elif pool not in {"", POOL_NAME}:
        obstacle = Obstacle("OtherPool", f"IPAddressPool {truncate(pool, _LONGEST_QUOTE)}")
    elif fixed_addresses:
        # Growth adds any free range, so it cannot bring a certain address.
        obstacle = Obstacle(
            "FixedAddress", f"the address {truncate(fixed_addresses, _LONGEST_QUOTE)}"
        )
    key = _find_annotation(service, _SHARING_ANNOTATIONS)
    # After _MOST_FIXED_ADDRESSES commas the rest is one text. If it has many addresses, it cannot
    # be parsed, and is left out.
    address_texts = map(str.strip, fixed_addresses.split(",", _MOST_FIXED_ADDRESSES))
    parsed = (parse_ends(address, address) for address in address_texts)
    return ServiceView(
        keeps_range=is_served,
        obstacle=obstacle,
        sharing_key=key,
        requirements=f"{pool}|{key}",
        fixed_addresses=tuple(address for address in parsed if address is not None),
    )


def _find_annotation(service: Service, annotation_names: tuple[str, str]) -> str:
    """Return the value of the first of two annotations that is set; empty if neither is.

    Args:
        annotation_names: the newer name and the older name of one annotation.
    """
    annotations = service.metadata.annotations
    return next((annotations[name] for name in annotation_names if annotations.get(name)), "")
