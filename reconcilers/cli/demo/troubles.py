"""The second half of the story: troubles, a lost leader, and everything given back."""

from controller.meta import Key
from reconcilers.api.names import DEFAULT_NAMESPACE
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL, PROVIDER_CONFIG, TENANT_CLUSTER
from reconcilers.api.tenantcluster import INSTALLING, READY
from reconcilers.cli.demo import checks, manifests, promises
from reconcilers.cli.demo.checks import event, phase, pool_in_use
from reconcilers.cli.demo.manifests import (
    BARE,
    BATCH,
    BUSY,
    ELASTIC,
    LATE,
    PRIMARY,
    PROVIDER,
    RESTORED,
    SECONDARY,
    SHOP,
    WEB,
)
from reconcilers.cli.demo.promises import OverlapWatch, ReleaseWatch
from reconcilers.cli.demo.steps import (
    LeaderLoss,
    Step,
    Stopwatch,
    declare,
    give_kubeconfig,
    remove,
)
from reconcilers.cli.demo.world import World
from reconcilers.metallb_install.installer import METALLB_INSTALLED
from reconcilers.settings import TenantSettings
from reconcilers.tenantcluster.status import LOAD_BALANCER_READY

BURST = 48
SIZE = 4
RELEASED = 5
"""Ranges of tenants that answer: three initial ones, and two by which one of them grew."""


def tenants_in_trouble(silent_url: str) -> list[Step]:
    """Return the steps about tenants that are not as they should be.

    Args:
        silent_url: of an API server that never answers.
    """
    return [
        Step(
            "The third tenant's kubeconfig turns up, but its API server never answers",
            (
                checks.addressed(WEB, "blog"),
                checks.says(BATCH, LOAD_BALANCER_READY, "False", "TenantUnreachable"),
            ),
            (
                give_kubeconfig(BATCH, silent_url, WEB),
                declare(manifests.service("blog"), tenant=WEB),
            ),
        ),
        Step(
            "Nobody else waits for it: a fourth tenant gets ranges, and lacks only MetalLB",
            (
                checks.served(BARE, SECONDARY, SECONDARY),
                checks.lacks_metallb(BARE),
                phase(BARE, INSTALLING, "MetalLB"),
            ),
            (declare(manifests.cluster(BARE)),),
        ),
    ]


async def declare_bundle(world: World) -> None:
    """Apply the ConfigMap with the kinds of the MetalLB that is at work here."""
    await declare(manifests.bundle(world.metallb.definitions))(world)


def lost_leader() -> list[Step]:
    """Return the step in which the leader is lost, and what the next one does first."""
    requests = [manifests.allocation(f"burst-{n:02}", BUSY, count=SIZE) for n in range(BURST)]
    loss, watch = LeaderLoss(BUSY, requests), Stopwatch()
    usual = TenantSettings().growth_after
    return [
        Step(
            f"The leader is cut off while it serves {BURST} requests: another one takes over",
            (loss.see, pool_in_use(BUSY, BURST * SIZE)),
            (declare_bundle, declare(manifests.pool(BUSY, "10.48.0.0/24")), loss.act),
        ),
        Step(
            "The new leader was given a bundle with MetalLB: the fourth tenant gets it",
            (
                checks.has_metallb(BARE),
                checks.says(BARE, METALLB_INSTALLED, "True", "Installed"),
                checks.projected(BARE),
                phase(BARE, READY),
                checks.addressed(BARE, "first"),
            ),
            (declare(manifests.service("first"), tenant=BARE),),
        ),
        Step(
            "It also has the fast path: where every address is in use, waiting cannot help",
            (
                checks.grown(SHOP, 1, SECONDARY),
                watch.sooner_than(usual, "the usual wait"),
                checks.projected(SHOP),
                checks.addressed(SHOP, "reviews"),
            ),
            (watch.start, declare(manifests.service("reviews"), tenant=SHOP)),
        ),
    ]


def ending(overlaps: OverlapWatch, releases: ReleaseWatch) -> list[Step]:
    """Return the steps in which everything is given back, in the order that cannot hurt."""
    clusters = (WEB, SHOP, BATCH, BARE)
    providers = (Key(DEFAULT_NAMESPACE, PROVIDER), Key(DEFAULT_NAMESPACE, ELASTIC))
    return [
        Step(
            "The tenant clusters are deleted: the tenants let go first, then the ranges are free",
            (
                lambda world: releases.let_go_first(world, RELEASED),
                checks.withdrawn(WEB),
                checks.withdrawn(SHOP),
                checks.withdrawn(BARE),
                checks.unaddressed(WEB, "storefront"),
                event(TENANT_CLUSTER, BATCH.name, "TeardownGracePassed"),
                checks.gone(clusters),
                promises.all_free(PRIMARY),
            ),
            (remove(TENANT_CLUSTER, *clusters),),
        ),
        Step(
            "A backup brings back an allocation of a cluster that is gone: it is collected",
            (
                event(NETWORK_POOL, LATE, "OrphanedAllocationGC", RESTORED),
                pool_in_use(LATE, 2),
            ),
            (_restore,),
        ),
        Step(
            "What was asked for by hand is deleted too: every address is back",
            (promises.everything_free, promises.adds_up),
            (_remove_all_allocations,),
        ),
        Step(
            "The pools and the providers go, and nothing is left behind",
            (promises.nothing_left, overlaps.never),
            (remove(PROVIDER_CONFIG, *providers), _remove_all_pools),
        ),
    ]


async def _restore(world: World) -> None:
    """Restore an allocation that was a cluster's."""
    await declare(manifests.restored(RESTORED, LATE, WEB, world.uids[WEB]))(world)


async def _remove_all_allocations(world: World) -> None:
    await remove(IP_ALLOCATION, *[one.metadata.key for one in world.allocations])(world)


async def _remove_all_pools(world: World) -> None:
    await remove(NETWORK_POOL, *[one.metadata.key for one in world.pools])(world)
