"""What several integrations hold of NetworkPools, together."""

from collections.abc import Sequence
from typing import Protocol

from typing_extensions import override

from allocator import AddressRange
from controller.meta import Key
from controller.runner import Controller
from reconcilers.api.networkpool import NetworkPool
from reconcilers.networkpool.view import HeldRange, OtherHolders


class SharesNetworkPools(Protocol):
    """An integration that holds addresses of NetworkPools."""

    @property
    def holders(self) -> OtherHolders:
        """What it holds, for the reconciler of NetworkPools."""

    def enqueue_networkpools(self, controller: Controller) -> None:
        """Enqueue, in a controller, NetworkPools whose addresses are handed out or released."""


class AllHolders(OtherHolders):
    """All that any of these holds.

    Args:
        parts: of each integration.
    """

    def __init__(self, parts: Sequence[OtherHolders]) -> None:
        self._parts = parts

    @override
    def held(self, pool: NetworkPool) -> Sequence[AddressRange]:
        return [one for part in self._parts for one in part.held(pool)]

    @override
    def named(self, pool: NetworkPool) -> Sequence[HeldRange]:
        return [one for part in self._parts for one in part.named(pool)]

    @override
    def seen_blockers(self, pool: NetworkPool) -> int:
        return sum(part.seen_blockers(pool) for part in self._parts)

    @override
    async def blockers(self, pool: NetworkPool) -> int:
        return sum([await part.blockers(pool) for part in self._parts])

    @override
    def forget(self, pool: Key) -> None:
        for part in self._parts:
            part.forget(pool)
