"""What the stand-in for LB-IPAM gives, keeps and refuses: its rules, without a server."""

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

BORN = datetime(2026, 1, 1, tzinfo=UTC)


def _pool(name: str, *blocks: tuple[str, str], disabled: bool = False, age: int = 0) -> CiliumPool:
    """Return a pool; `age` is in seconds."""
    meta = TracedMeta(name=name, creationTimestamp=BORN - timedelta(seconds=age))
    return CiliumPool(
        meta, CiliumPoolSpec(tuple(Block(*ends) for ends in blocks), disabled=disabled)
    )


def _service(
    name: str, *addresses: str, meta: dict[str, Any] | None = None, **spec: Any
) -> Service:
    status = ServiceStatus(LoadBalancerStatus(tuple(Ingress(ip) for ip in addresses)))
    metadata = ObjectMeta(name, "default", uid=name, creationTimestamp=BORN, **(meta or {}))
    return Service(metadata, ServiceSpec(type="LoadBalancer", **spec), status)


def _choose(services: Sequence[Service], *pools: CiliumPool) -> dict[str, tuple[str, ...]]:
    chosen = choose_addresses(services, read_pools(pools))
    return {service.metadata.name: addresses for service, addresses in chosen}


def test_the_first_free_address_of_the_oldest_pool_is_given() -> None:
    young = _pool("a", ("10.0.0.8", "10.0.0.9"))
    old = _pool("b", ("10.0.0.0", "10.0.0.1"), age=5)
    services = [_service("first", "10.0.0.0"), _service("second"), _service("third")]
    assert _choose(services, young, old) == {
        "first": ("10.0.0.0",),
        "second": ("10.0.0.1",),
        "third": ("10.0.0.8",),
    }


def test_an_address_that_no_pool_has_any_more_is_taken_away() -> None:
    service = _service("web", "10.0.0.5")
    assert _choose([service], _pool("a", ("10.0.0.0", "10.0.0.0"))) == {"web": ("10.0.0.0",)}
    assert _choose([service], _pool("a")) == {"web": ()}


def test_a_disabled_pool_gives_nothing_new_and_takes_nothing_away() -> None:
    disabled = _pool("a", ("10.0.0.0", "10.0.0.3"), disabled=True)
    services = [_service("old", "10.0.0.2"), _service("new")]
    assert _choose(services, disabled) == {"old": ("10.0.0.2",), "new": ()}


def test_of_two_pools_that_overlap_the_younger_one_gives_nothing() -> None:
    old, young = _pool("b", ("10.0.0.0", "10.0.0.0"), age=5), _pool("a", ("10.0.0.0", "10.0.0.9"))
    pools = read_pools([young, old])
    assert [pool.conflict for pool in pools] == ["", "it overlaps CiliumLoadBalancerIPPool b"]
    services = [_service("first"), _service("second")]
    assert _choose(services, young, old) == {"first": ("10.0.0.0",), "second": ()}


def test_a_service_of_two_families_gets_the_one_that_there_is() -> None:
    both = _service("web", ipFamilies=("IPv4", "IPv6"))
    four, six = _pool("a", ("10.0.0.0", "10.0.0.0")), _pool("b", ("fd00::1", "fd00::1"))
    assert _choose([both], four) == {"web": ("10.0.0.0",)}
    assert _choose([both], four, six) == {"web": ("10.0.0.0", "fd00::1")}


def test_a_requested_address_is_given_if_a_pool_has_it_and_nobody_else() -> None:
    pool = _pool("a", ("10.0.0.0", "10.0.0.3"))
    asks = {"annotations": {"lbipam.cilium.io/ips": "10.0.0.2"}}
    services = [_service("first", meta=asks), _service("second", meta=asks)]
    assert _choose(services, pool) == {"first": ("10.0.0.2",), "second": ()}


def test_services_of_other_classes_and_proxies_are_left_alone() -> None:
    proxied = {"labels": {"service.kubernetes.io/service-proxy-name": "other"}}
    services = [_service("a", loadBalancerClass="x.io/y"), _service("b", meta=proxied)]
    assert _choose(services, _pool("a", ("10.0.0.0", "10.0.0.3"))) == {}
