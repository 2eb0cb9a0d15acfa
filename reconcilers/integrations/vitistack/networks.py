"""One pass over one NetworkNamespace.

gone, or not ours           do nothing
hands out nothing now       report which pools share it; IPAllocations show why they wait
                            (`allocations.py`)
requests wait, no journal   fence it: void all promises that a lost journal may have contained
otherwise                   read, choose, write the journal, the IPAllocations, and the counts

A *promise* is an address that the network's journal reserves for an IPAllocation. A machine is a
NetworkConfiguration.

The oldest request comes first and gets the lowest free address. A request for a certain address
gets that address or is refused. A refused request is tried again in each pass, so that it is
served once the address is free. An IPAllocation leaves phase Error through Pending: one pass sets
the address aside and writes Pending, and the next pass promises the address.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from typing_extensions import override

from allocator import AddressRange, PoolExhausted
from allocator.addresses import quote_value
from allocator.errors import RequestRefused
from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.errors import ApiError
from controller.events import Recorder
from controller.meta import Key
from controller.outcome import SETTLED, Outcome
from reconcilers.configuration.settings import PoolSettings
from reconcilers.integrations.core.eventmemory import StateEvents
from reconcilers.integrations.core.rules import SpaceView, needs_fence
from reconcilers.integrations.vitistack.api import (
    ALLOCATIONS,
    ERROR,
    JOURNALS,
    NETWORKS,
    PENDING,
    NetworkNamespace,
    Static,
    VitistackAllocation,
)
from reconcilers.integrations.vitistack.caches import (
    INVALID_RANGE,
    VitistackCaches,
    VitistackProblem,
    find_problem,
    find_static,
    make_holder,
)
from reconcilers.integrations.vitistack.ranges import NetworkSpace, parse_space
from reconcilers.integrations.vitistack.reading import ShownAddresses, VitistackReader
from reconcilers.integrations.vitistack.writing import (
    ACTION,
    NetworkStatuses,
    VitistackWriter,
    shows_problem,
)
from reconcilers.promises.annotationwrites import ANNOTATION_WRITES
from reconcilers.promises.choosing import (
    AskerRefusal,
    Refused,
    ServedAskers,
    Taken,
    choose,
    exclude_ranges,
)
from reconcilers.promises.journal import Journal, Promise, PromisedRange, list_ranges
from reconcilers.promises.keeping import Granted, Kept
from reconcilers.promises.passes import (
    NO_FENCED_REQUESTS,
    Allotment,
    PassWork,
    PoolKind,
    next_after_quiet_period,
)
from reconcilers.promises.reading import highest_revision
from reconcilers.promises.requestkinds import Fenced, RequestKind, ServedRequests
from reconcilers.promises.results import WriteResult
from reconcilers.promises.settling import settle
from reconcilers.promises.shares import Limits, Shares, TenantOf, no_tenant
from reconcilers.promises.unreadable import (
    HOLDERS_UNKNOWN,
    UnreadableHoldings,
    build_holders_unknown_message,
)
from reconcilers.spaces.index import SpaceIndex

POOL_EXHAUSTED = "PoolExhausted"
ADDRESS_UNAVAILABLE = "AddressUnavailable"
_NOTHING_SHOWN: Mapping[AddressRange, Key] = {}
EXHAUSTED = "no available IP addresses in pool"


@dataclass(frozen=True, slots=True)
class NetworkReading:
    """What a pass read of a network.

    Args:
        static: the settings of the network.
        space: the addresses that the network hands out by these settings.
        view: the IPAllocations that name the network, and what they hold.
    """

    static: Static
    space: NetworkSpace
    view: SpaceView[VitistackAllocation]


@dataclass(frozen=True, slots=True)
class Unserved:
    """The IPAllocations that get no address in a pass.

    Args:
        refusals: the IPAllocations that are refused, with the reasons.
        leaving_error: the IPAllocations that go from phase Error to Pending in this pass, and get
            their address in a later one.
    """

    refusals: Sequence[AskerRefusal[VitistackAllocation]]
    leaving_error: Sequence[VitistackAllocation]


NetworkChoice = Allotment[VitistackAllocation, Unserved]


class Networks(
    PoolKind[NetworkNamespace, VitistackAllocation, NetworkReading, Unserved],
    RequestKind[NetworkNamespace, VitistackAllocation, NetworkReading],
):
    """NetworkNamespaces, as passes over pools of all kinds see them.

    Args:
        client: for the requests.
        reader: reads IPAllocations.
        writer: writes IPAllocations.
        recorder: takes the events.
        clock: the time.
        settings: intervals, and how much is done at once.
        spaces: what pools of all kinds hand out.
    """

    journals = JOURNALS
    journal_writes = ANNOTATION_WRITES
    request_resource = ALLOCATIONS

    def __init__(  # noqa: PLR0913 - what a pass works with
        self,
        client: Client,
        caches: VitistackCaches,
        reader: VitistackReader,
        writer: VitistackWriter,
        *,
        recorder: Recorder,
        clock: Clock,
        settings: PoolSettings,
        spaces: SpaceIndex,
    ) -> None:
        self._client = client
        self._settings = settings
        self._caches = caches
        self._reader = reader
        self._writer = writer
        self._events = StateEvents(recorder, ACTION)
        self._shown = ShownAddresses(caches)
        self._statuses = NetworkStatuses(
            client, caches, recorder=recorder, clock=clock, spaces=spaces
        )
        self._served_requests = ServedRequests(self)

    @property
    @override
    def pools(self) -> Cache[NetworkNamespace]:
        return self._caches.networks

    @property
    @override
    def is_history_confirmed(self) -> bool:
        return self._caches.is_history_confirmed

    @override
    def forget_lists(self) -> None:
        """Forget nothing: no LIST is kept from one pass to the next."""

    @override
    def is_left_alone(self, pool: NetworkNamespace) -> bool:
        """Return whether the network is of another provider."""
        return not self._caches.is_ours(pool)

    @override
    def forget(self, pool: Key) -> None:
        """Drop what is remembered of a network that is gone."""
        self._events.forget(NETWORKS, pool)
        self._reader.forget(pool)

    @override
    async def prepare(self, pool: NetworkNamespace) -> tuple[NetworkNamespace, Outcome | None]:
        """Report on a network that hands out nothing now, by an event and its condition.

        Returns:
            The network, and the outcome of the pass; the outcome is None if the pass goes on.
        """
        problem = find_problem(pool, pool.metadata.name)
        if find_static(pool) is not None and problem is None:
            return pool, None
        # Only an invalid range has to be corrected on the network, so only it is an event there.
        is_invalid = problem is not None and problem.reason == INVALID_RANGE
        self._report_problem(pool, problem if is_invalid else None)
        # A network that is being deleted offers no addresses, so it shares none.
        if not pool.metadata.is_terminating:
            await self._statuses.write_overlaps(pool)
        return pool, SETTLED

    @override
    def request_kinds(
        self, pool: NetworkNamespace
    ) -> Sequence[ServedRequests[NetworkNamespace, VitistackAllocation, NetworkReading]]:
        return (self._served_requests,)

    @override
    def tenants(self, reading: NetworkReading) -> TenantOf:
        return no_tenant  # all IPAllocations of a network are in its namespace

    @override
    async def read(
        self,
        pool: NetworkNamespace,
        journal: Journal,
        fenced_requests: Mapping[str, object] = NO_FENCED_REQUESTS,
    ) -> NetworkReading:
        """Read the IPAllocations of a network as far as its journal says."""
        static = find_static(pool)
        assert static is not None, "prepare ends the pass over other networks"
        space = parse_space(static)
        revision = journal.revisions.get(JOURNALS.kind, 0)
        view = await self._reader.read_up_to(pool.metadata.key, space, revision)
        return NetworkReading(static, space, view)

    @override
    def needs_fence(
        self, pool: NetworkNamespace, journal: Journal, reading: NetworkReading, limits: Limits
    ) -> bool:
        """Return whether promises of an earlier journal must be voided before this pass."""
        revision, view = journal.revisions.get(JOURNALS.kind), reading.view
        return needs_fence(revision, view.position, has_requests=view.holdings.waiting_count > 0)

    @override
    async def void_earlier(self, pool: NetworkNamespace, reading: NetworkReading) -> Fenced:
        """Write each waiting IPAllocation once, so that earlier promises to it are void."""
        listed, _ = await self._reader.list_live(pool.metadata.key)
        allocations = await self._writer.fence.void_earlier([*listed.values()])
        return Fenced({JOURNALS.kind: highest_revision(allocations)})

    @override
    def choose(
        self, pool: NetworkNamespace, journal: Journal, reading: NetworkReading, limits: Limits
    ) -> NetworkChoice:
        """Choose addresses for IPAllocations; `confirm` repeats a choice that grants addresses."""
        shown_addresses = self._shown.list_in_network(pool.metadata.key)
        return self._choose(
            pool,
            journal,
            reading=reading,
            limits=limits,
            machines_by_shown_address=shown_addresses,
        )

    @override
    async def confirm(
        self,
        pool: NetworkNamespace,
        journal: Journal,
        reading: NetworkReading,
        choice: NetworkChoice,
        limits: Limits,
    ) -> tuple[NetworkReading, NetworkChoice]:
        """Repeat a choice that grants addresses, with what machines show by a LIST.

        Returns:
            The reading and the choice of the repetition; if the choice grants nothing, the given
            reading and choice.
        """
        if not choice.granted:
            return reading, choice
        # Another operator may have given a machine an address that is not in the cache yet.
        # IPAllocations are read again, too, so that the choice does not combine two states.
        shown_addresses = await self._shown.read_live(self._client, pool.metadata.key)
        reading = await self.read(pool, journal)
        return reading, self._choose(
            pool,
            journal,
            reading=reading,
            limits=limits,
            machines_by_shown_address=shown_addresses,
        )

    def _choose(
        self,
        network: NetworkNamespace,
        journal: Journal,
        reading: NetworkReading,
        limits: Limits,
        machines_by_shown_address: Mapping[str, Key],
    ) -> NetworkChoice:
        """Choose addresses for waiting IPAllocations; addresses that machines show are not free.

        Args:
            network: the network as it was read.
            journal: the journal of the network.
            limits: which IPAllocations may get an address in this pass.
            machines_by_shown_address: the NetworkConfiguration that shows an address, by address.
        """
        view, space = reading.view, reading.space
        # Only promises that may still take effect reserve their addresses.
        settled = settle(journal, JOURNALS.kind, view)
        promised = [part for promise in settled.promises for part in promise.ranges]
        held_ranges = view.holdings.list_held_ranges()
        # Addresses that IPAllocations hold are in the holdings already.
        shown_ranges = {
            address: configuration
            for address_text, configuration in machines_by_shown_address.items()
            if (address := space.address(address_text)) is not None and address not in held_ranges
        }
        taker = NetworkTaker(
            network.metadata.name,
            space,
            view=view,
            promises=settled.promises,
            shown_ranges=shown_ranges,
        )
        room = min(self._settings.batch, JOURNALS.count_room(settled))
        with exclude_ranges(view.holdings, promised, map(PromisedRange, shown_ranges)):
            choice = choose(
                view.holdings, [ServedAskers(taker)], settled.promises, room, limits=limits
            )
        granted = [(grant.build_promise(grant.asker), grant.asker) for grant in choice.grants]
        unserved = Unserved(choice.refusals, taker.leaving_error)
        return Allotment(settled, granted, more=choice.more, detail=unserved)

    @override
    def find_request(
        self, reading: NetworkReading, promise: Promise
    ) -> VitistackAllocation | None:
        """Return the IPAllocation of a promise; None if it has another version by now."""
        return reading.view.find_promised_request(promise)

    @override
    def is_request_paused(self, pool: NetworkNamespace, request: VitistackAllocation) -> bool:
        """Return False: an IPAllocation of vitistack cannot be paused."""
        return False

    @override
    async def keep(
        self,
        pool: NetworkNamespace,
        reading: NetworkReading,
        granted: Sequence[Granted[VitistackAllocation]],
    ) -> list[Kept[VitistackAllocation]]:
        """Write promises to their IPAllocations, each with the promised version as precondition.

        Returns:
            The result of the write of each promise, also of a failed one.
        """
        return await self._writer.keep(granted, reading.static)

    @override
    async def void_refused(
        self, pool: NetworkNamespace, refused: Sequence[Kept[VitistackAllocation]]
    ) -> Sequence[WriteResult]:
        return await self._writer.void_refused(refused)

    @override
    async def finish(
        self,
        pool: NetworkNamespace,
        reading: NetworkReading,
        choice: NetworkChoice,
        kept: Sequence[Kept[VitistackAllocation]],
        shares: Shares,
    ) -> float | None:
        """Write the problems of IPAllocations, and the status of the network.

        Returns:
            Seconds until writes that the API server rejected are retried; None if there are none.
        """
        refused = [
            (refusal.asker, _build_error(refusal.reason, refusal.message))
            for refusal in choice.detail.refusals
        ]
        pending = VitistackProblem(PENDING, "", "trying again")
        leaving_error = ((allocation, pending) for allocation in choice.detail.leaving_error)
        seconds = await self._writer.write_problems([*refused, *leaving_error])
        exhausted = [problem for _, problem in refused if problem.reason == POOL_EXHAUSTED]
        self._report_problem(pool, exhausted[0] if exhausted else None)
        holdings = self._reader.read_cached(pool.metadata.key, reading.space).holdings
        await self._statuses.write_status(
            pool, reading.static.vlanId, space=reading.space, holdings=holdings
        )
        return seconds

    @override
    def next_pass(
        self, work: PassWork[NetworkNamespace, VitistackAllocation, Unserved]
    ) -> Outcome:
        """Return when the next pass is due for the promises or for `finish`."""
        return next_after_quiet_period(work)

    @override
    async def report_unreadable(
        self, pool: NetworkNamespace, unreadable: UnreadableHoldings
    ) -> float | None:
        """Report unreadable objects by an event on the network, and on each waiting IPAllocation.

        Returns:
            None, no time for the next pass: a change of the unreadable objects leads to it.
        """
        problem = VitistackProblem(
            PENDING, HOLDERS_UNKNOWN, build_holders_unknown_message(str(unreadable))
        )
        self._report_problem(pool, problem)
        undecoded = self._caches.allocations.unreadable
        waiting = [
            allocation
            for allocation in self._caches.list_allocations_in(pool.metadata.key)
            if allocation.waits and allocation.metadata.key not in undecoded
        ]
        await self._writer.write_problems([(allocation, problem) for allocation in waiting])
        return None

    @override
    async def report_pool_refused(self, pool: NetworkNamespace, error: ApiError) -> None:
        """Report nothing beside the log: IPAllocations do not show failed writes of a network."""

    def _report_problem(self, network: NetworkNamespace, problem: VitistackProblem | None) -> None:
        """Record an event about the problem of a network, once until the problem changes.

        Args:
            problem: None if the network has none any more.
        """
        if problem is None:
            self._events.forget(NETWORKS, network.metadata.key)
        else:
            self._events.report(NETWORKS, network, reason=problem.reason, message=problem.message)


class NetworkTaker:
    """Takes addresses of a network in a trial, for one IPAllocation after the other.

    Args:
        network: the name of the network.
        space: the addresses that the network hands out.
        view: the IPAllocations as they were read, and what they hold.
        promises: the open promises of the network.
        shown_ranges: addresses that machines show and no IPAllocation holds, with the
            NetworkConfigurations that show them; the trial keeps them from other machines.
    """

    kind = JOURNALS.kind

    def __init__(
        self,
        network: str,
        space: NetworkSpace,
        view: SpaceView[VitistackAllocation],
        promises: Sequence[Promise] = (),
        shown_ranges: Mapping[AddressRange, Key] = _NOTHING_SHOWN,
    ) -> None:
        self.find = view.find
        self.leaving_error: list[VitistackAllocation] = []
        """The IPAllocations that go from phase Error to Pending in this pass."""
        self._shown = shown_ranges
        self._network = network
        self._space = space
        self._view = view
        self._promised = set(list_ranges(promises))
        self._requested: dict[AddressRange, Key] = {}
        """The requested addresses that were taken in this trial, with their IPAllocations."""

    def take(self, asker: VitistackAllocation) -> Taken | None:
        """Take the address of an IPAllocation; None if the IPAllocation leaves phase Error first.

        The first of these is its address: the address that its status shows already, the requested
        address, the lowest free address.

        An IPAllocation in phase Error gets no promise in this pass. It is added to
        `leaving_error`, and no other IPAllocation gets its address in this trial.

        Raises:
            Refused: the requested address is not available, or no address is free.
        """
        address = self._find_shown_address(asker)
        if address is None:
            requested_address = asker.spec.requestedAddress
            address = (
                self._take_exactly(requested_address, asker)
                if requested_address
                else self._take_lowest()
            )
        if asker.status.phase == ERROR:
            self.leaving_error.append(asker)
            return None
        return Taken((PromisedRange(address),))

    def is_refusal_shown(self, asker: VitistackAllocation, refused: Refused) -> bool:
        """Return whether an IPAllocation shows a refusal already."""
        problem = _build_error(refused.reason, refused.message)
        return shows_problem(asker, problem)

    def _find_shown_address(self, allocation: VitistackAllocation) -> AddressRange | None:
        """Return the address that an IPAllocation shows already and may keep; None without one.

        It may keep the address unless the network does not hand it out, a promise reserves it, or
        another IPAllocation holds it.
        """
        address = (
            self._space.address(allocation.status.address) if allocation.status.address else None
        )
        if address is None or not self._space.hands_out(address) or address in self._promised:
            return None
        other = self._view.holdings.find_other_holder(address, make_holder(allocation))
        return address if other is None else None

    def _take_lowest(self) -> AddressRange:
        """Take the lowest free address.

        Raises:
            Refused: no address is free.
        """
        try:
            return self._view.holdings.get_space().take_lowest(1)[0]
        except PoolExhausted:
            raise Refused(POOL_EXHAUSTED, EXHAUSTED) from None

    def _take_exactly(self, address_text: str, allocation: VitistackAllocation) -> AddressRange:
        """Take the address that an IPAllocation requests.

        Raises:
            Refused: the address cannot be parsed, the network does not hand it out, another
                IPAllocation holds it, or another machine shows it.
        """
        key = allocation.metadata.key
        address = self._space.address(address_text)
        if address is None:
            raise self._build_refusal(address_text, "is not an IPv4 address")
        if not self._space.hands_out(address):
            where = f'is not handed out by NetworkNamespace "{self._network}"'
            raise self._build_refusal(
                address_text, f"{where} ({self._space.text}, without its gateway)"
            )
        other = self._view.holdings.find_other_holder(address, make_holder(allocation))
        key_of_other = self._requested.get(address) if other is None else other.key
        if key_of_other is not None:
            raise self._build_refusal(
                address_text, f"is already allocated to IPAllocation {key_of_other.name}"
            )
        machine = self._shown.get(address)
        if machine is not None and machine != allocation.configuration:
            raise self._build_refusal(
                address_text, f"is shown by NetworkConfiguration {machine.name}"
            )
        if machine is not None and address not in self._promised:
            self._requested[address] = key
            return address  # the trial keeps it for this machine, so it cannot be taken again
        try:
            taken_range = self._view.holdings.get_space().pin(address)
        except RequestRefused:
            raise self._build_refusal(address_text, "is already allocated") from None
        self._requested[address] = key
        return taken_range

    def _build_refusal(self, address_text: str, why: str) -> Refused:
        """Return the error that a requested address is not available."""
        return Refused(ADDRESS_UNAVAILABLE, f"requested address {quote_value(address_text)} {why}")


def _build_error(reason: str, message: str) -> VitistackProblem:
    """Return a problem that puts an IPAllocation into phase Error."""
    return VitistackProblem(ERROR, reason, message)
