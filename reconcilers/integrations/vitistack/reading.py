"""Read what a pass over a network needs: IPAllocations, and the addresses that machines show.

A *view* has the IPAllocations that a pass read, and what they hold. Its *position* is the
resourceVersion up to which the watch of IPAllocations delivered everything. Responses to writes of
this process never move it, because they do not show writes of others.

A machine is a NetworkConfiguration. It *shows* an address if its status has the address for one of
its interfaces.
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
    compute_facts,
    compute_network_holdings,
    is_made_for,
    list_addresses,
    list_space_names,
    make_holder,
)
from reconcilers.integrations.vitistack.ranges import NetworkSpace
from reconcilers.promises.holdings import (
    CHECK_SECONDS,
    Facts,
    KeptHoldings,
    build_indexed_source,
)
from reconcilers.promises.identities import Holder, find_by_key
from reconcilers.promises.reading import CacheWait


class VitistackReader:
    """Reads what the IPAllocations of a network hold.

    Args:
        client: for LISTs.
        patience: seconds to wait for a cache that lags before a LIST is sent.
        check_interval: seconds between two checks that stored holdings agree with the cache.
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
            [
                build_indexed_source(
                    caches.allocations, SPACE_INDEX, pools=list_space_names, holder=make_holder
                )
            ],
            self._find_facts,
            lambda space: space.layouts,
            clock=clock,
            check_interval=check_interval,
        )

    def _find_facts(self, network: str, holder: Holder, space: NetworkSpace) -> Facts | None:
        """Return the facts of an IPAllocation: its address, and its place in the queue.

        Returns:
            None if the IPAllocation is gone or names another network.
        """
        allocation = self._caches.allocations.get(holder.key)
        if allocation is None or network not in list_space_names(allocation):
            return None
        return compute_facts(allocation, space)

    def read_cached(self, network: Key, space: NetworkSpace) -> SpaceView[VitistackAllocation]:
        """Return a view of the cache, without a check that the cache is current enough."""
        allocations = self._caches.allocations
        return SpaceView(
            allocations.position,
            self._kept.get_holdings(str(network), space),
            find=find_by_key(JOURNALS.kind, allocations.get),
            unreadable=allocations.unreadable.keys(),
        )

    async def read_up_to(
        self, network: Key, space: NetworkSpace, revision: int
    ) -> SpaceView[VitistackAllocation]:
        """Return a view that includes everything up to a revision, from the cache or by LIST.

        Args:
            revision: the resourceVersion that the network's journal names for IPAllocations.

        Raises:
            Behind: the cache lags, and the pass waits for it before it sends a LIST.
            UnreadableHolders: objects that may hold addresses of the network cannot be decoded.
            ControllerError: the LIST failed.
        """
        self._caches.check_readable(network, self._caches.allocations.unreadable)
        if self._wait.has_read(self._caches.allocations, revision, network):
            return self.read_cached(network, space)
        allocations, position = await self.list_live(network)
        find = find_by_key(JOURNALS.kind, allocations.get)
        return SpaceView(
            position,
            compute_network_holdings(allocations.values(), space),
            find=find,
        )

    async def list_live(self, network: Key) -> tuple[dict[Key, VitistackAllocation], int]:
        """Return the IPAllocations of a network, by a LIST that begins now.

        Later passes use the cache again once it shows as much as this LIST.

        Returns:
            The IPAllocations by key, and the revision of the LIST.

        Raises:
            UnreadableHolders: objects that may hold addresses of the network cannot be decoded.
            ControllerError: the LIST failed.
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
    """Stores between passes the addresses that machines show and their IPAllocations do not hold.

    An operator that creates no IPAllocations gave such an address, or its IPAllocation was
    deleted. A new IPAllocation requests the address for the machine.

    There are few such addresses, and every pass needs them. So each change only notes its machine,
    and the next pass reads the noted machines.
    """

    def __init__(self, caches: VitistackCaches) -> None:
        self._caches = caches
        self._noted = {configuration.metadata.key for configuration in caches.configurations}
        """The machines that have changed since the last pass read them."""
        self._shown: dict[str, dict[Key, frozenset[str]]] = {}
        """By namespace and machine: the addresses."""
        caches.configurations.subscribe(self._note_machine)
        caches.allocations.subscribe(self._note_allocation)

    def list_in_network(self, network: Key) -> Mapping[str, Key]:
        """Return shown addresses that may be of a network, with their NetworkConfigurations."""
        while self._noted:
            self._read_machine(self._noted.pop())
        shown_addresses: dict[str, Key] = {}
        for key, texts in self._shown.get(network.namespace, {}).items():
            configuration = self._caches.configurations.get(key)
            if configuration is not None and self._may_be_in(configuration, network):
                shown_addresses.update(dict.fromkeys(texts, key))
        return shown_addresses

    async def read_live(self, client: Client, network: Key) -> Mapping[str, Key]:
        """Return all addresses that machines of a network show, each with its machine.

        Another operator gives an address by one write of a NetworkConfiguration, without a
        journal. So NetworkConfigurations are read by a LIST, which shows all earlier writes even
        if the cache lags. Addresses that only the cache shows are returned, too, as a precaution.

        Addresses that cached IPAllocations hold are not left out: such an IPAllocation may be
        deleted already, while its machine still has the address.

        Args:
            client: for the list.

        Raises:
            UnreadableHolders: NetworkConfigurations that may show addresses cannot be decoded.
            ControllerError: the list failed.
        """
        page = await client.list(CONFIGURATIONS, namespace=network.namespace)
        self._caches.check_readable(network, {}, page.unreadable)
        live = {
            address: configuration.metadata.key
            for configuration in page.items
            if self._may_be_in(configuration, network)
            for address in _list_shown(
                configuration, self._caches.list_allocations_of(configuration.metadata.key)
            )
        }
        return {**self.list_in_network(network), **live}

    def _may_be_in(self, configuration: NetworkConfiguration, network: Key) -> bool:
        """Return whether a machine may have addresses of a network, and is not being deleted."""
        is_of_network = configuration.spec.networkNamespaceName in {"", network.name}
        return (
            is_of_network
            and not configuration.metadata.is_terminating
            and self._caches.is_our_provider(configuration.spec.provider)
        )

    def _read_machine(self, key: Key) -> None:
        """Compute and store the addresses that one machine shows; store nothing if it has none."""
        configuration = self._caches.configurations.get(key)
        texts = frozenset[str]()
        if configuration is not None:
            texts = _list_shown_unheld(configuration, self._caches.list_allocations_of(key))
        machines = self._shown.setdefault(key.namespace, {})
        if texts:
            machines[key] = texts
        else:
            machines.pop(key, None)
        if not machines:
            del self._shown[key.namespace]

    def _note_machine(self, change: Change[NetworkConfiguration]) -> None:
        """Note a changed machine."""
        for configuration in (change.old, change.new):
            if configuration is not None:
                self._noted.add(configuration.metadata.key)

    def _note_allocation(self, change: Change[VitistackAllocation]) -> None:
        """Note the machines that a changed IPAllocation names now and named before."""
        for allocation in (change.old, change.new):
            if allocation is not None:
                self._noted.add(allocation.configuration)


def _list_shown(
    configuration: NetworkConfiguration, allocations: Sequence[VitistackAllocation]
) -> frozenset[str]:
    """Return the addresses that a machine shows, or showed when its IPAllocations were made.

    A waiting IPAllocation that was made for a shown address requests that address.

    Args:
        configuration: the machine.
        allocations: the IPAllocations that name it.
    """
    return frozenset(
        address
        for interface in configuration.status.networkInterfaces
        for address in list_addresses(interface)
    ).union(
        allocation.spec.requestedAddress
        for allocation in allocations
        if is_made_for(allocation, configuration)
    )


def _list_shown_unheld(
    configuration: NetworkConfiguration, allocations: Sequence[VitistackAllocation]
) -> frozenset[str]:
    """Return the addresses of a machine that none of its IPAllocations holds.

    An IPAllocation of another network than the machine's holds nothing of the machine's network.
    A machine that names no network may be in any network, so all its IPAllocations count.

    Args:
        configuration: the machine.
        allocations: the IPAllocations that name it.
    """
    network = configuration.spec.networkNamespaceName
    return _list_shown(configuration, allocations).difference(
        allocation.status.address
        for allocation in allocations
        if allocation.holds and network in {"", allocation.spec.networkNamespaceName}
    )
