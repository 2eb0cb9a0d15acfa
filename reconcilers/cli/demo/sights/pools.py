"""What is seen of pools, and of providers that offer them."""

from collections.abc import Sequence

from controller.meta import Key
from reconcilers.api import names
from reconcilers.api.networkpool import NetworkPool
from reconcilers.cli.demo.sights.common import condition_of
from reconcilers.cli.demo.step import Sight
from reconcilers.cli.demo.world import NotYet, World, there
from reconcilers.conditions import READY


def pool_in_use(name: str, used: int) -> Sight:
    """See a pool that serves, with `used` addresses handed out."""

    def look(world: World) -> Sequence[str]:
        pool = world.pool(name)
        condition_of(f"NetworkPool {name}", pool.status.conditions, READY, "True")
        if pool.status.allocatedIPs != used:
            raise NotYet(f"NetworkPool {name} has {pool.status.allocatedIPs} addresses in use")
        return [_told_pool(pool)]

    return look


def _told_pool(pool: NetworkPool) -> str:
    status = pool.status
    return (
        f"NetworkPool {pool.metadata.name}: {status.allocatedIPs} of {status.totalIPs} addresses"
        f" in use, the largest free block has"
        f" {status.largestFreeBlock}"
    )


def pool_says(name: str, condition: str, status: str) -> Sight:
    """See a condition of a pool."""

    def look(world: World) -> Sequence[str]:
        found = condition_of(
            f"NetworkPool {name}", world.pool(name).status.conditions, condition, status
        )
        return [f"NetworkPool {name}: {condition} is {found.status}, {found.message}"]

    return look


def capacity(name: str) -> Sight:
    """See what a provider reports to have left."""

    def look(world: World) -> Sequence[str]:
        found = there(world.providers, Key(names.DEFAULT_NAMESPACE, name))
        said = condition_of(
            f"ProviderConfig {name}", found.status.conditions, "PoolAvailable", "True"
        )
        condition_of(f"ProviderConfig {name}", found.status.conditions, READY, "True")
        return [f"ProviderConfig {name}: {said.message}"]

    return look
