"""What a pass over a network reads: the IPAllocations that name it, as far as it has to.

The position is what the watch of IPAllocations delivered; own answers never move it, or a replica
could believe to have read what it only wrote.
"""

from controller.client import Client
from controller.clock import Clock
from controller.meta import Key
from reconcilers.integrations.core.contents import KeptContents, Source, contents_of
from reconcilers.integrations.core.rules import View
from reconcilers.integrations.vitistack.api import ALLOCATIONS, IPAllocation
from reconcilers.integrations.vitistack.ranges import NetworkSpace
from reconcilers.integrations.vitistack.world import World, holding, space_name
from reconcilers.networkpool.view import CacheWait


class Reader:
    """Reads what the IPAllocations of a network hold.

    Args:
        client: for lists.
        world: the caches.
        clock: the time.
        patience: seconds to wait for the cache before the server is asked.
    """

    def __init__(self, client: Client, world: World, clock: Clock, patience: float) -> None:
        self._client = client
        self._world = world
        self._wait = CacheWait(clock, patience)
        self._source = Source(ALLOCATIONS.full_name, world.allocations, holding)
        self._kept = KeptContents[NetworkSpace]([self._source], space_name)

    def cached(self, network: Key, space: NetworkSpace) -> View[IPAllocation]:
        """Return the view that the cache gives, however old it is."""
        allocations = self._world.allocations
        contents = self._kept.contents(str(network), space)
        return View(allocations.position, contents, allocations.get, allocations.get)

    async def at_least(
        self, network: Key, space: NetworkSpace, revision: int
    ) -> View[IPAllocation]:
        """Return a view that has read as far as `revision`, or all that there are now.

        Raises:
            Behind: the cache may still get there.
            ControllerError: the list failed.
        """
        if self._wait.has_read(self._world.allocations, revision, network):
            return self.cached(network, space)
        found, position = await self.live(network)
        contents = contents_of(space, [(self._source, found.values())])
        return View(position, contents, found.get, found.get)

    async def live(self, network: Key) -> tuple[dict[Key, IPAllocation], int]:
        """Return the IPAllocations of a network by a list that begins now, and its revision."""
        page = await self._client.list(ALLOCATIONS, namespace=network.namespace)
        mine = {one.metadata.key: one for one in page.items if one.network == network}
        return mine, page.revision

    def forget(self, network: Key) -> None:
        """Forget a network that is gone."""
        self._kept.forget(str(network))
        self._wait.forget(network)
