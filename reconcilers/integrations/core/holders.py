"""What several integrations hold of NetworkPools, together."""

from collections.abc import Sequence

from typing_extensions import override

from allocator import AddressRange
from reconcilers.api.networkpool import NetworkPool
from reconcilers.networkpool.view import OtherHolders


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
    def named(self, pool: NetworkPool) -> Sequence[tuple[str, AddressRange]]:
        return [one for part in self._parts for one in part.named(pool)]

    @override
    async def blockers(self, pool: NetworkPool) -> int:
        return sum([await part.blockers(pool) for part in self._parts])
