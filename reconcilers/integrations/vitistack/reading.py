"""What a pass over a network reads: its IPAllocations, and the addresses that its machines show.

IPAllocations are read as far as a pass has to. The position of a view is what their watch
delivered; own answers never move it, or a replica could believe to have read what it only wrote.
"""

from collections.abc import Mapping, Sequence

from controller.cache import Change
from controller.client import Client
from controller.clock import Clock
from controller.meta import Key
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.core.rules import SpaceView
from reconcilers.integrations.vitistack.api import (
    ALLOCATIONS,
    CONFIGURATIONS,
    JOURNALS,
    NetworkConfiguration,
    VitistackAllocation,
)
from reconcilers.integrations.vitistack.caches import (
    VitistackCaches,
    addresses_of,
    allocation_facts,
    holder_of,
    is_made_for,
    network_holdings,
    space_name,
)
from reconcilers.integrations.vitistack.ranges import NetworkSpace
from reconcilers.promises.holdings import (
    CHECK_SECONDS,
    Facts,
    KeptHoldings,
    indexed_source,
)
from reconcilers.promises.identities import Holder, find_by_key
from reconcilers.promises.reading import CacheWait


class VitistackReader:
    """Reads what the IPAllocations of a network hold.

    Args:
        client: for lists.
        clock: the time.
        patience: seconds to wait for the cache before the server is read.
        check_interval: seconds between two checks of what is kept of a network.
    """

    def __init__(
        self,
        client: Client,
        caches: VitistackCaches,
        clock: Clock,
        patience: float,
        check_interval: float = CHECK_SECONDS,
    ) -> None:
        self._client = client
        self._caches = caches
        self._wait = CacheWait(clock, patience)
        self._kept = KeptHoldings[str, NetworkSpace](
            [indexed_source(caches.allocations, SPACE_INDEX, pools=space_name, holder=holder_of)],
            self._facts_of,
            lambda space: space.layouts,
            clock=clock,
            check_interval=check_interval,
        )

    def _facts_of(self, network: str, holder: Holder, space: NetworkSpace) -> Facts | None:
        """Return the facts of an allocation for its network, by the cache."""
        allocation = self._caches.allocations.get(holder.key)
        if allocation is None or network not in space_name(allocation):
            return None
        return allocation_facts(allocation, space)

    def read_cached(self, network: Key, space: NetworkSpace) -> SpaceView[VitistackAllocation]:
        """Return the view that the cache gives, however old it is."""
        allocations = self._caches.allocations
        return SpaceView(
            allocations.position,
            self._kept.holdings(str(network), space),
            find=find_by_key(JOURNALS.kind, allocations.get),
            unreadable=allocations.unreadable.keys(),
        )

    async def read_up_to(
        self, network: Key, space: NetworkSpace, revision: int
    ) -> SpaceView[VitistackAllocation]:
        """Return a view that has read as far as `revision`, or all that there are now.

        Raises:
            Behind: the cache may still get there.
            UnreadableHolders: objects that may hold its addresses cannot be decoded.
            ControllerError: the list failed.
        """
        self._caches.check_readable(network, self._caches.allocations.unreadable)
        if self._wait.has_read(self._caches.allocations, revision, network):
            return self.read_cached(network, space)
        allocations, position = await self.live(network)
        find = find_by_key(JOURNALS.kind, allocations.get)
        return SpaceView(
            position,
            network_holdings(allocations.values(), space),
            find=find,
        )

    async def live(self, network: Key) -> tuple[dict[Key, VitistackAllocation], int]:
        """Return the IPAllocations of a network by a list that begins now, and its revision.

        Raises:
            UnreadableHolders: objects that may hold its addresses cannot be decoded.
            ControllerError: the list failed.
        """
        page = await self._client.list(ALLOCATIONS, namespace=network.namespace)
        self._caches.check_readable(network, page.unreadable)
        allocations = {
            allocation.metadata.key: allocation
            for allocation in page.items
            if allocation.network == network
        }
        self._wait.note_list(network, allocations.values())
        return allocations, page.revision

    def forget(self, network: Key) -> None:
        """Forget a network that is gone."""
        self._kept.forget(str(network))
        self._wait.forget(network)


class ShownAddresses:
    """The addresses that machines have and no IPAllocation of theirs holds, kept between passes.

    An operator that makes no IPAllocations gave them, or the IPAllocation was deleted. The
    NetworkConfiguration that shows one gets an IPAllocation that requests it, and shows none until
    that has it.

    There are few of them at most times, and every pass reads them. So a change notes the machine
    that it concerns, nothing else; the next pass reads those machines.
    """

    def __init__(self, caches: VitistackCaches) -> None:
        self._caches = caches
        self._noted = {configuration.metadata.key for configuration in caches.configurations}
        self._shown: dict[str, dict[Key, frozenset[str]]] = {}
        caches.configurations.subscribe(self._note_machine)
        caches.allocations.subscribe(self._note_allocation)

    def of_network(self, network: Key) -> Mapping[str, Key]:
        """Return addresses of a network with the NetworkConfigurations that show them."""
        while self._noted:
            self._read_machine(self._noted.pop())
        shown_addresses: dict[str, Key] = {}
        for key, texts in self._shown.get(network.namespace, {}).items():
            configuration = self._caches.configurations.get(key)
            if configuration is not None and self._may_be_in(configuration, network):
                shown_addresses.update(dict.fromkeys(texts, key))
        return shown_addresses

    async def read_live(self, client: Client, network: Key) -> Mapping[str, Key]:
        """Return all addresses that machines of a network show, also those that they hold.

        NetworkConfigurations are read by a list that begins now. Another operator gives an address
        by one write of a NetworkConfiguration, which no journal announces. What it wrote before
        the list began is in the list, however far the cache lags. What only the cache shows is
        held too: it is nothing new, and its event is to come.

        The cache of IPAllocations may lag, too: one that it shows may be deleted, while its
        machine still has the address. So nothing is left out because a cached one holds it.

        Args:
            client: for the list.
            network: whose addresses.

        Raises:
            UnreadableHolders: NetworkConfigurations that may show some cannot be decoded.
            ControllerError: the list failed.
        """
        page = await client.list(CONFIGURATIONS, namespace=network.namespace)
        self._caches.check_readable(network, {}, page.unreadable)
        live = {
            address: configuration.metadata.key
            for configuration in page.items
            if self._may_be_in(configuration, network)
            for address in _shown_by(
                configuration, self._caches.of_configuration(configuration.metadata.key)
            )
        }
        return {**self.of_network(network), **live}

    def _may_be_in(self, configuration: NetworkConfiguration, network: Key) -> bool:
        """Return whether a machine may have addresses of a network, and is not being deleted."""
        is_of_network = configuration.spec.networkNamespaceName in {"", network.name}
        return (
            is_of_network
            and not configuration.metadata.terminating
            and self._caches.names_us(configuration.spec.provider)
        )

    def _read_machine(self, key: Key) -> None:
        configuration = self._caches.configurations.get(key)
        texts = frozenset[str]()
        if configuration is not None:
            texts = _shown_unheld(configuration, self._caches.of_configuration(key))
        here = self._shown.setdefault(key.namespace, {})
        if texts:
            here[key] = texts
        else:
            here.pop(key, None)
        if not here:
            del self._shown[key.namespace]

    def _note_machine(self, change: Change[NetworkConfiguration]) -> None:
        for configuration in (change.old, change.new):
            if configuration is not None:
                self._noted.add(configuration.metadata.key)

    def _note_allocation(self, change: Change[VitistackAllocation]) -> None:
        for allocation in (change.old, change.new):
            if allocation is not None:
                self._noted.add(allocation.configuration)


def _shown_by(
    configuration: NetworkConfiguration, allocations: Sequence[VitistackAllocation]
) -> frozenset[str]:
    """Return the addresses of a machine: those that it shows, or an IPAllocation requests.

    Args:
        configuration: of the machine.
        allocations: the IPAllocations that name it.
    """
    return frozenset(
        address
        for interface in configuration.status.networkInterfaces
        for address in addresses_of(interface)
    ).union(
        allocation.spec.requestedAddress
        for allocation in allocations
        if is_made_for(allocation, configuration)
    )


def _shown_unheld(
    configuration: NetworkConfiguration, allocations: Sequence[VitistackAllocation]
) -> frozenset[str]:
    """Return the addresses of a machine that none of its IPAllocations holds.

    An IPAllocation that names another network since holds nothing of the machine's network.

    Args:
        configuration: of the machine.
        allocations: the IPAllocations that name it.
    """
    network = configuration.spec.networkNamespaceName
    return _shown_by(configuration, allocations).difference(
        allocation.status.address
        for allocation in allocations
        if allocation.holds and network in {"", allocation.spec.networkNamespaceName}
    )
