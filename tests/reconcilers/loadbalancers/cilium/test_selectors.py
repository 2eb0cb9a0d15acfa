"""The Service selector of a TenantCluster is written into each of its pools unchanged."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from reconcilers.api.services import Service
from reconcilers.api.tenantaddons import ServiceSelector
from reconcilers.loadbalancers.cilium.projection import make_selector_patch
from reconcilers.loadbalancers.cilium.services import NOT_SELECTED, view_service
from reconcilers.loadbalancers.port import NotYet, Projection, Proven
from tests.reconcilers import make
from tests.reconcilers.loadbalancers.cilium.site import FIRST, Site, permit_own

PUBLIC: dict[str, Any] = {"matchLabels": {"public": "yes"}}
SHOP: dict[str, Any] = {
    "matchLabels": {"io.kubernetes.service.namespace": "shop"},
    "matchExpressions": [{"key": "public", "operator": "DoesNotExist"}],
}
"""Selects Services of namespace shop that have no label `public`."""


def decode_selector(body: dict[str, Any]) -> ServiceSelector:
    """Return the selector of a JSON document."""
    return msgspec.convert(body, ServiceSelector)


async def project(site: Site, body: dict[str, Any]) -> None:
    """Project the first allocation with a selector; empty for none."""
    selector = decode_selector(body) if body else None
    projection = replace(site.make_projection(FIRST), selector=selector)

    async def confirm() -> Projection:
        return projection

    await site.balancer().project(projection, confirm, permit_own)


async def test_services_that_the_selector_leaves_out_get_no_address() -> None:
    site = Site()
    await project(site, PUBLIC)
    assert site.pool()["spec"]["serviceSelector"] == PUBLIC
    site.add_service("plain")
    assert site.addresses("plain") == []
    labels = {"metadata": {"labels": {"public": "yes"}}}
    site.tenant.edit("services", "plain", labels, namespace="default")
    assert site.addresses("plain") == ["10.40.0.0"]
    await project(site, SHOP)
    assert site.pool()["spec"]["serviceSelector"] == SHOP, (
        "the labels of the earlier selector are removed"
    )
    assert site.addresses("plain") == []
    await project(site, {})
    assert "serviceSelector" not in site.pool()["spec"]
    assert site.addresses("plain") == ["10.40.0.0"]


async def test_a_second_projection_of_the_same_selector_writes_nothing() -> None:
    site = Site()
    await project(site, SHOP)
    before = site.tenant.revision
    await project(site, SHOP)
    assert site.tenant.revision == before
    assert not site.kind.take_corrections(site.memory)


async def test_only_an_edit_of_the_selector_by_others_is_reported_as_corrected() -> None:
    site = Site()
    await project(site, PUBLIC)
    await project(site, SHOP)
    assert not site.kind.take_corrections(site.memory)
    site.edit({"spec": {"serviceSelector": {"matchLabels": {"other": "x"}}}})
    await project(site, SHOP)
    assert site.pool()["spec"]["serviceSelector"] == SHOP
    (correction,) = site.kind.take_corrections(site.memory)
    assert "serviceSelector" in correction.description


async def test_a_pool_with_a_selector_is_drained_before_it_is_emptied() -> None:
    site = Site()
    await project(site, PUBLIC)
    first = await site.ask()
    assert isinstance(first, NotYet)
    assert site.pool()["spec"]["disabled"] is True
    assert site.pool()["spec"]["blocks"] != [], "the drain has to be acknowledged first"
    answers = await site.ask_six_times()
    assert isinstance(answers[-1], Proven)
    assert "serviceSelector" not in site.pool()["spec"]


@pytest.mark.parametrize("stored", [{}, PUBLIC, SHOP, {"matchLabels": {"a": "b", "c": "d"}}])
@pytest.mark.parametrize("body", [{}, PUBLIC, SHOP])
async def test_a_selector_patch_replaces_any_selector_by_any_other(
    stored: dict[str, Any], body: dict[str, Any]
) -> None:
    site = Site()
    await project(site, stored)
    patch = make_selector_patch(stored, decode_selector(body) if body else None)
    site.edit({"spec": patch})
    assert site.pool()["spec"].get("serviceSelector", {}) == body


def build_unlabeled_service() -> Service:
    """Return a Service of namespace shop that SHOP selects and PUBLIC leaves out."""
    return msgspec.convert(
        {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"type": "LoadBalancer"}},
        Service,
    )


def test_only_a_service_that_the_selector_leaves_out_has_the_obstacle_not_selected() -> None:
    service = build_unlabeled_service()
    obstacle = view_service(service, decode_selector(PUBLIC)).obstacle
    assert obstacle is not None
    assert obstacle.reason == NOT_SELECTED
    assert "spec.addons.loadBalancer.cilium.serviceSelector" in obstacle.asks
    assert view_service(service, decode_selector(SHOP)).obstacle is None


def test_a_service_that_the_selector_leaves_out_keeps_its_range_from_release() -> None:
    assert view_service(build_unlabeled_service(), decode_selector(PUBLIC)).keeps_range


def test_a_selector_without_terms_or_for_metallb_counts_as_none() -> None:
    settings = {"serviceSelector": PUBLIC}
    for provider, selector in (("cilium", decode_selector(PUBLIC)), ("metallb", None)):
        addon = {"version": "1", "provider": provider, "cilium": settings}
        tenant = make.tenant(spec={"addons": {"loadBalancer": addon}})
        assert tenant.service_selector == selector
    addon = {"version": "1", "provider": "cilium", "cilium": {"serviceSelector": {}}}
    assert make.tenant(spec={"addons": {"loadBalancer": addon}}).service_selector is None
