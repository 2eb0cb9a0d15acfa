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
    for one in contents:
        yield from _of_network(one)
    for network in sorted(caches.networks, key=lambda one: one.metadata.key):
        key, static = network.metadata.key, static_of(network)
        if static is not None and (warning := addresstexts.describe_host_bits(static.ipv4CIDR)):
            sentence = f"ipv4CIDR: {warning}"
            yield Trouble(HOST_BITS, "warning", NETWORKS.kind, key, sentence)
    yield from _of_allocations(caches, now, not_read)


def _of_network(one: NetworkContents) -> Iterator[Trouble]:
    key = one.network.metadata.key
    if one.space is None:
        yield Trouble(
            "InvalidPool", "error", NETWORKS.kind, key, f"hands out nothing: {one.fault}"
        )
        return
    layout, kind = one.space.layout, ALLOCATIONS.full_name
    for extent in list_extents(layout.cidr, layout.blocks, (), list(list_held(one))):
        if not extent.holders:
            continue
        *others, last = extent.holders
        text = extent.range.start_text
        if extent.state is AddressState.OVERLAP:
            named = ", ".join(other.text for other in others)
            sentence = f"holds {text} of NetworkNamespace {key}, which {named} has, too"
            seen = one.allocations.get(last.key)
            yield Trouble("Overlap", "error", kind, last.key, sentence, seen, removable=True)
        elif extent.state is AddressState.STRAY:
            sentence = f"holds {text}, which NetworkNamespace {key} does not hand out"
            yield Trouble("OutOfRange", "warning", kind, last.key, sentence)


def _of_allocations(
    caches: VitistackCaches, now: datetime, not_read: Sequence[NotRead]
) -> Iterator[Trouble]:
    """Yield the allocations whose network or configuration is missing, and those that expired."""
    kind = ALLOCATIONS.full_name
    for one in sorted(caches.allocations, key=lambda each: each.metadata.key):
        key = one.metadata.key
        may_have_network = one.network in caches.networks.unreadable or is_left_out(
            NETWORKS, one.network, not_read
        )
        if caches.network_of(one) is None and not may_have_network:
            sentence = f"names {NETWORKS.kind} {one.network}, which does not exist; it waits"
            yield Trouble("UnknownPool", "error", kind, key, sentence)
        machines = caches.configurations
        may_have_machine = one.configuration in machines.unreadable or is_left_out(
            CONFIGURATIONS, one.configuration, not_read
        )
        if one.configuration not in machines and not may_have_machine:
            sentence = f"its {CONFIGURATIONS.kind} {one.configuration} does not exist; its address"
            sentence = f"{sentence} is free when it expires"
            yield Trouble("Unclaimed", "warning", kind, key, sentence, one, removable=True)
        expired = moment(one.status.expiresAt)
        if one.holds and expired is not None and now - expired > LATE_AFTER:
            sentence = f"expired at {expired.isoformat()}, and was not renewed or released"
            yield Trouble("Expired", "warning", kind, key, sentence)
