"""Decides which Services LB-IPAM could give an address of our pools.

Sources: Cilium's page "LoadBalancer IP Address Management", and its Service annotations.

An *obstacle* is the reason why no address of ours can serve a Service. A *release note* is a fact
about a Service that the release of its range needs later.
"""

import msgspec

from allocator import AddressRange
from reconcilers.addressing.addresstexts import parse_addresses, parse_ends
from reconcilers.api.services import Service
from reconcilers.api.tenantaddons import ServiceSelector
from reconcilers.loadbalancers.cilium.pools import CiliumPool
from reconcilers.loadbalancers.port import OTHER_CLASS, Obstacle, ServiceView
from reconcilers.reporting.wording import truncate

_ADDRESS_ANNOTATIONS = ("lbipam.cilium.io/ips", "io.cilium/lb-ipam-ips")
_SHARING_ANNOTATIONS = ("lbipam.cilium.io/sharing-key", "io.cilium/lb-ipam-sharing-key")
_CROSS_NAMESPACE_ANNOTATIONS = (
    "lbipam.cilium.io/sharing-cross-namespace",
    "io.cilium/lb-ipam-sharing-cross-namespace",
)
_PROXY_LABEL = "service.kubernetes.io/service-proxy-name"
"""The label of Services that Cilium leaves to another proxy."""
_CILIUM_CLASSES = ("io.cilium/l2-announcer", "io.cilium/bgp-control-plane")
"""Classes that LB-IPAM serves where the feature that announces them is on."""
_REQUEST_SATISFIED = "cilium.io/IPAMRequestSatisfied"
"""The condition of each Service that LB-IPAM has tried to serve."""
_NAMESPACE_LABEL = "io.kubernetes.service.namespace"
_NAME_LABEL = "io.kubernetes.service.name"
"""Labels that a Service has besides its own where a pool selects Services."""
NOT_SELECTED = "NotSelected"
"""The reason where the TenantCluster's selector leaves a Service out."""
SHARING_KEY = "sharing-key"
"""The release note of a Service with a sharing key: the operator may remember its address."""
_LONGEST_QUOTE = 80
"""How many characters of a tenant's text a message has."""
_MOST_FIXED_ADDRESSES = 16
"""How many addresses that a Service asks for are read: a tenant can write any number."""


def find_sharing_key(service: Service) -> str:
    """Return the key by which a Service may share its address; empty if it has none."""
    return _find_annotation(service, _SHARING_ANNOTATIONS)


def list_shown_addresses(service: Service) -> list[AddressRange]:
    """Return the addresses that a Service shows."""
    return parse_addresses(ingress.ip for ingress in service.status.loadBalancer.ingress)


def view_service(service: Service, selector: ServiceSelector | None = None) -> ServiceView:
    """Return a Service as LB-IPAM sees it.

    Any Service that shows an address keeps its range, whatever its class. LB-IPAM does not remove
    the address of a Service that it no longer serves, and may give the address to another Service.

    Args:
        selector: the selector of the tenant's pools; None if they select all Services.
    """
    obstacle = None
    fixed_addresses = (
        _find_annotation(service, _ADDRESS_ANNOTATIONS) or service.spec.loadBalancerIP
    )
    if service.spec.loadBalancerClass and not _is_class_served(service):
        other_class = truncate(service.spec.loadBalancerClass, _LONGEST_QUOTE)
        obstacle = Obstacle(OTHER_CLASS, f"load-balancer class {other_class}")
    elif _PROXY_LABEL in service.metadata.labels:
        other_proxy = truncate(service.metadata.labels[_PROXY_LABEL], _LONGEST_QUOTE)
        obstacle = Obstacle(OTHER_CLASS, f"the service proxy {other_proxy}")
    elif selector is not None and not selector.selects(_list_labels(service)):
        obstacle = Obstacle(
            NOT_SELECTED,
            "an address though spec.addons.loadBalancer.cilium.serviceSelector of the"
            " TenantCluster leaves it out; label the Service, or change the selector",
        )
    elif fixed_addresses:
        # Growth adds any free range, so it cannot bring a certain address.
        obstacle = Obstacle(
            "FixedAddress", f"the address {truncate(fixed_addresses, _LONGEST_QUOTE)}"
        )
    key = find_sharing_key(service)
    if key and not _find_annotation(service, _CROSS_NAMESPACE_ANNOTATIONS):
        # Services share an address across namespaces only if an annotation allows it.
        key = f"{service.metadata.namespace}/{key}"
    # After _MOST_FIXED_ADDRESSES commas the rest is one text. If it has many addresses, it cannot
    # be parsed, and is left out.
    address_texts = map(str.strip, fixed_addresses.split(",", _MOST_FIXED_ADDRESSES))
    parsed = (parse_ends(address, address) for address in address_texts)
    return ServiceView(
        keeps_range=True,
        obstacle=obstacle,
        sharing_key=key,
        requirements=key,
        fixed_addresses=tuple(address for address in parsed if address is not None),
        release_note=SHARING_KEY if key else "",
    )


def _is_class_served(service: Service) -> bool:
    """Return whether LB-IPAM serves the class of a Service, as far as the Service shows it.

    LB-IPAM serves a class of Cilium only if the feature that announces it is on. No object in the
    tenant says whether it is. But LB-IPAM writes a condition to each Service that it tries to
    serve.
    """
    if service.spec.loadBalancerClass not in _CILIUM_CLASSES:
        return False
    return any(entry.type == _REQUEST_SATISFIED for entry in service.status.conditions or ())


def is_selected(pool: CiliumPool, service: Service) -> bool:
    """Return whether a pool selects a Service; False if the pool's selector cannot be parsed."""
    try:
        selector = msgspec.convert(dict(pool.spec.selector), ServiceSelector)
    except msgspec.ValidationError:
        return False
    return selector.selects(_list_labels(service))


def _list_labels(service: Service) -> dict[str, str]:
    """Return the labels by which pools select a Service: its own, its namespace and its name."""
    meta = service.metadata
    return {**meta.labels, _NAMESPACE_LABEL: meta.namespace, _NAME_LABEL: meta.name}


def _find_annotation(service: Service, annotation_names: tuple[str, str]) -> str:
    """Return the value of the first of two annotations that is set; empty if neither is.

    Args:
        annotation_names: the newer name and the older name of one annotation.
    """
    annotations = service.metadata.annotations
    return next((annotations[name] for name in annotation_names if annotations.get(name)), "")
