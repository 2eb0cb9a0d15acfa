"""Which Services an address of ours could serve through Cilium."""

from typing import Any

import msgspec
import pytest

from reconcilers.api.services import Service
from reconcilers.loadbalancers.cilium.services import view_service


def _service(
    spec: Any = None, annotations: Any = None, labels: Any = None, status: Any = None
) -> Service:
    meta: dict[str, Any] = {"name": "web", "namespace": "shop"}
    meta |= {"annotations": annotations or {}, "labels": labels or {}}
    body = {"metadata": meta, "spec": {"type": "LoadBalancer"} | (spec or {})}
    body["status"] = status or {}
    return msgspec.convert(body, Service)


@pytest.mark.parametrize(
    ("service", "reason"),
    [
        (_service(), None),
        (_service({"loadBalancerClass": "io.cilium/node"}), "OtherClass"),
        (_service({"loadBalancerClass": "io.cilium/l2-announcer"}), "OtherClass"),
        (_service(labels={"service.kubernetes.io/service-proxy-name": "x"}), "OtherClass"),
        (_service({"loadBalancerIP": "10.40.0.1"}), "FixedAddress"),
        (_service(annotations={"lbipam.cilium.io/ips": "10.40.0.1,fd00::1"}), "FixedAddress"),
        (_service(annotations={"io.cilium/lb-ipam-ips": "10.40.0.1"}), "FixedAddress"),
    ],
)
def test_what_no_address_of_ours_can_serve_is_no_demand_and_keeps_its_range(
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
    assert view_service(_service({"loadBalancerClass": name}, status=tried)).obstacle is None
    other = {"loadBalancerClass": "io.cilium/node"}
    assert view_service(_service(other, status=tried)).obstacle is not None


def test_a_service_with_a_sharing_key_is_noted_for_the_release_of_its_range() -> None:
    assert view_service(_service()).release_note == ""
    annotations = {"lbipam.cilium.io/sharing-key": "k"}
    assert view_service(_service(annotations=annotations)).release_note == "sharing-key"


def test_all_fixed_addresses_are_known() -> None:
    view = view_service(_service(annotations={"lbipam.cilium.io/ips": "10.40.0.1, fd00::1, x"}))
    assert [span.start_text for span in view.fixed_addresses] == ["10.40.0.1", "fd00::1"]


@pytest.mark.parametrize("prefix", ["lbipam.cilium.io/", "io.cilium/lb-ipam-"])
def test_services_share_within_a_namespace_unless_they_say_more(prefix: str) -> None:
    key = {f"{prefix}sharing-key": "k"}
    assert view_service(_service(annotations=key)).sharing_key == "shop/k"
    across = key | {f"{prefix}sharing-cross-namespace": "*"}
    assert view_service(_service(annotations=across)).sharing_key == "k"
