"""What is wrong among vitistack's networks and allocations, as findings for people."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from reconcilers.addressing import addresstexts
from reconcilers.integrations.core.scopedlists import NotRead, is_left_out
from reconcilers.integrations.core.troubles import (
    build_invalid_pool_trouble,
    build_unknown_pool_trouble,
    list_extent_troubles,
)
from reconcilers.integrations.core.views import HOST_BITS, Trouble
from reconcilers.integrations.vitistack.allocations import parse_moment
from reconcilers.integrations.vitistack.api import ALLOCATIONS, CONFIGURATIONS, NETWORKS
from reconcilers.integrations.vitistack.caches import VitistackCaches, find_static
from reconcilers.integrations.vitistack.contents import NetworkContents
from reconcilers.integrations.vitistack.picture import list_held
from reconcilers.pictures.extents import list_extents
from reconcilers.spaces.offers import PoolName

LATE_AFTER = timedelta(minutes=5)
"""How long an address may outlast its expiry before it is reported: a pass needs some time."""


def audit(
    caches: VitistackCaches,
    contents: Iterable[NetworkContents],
    now: datetime,
    not_read: Sequence[NotRead] = (),
) -> Iterator[Trouble]:
    """Yield the troubles of all networks and allocations.

    Args:
        caches: the objects.
        contents: the networks with their contents.
        now: the time.
        not_read: the objects that the user may not read; they do not count as missing.
    """
    for content in contents:
        yield from _audit_network(content)
    for network in sorted(caches.networks, key=lambda network: network.metadata.key):
        key, static = network.metadata.key, find_static(network)
        if static is not None and (warning := addresstexts.describe_host_bits(static.ipv4CIDR)):
            sentence = f"ipv4CIDR: {warning}"
            yield Trouble(HOST_BITS, "warning", subject=NETWORKS.kind, key=key, sentence=sentence)
    yield from _audit_allocations(caches, now, not_read)


def _audit_network(content: NetworkContents) -> Iterator[Trouble]:
    """Yield the troubles of a network: invalid settings, or troubles with its held addresses.

    An overlap can be corrected by the deletion of an IPAllocation: its NetworkConfiguration then
    gets a new one.
    """
    network = PoolName(NETWORKS.kind, content.network.metadata.key)
    if content.space is None:
        yield build_invalid_pool_trouble(network, content.fault)
        return
    layout = content.space.layout
    extents = list_extents(
        layout.cidr, layout.blocks, reserved=(), held_addresses=list(list_held(content))
    )
    yield from list_extent_troubles(
        network, extents, find_removable=lambda holder: content.allocations.get(holder.key)
    )


def _audit_allocations(
    caches: VitistackCaches, now: datetime, not_read: Sequence[NotRead]
) -> Iterator[Trouble]:
    """Yield the troubles of IPAllocations: network or machine missing, or address expired.

    An object that may exist, because it cannot be decoded or read, is not reported as missing.
    """
    kind = ALLOCATIONS.full_name
    for allocation in sorted(caches.allocations, key=lambda allocation: allocation.metadata.key):
        key = allocation.metadata.key
        may_have_network = allocation.network in caches.networks.unreadable or is_left_out(
            NETWORKS, allocation.network, not_read
        )
        if caches.find_network_of(allocation) is None and not may_have_network:
            yield build_unknown_pool_trouble(
                kind, key, PoolName(NETWORKS.kind, allocation.network)
            )
        machines = caches.configurations
        may_have_machine = allocation.configuration in machines.unreadable or is_left_out(
            CONFIGURATIONS, allocation.configuration, not_read
        )
        if allocation.configuration not in machines and not may_have_machine:
            sentence = (
                f"its {CONFIGURATIONS.kind} {allocation.configuration} does not exist; its address"
                " is free when it expires"
            )
            yield Trouble(
                "Unclaimed",
                "warning",
                subject=kind,
                key=key,
                sentence=sentence,
                seen=allocation,
                removable=True,
            )
        expired = parse_moment(allocation.status.expiresAt)
        if allocation.holds and expired is not None and now - expired > LATE_AFTER:
            sentence = f"expired at {expired.isoformat()}, and was not renewed or released"
            yield Trouble("Expired", "warning", subject=kind, key=key, sentence=sentence)
