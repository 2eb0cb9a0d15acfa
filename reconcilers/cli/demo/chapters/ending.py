"""Everything is given back, in the order that cannot hurt, and the books balance."""

from controller.meta import Key
from reconcilers.api.names import DEFAULT_NAMESPACE
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    PROVIDER_CONFIG,
    TENANT_CLUSTER,
)
from reconcilers.cli.demo import cast
from reconcilers.cli.demo.audit import Witness, adds_up, all_free, nothing_left, vouches
from reconcilers.cli.demo.cast import (
    BARE,
    BATCH,
    ELASTIC,
    LATE,
    PRIMARY,
    PROVIDER,
    RESTORED,
    SHOP,
    WEB,
)
from reconcilers.cli.demo.farewell import Farewell, let_go_first
from reconcilers.cli.demo.sights import clusters, pools, tenants
from reconcilers.cli.demo.sights.events import event
from reconcilers.cli.demo.step import Deed, Step, remove
from reconcilers.cli.demo.world import World
from reconcilers.cli.local.objects import apply

RELEASED = 5
"""Ranges of tenants that answer: three initial ones, and two by which one of them grew."""


def tenants_go(farewell: Farewell) -> list[Step]:
    """Return the steps in which the clusters are deleted, and one allocation comes back."""
    return [
        Step(
            "The tenant clusters are deleted: the tenants let go first, then the ranges are free",
            (
                let_go_first(farewell, RELEASED),
                tenants.withdrawn(WEB),
                tenants.withdrawn(SHOP),
                tenants.withdrawn(BARE),
                tenants.unaddressed(WEB, "storefront"),
                event(TENANT_CLUSTER, BATCH.name, "TeardownGracePassed"),
                clusters.gone((WEB, SHOP, BATCH, BARE)),
                all_free(PRIMARY),
            ),
            (remove(TENANT_CLUSTER, WEB, SHOP, BATCH, BARE),),
        ),
        Step(
            "A backup brings back an allocation of a cluster that is gone: it is collected",
            (
                event(NETWORK_POOL, LATE, "OrphanedAllocationGC", RESTORED),
                pools.pool_in_use(LATE, 2),
            ),
            (restored(RESTORED, LATE, WEB),),
        ),
    ]


def restored(name: str, pool: str, owner: Key) -> Deed:
    """Return the deed of restoring an allocation that was a cluster's."""

    async def act(world: World) -> None:
        manifest = cast.restored(name, pool, owner, world.uids[owner])
        await apply(world.management.transport, manifest)

    return act


def nothing_remains(witness: Witness) -> list[Step]:
    """Return the steps in which all that is left is deleted."""
    return [
        Step(
            "What was asked for by hand is deleted too: every address is back",
            (everything_free, adds_up),
            (remove_all_allocations,),
        ),
        Step(
            "The pools and the providers go, and nothing is left behind",
            (nothing_left, vouches(witness)),
            (
                remove(
                    PROVIDER_CONFIG,
                    *(Key(DEFAULT_NAMESPACE, name) for name in (PROVIDER, ELASTIC)),
                ),
                remove_all_pools,
            ),
        ),
    ]


async def remove_all_allocations(world: World) -> None:
    """Delete every allocation that is left."""
    await remove(IP_ALLOCATION, *[one.metadata.key for one in world.allocations])(world)


async def remove_all_pools(world: World) -> None:
    """Delete every pool."""
    await remove(NETWORK_POOL, *[one.metadata.key for one in world.pools])(world)


def everything_free(world: World) -> list[str]:
    """See all pools free."""
    return [line for one in world.pools for line in all_free(one.metadata.name)(world)]
