"""Which Services the real LB-IPAM serves by the selector that a TenantCluster has."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from controller.meta import Key, Version
from reconcilers.api.services import SERVICE
from reconcilers.api.tenantaddons import SelectorExpression, ServiceSelector
from reconcilers.loadbalancers.cilium.services import list_shown_addresses
from reconcilers.loadbalancers.port import Projection, Proven
from tests.cilium.site import RealSite
from tests.polling import until
from tests.reconcilers.loadbalancers.cilium.site import FIRST, permit_own

PUBLIC = ServiceSelector({"public": "yes"})


async def project(site: RealSite, selector: ServiceSelector | None) -> None:
    """Project the first allocation with a selector, until the operator has acknowledged it."""
    projection = replace(site.make_projection(FIRST), selector=selector)

    async def confirm() -> Projection:
        return projection

    await site.make_balancer().project(projection, confirm, permit_own)
    await until(
        lambda: site.make_balancer().read_health(projection), lambda health: not health.reason
    )


async def add_service(site: RealSite, name: str, labels: Mapping[str, str]) -> None:
    """Create a Service of type LoadBalancer with labels."""
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": "web"}}
    body = {"metadata": {"name": name, "labels": dict(labels)}, "spec": spec}
    await site.client.create(SERVICE, "default", body)


async def list_served(site: RealSite) -> set[str]:
    """Return the names of the Services that show an address."""
    page = await site.client.list(SERVICE)
    return {service.metadata.name for service in page.items if list_shown_addresses(service)}


async def wait_until_served(site: RealSite, *services: str) -> None:
    """Wait until exactly these Services show an address."""
    await until(partial(list_served, site), lambda names: names == set(services))


async def test_only_services_that_the_selector_selects_get_addresses(site: RealSite) -> None:
    await project(site, PUBLIC)
    await add_service(site, "plain", {})
    await add_service(site, "public", {"public": "yes"})
    await wait_until_served(site, "public")

    await project(site, ServiceSelector({"io.kubernetes.service.name": "plain"}))
    await wait_until_served(site, "plain")
    await project(
        site,
        ServiceSelector(
            {"io.kubernetes.service.namespace": "default"},
            (SelectorExpression("public", "DoesNotExist"),),
        ),
    )
    await wait_until_served(site, "plain")
    await project(
        site, ServiceSelector({}, (SelectorExpression("public", "In", ("yes", "maybe")),))
    )
    await wait_until_served(site, "public")
    assert (await site.get_pool()).spec.selector == {
        "matchExpressions": [{"key": "public", "operator": "In", "values": ["yes", "maybe"]}]
    }
    await project(site, None)
    await wait_until_served(site, "plain", "public")
    assert (await site.get_pool()).spec.serviceSelector is None


async def test_our_selector_selects_the_same_services_as_the_real_one(site: RealSite) -> None:
    selectors = [
        ServiceSelector({}, (SelectorExpression("tier", "NotIn", ("dev",)),)),
        ServiceSelector({}, (SelectorExpression("tier", "Exists"),)),
        ServiceSelector({"tier": "prod"}, (SelectorExpression("tier", "NotIn", ("dev",)),)),
        ServiceSelector({"tier": ""}),
    ]
    labels: dict[str, dict[str, str]] = {
        "none": {},
        "dev": {"tier": "dev"},
        "prod": {"tier": "prod"},
        "empty": {"tier": ""},
    }
    for name, own in labels.items():
        await add_service(site, name, own)
    for selector in selectors:
        await project(site, selector)
        await wait_until_served(
            site, *(name for name, own in labels.items() if selector.selects(own))
        )


async def test_a_range_with_a_selector_is_released_with_its_proof(site: RealSite) -> None:
    await project(site, PUBLIC)
    await add_service(site, "public", {"public": "yes"})
    await wait_until_served(site, "public")
    service = await site.client.get(SERVICE, Key("default", "public"))
    await site.client.delete(SERVICE, Version.from_object(service))
    await until(partial(site.list_users, FIRST), lambda users: not users)
    await until(lambda: site.try_to_prove(FIRST), lambda answer: isinstance(answer, Proven))
    pool = await site.get_pool()
    assert (pool.blocks, pool.spec.serviceSelector) == ((), None)
