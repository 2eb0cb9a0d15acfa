"""A tenant without MetalLB, one that never answers, and a leader that is lost in between."""

from reconcilers.api.tenantcluster import INSTALLING, READY
from reconcilers.cli.demo import cast
from reconcilers.cli.demo.cast import BARE, BATCH, BUSY, SECONDARY, SHOP, WEB
from reconcilers.cli.demo.handover import Handover
from reconcilers.cli.demo.sights import clusters, pools, tenants
from reconcilers.cli.demo.silence import leads_to
from reconcilers.cli.demo.step import Step, declare, declare_in
from reconcilers.cli.demo.world import World
from reconcilers.cli.local.objects import apply
from reconcilers.settings import TenantSettings
from reconcilers.tenantcluster.status import LOAD_BALANCER_READY, METALLB_INSTALLED

BURST = 48
SIZE = 4


def tenants_in_trouble(silent_url: str) -> list[Step]:
    """Return the steps about tenants that are not as they should be.

    Args:
        silent_url: of an API server that never answers.
    """
    return [
        Step(
            "The third tenant's kubeconfig turns up, but its API server never answers",
            (
                tenants.addressed(WEB, "blog"),
                clusters.says(BATCH, LOAD_BALANCER_READY, "False", "TenantUnreachable"),
            ),
            (
                leads_to(BATCH, silent_url, WEB),
                declare_in(WEB, cast.service("blog")),
            ),
        ),
        Step(
            "Nobody else waits for it: a fourth tenant gets ranges, and lacks only MetalLB",
            (
                clusters.served(BARE, SECONDARY, SECONDARY),
                tenants.lacks_metallb(BARE),
                clusters.phase(BARE, INSTALLING, "MetalLB"),
            ),
            (declare(cast.cluster(BARE)),),
        ),
    ]


async def declare_bundle(world: World) -> None:
    """Apply the ConfigMap with the kinds of the MetalLB that is at work here."""
    await apply(world.management.transport, cast.bundle(world.metallb.definitions))


def lost_leader() -> list[Step]:
    """Return the step in which the leader is lost, and the heir's first deeds."""
    requests = [cast.allocation(f"burst-{number:02}", BUSY, count=SIZE) for number in range(BURST)]
    handover, watch = Handover(BUSY, requests), clusters.Stopwatch()
    usual = TenantSettings().growth_after
    return [
        Step(
            f"The leader is cut off while it serves {BURST} requests: another one takes over",
            (handover.see, pools.pool_in_use(BUSY, BURST * SIZE)),
            (declare_bundle, declare(cast.pool(BUSY, "10.48.0.0/24", [])), handover.act),
        ),
        Step(
            "The new leader was given a bundle with MetalLB: the fourth tenant gets it",
            (
                tenants.has_metallb(BARE),
                clusters.says(BARE, METALLB_INSTALLED, "True", "Installed"),
                tenants.projected(BARE),
                clusters.phase(BARE, READY),
                tenants.addressed(BARE, "first"),
            ),
            (declare_in(BARE, cast.service("first")),),
        ),
        Step(
            "It also has the fast path: where every address is in use, waiting cannot help",
            (
                clusters.grown(SHOP, 1, SECONDARY),
                watch.sooner_than(usual, "the usual wait"),
                tenants.projected(SHOP),
                tenants.addressed(SHOP, "reviews"),
            ),
            (watch.start, declare_in(SHOP, cast.service("reviews"))),
        ),
    ]
