"""Services that need a range back which was marked for release and taken out of the tenant."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from msgspec import structs

from controller.meta import ObjectMeta
from reconcilers.addressing.addresstexts import parse_cidr_or_span
from reconcilers.api.services import Service
from reconcilers.loadbalancers.port import Offer
from reconcilers.tenantcluster.record.gate import MOST_SERVICES, EarlierWaits
from reconcilers.tenantcluster.release.lost_addresses import find_service_in_need
from tests.reconcilers.tenantcluster.elastic.facts import KIND, make_service

FIRST, RANGE = "10.40.0.0-10.40.0.0", "10.40.0.8-10.40.0.9"
"""The tenant's other range of one address, and the range that is marked for release."""
MARK = "2026-01-01T00:00:00Z"
"""When the range was marked, as in its annotation."""
ONLY_SERVED_SERVICE = make_service("served", "10.40.0.0")


async def _find_name_in_need(
    earlier: EarlierWaits,
    *services: Service,
    mark: str = MARK,
    offered: Sequence[str] = (FIRST,),
) -> str | None:
    """Return the name of the first Service that needs RANGE back; None if no Service does.

    Args:
        earlier: the Services that earlier checks have seen waiting.
        services: the Services now.
        mark: when the range was marked.
        offered: the ranges in the tenant's pool.
    """
    spans = [span for span in [parse_cidr_or_span(RANGE)] if span is not None]
    service_in_need = await find_service_in_need(
        services,
        spans,
        mark=mark,
        earlier=earlier,
        offers=[
            Offer(
                ObjectMeta(name="default-pool"),
                "IPAddressPool",
                entries=tuple(offered),
                is_made_by_us=True,
            )
        ],
        view_service=KIND.view_service,
    )
    return service_in_need.metadata.name if service_in_need is not None else None


def _annotate(service: Service, annotations: Mapping[str, str]) -> Service:
    return structs.replace(service, metadata=replace(service.metadata, annotations=annotations))


async def test_a_service_that_began_to_wait_since_the_first_check_needs_the_range() -> None:
    earlier = EarlierWaits()
    assert await _find_name_in_need(earlier, ONLY_SERVED_SERVICE) is None
    assert await _find_name_in_need(earlier, ONLY_SERVED_SERVICE, make_service("web")) == "web"


async def test_a_service_that_waited_at_the_first_check_does_not_keep_the_range() -> None:
    earlier = EarlierWaits()
    for _ in range(3):
        assert await _find_name_in_need(earlier, ONLY_SERVED_SERVICE, make_service("web")) is None


async def test_a_service_counts_once_for_each_mark() -> None:
    earlier = EarlierWaits()
    assert await _find_name_in_need(earlier, ONLY_SERVED_SERVICE) is None
    assert await _find_name_in_need(earlier, ONLY_SERVED_SERVICE, make_service("web")) == "web"
    assert (
        await _find_name_in_need(earlier, ONLY_SERVED_SERVICE, make_service("web"), mark="later")
        is None
    )
    assert (
        await _find_name_in_need(earlier, ONLY_SERVED_SERVICE, make_service("web"), mark="later")
        is None
    )


async def test_a_service_does_not_need_the_range_if_another_range_has_a_free_address() -> None:
    earlier = EarlierWaits()
    offered = ("10.40.0.0-10.40.0.1",)
    assert await _find_name_in_need(earlier, ONLY_SERVED_SERVICE, offered=offered) is None
    assert (
        await _find_name_in_need(
            earlier, ONLY_SERVED_SERVICE, make_service("web"), offered=offered
        )
        is None
    )


async def test_free_addresses_of_the_marked_range_itself_do_not_count_as_free() -> None:
    earlier = EarlierWaits()
    offered = (FIRST, RANGE)
    assert await _find_name_in_need(earlier, ONLY_SERVED_SERVICE, offered=offered) is None
    assert (
        await _find_name_in_need(
            earlier, ONLY_SERVED_SERVICE, make_service("web"), offered=offered
        )
        == "web"
    )


@pytest.mark.parametrize(
    ("annotations", "name"),
    [
        ({"metallb.io/loadBalancerIPs": "10.40.0.9"}, "web"),
        ({"metallb.io/loadBalancerIPs": "fd00::1, 10.40.0.9"}, "web"),
        ({"metallb.io/loadBalancerIPs": "10.40.0.7"}, None),
        ({"metallb.io/loadBalancerIPs": "nonsense"}, None),
        ({"metallb.io/address-pool": "default-pool"}, "web"),
        ({"metallb.io/address-pool": "theirs"}, None),
    ],
)
async def test_a_service_that_requests_an_address_or_pool_needs_only_a_range_with_it(
    annotations: Mapping[str, str], name: str | None
) -> None:
    earlier = EarlierWaits()
    assert await _find_name_in_need(earlier, ONLY_SERVED_SERVICE) is None
    requesting = _annotate(make_service("web"), annotations)
    assert await _find_name_in_need(earlier, ONLY_SERVED_SERVICE, requesting) == name


async def test_services_of_another_class_or_family_do_not_need_the_range() -> None:
    earlier = EarlierWaits()
    assert await _find_name_in_need(earlier, ONLY_SERVED_SERVICE) is None
    other_class = make_service("web", load_balancer_class="other")
    other_family = make_service("six")
    spec = structs.replace(other_family.spec, ipFamilies=("IPv6",))
    other_family = structs.replace(other_family, spec=spec)
    assert (
        await _find_name_in_need(earlier, ONLY_SERVED_SERVICE, other_class, other_family) is None
    )


async def test_no_service_keeps_the_range_if_more_wait_than_are_remembered() -> None:
    earlier = EarlierWaits()
    waiting = [make_service(f"web-{number}") for number in range(MOST_SERVICES + 1)]
    assert await _find_name_in_need(earlier, *waiting) is None
    assert await _find_name_in_need(earlier, *waiting, make_service("late")) is None
