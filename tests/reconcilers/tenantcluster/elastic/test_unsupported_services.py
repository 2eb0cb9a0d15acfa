"""Services that growth cannot help are named with the reason, and make nothing grow."""

from typing import Any

import pytest

from tests.reconcilers.balancer import Balancer, service
from tests.reconcilers.server import Json
from tests.reconcilers.tenantcluster.elastic.site import (
    TENANT,
    balancer_ranges,
    become_ready,
    demand_condition,
    elastic_platform,
)

PIN: Json = {"annotations": {"metallb.io/loadBalancerIPs": "10.99.0.1"}}
CASES: list[tuple[Json, str, str]] = [
    ({"spec": {"loadBalancerIP": "10.99.0.1"}}, "FixedAddress", "the address 10.99.0.1"),
    (PIN, "FixedAddress", "the address 10.99.0.1"),
    (
        {"annotations": {"metallb.io/address-pool": "theirs"}},
        "OtherPool",
        "IPAddressPool theirs",
    ),
    ({"spec": {"loadBalancerClass": "x.io/y"}}, "OtherClass", "load-balancer class x.io/y"),
    ({"spec": {"ipFamilies": ["IPv6"]}}, "OtherFamily", "IPv6"),
    (
        {"spec": {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}},
        "OtherFamily",
        "both families",
    ),
]


async def _read_demand(*services: Json) -> tuple[tuple[str, str], str, list[str]]:
    """Return the condition, its message and the ranges, minutes after Services appeared."""
    platform, tenant = elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await become_ready(platform, tenant, "one", "two")
        for number, parts in enumerate(services):
            service(tenant, f"odd-{number}", **parts)
        await platform.clock.advance(35)
        conditions: Any = platform.server.see(*TENANT, namespace="team")["status"]["conditions"]
        condition = next(c for c in conditions if c["type"] == "LoadBalancerDemandMet")
        writes = platform.server.revision
        await platform.clock.advance(300)
        assert platform.server.revision == writes, "it is said once"
        return demand_condition(platform), condition["message"], list(balancer_ranges(platform))


@pytest.mark.parametrize(("parts", "reason", "asks"), CASES, ids=[case[2] for case in CASES])
async def test_a_service_that_asks_for_what_is_not_ours_is_named_with_the_reason(
    parts: Json, reason: str, asks: str
) -> None:
    condition, message, held_ranges = await _read_demand(parts)
    assert condition == ("True", reason)
    assert f"default/odd-0 asks for {asks}" in message
    assert held_ranges == ["team-a-lb"]


async def test_of_many_such_services_a_few_are_named_and_all_are_counted() -> None:
    _, message, _ = await _read_demand(*[PIN] * 7)
    assert message.count("asks for") == 3
    assert "4 more" in message


async def test_what_a_service_asks_for_is_shortened() -> None:
    long = {"annotations": {"metallb.io/address-pool": "x" * 5_000}}
    _, message, _ = await _read_demand(long)
    assert len(message) < 300
