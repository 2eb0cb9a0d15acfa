"""The outcomes of vitistack's IPAllocations for `plan`: their addresses, or why they got none.

`plan` runs the controllers on manifests, and compares the objects before and after.
NetworkConfigurations for which no IPAllocation could be created have an outcome, too.
"""

from collections.abc import Iterator

from controller.conditions import find_condition
from reconcilers.integrations.core.views import Planned
from reconcilers.integrations.vitistack.api import (
    ALLOCATED,
    ALLOCATIONS,
    CONFIGURATIONS,
    ERROR,
    NETWORKS,
)
from reconcilers.integrations.vitistack.caches import VitistackCaches, list_interface_names
from reconcilers.integrations.vitistack.configurations import describe_unreadable_network
from reconcilers.integrations.vitistack.interfaces import find_by_interface
from reconcilers.reporting.conditions import READY


def list_outcomes(before: VitistackCaches, after: VitistackCaches) -> Iterator[Planned]:
    """Yield why NetworkConfigurations lack an IPAllocation, then the outcome of each IPAllocation.

    Only an IPAllocation that waited or is new has an outcome: its address, or why it has none.

    Args:
        before: the objects as they were.
        after: the objects as the controllers left them.
    """
    for configuration in sorted(after.configurations, key=lambda obj: obj.metadata.key):
        key = configuration.metadata.key
        allocations = find_by_interface(configuration, after.list_allocations_of(key))
        lacks_allocation = any(
            name not in allocations for name in list_interface_names(configuration)
        )
        ready = find_condition(configuration.status.conditions, READY)
        if lacks_allocation and ready is not None and ready.reason == ERROR:
            network = f"{NETWORKS.kind} {key.namespace}/{configuration.spec.networkNamespaceName}"
            yield Planned(
                CONFIGURATIONS.group,
                CONFIGURATIONS.kind,
                key=key,
                pool=network,
                gets="",
                reason=ready.message,
            )
    for allocation in sorted(after.allocations, key=lambda obj: obj.metadata.key):
        earlier = before.allocations.get(allocation.metadata.key)
        status = allocation.status
        if (earlier is not None and not earlier.waits) or allocation.metadata.is_terminating:
            continue
        gets = (status.address or "") if status.phase == ALLOCATED else ""
        reason = "" if gets else status.message or ""
        if not gets and allocation.network in after.networks.unreadable:
            # The controllers write no status while the network cannot be decoded.
            reason = describe_unreadable_network(allocation.network.name)
        name = f"{NETWORKS.kind} {allocation.network}"
        yield Planned(
            ALLOCATIONS.group,
            ALLOCATIONS.kind,
            key=allocation.metadata.key,
            pool=name,
            gets=gets,
            reason=reason,
        )
