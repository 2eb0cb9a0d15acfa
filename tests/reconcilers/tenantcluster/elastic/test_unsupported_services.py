"""Services that growth cannot help: the condition names them and the reason, nothing grows."""

from typing import Any

import pytest

from tests.reconcilers.balancer import Balancer, add_service
from tests.reconcilers.server import Json
from tests.reconcilers.tenantcluster.elastic.site import (
    TENANT,
    list_balancer_ranges,
    make_elastic_platform,
    make_ready_with_services,
    read_demand_condition,
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
    """Create Services in a tenant without free addresses, and wait until it is at rest.

    Args:
        services: their fields.

    Returns:
        status and reason of LoadBalancerDemandMet, its message, and the names of allocations.
    """
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two")
        for number, parts in enumerate(services):
            add_service(tenant, f"odd-{number}", **parts)
        await platform.clock.advance(35)
        conditions: Any = platform.server.see(*TENANT, namespace="team")["status"]["conditions"]
        condition = next(c for c in conditions if c["type"] == "LoadBalancerDemandMet")
        writes = platform.server.revision
        await platform.clock.advance(300)
        assert platform.server.revision == writes, "the condition is written once"
        return (
            read_demand_condition(platform),
            condition["message"],
            list(list_balancer_ranges(platform)),
        )


@pytest.mark.parametrize(("parts", "reason", "asks"), CASES, ids=[case[2] for case in CASES])
async def test_a_service_that_asks_for_a_foreign_address_is_named_with_the_reason(
    parts: Json, reason: str, asks: str
) -> None:
    condition, message, held_ranges = await _read_demand(parts)
    assert condition == ("True", reason)
    assert f"default/odd-0 asks for {asks}" in message
    assert held_ranges == ["team-a-lb"]


async def test_three_of_many_unsupported_services_are_named_and_the_rest_are_counted() -> None:
    _, message, _ = await _read_demand(*[PIN] * 7)
    assert message.count("asks for") == 3
    assert "4 more" in message


async def test_a_long_pool_name_in_an_annotation_is_shortened_in_the_message() -> None:
    long = {"annotations": {"metallb.io/address-pool": "x" * 5_000}}
    _, message, _ = await _read_demand(long)
    assert len(message) < 300
