"""What people see of NetworkNamespaces, worked out from their IPAllocations.

A network's own summary may be a moment behind. Networks of type dhcp are not shown. Metrics show
the same figures.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from allocator import AddressRange, InvalidPool
from controller.clock import Clock
from controller.meta import Key
from reconcilers.addressing import addresstexts
from reconcilers.api.ipallocation import IPAllocation as OurAllocation
from reconcilers.integrations.core.drawings import Request, drawing, not_drawn
from reconcilers.integrations.core.stretches import HeldPart, stretches
from reconcilers.integrations.core.views import (
    HOST_BITS,
    Drawing,
    PoolFigures,
    PoolView,
    Trouble,
    Wanted,
    every_pool,
    hide_unknown,
    unreadable_troubles,
)
from reconcilers.integrations.vitistack.allocations import moment
from reconcilers.integrations.vitistack.api import (
    ALLOCATIONS,
    CONFIGURATIONS,
    JOURNALS,
    NETWORKS,
    RELEASED,
    IPAllocation,
    NetworkNamespace,
)
from reconcilers.integrations.vitistack.caches import (
    VitistackCaches,
    network_holdings,
    problem_of,
    static_of,
)
from reconcilers.integrations.vitistack.ranges import NetworkSpace, space_of
from reconcilers.integrations.vitistack.reading import Reader
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.settling import settle
from reconcilers.promises.unreadable import UnreadableObject, find_unreadable
from reconcilers.spaces.offers import PoolName

METRICS = "butler_vitistack_network"
LABELS = ("namespace", "network")
LATE_AFTER = timedelta(minutes=5)
"""For so long after its expiry an address is not reported."""


@dataclass(frozen=True, slots=True)
class NetworkContents:
    """What a network may hand out, and what is held of it.

    Args:
        network: the network.
        space: what it may hand out; None if its settings make no sense.
        fault: why it hands out nothing; empty if it does.
        holdings: what is held, and which allocations wait.
        allocations: those that name it, by key.
        unreadable: objects that may hold some of it and cannot be decoded.
    """

    network: NetworkNamespace
    space: NetworkSpace | None
    fault: str
    holdings: Holdings | None
    allocations: Mapping[Key, IPAllocation]
    unreadable: Sequence[UnreadableObject] = ()

    def held(self) -> Iterator[HeldPart]:
        """Yield what is held and what is promised."""
        if self.space is None:
            return
        for key, one in self.allocations.items():
            text = one.status.address if one.status.phase != RELEASED else ""
            address = self.space.address(text) if text else None
            if address is not None:
                yield _held(address, "held", key)
        for promise in JOURNALS.read(self.network).promises:
            found = self.allocations.get(promise.key)
            version = (found.metadata.uid, found.metadata.resourceVersion) if found else None
            if version == promise.identity:
                for promised in promise.in_space():
                    yield _held(promised, "promised", promise.key)

    def promised(self) -> list[AddressRange]:
        """Return what is promised and not written yet."""
        return [one.range for one in self.held() if one.state == "promised"]


def _held(part: AddressRange, state: str, key: Key) -> HeldPart:
    return HeldPart(part, state, f"{ALLOCATIONS.full_name} {key}", key)


def contents_of(caches: VitistackCaches, wanted: Wanted = every_pool) -> Iterator[NetworkContents]:
    """Yield every network with a static configuration and what is held of it, by key.

    Args:
        caches: the objects.
        wanted: which networks.
    """
    for network in sorted(caches.networks, key=lambda one: one.metadata.key):
        static = static_of(network)
        if static is None or not wanted(PoolName(NETWORKS.kind, network.metadata.key)):
            continue
        found = {one.metadata.key: one for one in caches.of_network(network.metadata.key)}
        problem = problem_of(network, network.metadata.name)
        fault = problem.message if problem is not None else ""
        key, unread = network.metadata.key, caches.allocations.unreadable
        unreadable = find_unreadable(partial(caches.check_readable, key, unread))
        try:
            space = space_of(static)
        except InvalidPool:
            yield NetworkContents(network, None, fault, None, found, unreadable)
            continue
        holdings = network_holdings(found.values(), space)
        yield NetworkContents(network, space, fault, holdings, found, unreadable)


def figures_of(one: NetworkContents, now: datetime) -> PoolFigures:
    """Return the figures of a network; what is promised counts as used."""
    key = one.network.metadata.key
    waiting = [allocation for allocation in one.allocations.values() if allocation.waits]
    created = [allocation.metadata.creationTimestamp for allocation in waiting]
    ages = [(now - moment).total_seconds() for moment in created if moment is not None]
    labels, oldest = (key.namespace, key.name), max([0.0, *ages])
    if one.space is None or one.holdings is None:
        return PoolFigures(labels, 0, 0, 0, 0, len(waiting), oldest)
    space = one.holdings.space()
    with space.trial():
        for promised in one.promised():
            space.hold(promised)
        free = space.free
    total, outside = one.space.layout.total, one.holdings.outside_count
    known = not one.unreadable
    return PoolFigures(labels, total, total - free, free, outside, len(waiting), oldest, known)


def view_of(one: NetworkContents, now: datetime) -> PoolView:
    """Return what people see of a network."""
    figures, static = figures_of(one, now), static_of(one.network)
    parts, free = list(one.held()), list[AddressRange]()
    if one.holdings is not None:
        space = one.holdings.space()
        with space.trial():
            for promised in one.promised():
                space.hold(promised)
            free = list(space.free_extents())
    shown = PoolView(
        NETWORKS.group,
        NETWORKS.kind,
        one.network.metadata.key,
        one.space.text if one.space is not None else static.ipv4CIDR if static else "",
        figures.total,
        figures.used,
        figures.free,
        figures.outside,
        figures.waiting,
        "False" if one.fault else "True",
        one.fault,
        stretches(parts, free, lambda part: one.space is not None and one.space.hands_out(part)),
    )
    return hide_unknown(shown, one.unreadable)


def drawing_of(one: NetworkContents, view: PoolView) -> Drawing:
    """Return a network as pictures take it, with who holds an address and who waits."""
    meta, static = one.network.metadata, static_of(one.network)
    if one.space is None or static is None:
        return not_drawn(view, meta, one.fault)
    layout = one.space.layout
    requests = list(_requests(one))
    return drawing(view, meta, layout.cidr, layout.blocks, requests, static.ipv4Gateway)


def _requests(one: NetworkContents) -> Iterator[OurAllocation]:
    """Yield who holds an address of a network, and who waits, in the form of our IPAllocations."""
    made = {
        key: Request(
            ALLOCATIONS.full_name,
            each.metadata,
            one.network.metadata.name,
            each.configuration,
            "interface",
        )
        for key, each in one.allocations.items()
    }
    for part in one.held():
        yield made[part.key].holding(part.range)
    for key, each in one.allocations.items():
        if each.waits:
            yield made[key].waiting()


def audit(
    caches: VitistackCaches,
    contents: Iterable[NetworkContents],
    unreadable: Mapping[tuple[str, Key], str],
    now: datetime,
) -> Iterator[Trouble]:
    """Yield everything that is wrong at the time `now`.

    Args:
        caches: the objects.
        contents: the networks with their contents.
        unreadable: objects that could not be decoded, by kind and key, with the reason.
        now: the time.
    """
    yield from unreadable_troubles(unreadable)
    for one in contents:
        yield from _of_network(one)
    for network in sorted(caches.networks, key=lambda one: one.metadata.key):
        key, static = network.metadata.key, static_of(network)
        if static is not None and (warning := addresstexts.describe_host_bits(static.ipv4CIDR)):
            sentence = f"ipv4CIDR: {warning}"
            yield Trouble(HOST_BITS, "warning", NETWORKS.kind, key, sentence)
    yield from _of_allocations(caches, now)


def _of_network(one: NetworkContents) -> Iterator[Trouble]:
    key = one.network.metadata.key
    if one.space is None:
        yield Trouble(
            "InvalidPool", "error", NETWORKS.kind, key, f"hands out nothing: {one.fault}"
        )
        return
    space = one.space
    for part in stretches(one.held(), (), space.hands_out):
        holder = part.holders[-1].rpartition(" ")[2] if part.holders else ""
        namespace, _, name = holder.partition("/")
        text = part.range.start_text
        if part.state == "shared":
            others = ", ".join(part.holders[:-1])
            sentence = f"holds {text} of NetworkNamespace {key}, which {others} has, too"
            at = Key(namespace, name)
            seen, kind = one.allocations.get(at), ALLOCATIONS.full_name
            yield Trouble("Overlap", "error", kind, at, sentence, seen, removable=True)
        elif part.state == "outside":
            sentence = f"holds {text}, which NetworkNamespace {key} does not hand out"
            subject = ALLOCATIONS.full_name
            yield Trouble("OutOfRange", "warning", subject, Key(namespace, name), sentence)


def _of_allocations(caches: VitistackCaches, now: datetime) -> Iterator[Trouble]:
    """Yield the allocations whose network or configuration is missing, and those that expired."""
    kind = ALLOCATIONS.full_name
    for one in sorted(caches.allocations, key=lambda each: each.metadata.key):
        key = one.metadata.key
        if caches.network_of(one) is None and one.network not in caches.networks.unreadable:
            sentence = f"names {NETWORKS.kind} {one.network}, which does not exist; it waits"
            yield Trouble("UnknownPool", "error", kind, key, sentence)
        machines = caches.configurations
        if one.configuration not in machines and one.configuration not in machines.unreadable:
            sentence = f"its {CONFIGURATIONS.kind} {one.configuration} does not exist; its address"
            sentence = f"{sentence} is free when it expires"
            yield Trouble("Unclaimed", "warning", kind, key, sentence, one, removable=True)
        expired = moment(one.status.expiresAt)
        if one.holds and expired is not None and now - expired > LATE_AFTER:
            sentence = f"expired at {expired.isoformat()}, and was not renewed or released"
            yield Trouble("Expired", "warning", kind, key, sentence)


class NetworkFigures:
    """The figures of all networks that are served, from what passes over them keep.

    So a scrape costs what has changed.

    Args:
        caches: the caches.
        reader: keeps what is held of each network.
        clock: for ages.
    """

    def __init__(self, caches: VitistackCaches, reader: Reader, clock: Clock) -> None:
        self._caches = caches
        self._reader = reader
        self._clock = clock

    def __call__(self) -> Iterable[PoolFigures]:
        """Return the figures of all networks with a static configuration."""
        now = self._clock.now()
        return [
            self._of(network, _space(network), now)
            for network in self._caches.networks
            if self._caches.is_ours(network) and static_of(network) is not None
        ]

    def _of(
        self, network: NetworkNamespace, space: NetworkSpace | None, now: datetime
    ) -> PoolFigures:
        key = network.metadata.key
        labels = (key.namespace, key.name)
        if space is None:
            found = [one for one in self._caches.of_network(key) if one.waits]
            born = [one.metadata.creationTimestamp for one in found]
            since = min((one for one in born if one is not None), default=None)
            return PoolFigures(labels, 0, 0, 0, 0, len(found), _age(since, now))
        view = self._reader.cached(key, space)
        holdings = view.holdings
        with holdings.trial():
            journal = JOURNALS.read(network)
            for promise in settle(journal, JOURNALS.kind, view).promises:
                for promised in promise.in_space():
                    holdings.space().hold(promised)
            free = holdings.space().free
        total = space.layout.total
        waiting, age = holdings.waiting_count, _age(holdings.oldest_wait, now)
        check = partial(self._caches.check_readable, key, self._caches.allocations.unreadable)
        known = not find_unreadable(check)
        return PoolFigures(
            labels, total, total - free, free, holdings.outside_count, waiting, age, known
        )


def _space(network: NetworkNamespace) -> NetworkSpace | None:
    static = static_of(network)
    try:
        return space_of(static) if static is not None else None
    except InvalidPool:
        return None  # it hands out nothing, and says why itself


def _age(since: datetime | None, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds()) if since is not None else 0.0
