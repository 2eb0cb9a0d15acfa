"""The story: what a platform's administrators and tenants do, and what must come of it.

The primary pool has 32 addresses for tenants, enough for two tenants of 8 + 5 and a bit. So the
third tenant's load balancers have to go to the secondary pool, while its nodes still fit.
"""

from controller.meta import Key
from reconcilers.api import names
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    PROVIDER_CONFIG,
    TENANT_CLUSTER,
)
from reconcilers.api.tenantcluster import PROVISIONING, READY
from reconcilers.cli.demo import cast, sights
from reconcilers.cli.demo.audit import Witness, adds_up, all_free, vouches
from reconcilers.cli.demo.cast import (
    BATCH,
    BROKEN,
    LOST,
    PINNED,
    PINNED_TWICE,
    PRIMARY,
    PROVIDER,
    SECONDARY,
    SERVED,
    SHOP,
    TOO_LARGE,
    WEB,
)
from reconcilers.cli.demo.farewell import Farewell, let_go_first
from reconcilers.cli.demo.step import Step, declare, declare_in, remove

TENANTS = {"tenant-web": WEB, "tenant-shop": SHOP}
"""The tenants that have an API server, by its name. The third has none yet."""


def story(witness: Witness, farewell: Farewell) -> list[Step]:
    """Return the steps, in order."""
    return [
        *_beginning(),
        *_two_tenants(),
        *_exhaustion(),
        *_oddities(),
        *_ending(witness, farewell),
    ]


def _beginning() -> list[Step]:
    return [
        Step(
            "An administrator declares two pools",
            (sights.pool_in_use(PRIMARY, 0), sights.pool_in_use(SECONDARY, 0)),
            (
                declare(
                    cast.pool(
                        PRIMARY, "10.40.0.0/26", [("10.40.0.16", "10.40.0.47")], ["10.40.0.0/28"]
                    ),
                    cast.pool(SECONDARY, "10.41.0.0/24", [("10.41.0.64", "10.41.0.255")]),
                ),
            ),
        ),
        Step(
            "A provider offers both, the first one first",
            (sights.capacity(PROVIDER),),
            (declare(cast.credentials(), cast.provider(PRIMARY, SECONDARY)),),
        ),
    ]


def _two_tenants() -> list[Step]:
    return [
        Step(
            "A tenant cluster asks, and is handed two ranges",
            (sights.served(WEB, PRIMARY, PRIMARY), sights.pool_in_use(PRIMARY, 13)),
            (declare(cast.cluster(WEB)),),
        ),
        Step(
            "Its load-balancer range is projected into the tenant's MetalLB",
            (sights.projected(WEB), sights.phase(WEB, READY)),
        ),
        Step(
            "A Service in the tenant gets an address out of it",
            (sights.addressed(WEB, "storefront"),),
            (declare_in(WEB, cast.service("storefront")),),
        ),
        Step(
            "A second tenant gets ranges of its own",
            (
                sights.served(SHOP, PRIMARY, PRIMARY),
                sights.projected(SHOP),
                sights.addressed(SHOP, "checkout"),
                sights.phase(SHOP, READY),
            ),
            (declare(cast.cluster(SHOP)), declare_in(SHOP, cast.service("checkout"))),
        ),
    ]


def _exhaustion() -> list[Step]:
    return [
        Step(
            "The primary pool cannot serve a third tenant's load balancers: the secondary does",
            (
                sights.served(BATCH, SECONDARY, PRIMARY),
                sights.pool_in_use(PRIMARY, 31),
                sights.pool_says(PRIMARY, "CapacityExhausted", "True"),
                sights.phase(BATCH, PROVISIONING, "kubeconfig"),
            ),
            (declare(cast.namespace(BATCH.namespace), cast.cluster(BATCH)),),
        ),
    ]


def _oddities() -> list[Step]:
    return [
        Step(
            "Somebody pins a range",
            (sights.pinned(PINNED, "10.41.0.200", "10.41.0.203"),),
            (declare(cast.allocation(PINNED, SECONDARY, pinned=("10.41.0.200", "10.41.0.203"))),),
        ),
        Step(
            "Somebody else pins a part of it, and is refused",
            (sights.refused(PINNED_TWICE, "Failed", "PinnedRangeConflict"),),
            (
                declare(
                    cast.allocation(PINNED_TWICE, SECONDARY, pinned=("10.41.0.203", "10.41.0.206"))
                ),
            ),
        ),
        Step(
            "Bad objects say what is wrong with them, and stop nobody",
            (
                sights.pool_says(BROKEN, "Ready", "False"),
                sights.refused(LOST, "Pending", "PoolNotFound"),
                sights.refused(TOO_LARGE, "Failed", "PoolExhausted"),
                sights.allocated(SERVED),
                adds_up,
            ),
            (
                declare(
                    # A reservation across a range's end: what the CRD alone lets through.
                    cast.pool(
                        BROKEN, "10.42.0.0/24", [("10.42.0.0", "10.42.0.9")], ["10.42.0.8/29"]
                    ),
                    cast.allocation(LOST, "no-such-pool", count=1),
                    cast.allocation(TOO_LARGE, SECONDARY, count=500),
                    cast.allocation(SERVED, SECONDARY, count=6),
                ),
            ),
        ),
    ]


def _ending(witness: Witness, farewell: Farewell) -> list[Step]:
    ours = names.DEFAULT_NAMESPACE
    by_hand = [Key(ours, name) for name in (PINNED, PINNED_TWICE, LOST, TOO_LARGE, SERVED)]
    pools = [Key(ours, name) for name in (PRIMARY, SECONDARY, BROKEN)]
    return [
        Step(
            "The tenant clusters are deleted: the tenants let go first, then the ranges are free",
            (
                let_go_first(farewell, len(TENANTS)),
                sights.withdrawn(WEB),
                sights.withdrawn(SHOP),
                sights.unaddressed(WEB, "storefront"),
                sights.gone((WEB, SHOP, BATCH)),
                all_free(PRIMARY),
            ),
            (remove(TENANT_CLUSTER, WEB, SHOP, BATCH),),
        ),
        Step(
            "What was asked for by hand is deleted too: every address is back",
            (all_free(PRIMARY), all_free(SECONDARY), adds_up),
            (remove(IP_ALLOCATION, *by_hand),),
        ),
        Step(
            "The pools and the provider go, and nothing is left behind",
            (sights.nothing_left, vouches(witness)),
            (remove(PROVIDER_CONFIG, Key(ours, PROVIDER)), remove(NETWORK_POOL, *pools)),
        ),
    ]
