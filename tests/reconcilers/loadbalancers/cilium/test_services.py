"""Which Services an address of ours could serve through Cilium."""

from typing import Any

import msgspec
import pytest

from reconcilers.api.resources import Service
from reconcilers.loadbalancers.cilium.services import view_service


def _service(spec: Any = None, annotations: Any = None, labels: Any = None) -> Service:
    meta: dict[str, Any] = {"name": "web", "namespace": "shop"}
    meta |= {"annotations": annotations or {}, "labels": labels or {}}
    body = {"metadata": meta, "spec": {"type": "LoadBalancer"} | (spec or {})}
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


def test_all_fixed_addresses_are_known() -> None:
    view = view_service(_service(annotations={"lbipam.cilium.io/ips": "10.40.0.1, fd00::1, x"}))
    assert [span.start_text for span in view.fixed_addresses] == ["10.40.0.1", "fd00::1"]


@pytest.mark.parametrize("prefix", ["lbipam.cilium.io/", "io.cilium/lb-ipam-"])
def test_services_share_within_a_namespace_unless_they_say_more(prefix: str) -> None:
    key = {f"{prefix}sharing-key": "k"}
    assert view_service(_service(annotations=key)).sharing_key == "shop/k"
    across = key | {f"{prefix}sharing-cross-namespace": "*"}
    assert view_service(_service(annotations=across)).sharing_key == "k"
