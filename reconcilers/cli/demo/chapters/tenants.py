"""Pools, providers, a static tenant; and an elastic one, which grows and shrinks."""

from controller.meta import Key
from reconcilers.api.resources import SERVICE
from reconcilers.api.tenantcluster import READY
from reconcilers.cli.demo import cast
from reconcilers.cli.demo.cast import ELASTIC, PRIMARY, PROVIDER, SECONDARY, SHOP, WEB
from reconcilers.cli.demo.sights import clusters, pools, tenants
from reconcilers.cli.demo.step import Step, declare, declare_in, remove_in


def beginning() -> list[Step]:
    """Return the steps of administrators."""
    return [
        Step(
            "An administrator declares two pools",
            (pools.pool_in_use(PRIMARY, 0), pools.pool_in_use(SECONDARY, 0)),
            (
                declare(
                    cast.pool(
                        PRIMARY, "10.40.0.0/26", [("10.40.0.16", "10.40.0.40")], ["10.40.0.0/28"]
                    ),
                    cast.pool(SECONDARY, "10.41.0.0/24", [("10.41.0.64", "10.41.0.255")]),
                ),
            ),
        ),
        Step(
            "Two providers offer both, the first one first: one static, one elastic",
            (pools.capacity(PROVIDER), pools.capacity(ELASTIC)),
            (
                declare(
                    cast.credentials(),
                    cast.provider(PROVIDER, cast.static(8), PRIMARY, SECONDARY),
                    cast.provider(ELASTIC, cast.elastic(2, 2), PRIMARY, SECONDARY),
                ),
            ),
        ),
    ]


def static_tenant() -> list[Step]:
    """Return the steps of a tenant with a fixed number of addresses."""
    return [
        Step(
            "A tenant cluster asks, and is handed two ranges",
            (clusters.served(WEB, PRIMARY, PRIMARY), pools.pool_in_use(PRIMARY, 13)),
            (declare(cast.cluster(WEB)),),
        ),
        Step(
            "Its load-balancer range is projected into the tenant's MetalLB",
            (tenants.projected(WEB), clusters.phase(WEB, READY)),
        ),
        Step(
            "A Service in the tenant gets an address out of it",
            (tenants.addressed(WEB, "storefront"),),
            (declare_in(WEB, cast.service("storefront")),),
        ),
    ]


def elastic_tenant() -> list[Step]:
    """Return the steps of a tenant that has what it needs."""
    return [
        Step(
            "An elastic tenant begins with two addresses, and uses both",
            (
                clusters.served(SHOP, PRIMARY, PRIMARY),
                clusters.phase(SHOP, READY),
                tenants.projected(SHOP),
                tenants.addressed(SHOP, "checkout"),
                tenants.addressed(SHOP, "cart"),
            ),
            (
                declare(cast.cluster(SHOP, ELASTIC)),
                declare_in(SHOP, cast.service("checkout"), cast.service("cart")),
            ),
        ),
        Step(
            "A third Service goes without an address for a while: the tenant grows",
            (
                clusters.grown(SHOP, 1, PRIMARY),
                tenants.projected(SHOP),
                tenants.addressed(SHOP, "search"),
                pools.pool_in_use(PRIMARY, 22),
            ),
            (declare_in(SHOP, cast.service("search")),),
        ),
        Step(
            "The Service goes, its range is out of use for a while: the tenant shrinks",
            (
                clusters.grown(SHOP, 0),
                tenants.projected(SHOP),
                pools.pool_in_use(PRIMARY, 20),
            ),
            (remove_in(SHOP, SERVICE, Key("default", "search")),),
        ),
    ]
