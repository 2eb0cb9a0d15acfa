"""What the IPAllocations among manifests would get of NetworkNamespaces, without a cluster.

Addresses are chosen by what passes over networks choose with (`networks.py`), the oldest first.
NetworkConfigurations get the IPAllocations that are made for their interfaces.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from allocator import AddressRange
from controller.cache import Cache
from controller.meta import Key, ObjectMeta, OwnerReference
from reconcilers.integrations.core.rules import View
from reconcilers.integrations.core.views import Planned
from reconcilers.integrations.vitistack.api import (
    ALLOCATIONS,
    CONFIGURATIONS,
    JOURNALS,
    NETWORKS,
    PENDING,
    STATIC,
    AllocationSpec,
    IPAllocation,
    Static,
)
from reconcilers.integrations.vitistack.caches import (
    ALLOCATION_INDEXES,
    Problem,
    VitistackCaches,
    allocation_names,
    interface_names,
    is_made_for,
    problem_of,
    static_of,
)
from reconcilers.integrations.vitistack.configurations import (
    allocation_for,
    describe_unreadable_network,
    network_of,
)
from reconcilers.integrations.vitistack.contents import NetworkContents, contents_of
from reconcilers.integrations.vitistack.interfaces import by_interface
from reconcilers.integrations.vitistack.networks import NetworkTaker
from reconcilers.integrations.vitistack.ranges import NetworkSpace
from reconcilers.integrations.vitistack.writing import given, refused
from reconcilers.promises.choosing import choose, taken
from reconcilers.promises.identities import find_by_key
from reconcilers.promises.journal import PromisedRange
from reconcilers.promises.unreadable import (
    HOLDERS_UNKNOWN,
    UnreadableHolders,
    holders_unknown_message,
)

Body = Mapping[str, Any]
Outcome = tuple[IPAllocation, str, Problem | None]
"""An IPAllocation, the address that it gets, and why it gets none."""


def forecast(
    caches: VitistackCaches, manifests: Mapping[tuple[str, Key], Body], now: datetime
) -> tuple[list[Planned], list[Body]]:
    """Return what becomes of the IPAllocations that wait, and the manifests after that.

    Args:
        caches: the objects.
        manifests: by kind and key.
        now: the time.
    """
    bodies: dict[tuple[str, Key], Body] = dict(manifests)
    planned: list[Planned] = []
    made = dict(_made(caches, planned))
    bodies.update(((ALLOCATIONS.kind, key), body) for key, (body, _) in made.items())
    caches = _with(caches, [one for _, one in made.values()])
    for one, address, problem in _outcomes(caches):
        key, network = one.metadata.key, f"{NETWORKS.kind} {one.network}"
        static = static_of(caches.network_of(one)) or Static()
        status = refused(one, problem) if problem is not None else given(static, address, now)
        body = bodies[ALLOCATIONS.kind, key]
        shown = {name: value for name, value in status.items() if value is not None}
        bodies[ALLOCATIONS.kind, key] = {**body, "status": shown}
        why = problem.message if problem is not None else ""
        planned.append(Planned(ALLOCATIONS.group, ALLOCATIONS.kind, key, network, address, why))
    planned += _of_unreadable_networks(caches)
    return planned, list(bodies.values())


def _of_unreadable_networks(caches: VitistackCaches) -> Iterator[Planned]:
    """Yield the IPAllocations whose networks cannot be decoded; nothing is written to them."""
    for allocation in sorted(caches.allocations, key=lambda allocation: allocation.metadata.key):
        if allocation.waits and allocation.network in caches.networks.unreadable:
            name = f"{NETWORKS.kind} {allocation.network}"
            why = describe_unreadable_network(allocation.network.name)
            key = allocation.metadata.key
            yield Planned(ALLOCATIONS.group, ALLOCATIONS.kind, key, name, "", why)


def _made(
    caches: VitistackCaches, planned: list[Planned]
) -> Iterator[tuple[Key, tuple[Body, IPAllocation]]]:
    """Yield the IPAllocations that are made for interfaces; note who gets none in `planned`."""
    taken = {one.metadata.key for one in caches.allocations}
    for one in sorted(caches.configurations, key=lambda each: each.metadata.key):
        meta, network = one.metadata, network_of(caches, one)
        what = CONFIGURATIONS.group, CONFIGURATIONS.kind, meta.key
        if isinstance(network, str):
            named = f"{NETWORKS.kind} {meta.namespace}/{one.spec.networkNamespaceName}"
            planned.append(Planned(*what, named, "", network))
            continue
        how = network.spec.ipAllocation
        if how is None or how.type != STATIC or not _agree(one.spec.provider, how.provider):
            continue
        has = by_interface(one, caches.of_configuration(meta.key))
        lacking = [name for name in interface_names(one) if name not in has]
        unreadable = caches.unreadable_of_machine(one, network, lacking)
        if unreadable is not None:
            named = f"{NETWORKS.kind} {network.metadata.key}"
            planned.append(Planned(*what, named, "", str(unreadable)))
            continue
        for interface in lacking:
            name, other = allocation_names(meta.name, interface)
            if Key(meta.namespace, name) in taken:
                name = other
            key = Key(meta.namespace, name)
            taken.add(key)
            body = allocation_for(one, network, interface, name)
            yield key, (_manifest(body, key), _object(body, meta))


def _agree(one: str, other: str) -> bool:
    """Return whether two providers may be the same; an empty one may be any."""
    first, second = one.strip().lower(), other.strip().lower()
    return not first or not second or first == second


def _manifest(body: Body, key: Key) -> Body:
    metadata = {**body["metadata"], "namespace": key.namespace}
    kind = {"apiVersion": ALLOCATIONS.api_version, "kind": ALLOCATIONS.kind}
    return {**kind, **body, "metadata": metadata}


def _object(body: Body, of: ObjectMeta) -> IPAllocation:
    """Return an IPAllocation that was made at the moment when its machine was."""
    name, spec = body["metadata"]["name"], AllocationSpec(**body["spec"])
    owner = OwnerReference(CONFIGURATIONS.api_version, CONFIGURATIONS.kind, of.name, of.uid)
    meta = replace(of, name=name, uid=f"{of.uid}-{name}", ownerReferences=(owner,))
    return IPAllocation(meta, spec)


def _with(caches: VitistackCaches, made: Sequence[IPAllocation]) -> VitistackCaches:
    """Return the caches with some more IPAllocations."""
    if not made:
        return caches
    allocations = Cache(ALLOCATIONS, indexes=ALLOCATION_INDEXES)
    known = caches.allocations
    allocations.replace([*known, *made], known.position, known.unreadable)
    return replace(caches, allocations=allocations)


def _shown(
    caches: VitistackCaches, space: NetworkSpace, allocations: Iterable[IPAllocation]
) -> Iterator[tuple[AddressRange, Key]]:
    """Yield the addresses that machines have already, with the machines."""
    for one in allocations:
        machine = caches.configurations.get(one.configuration)
        if machine is not None and is_made_for(one, machine):
            wanted = space.address(one.spec.requestedAddress)
            if wanted is not None:
                yield wanted, one.configuration


def _outcomes(caches: VitistackCaches) -> Iterator[Outcome]:
    """Yield what becomes of each IPAllocation that waits."""
    for found in contents_of(caches):
        if found.holdings is None or found.fault:
            continue
        yield from _unknown(found) if found.unreadable else _served(caches, found)
    for one in sorted(caches.allocations, key=lambda each: each.metadata.key):
        if one.network in caches.networks.unreadable:
            continue
        problem = problem_of(caches.network_of(one), one.spec.networkNamespaceName)
        if one.waits and problem is not None:
            yield one, "", problem


def _unknown(found: NetworkContents) -> Iterator[Outcome]:
    """Yield that no IPAllocation of a network gets anything until all holders can be read."""
    why = holders_unknown_message(str(UnreadableHolders(found.unreadable)))
    for one in found.allocations.values():
        if one.waits:
            yield one, "", Problem(PENDING, HOLDERS_UNKNOWN, why)


def _served(caches: VitistackCaches, found: NetworkContents) -> Iterator[Outcome]:
    """Yield what a network gives to those that wait for it, the oldest first."""
    assert found.holdings is not None, "the caller has checked"
    assert found.space is not None, "the caller has checked"
    # An Error goes by Pending, and is served in the next pass.
    requests = {
        key: replace(one, status=replace(one.status, phase=PENDING)) if one.waits else one
        for key, one in found.allocations.items()
    }
    view = View(0, found.holdings, find_by_key(JOURNALS.kind, requests.get), requests.get)
    shown = dict(_shown(caches, found.space, found.allocations.values()))
    journal = JOURNALS.read(found.network)
    promises = [promise for promise in journal.promises if view.at_version(promise) is not None]
    name = found.network.metadata.name
    taker = NetworkTaker(name, found.space, view, promises, shown, refuse_each=True)
    promised = [part for promise in promises for part in promise.ranges]
    with taken(found.holdings, promised, map(PromisedRange, shown)):
        choice = choose(found.holdings, [taker], promises, len(requests))
    outcomes: dict[Key, tuple[str, Problem | None]] = {}
    for promise in promises:
        outcomes[promise.key] = promise.ranges[0].range.start_text, None
    for grant in choice.grants:
        outcomes[grant.holder.key] = grant.addresses[0].start_text, None
    for refusal in choice.refusals:
        outcomes[refusal.holder.key] = "", Problem("Error", refusal.reason, refusal.message)
    for _, holder in found.holdings.turns():
        yield found.allocations[holder.key], *outcomes[holder.key]
