"""The story: what administrators and tenants do, and what must come of it.

The first pool has 25 addresses. Two tenants take 20 of them, so that 5 are left for the third.
"""

from controller.meta import Key
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    PROVIDER_CONFIG,
    SERVICE,
)
from reconcilers.api.tenantcluster import PROVISIONING, READY
from reconcilers.cli.demo import checks, manifests, promises
from reconcilers.cli.demo.checks import event, phase, pool_in_use, pool_says
from reconcilers.cli.demo.manifests import (
    BARE,
    BATCH,
    ELASTIC,
    FITS,
    FITS_TOO,
    HOLDER,
    LATE,
    LOST,
    PINNED,
    PINNED_TWICE,
    PRIMARY,
    PROVIDER,
    SECONDARY,
    SEVERAL,
    SHOP,
    SMALL,
    WAITING,
    WEB,
)
from reconcilers.cli.demo.promises import OverlapWatch, ReleaseWatch
from reconcilers.cli.demo.steps import (
    Step,
    changing,
    creating,
    declare,
    deleting,
    refused,
    remove,
    wait_for,
    warned,
)
from reconcilers.cli.demo.troubles import ending, lost_leader, tenants_in_trouble
from reconcilers.cli.local.objects import Manifest
from reconcilers.cli.local.platform import Tenant

TENANTS = (
    Tenant("tenant-web", WEB),
    Tenant("tenant-shop", SHOP),
    Tenant("tenant-bare", BARE, has_metallb=False),
)
RANGES = (
    ("10.46.0.20", "10.46.0.23"),
    ("10.46.0.64", "10.46.0.79"),
    ("10.46.0.200", "10.46.0.207"),
)


def story(overlaps: OverlapWatch, releases: ReleaseWatch, silent_url: str) -> list[Step]:
    """Return the steps, in order.

    Args:
        overlaps: has seen every allocation.
        releases: looks into tenants when ranges are released.
        silent_url: of an API server that never answers.
    """
    return [
        *beginning(),
        *static_tenant(),
        *elastic_tenant(),
        *pools(),
        *waiting(),
        *admission(),
        *tenants_in_trouble(silent_url),
        *lost_leader(),
        *ending(overlaps, releases),
    ]


def beginning() -> list[Step]:
    """Return the steps of administrators."""
    spans, rest = [("10.40.0.16", "10.40.0.40")], [("10.41.0.64", "10.41.0.255")]
    return [
        Step(
            "An administrator declares two pools",
            (pool_in_use(PRIMARY, 0), pool_in_use(SECONDARY, 0)),
            (
                declare(
                    manifests.pool(PRIMARY, "10.40.0.0/26", spans, ["10.40.0.0/28"]),
                    manifests.pool(SECONDARY, "10.41.0.0/24", rest),
                ),
            ),
        ),
        Step(
            "Two providers offer both, the first one first: one static, one elastic",
            (checks.capacity(PROVIDER), checks.capacity(ELASTIC)),
            (
                declare(
                    manifests.credentials(),
                    manifests.provider(PROVIDER, manifests.static(8), PRIMARY, SECONDARY),
                    manifests.provider(ELASTIC, manifests.elastic(2, 2), PRIMARY, SECONDARY),
                ),
            ),
        ),
    ]


def static_tenant() -> list[Step]:
    """Return the steps of a tenant with a fixed number of addresses."""
    return [
        Step(
            "A tenant cluster asks, and is handed two ranges",
            (checks.served(WEB, PRIMARY, PRIMARY), pool_in_use(PRIMARY, 13)),
            (declare(manifests.cluster(WEB)),),
        ),
        Step(
            "Its load-balancer range is projected into the tenant's MetalLB",
            (checks.projected(WEB), phase(WEB, READY)),
        ),
        Step(
            "A Service in the tenant gets an address out of it",
            (checks.addressed(WEB, "storefront"),),
            (declare(manifests.service("storefront"), tenant=WEB),),
        ),
    ]


def elastic_tenant() -> list[Step]:
    """Return the steps of a tenant that has what it needs: it grows and shrinks."""
    services = manifests.service("checkout"), manifests.service("cart")
    return [
        Step(
            "An elastic tenant begins with two addresses, and uses both",
            (
                checks.served(SHOP, PRIMARY, PRIMARY),
                phase(SHOP, READY),
                checks.projected(SHOP),
                checks.addressed(SHOP, "checkout"),
                checks.addressed(SHOP, "cart"),
            ),
            (declare(manifests.cluster(SHOP, ELASTIC)), declare(*services, tenant=SHOP)),
        ),
        Step(
            "A third Service goes without an address for a while: the tenant grows",
            (
                checks.grown(SHOP, 1, PRIMARY),
                checks.projected(SHOP),
                checks.addressed(SHOP, "search"),
                pool_in_use(PRIMARY, 22),
            ),
            (declare(manifests.service("search"), tenant=SHOP),),
        ),
        Step(
            "The Service goes, its range is out of use for a while: the tenant shrinks",
            (checks.grown(SHOP, 0), checks.projected(SHOP), pool_in_use(PRIMARY, 20)),
            (remove(SERVICE, Key("default", "search"), tenant=SHOP),),
        ),
    ]


def pools() -> list[Step]:
    """Return the steps about where ranges lie: the next pool, pinned ranges, several ranges."""
    pin, other = ("10.41.0.200", "10.41.0.203"), ("10.41.0.203", "10.41.0.206")
    return [
        Step(
            "The first pool has no room for a third tenant's load balancers: the second has",
            (
                checks.served(BATCH, SECONDARY, PRIMARY),
                pool_in_use(PRIMARY, 25),
                pool_says(PRIMARY, "CapacityExhausted", "True"),
                event(NETWORK_POOL, PRIMARY, "PoolCapacityExhausted"),
                phase(BATCH, PROVISIONING, "kubeconfig"),
            ),
            (declare(manifests.namespace(BATCH.namespace), manifests.cluster(BATCH)),),
        ),
        Step(
            "Somebody pins a range",
            (checks.pinned(PINNED, *pin),),
            (declare(manifests.allocation(PINNED, SECONDARY, pinned=pin)),),
        ),
        Step(
            "Somebody else pins a part of it, and has to wait",
            (checks.unserved(PINNED_TWICE, "Failed", "PinnedRangeConflict"),),
            (declare(manifests.allocation(PINNED_TWICE, SECONDARY, pinned=other)),),
        ),
        Step(
            "A pool is what an old network left free: each request gets the stretch it fits best",
            (
                checks.pinned(FITS, *RANGES[2]),
                checks.pinned(FITS_TOO, *RANGES[0]),
                pool_in_use(SEVERAL, 12),
            ),
            (
                declare(
                    manifests.pool(SEVERAL, "10.46.0.0/24", RANGES),
                    manifests.allocation(FITS, SEVERAL, count=8),
                    manifests.allocation(FITS_TOO, SEVERAL, count=4),
                ),
            ),
        ),
    ]


def waiting() -> list[Step]:
    """Return the steps of those who wait, and of how they are served."""
    small, holder = manifests.pool(SMALL, "10.42.0.0/29"), manifests.allocation(HOLDER, SMALL, 8)
    late, lost = manifests.allocation(WAITING, SMALL, 3), manifests.allocation(LOST, LATE, 2)
    wider = manifests.pool(SMALL, "10.42.0.0/28"), manifests.pool(LATE, "10.44.0.0/28")
    return [
        Step(
            "Two requests have to wait, and say for what",
            (
                pool_says(SMALL, "CapacityExhausted", "True"),
                event(NETWORK_POOL, SMALL, "PoolCapacityExhausted"),
                checks.unserved(WAITING, "Failed", "PoolExhausted"),
                checks.unserved(LOST, "Pending", "PoolNotFound"),
            ),
            # The age of a request is told in seconds; of two made in the same one, the first by
            # name is served first.
            (declare(small, holder), wait_for(checks.allocated(HOLDER)), declare(late, lost)),
        ),
        Step(
            "One pool is widened and the other declared: both requests are served at once",
            (
                checks.allocated(WAITING),
                checks.allocated(LOST),
                event(NETWORK_POOL, SMALL, "PoolCapacityRecovered", "95%"),
                promises.adds_up,
            ),
            (declare(*wider),),
        ),
    ]


def admission() -> list[Step]:
    """Return the steps in which the CRDs' rules and the webhooks stop somebody, or warn."""
    narrow = {"tenantAllocation": {"ranges": [{"start": "10.40.0.30", "end": "10.40.0.40"}]}}
    larger = {"pinnedRange": {"startAddress": "10.41.0.200", "endAddress": "10.41.0.210"}}
    over = {"reserved": [{"cidr": "10.41.0.200/30"}]}
    across = manifests.pool("typo", "10.45.0.0/24", [("10.45.0.0", "10.45.0.9")], ["10.45.0.8/29"])
    twice = manifests.pool("odd", "10.45.0.0/24", reserved=["10.45.0.0/28", "10.45.0.8/29"])
    held = f'IPAllocation "{PINNED}"'
    no_pools: Manifest = {"network": {"poolRefs": []}}
    in_use = "is still in phase Allocated"
    too_large = manifests.allocation("too-large", SEVERAL, count=20)
    early = manifests.allocation("early", "nowhere", count=1)
    odd, size = manifests.pool("odd", "10.41.0.5/24"), "spec.count"
    pool, request, provider = NETWORK_POOL, IP_ALLOCATION, PROVIDER_CONFIG
    return [
        refused(
            "Nobody takes away what is handed out",
            changing("ranges that leave allocations out", pool, PRIMARY, narrow, "IPAllocation"),
            changing("a reservation over allocations", pool, SECONDARY, over, held),
            changing("a CIDR that is narrowed", pool, SECONDARY, {"cidr": "10.41.0.0/25"}, "cidr"),
            deleting("a pool is deleted whose addresses are in use", pool, PRIMARY, in_use),
        ),
        refused(
            "Nobody asks for what cannot be",
            changing("an allocation that is made larger", request, PINNED, larger, "spec"),
            creating(
                "more addresses in a row than the pool has in any of its ranges",
                request,
                too_large,
                size,
            ),
            creating("a reservation across a range's end", pool, across, "straddles"),
            changing("a provider without pools", provider, PROVIDER, no_pools, "poolRef"),
        ),
        warned(
            "What is odd, but possible, is let through with a warning",
            creating(
                "a CIDR with host bits, all of which another pool has too", pool, odd, "host bits"
            ),
            creating("two reservations that overlap", pool, twice, "overlap"),
            creating("a request of a pool that does not exist", request, early, "does not exist"),
        ),
    ]
