"""What the IPAllocations among manifests would get of NetworkNamespaces, without a cluster.

Addresses are chosen by what passes over networks choose with (`networks.py`), the oldest first.
What NetworkConfigurations ask for is not shown: their IPAllocations are made by the controller.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from controller.meta import Key
from reconcilers.integrations.core.rules import Refused, View
from reconcilers.integrations.core.views import Planned
from reconcilers.integrations.vitistack.api import (
    ALLOCATIONS,
    NETWORKS,
    PENDING,
    IPAllocation,
    Static,
)
from reconcilers.integrations.vitistack.networks import Taking
from reconcilers.integrations.vitistack.views import NetworkContents, contents_of
from reconcilers.integrations.vitistack.world import Problem, World, static_of, why_not
from reconcilers.integrations.vitistack.writing import given, refused

Body = Mapping[str, Any]
Outcome = tuple[IPAllocation, str, Problem | None]
"""An IPAllocation, the address that it gets, and why it gets none."""


def forecast(
    world: World, manifests: Mapping[tuple[str, Key], Body], now: datetime
) -> tuple[list[Planned], list[Body]]:
    """Return what becomes of the IPAllocations that wait, and the manifests after that.

    Args:
        world: the objects.
        manifests: by kind and key.
        now: the time.
    """
    bodies: dict[tuple[str, Key], Body] = dict(manifests)
    planned: list[Planned] = []
    for one, address, problem in _outcomes(world):
        key, network = one.metadata.key, f"{NETWORKS.kind} {one.network}"
        static = static_of(world.network_of(one)) or Static()
        status = refused(problem) if problem is not None else given(static, address, now)
        body = bodies[ALLOCATIONS.kind, key]
        shown = {name: value for name, value in status.items() if value is not None}
        bodies[ALLOCATIONS.kind, key] = {**body, "status": shown}
        why = problem.message if problem is not None else ""
        planned.append(Planned(ALLOCATIONS.group, ALLOCATIONS.kind, key, network, address, why))
    return planned, list(bodies.values())


def _outcomes(world: World) -> Iterator[Outcome]:
    """Yield what becomes of each IPAllocation that waits."""
    for found in contents_of(world):
        if found.contents is not None and not found.fault:
            yield from _served(found)
    for one in sorted(world.allocations, key=lambda each: each.metadata.key):
        problem = why_not(world.network_of(one), one.spec.networkNamespaceName)
        if one.waits and problem is not None:
            yield one, "", problem


def _served(found: NetworkContents) -> Iterator[Outcome]:
    """Yield what a network gives to those that wait for it, the oldest first."""
    assert found.contents is not None, "it was looked at"
    assert found.space is not None, "it was looked at"
    name, find = found.network.metadata.name, found.allocations.get
    view = View(0, found.contents, find, find)
    taking = Taking(name, found.space, view, found.promised(), [])
    with found.contents.space.trial():
        for key in found.contents.queue():
            one = found.allocations[key]
            try:
                address = taking.take(replace(one, status=replace(one.status, phase=PENDING)))
            except Refused as why:
                yield one, "", Problem("Error", why.reason, why.message)
            else:
                assert address is not None, "only what is in Error waits for another pass"
                yield one, address.start_text, None
