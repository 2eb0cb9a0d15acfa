"""What is wrong among vitistack's networks and allocations, as findings for people."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from controller.meta import Key
from reconcilers.addressing import addresstexts
from reconcilers.integrations.core.scopedlists import NotRead, is_left_out
from reconcilers.integrations.core.views import HOST_BITS, Trouble, unreadable_troubles
from reconcilers.integrations.vitistack.allocations import moment
from reconcilers.integrations.vitistack.api import ALLOCATIONS, CONFIGURATIONS, NETWORKS
from reconcilers.integrations.vitistack.caches import VitistackCaches, static_of
from reconcilers.integrations.vitistack.contents import NetworkContents
from reconcilers.integrations.vitistack.picture import list_held
from reconcilers.pictures.extents import AddressState, list_extents

LATE_AFTER = timedelta(minutes=5)
"""For so long after its expiry an address is not reported."""


def audit(
    caches: VitistackCaches,
    contents: Iterable[NetworkContents],
    unreadable: Mapping[tuple[str, Key], str],
    now: datetime,
    not_read: Sequence[NotRead] = (),
) -> Iterator[Trouble]:
    """Yield everything that is wrong at the time `now`.

    Args:
        caches: the objects.
        contents: the networks with their contents.
        unreadable: objects that could not be decoded, by kind and key, with the reason.
        now: the time.
        not_read: what the user may not read; an object that may be among it is not missing.
    """
    yield from unreadable_troubles(unreadable)
    for content in contents:
        yield from _of_network(content)
    for network in sorted(caches.networks, key=lambda network: network.metadata.key):
        key, static = network.metadata.key, static_of(network)
        if static is not None and (warning := addresstexts.describe_host_bits(static.ipv4CIDR)):
            sentence = f"ipv4CIDR: {warning}"
            yield Trouble(HOST_BITS, "warning", subject=NETWORKS.kind, key=key, sentence=sentence)
    yield from _of_allocations(caches, now, not_read)


def _of_network(content: NetworkContents) -> Iterator[Trouble]:
    key = content.network.metadata.key
    if content.space is None:
        yield Trouble(
            "InvalidPool",
            "error",
            subject=NETWORKS.kind,
            key=key,
            sentence=f"hands out nothing: {content.fault}",
        )
        return
    layout, kind = content.space.layout, ALLOCATIONS.full_name
    for extent in list_extents(
        layout.cidr, layout.blocks, reserved=(), held_addresses=list(list_held(content))
    ):
        if not extent.holders:
            continue
        *others, last = extent.holders
        address = extent.range.start_text
        if extent.state is AddressState.OVERLAP:
            holder_names = ", ".join(other.text for other in others)
            sentence = f"holds {address} of NetworkNamespace {key}, which {holder_names} has, too"
            seen = content.allocations.get(last.key)
            yield Trouble(
                "Overlap",
                "error",
                subject=kind,
                key=last.key,
                sentence=sentence,
                seen=seen,
                removable=True,
            )
        elif extent.state is AddressState.STRAY:
            sentence = f"holds {address}, which NetworkNamespace {key} does not hand out"
            yield Trouble("OutOfRange", "warning", subject=kind, key=last.key, sentence=sentence)


def _of_allocations(
    caches: VitistackCaches, now: datetime, not_read: Sequence[NotRead]
) -> Iterator[Trouble]:
    """Yield the allocations whose network or configuration is missing, and those that expired."""
    kind = ALLOCATIONS.full_name
    for allocation in sorted(caches.allocations, key=lambda allocation: allocation.metadata.key):
        key = allocation.metadata.key
        may_have_network = allocation.network in caches.networks.unreadable or is_left_out(
            NETWORKS, allocation.network, not_read
        )
        if caches.network_of(allocation) is None and not may_have_network:
            sentence = (
                f"names {NETWORKS.kind} {allocation.network}, which does not exist; it waits"
            )
            yield Trouble("UnknownPool", "error", subject=kind, key=key, sentence=sentence)
        machines = caches.configurations
        may_have_machine = allocation.configuration in machines.unreadable or is_left_out(
            CONFIGURATIONS, allocation.configuration, not_read
        )
        if allocation.configuration not in machines and not may_have_machine:
            sentence = (
                f"its {CONFIGURATIONS.kind} {allocation.configuration} does not exist; its address"
            )
            sentence = f"{sentence} is free when it expires"
            yield Trouble(
                "Unclaimed",
                "warning",
                subject=kind,
                key=key,
                sentence=sentence,
                seen=allocation,
                removable=True,
            )
        expired = moment(allocation.status.expiresAt)
        if allocation.holds and expired is not None and now - expired > LATE_AFTER:
            sentence = f"expired at {expired.isoformat()}, and was not renewed or released"
            yield Trouble("Expired", "warning", subject=kind, key=key, sentence=sentence)
