"""List the addresses that IPAllocations hold of NetworkNamespaces, for views and audits.

They are read from the IPAllocations, because a network's own summary may be stale. Networks
without static settings, such as those of type dhcp, are left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from allocator import AddressRange, InvalidPool
from controller.meta import Key
from reconcilers.addressing import addresstexts
from reconcilers.integrations.core.heldparts import HeldPart, list_open_promises
from reconcilers.integrations.core.views import (
    Wanted,
    want_every_pool,
)
from reconcilers.integrations.vitistack.api import (
    JOURNALS,
    NETWORKS,
    RELEASED,
    NetworkNamespace,
    VitistackAllocation,
)
from reconcilers.integrations.vitistack.caches import (
    VitistackCaches,
    compute_network_holdings,
    find_problem,
    find_static,
)
from reconcilers.integrations.vitistack.ranges import NetworkSpace, parse_space
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.identities import find_by_key
from reconcilers.promises.unreadable import UnreadableObject, find_unreadable
from reconcilers.spaces.offers import PoolName


@dataclass(frozen=True, slots=True)
class NetworkContents:
    """A network, the addresses that it may hand out, and those that are held.

    Args:
        space: the addresses that it may hand out; None if its settings are invalid.
        fault: why it hands out nothing now; empty if it hands out addresses.
        holdings: what is held, and which IPAllocations wait; None without space.
        allocations: the IPAllocations that name it, by key.
        unreadable: objects that may hold its addresses and cannot be decoded.
    """

    network: NetworkNamespace
    space: NetworkSpace | None
    fault: str
    holdings: Holdings | None
    allocations: Mapping[Key, VitistackAllocation]
    unreadable: Sequence[UnreadableObject] = ()

    def list_held_parts(self) -> Iterator[HeldPart]:
        """Yield the addresses that IPAllocations hold, then those that the journal promises."""
        if self.space is None:
            return
        for key, allocation in self.allocations.items():
            address_text = allocation.status.address if allocation.status.phase != RELEASED else ""
            address = addresstexts.parse_ends(address_text, address_text) if address_text else None
            if address is not None:
                yield HeldPart(address, "held", key)
        find = find_by_key(JOURNALS.kind, self.allocations.get)
        for promise in list_open_promises(JOURNALS.read(self.network), find):
            for promised in promise.list_ranges_in_space():
                yield HeldPart(promised, "promised", promise.key)

    def list_promised_ranges(self) -> list[AddressRange]:
        """Return the ranges of open promises, which no status shows yet."""
        return [part.range for part in self.list_held_parts() if part.state == "promised"]


def list_contents(
    caches: VitistackCaches, is_wanted: Wanted = want_every_pool
) -> Iterator[NetworkContents]:
    """Yield every network with a static configuration and what is held of it, by key.

    Args:
        caches: the objects.
        is_wanted: returns whether to yield a network.
    """
    for network in sorted(caches.networks, key=lambda network: network.metadata.key):
        static = find_static(network)
        if static is None or not is_wanted(PoolName(NETWORKS.kind, network.metadata.key)):
            continue
        allocations = {
            allocation.metadata.key: allocation
            for allocation in caches.list_allocations_in(network.metadata.key)
        }
        problem = find_problem(network, network.metadata.name)
        fault = problem.message if problem is not None else ""
        key, unread = network.metadata.key, caches.allocations.unreadable
        unreadable = find_unreadable(partial(caches.check_readable, key, unread))
        try:
            space = parse_space(static)
        except InvalidPool:
            yield NetworkContents(
                network,
                None,
                fault=fault,
                holdings=None,
                allocations=allocations,
                unreadable=unreadable,
            )
            continue
        holdings = compute_network_holdings(allocations.values(), space)
        yield NetworkContents(
            network,
            space,
            fault=fault,
            holdings=holdings,
            allocations=allocations,
            unreadable=unreadable,
        )
