"""Addresses that machines have, and no IPAllocation of theirs holds yet.

An operator that makes no IPAllocations gave them, or the IPAllocation was deleted. The
NetworkConfiguration that shows one gets an IPAllocation that requests it, and shows none until
that has it.

There are few of them at most times, and every pass asks. So a change notes the machine that it
concerns, nothing else; whoever asks next looks at those machines.
"""

from collections.abc import Iterable, Mapping

from controller.cache import Change
from controller.meta import Key
from reconcilers.integrations.vitistack.api import IPAllocation, NetworkConfiguration
from reconcilers.integrations.vitistack.world import World, addresses_of, is_made_for


class ShownAddresses:
    """The addresses that machines show and do not hold, kept from pass to pass.

    Args:
        world: the caches.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._noted = {one.metadata.key for one in world.configurations}
        self._shown: dict[str, dict[Key, frozenset[str]]] = {}
        world.configurations.subscribe(self._note_machine)
        world.allocations.subscribe(self._note_allocation)

    def of_network(self, network: Key) -> Mapping[str, Key]:
        """Return addresses of a network with the NetworkConfigurations that show them."""
        while self._noted:
            self._look(self._noted.pop())
        found: dict[str, Key] = {}
        for key, texts in self._shown.get(network.namespace, {}).items():
            one = self._world.configurations.get(key)
            if one is None or one.metadata.terminating:
                continue
            named = one.spec.networkNamespaceName in {"", network.name}
            if named and self._world.names_us(one.spec.provider):
                found.update(dict.fromkeys(texts, key))
        return found

    def _look(self, key: Key) -> None:
        one = self._world.configurations.get(key)
        texts = frozenset(_shown_by(one, self._world)) if one is not None else frozenset[str]()
        here = self._shown.setdefault(key.namespace, {})
        if texts:
            here[key] = texts
        else:
            here.pop(key, None)
        if not here:
            del self._shown[key.namespace]

    def _note_machine(self, change: Change[NetworkConfiguration]) -> None:
        for one in (change.old, change.new):
            if one is not None:
                self._noted.add(one.metadata.key)

    def _note_allocation(self, change: Change[IPAllocation]) -> None:
        for one in (change.old, change.new):
            if one is not None:
                self._noted.add(one.configuration)


def _shown_by(one: NetworkConfiguration, world: World) -> Iterable[str]:
    mine = world.of_configuration(one.metadata.key)
    shown = {text for each in one.status.networkInterfaces for text in addresses_of(each)}
    shown |= {each.spec.requestedAddress for each in mine if is_made_for(each, one)}
    return shown - {each.status.address for each in mine if each.holds}
