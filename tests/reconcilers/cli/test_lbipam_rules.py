"""The rules by which the stand-in for LB-IPAM assigns addresses to Services, without a server."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from controller.meta import ObjectMeta, TracedMeta
from reconcilers.api.services import (
    Ingress,
    LoadBalancerStatus,
    Service,
    ServiceSpec,
    ServiceStatus,
)
from reconcilers.cli.standin.lbipam import choose_addresses, read_pools
from reconcilers.loadbalancers.cilium.pools import Block, CiliumPool, CiliumPoolSpec

CREATED = datetime(2026, 1, 1, tzinfo=UTC)


def _make_pool(
    name: str, *blocks: tuple[str, str], disabled: bool = False, age: int = 0
) -> CiliumPool:
    """Return a pool of blocks, each with its first and last address; `age` is in seconds."""
    meta = TracedMeta(name=name, creationTimestamp=CREATED - timedelta(seconds=age))
    return CiliumPool(
        meta, CiliumPoolSpec(tuple(Block(*ends) for ends in blocks), disabled=disabled)
    )


def _make_service(
    name: str, *addresses: str, meta: dict[str, Any] | None = None, **spec: Any
) -> Service:
    """Return a Service of type LoadBalancer that shows these addresses.

    Args:
        addresses: the addresses in its status.
        meta: further metadata.
        spec: further fields of its spec.
    """
    status = ServiceStatus(LoadBalancerStatus(tuple(Ingress(ip) for ip in addresses)))
    metadata = ObjectMeta(name, "default", uid=name, creationTimestamp=CREATED, **(meta or {}))
    return Service(metadata, ServiceSpec(type="LoadBalancer", **spec), status)


def _choose_addresses(
    services: Sequence[Service], *pools: CiliumPool
) -> dict[str, tuple[str, ...]]:
    """Return the addresses that the stand-in chooses for each Service, by name."""
    addresses_by_service = choose_addresses(services, read_pools(pools))
    return {service.metadata.name: addresses for service, addresses in addresses_by_service}


def test_the_first_free_address_of_the_oldest_pool_is_given() -> None:
    young = _make_pool("a", ("10.0.0.8", "10.0.0.9"))
    old = _make_pool("b", ("10.0.0.0", "10.0.0.1"), age=5)
    services = [
        _make_service("first", "10.0.0.0"),
        _make_service("second"),
        _make_service("third"),
    ]
    assert _choose_addresses(services, young, old) == {
        "first": ("10.0.0.0",),
        "second": ("10.0.0.1",),
        "third": ("10.0.0.8",),
    }


def test_an_address_that_no_pool_contains_is_replaced_or_cleared() -> None:
    service = _make_service("web", "10.0.0.5")
    assert _choose_addresses([service], _make_pool("a", ("10.0.0.0", "10.0.0.0"))) == {
        "web": ("10.0.0.0",)
    }
    assert _choose_addresses([service], _make_pool("a")) == {"web": ()}


def test_services_keep_addresses_of_a_disabled_pool_and_get_no_new_ones() -> None:
    disabled = _make_pool("a", ("10.0.0.0", "10.0.0.3"), disabled=True)
    services = [_make_service("old", "10.0.0.2"), _make_service("new")]
    assert _choose_addresses(services, disabled) == {"old": ("10.0.0.2",), "new": ()}


def test_the_younger_of_two_overlapping_pools_assigns_no_addresses() -> None:
    old, young = (
        _make_pool("b", ("10.0.0.0", "10.0.0.0"), age=5),
        _make_pool("a", ("10.0.0.0", "10.0.0.9")),
    )
    pools = read_pools([young, old])
    assert [pool.conflict for pool in pools] == ["", "it overlaps CiliumLoadBalancerIPPool b"]
    services = [_make_service("first"), _make_service("second")]
    assert _choose_addresses(services, young, old) == {"first": ("10.0.0.0",), "second": ()}


def test_a_dual_stack_service_gets_an_address_of_each_family_that_a_pool_has() -> None:
    both = _make_service("web", ipFamilies=("IPv4", "IPv6"))
    four, six = _make_pool("a", ("10.0.0.0", "10.0.0.0")), _make_pool("b", ("fd00::1", "fd00::1"))
    assert _choose_addresses([both], four) == {"web": ("10.0.0.0",)}
    assert _choose_addresses([both], four, six) == {"web": ("10.0.0.0", "fd00::1")}


def test_a_requested_address_is_assigned_to_the_first_service_that_requests_it() -> None:
    pool = _make_pool("a", ("10.0.0.0", "10.0.0.3"))
    request = {"annotations": {"lbipam.cilium.io/ips": "10.0.0.2"}}
    services = [_make_service("first", meta=request), _make_service("second", meta=request)]
    assert _choose_addresses(services, pool) == {"first": ("10.0.0.2",), "second": ()}


def test_services_of_other_classes_and_proxies_are_ignored() -> None:
    proxied = {"labels": {"service.kubernetes.io/service-proxy-name": "other"}}
    services = [_make_service("a", loadBalancerClass="x.io/y"), _make_service("b", meta=proxied)]
    assert _choose_addresses(services, _make_pool("a", ("10.0.0.0", "10.0.0.3"))) == {}
