"""What IPAllocations hold of NetworkNamespaces, to be shown and audited.

A network's own summary may be a moment behind. Networks of type dhcp are not shown.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from allocator import AddressRange, InvalidPool
from controller.meta import Key
from reconcilers.addressing import addresstexts
from reconcilers.integrations.core.heldparts import HeldPart
from reconcilers.integrations.core.views import (
    Wanted,
    every_pool,
)
from reconcilers.integrations.vitistack.api import (
    JOURNALS,
    NETWORKS,
    RELEASED,
    IPAllocation,
    NetworkNamespace,
)
from reconcilers.integrations.vitistack.caches import (
    VitistackCaches,
    network_holdings,
    problem_of,
    static_of,
)
from reconcilers.integrations.vitistack.ranges import NetworkSpace, space_of
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.unreadable import UnreadableObject, find_unreadable
from reconcilers.spaces.offers import PoolName


@dataclass(frozen=True, slots=True)
class NetworkContents:
    """What a network may hand out, and what is held of it.

    Args:
        network: the network.
        space: what it may hand out; None if its settings make no sense.
        fault: why it hands out nothing; empty if it does.
        holdings: what is held, and which allocations wait.
        allocations: those that name it, by key.
        unreadable: objects that may hold some of it and cannot be decoded.
    """

    network: NetworkNamespace
    space: NetworkSpace | None
    fault: str
    holdings: Holdings | None
    allocations: Mapping[Key, IPAllocation]
    unreadable: Sequence[UnreadableObject] = ()

    def held(self) -> Iterator[HeldPart]:
        """Yield what is held and what is promised."""
        if self.space is None:
            return
        for key, one in self.allocations.items():
            text = one.status.address if one.status.phase != RELEASED else ""
            address = addresstexts.parse_ends(text, text) if text else None
            if address is not None:
                yield HeldPart(address, "held", key)
        for promise in JOURNALS.read(self.network).promises:
            found = self.allocations.get(promise.key)
            version = (found.metadata.uid, found.metadata.resourceVersion) if found else None
            if version == promise.identity:
                for promised in promise.in_space():
                    yield HeldPart(promised, "promised", promise.key)

    def promised(self) -> list[AddressRange]:
        """Return what is promised and not written yet."""
        return [one.range for one in self.held() if one.state == "promised"]


def contents_of(caches: VitistackCaches, wanted: Wanted = every_pool) -> Iterator[NetworkContents]:
    """Yield every network with a static configuration and what is held of it, by key.

    Args:
        caches: the objects.
        wanted: which networks.
    """
    for network in sorted(caches.networks, key=lambda one: one.metadata.key):
        static = static_of(network)
        if static is None or not wanted(PoolName(NETWORKS.kind, network.metadata.key)):
            continue
        found = {one.metadata.key: one for one in caches.of_network(network.metadata.key)}
        problem = problem_of(network, network.metadata.name)
        fault = problem.message if problem is not None else ""
        key, unread = network.metadata.key, caches.allocations.unreadable
        unreadable = find_unreadable(partial(caches.check_readable, key, unread))
        try:
            space = space_of(static)
        except InvalidPool:
            yield NetworkContents(network, None, fault, None, found, unreadable)
            continue
        holdings = network_holdings(found.values(), space)
        yield NetworkContents(network, space, fault, holdings, found, unreadable)
