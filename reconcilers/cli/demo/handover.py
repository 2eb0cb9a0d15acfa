"""Losing the leader in the midst of its work.

The leader is cut off from the API server and not told: what it had under way is lost or was done,
nobody knows. It still believes that it leads until it cannot renew the lease; the other replica
waits until the lease has passed, and goes on from what is written.
"""

from collections.abc import Sequence

from controller.meta import Key
from reconcilers.api.ipallocation import ALLOCATED, IPAllocation
from reconcilers.api.names import DEFAULT_NAMESPACE
from reconcilers.cli.demo.timing import ELECTION
from reconcilers.cli.demo.world import NotYet, World, there
from reconcilers.cli.local import admission
from reconcilers.cli.local.objects import Manifest, apply
from reconcilers.cli.local.replicas import Replica

LEASE = Key(ELECTION.lease_namespace, ELECTION.lease_name)
PATIENCE = 30.0


class Handover:
    """A burst of requests, in the midst of which the leader is lost.

    Args:
        pool: that all of them name.
        requests: the IPAllocations.
    """

    def __init__(self, pool: str, requests: Sequence[Manifest]) -> None:
        self._pool = pool
        self._requests = requests
        self._lost = ""
        self._served = 0

    async def act(self, world: World) -> None:
        """Ask for half, cut the leader off while it serves them, ask for the other half.

        Raises:
            NotYet: nobody leads, or nobody is served.
        """
        half = len(self._requests) // 2
        for manifest in self._requests[:half]:
            await apply(world.management.transport, manifest)
        await world.until(self._begun, PATIENCE)
        leader, heir = self._roles(world)
        await admission.redirect(world.management.client, await heir.webhook_port())
        await leader.cut_off()
        self._lost, self._served = leader.name, len(self._done(world))
        for manifest in self._requests[half:]:
            await apply(world.management.transport, manifest)

    def see(self, world: World) -> Sequence[str]:
        """See the other replica lead, and everybody served."""
        holder = _holder(world)
        if holder in ("", self._lost):
            raise NotYet(f"the lease is still that of {holder or 'nobody'}")
        done, whole = len(self._done(world)), len(self._requests)
        if done < whole:
            raise NotYet(f"{done} of {whole} IPAllocations of {self._pool} are served")
        return [
            (
                f"{self._lost} led, and was cut off from the API server when it had served"
                f" {self._served} of {whole} requests; {holder} took the lease"
            ),
            f"NetworkPool {self._pool}: all {whole} are served",
        ]

    def _begun(self, world: World) -> Sequence[str]:
        if not self._done(world):
            raise NotYet(f"no IPAllocation of {self._pool} is served")
        return ()

    def _done(self, world: World) -> list[IPAllocation]:
        return [
            one
            for one in world.allocations
            if one.pool_key == Key(DEFAULT_NAMESPACE, self._pool) and one.status.phase == ALLOCATED
        ]

    def _roles(self, world: World) -> tuple[Replica, Replica]:
        """Return who leads, and who waits."""
        holder = _holder(world)
        leader = [one for one in world.replicas if one.name == holder]
        others = [one for one in world.replicas if one.name != holder]
        if not leader or not others:
            raise NotYet(f"the lease is that of {holder or 'nobody'}")
        return leader[0], others[0]


def _holder(world: World) -> str:
    return there(world.leases, LEASE).spec.holderIdentity or ""
