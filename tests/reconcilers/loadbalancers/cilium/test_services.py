"""How a Service is seen by Cilium's adapter: what keeps it from getting one of our addresses."""

from typing import Any

import msgspec
import pytest

from reconcilers.api.services import Service
from reconcilers.loadbalancers.cilium.services import view_service


def _make_service(
    spec: Any = None, annotations: Any = None, labels: Any = None, status: Any = None
) -> Service:
    """Return a Service of type LoadBalancer, shop/web."""
    meta: dict[str, Any] = {"name": "web", "namespace": "shop"}
    meta |= {"annotations": annotations or {}, "labels": labels or {}}
    body = {"metadata": meta, "spec": {"type": "LoadBalancer"} | (spec or {})}
    body["status"] = status or {}
    return msgspec.convert(body, Service)


@pytest.mark.parametrize(
    ("service", "reason"),
    [
        (_make_service(), None),
        (_make_service({"loadBalancerClass": "io.cilium/node"}), "OtherClass"),
        (_make_service({"loadBalancerClass": "io.cilium/l2-announcer"}), "OtherClass"),
        (_make_service(labels={"service.kubernetes.io/service-proxy-name": "x"}), "OtherClass"),
        (_make_service({"loadBalancerIP": "10.40.0.1"}), "FixedAddress"),
        (_make_service(annotations={"lbipam.cilium.io/ips": "10.40.0.1,fd00::1"}), "FixedAddress"),
        (_make_service(annotations={"io.cilium/lb-ipam-ips": "10.40.0.1"}), "FixedAddress"),
    ],
)
def test_a_service_that_our_addresses_cannot_serve_has_an_obstacle_and_keeps_its_range(
    service: Service, reason: str | None
) -> None:
    view = view_service(service)
    assert view.keeps_range
    assert (view.obstacle.reason if view.obstacle else None) == reason


@pytest.mark.parametrize("name", ["io.cilium/l2-announcer", "io.cilium/bgp-control-plane"])
def test_a_service_of_a_class_of_cilium_is_demand_once_the_operator_has_tried_it(
    name: str,
) -> None:
    tried = {"conditions": [{"type": "cilium.io/IPAMRequestSatisfied", "status": "False"}]}
    assert view_service(_make_service({"loadBalancerClass": name}, status=tried)).obstacle is None
    other = {"loadBalancerClass": "io.cilium/node"}
    assert view_service(_make_service(other, status=tried)).obstacle is not None


def test_a_service_with_a_sharing_key_is_noted_for_the_release_of_its_range() -> None:
    assert view_service(_make_service()).release_note == ""
    annotations = {"lbipam.cilium.io/sharing-key": "k"}
    assert view_service(_make_service(annotations=annotations)).release_note == "sharing-key"


def test_all_valid_fixed_addresses_of_a_service_are_listed() -> None:
    view = view_service(
        _make_service(annotations={"lbipam.cilium.io/ips": "10.40.0.1, fd00::1, x"})
    )
    assert [span.start_text for span in view.fixed_addresses] == ["10.40.0.1", "fd00::1"]


@pytest.mark.parametrize("prefix", ["lbipam.cilium.io/", "io.cilium/lb-ipam-"])
def test_a_sharing_key_is_for_one_namespace_unless_an_annotation_names_all(prefix: str) -> None:
    key = {f"{prefix}sharing-key": "k"}
    assert view_service(_make_service(annotations=key)).sharing_key == "shop/k"
    across = key | {f"{prefix}sharing-cross-namespace": "*"}
    assert view_service(_make_service(annotations=across)).sharing_key == "k"
