"""A pool that is being deleted: hands out nothing, goes when nobody holds its addresses.

Ranges in a status and open promises block it; requests that hold nothing do not. The cache may
say that somebody still holds a range, only a live LIST may say that nobody does. A late write
cannot slip through: a promise is either settled here for good, or it blocks.
"""

from controller.client import Client
from controller.finalizers import remove_finalizer
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.networkpool.protocol import settle
from reconcilers.networkpool.view import Reader, View


def blockers(pool: NetworkPool, view: View) -> int:
    """Return how many allocations hold, or may still come to hold, a range of the pool."""
    holders = {a.metadata.uid for a in view.of_pool if ranges.held(a) is not None}
    promised = {promise.uid for promise in settle(pool, view).open}
    return len(holders | promised)


async def remaining(pool: NetworkPool, reader: Reader) -> tuple[int, View]:
    """Return how many block the pool's deletion, and the view that shows it.

    Raises:
        ControllerError: the LIST that has to prove that nobody does failed.
    """
    cached = reader.cached(pool.metadata.key)
    count = blockers(pool, cached)
    if count:
        return count, cached
    listed = await reader.live(pool.metadata.key)
    return blockers(pool, listed), listed


async def release(client: Client, pool: NetworkPool) -> None:
    """Take our finalizer off, with the pool's resourceVersion as precondition.

    Raises:
        Conflict: the pool changed since it was read; read again and start over.
        ControllerError: the write failed.
    """
    await remove_finalizer(client, NETWORK_POOL, pool, names.FINALIZER_POOL)
