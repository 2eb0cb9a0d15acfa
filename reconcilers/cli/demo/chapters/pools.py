"""The next pool by priority, pinned ranges, several ranges, and requests that have to wait.

The first pool has 25 addresses: the two tenants hold 20 of them, so that 5 are left.
"""

from reconcilers.api.resources import NETWORK_POOL
from reconcilers.api.tenantcluster import PROVISIONING
from reconcilers.cli.demo import cast
from reconcilers.cli.demo.audit import adds_up
from reconcilers.cli.demo.cast import (
    BATCH,
    FITS,
    FITS_TOO,
    HOLDER,
    LATE,
    LOST,
    PINNED,
    PINNED_TWICE,
    PRIMARY,
    SECONDARY,
    SEVERAL,
    SMALL,
    WAITING,
)
from reconcilers.cli.demo.sights import allocations, clusters, pools
from reconcilers.cli.demo.sights.events import event
from reconcilers.cli.demo.step import Step, declare, wait_for

RANGES = (
    ("10.46.0.20", "10.46.0.23"),
    ("10.46.0.64", "10.46.0.79"),
    ("10.46.0.200", "10.46.0.207"),
)


def exhaustion() -> list[Step]:
    """Return the step in which the first pool gets full."""
    return [
        Step(
            "The first pool has no room for a third tenant's load balancers: the second has",
            (
                clusters.served(BATCH, SECONDARY, PRIMARY),
                pools.pool_in_use(PRIMARY, 25),
                pools.pool_says(PRIMARY, "CapacityExhausted", "True"),
                event(NETWORK_POOL, PRIMARY, "PoolCapacityExhausted"),
                clusters.phase(BATCH, PROVISIONING, "kubeconfig"),
            ),
            (declare(cast.namespace(BATCH.namespace), cast.cluster(BATCH)),),
        ),
    ]


def ranges_by_hand() -> list[Step]:
    """Return the steps about where ranges lie."""
    return [
        Step(
            "Somebody pins a range",
            (allocations.pinned(PINNED, "10.41.0.200", "10.41.0.203"),),
            (declare(cast.allocation(PINNED, SECONDARY, pinned=("10.41.0.200", "10.41.0.203"))),),
        ),
        Step(
            "Somebody else pins a part of it, and has to wait",
            (allocations.unserved(PINNED_TWICE, "Failed", "PinnedRangeConflict"),),
            (
                declare(
                    cast.allocation(PINNED_TWICE, SECONDARY, pinned=("10.41.0.203", "10.41.0.206"))
                ),
            ),
        ),
        Step(
            "A pool is what an old network left free: each request gets the stretch it fits best",
            (
                allocations.pinned(FITS, "10.46.0.200", "10.46.0.207"),
                allocations.pinned(FITS_TOO, "10.46.0.20", "10.46.0.23"),
                pools.pool_in_use(SEVERAL, 12),
            ),
            (
                declare(
                    cast.pool(SEVERAL, "10.46.0.0/24", RANGES),
                    cast.allocation(FITS, SEVERAL, count=8),
                    cast.allocation(FITS_TOO, SEVERAL, count=4),
                ),
            ),
        ),
    ]


def waiting() -> list[Step]:
    """Return the steps of those who wait, and of how they are served."""
    return [
        Step(
            "Two requests have to wait, and say for what",
            (
                pools.pool_says(SMALL, "CapacityExhausted", "True"),
                event(NETWORK_POOL, SMALL, "PoolCapacityExhausted"),
                allocations.unserved(WAITING, "Failed", "PoolExhausted"),
                allocations.unserved(LOST, "Pending", "PoolNotFound"),
            ),
            (
                declare(
                    cast.pool(SMALL, "10.42.0.0/29", []), cast.allocation(HOLDER, SMALL, count=8)
                ),
                # The age of a request is told in seconds; of two made in the same one, the first
                # by name is served first.
                wait_for(allocations.allocated(HOLDER)),
                declare(
                    cast.allocation(WAITING, SMALL, count=3),
                    cast.allocation(LOST, LATE, count=2),
                ),
            ),
        ),
        Step(
            "One pool is widened and the other declared: both requests are served at once",
            (
                allocations.allocated(WAITING),
                allocations.allocated(LOST),
                event(NETWORK_POOL, SMALL, "PoolCapacityRecovered", "95%"),
                adds_up,
            ),
            (declare(cast.pool(SMALL, "10.42.0.0/28", []), cast.pool(LATE, "10.44.0.0/28", [])),),
        ),
    ]
