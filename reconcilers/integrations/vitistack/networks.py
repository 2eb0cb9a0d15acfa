"""One pass over one NetworkNamespace.

gone, or not ours?          leave it
hands out nothing now?      report who hands out the same; IPAllocations say why they wait
                            (`allocations.py`)
requests wait, no memory?   fence it: void whatever was promised before
otherwise                   read, choose, write the journal, write the IPAllocations, count

The lowest free address comes first, the oldest request, too. A requested address is given or
refused by its name, never replaced by another; one that was refused is tried in each pass, so that
it is served when the address is free. An Error goes by Pending: the address is set aside in
the pass that ends it, and promised in the next.
"""

from collections.abc import Mapping, Sequence

from typing_extensions import override

from allocator import AddressRange, PoolExhausted
from allocator.addresses import quoted
from allocator.errors import RequestRefused
from controller.client import Client
from controller.clock import Clock
from controller.events import Recorder
from controller.meta import Key
from controller.outcome import SETTLED, Outcome
from reconcilers.configuration.settings import PoolSettings
from reconcilers.integrations.core.eventmemory import EventMemory
from reconcilers.integrations.core.passes import JournalReconciler
from reconcilers.integrations.core.rules import Choice, Refused, View, choose, needs_fence
from reconcilers.integrations.vitistack.api import (
    ERROR,
    JOURNALS,
    NETWORKS,
    PENDING,
    IPAllocation,
    NetworkNamespace,
    Static,
)
from reconcilers.integrations.vitistack.caches import (
    INVALID_RANGE,
    Problem,
    VitistackCaches,
    holder_of,
    problem_of,
    static_of,
)
from reconcilers.integrations.vitistack.ranges import NetworkSpace, space_of
from reconcilers.integrations.vitistack.reading import Reader, ShownAddresses
from reconcilers.integrations.vitistack.writing import (
    ACTION,
    NetworkStatuses,
    Writer,
    has_problem,
)
from reconcilers.promises.journal import Journal
from reconcilers.promises.keeping import Kept
from reconcilers.promises.reading import highest_revision
from reconcilers.promises.settling import settle
from reconcilers.promises.unreadable import HOLDERS_UNKNOWN, holders_unknown_message
from reconcilers.spaces.index import SpaceIndex

POOL_EXHAUSTED = "PoolExhausted"
ADDRESS_UNAVAILABLE = "AddressUnavailable"
_NOTHING_SHOWN: Mapping[AddressRange, Key] = {}
EXHAUSTED = "no available IP addresses in pool"


class NetworkReconciler(JournalReconciler[NetworkNamespace]):
    """Hands out the addresses of NetworkNamespaces.

    Args:
        client: for the requests.
        caches: the caches.
        reader: reads IPAllocations.
        writer: writes them.
        recorder: takes the events.
        clock: the time.
        settings: intervals, and how much is done at once.
        spaces: what pools of all kinds hand out.
    """

    def __init__(  # noqa: PLR0913 - what a pass works with
        self,
        client: Client,
        caches: VitistackCaches,
        reader: Reader,
        writer: Writer,
        *,
        recorder: Recorder,
        clock: Clock,
        settings: PoolSettings,
        spaces: SpaceIndex,
    ) -> None:
        super().__init__(
            caches.networks,
            JOURNALS,
            caches=caches,
            client=client,
            clock=clock,
            settings=settings,
        )
        self._caches = caches
        self._reader = reader
        self._writer = writer
        self._recorder = recorder
        self._recorded = EventMemory[Key]()
        """By network: the problem of the last event about it."""
        self._shown = ShownAddresses(caches)
        self._statuses = NetworkStatuses(client, caches, recorder, clock, spaces=spaces)

    @override
    def _is_left_alone(self, pool: NetworkNamespace) -> bool:
        return not self._caches.is_ours(pool)

    @override
    def _forget(self, key: Key) -> None:
        self._recorded.end(key)
        self._reader.forget(key)

    @override
    async def _pass(self, pool: NetworkNamespace) -> Outcome:
        network, static = pool, static_of(pool)
        problem = problem_of(network, network.metadata.name)
        if static is None or problem is not None:
            self._record(network, problem if problem and problem.reason == INVALID_RANGE else None)
            if not network.metadata.terminating:
                await self._statuses.write_overlaps(network)
            return SETTLED
        space = space_of(static)
        journal = JOURNALS.read(network.metadata)
        revision = journal.revisions.get(JOURNALS.kind)
        view = await self._reader.at_least(network.metadata.key, space, revision or 0)
        if needs_fence(revision, view.position, wanted=view.holdings.waiting_count > 0):
            network, journal = await self._fence(network)
            revision = journal.revisions[JOURNALS.kind]
            view = await self._reader.at_least(network.metadata.key, space, revision)
        return await self._serve(network, journal, static, space, view)

    @override
    async def _report_unreadable(self, pool: NetworkNamespace, why: str) -> None:
        """Report it as an event on the network, and on each IPAllocation that waits."""
        problem = Problem(PENDING, HOLDERS_UNKNOWN, holders_unknown_message(why))
        self._record(pool, problem)
        unreadable = self._caches.allocations.unreadable
        waiting = [
            one
            for one in self._caches.of_network(pool.metadata.key)
            if one.waits and one.metadata.key not in unreadable
        ]
        await self._writer.write_problems([(one, problem) for one in waiting])

    @override
    async def _write_fence(self, network: NetworkNamespace) -> tuple[NetworkNamespace, Journal]:
        """Void whatever was promised before the network was read, then give it a memory."""
        listed, _ = await self._reader.live(network.metadata.key)
        allocations = await self._writer.fence.void_earlier([*listed.values()])
        journal = JOURNALS.with_revision(highest_revision(allocations))
        return await self._write_journal(network, journal)

    async def _serve(
        self,
        network: NetworkNamespace,
        journal: Journal,
        static: Static,
        space: NetworkSpace,
        view: View[IPAllocation],
    ) -> Outcome:
        """Write promises to the network, then addresses to IPAllocations, then the counts."""
        key = network.metadata.key
        choice, again = self._choose(network, journal, space, view, self._shown.of_network(key))
        if choice.grants:
            # Another operator may have given a machine an address that the cache does not show.
            # What IPAllocations hold is read again: the choice must not mix two moments.
            shown = await self._shown.read_live(self._client, key)
            revision = journal.revisions.get(JOURNALS.kind, 0)
            view = await self._reader.at_least(key, space, revision)
            choice, again = self._choose(network, journal, space, view, shown)
        promised = [grant.promise for grant in choice.grants]
        network, journal = await self._promise(
            network, journal, choice.journal, promised, choice.settled
        )
        kept = await self._keep(network, static, view, choice)
        refused = [(one.request, _problem(one.reason, one.message)) for one in choice.refusals]
        retry = Problem(PENDING, "", "trying again")
        unwritten = await self._writer.write_problems([*refused, *((one, retry) for one in again)])
        full = [problem for _, problem in refused if problem.reason == POOL_EXHAUSTED]
        self._record(network, full[0] if full else None)
        holdings = self._reader.cached(network.metadata.key, space).holdings
        await self._statuses.write(network, static, space, holdings)
        return self._next(
            network, journal, choice.settled, kept, more=choice.more, later=unwritten
        )

    def _choose(
        self,
        network: NetworkNamespace,
        journal: Journal,
        space: NetworkSpace,
        view: View[IPAllocation],
        shown_texts: Mapping[str, Key],
    ) -> tuple[Choice[IPAllocation], list[IPAllocation]]:
        """Choose addresses; return the choice, and who leaves Error first.

        Args:
            network: as it was read.
            journal: of the network.
            space: what it hands out.
            view: its IPAllocations.
            shown_texts: addresses that machines show, and the machines.
        """
        again: list[IPAllocation] = []
        promised = [
            promised_range
            for promise in settle(journal, JOURNALS.kind, view).promises
            for promised_range in promise.in_space()
        ]
        held = view.holdings.held_ranges()
        shown = {
            address: configuration
            for text, configuration in shown_texts.items()
            if (address := space.address(text)) is not None and address not in held
        }
        taking = Taking(network.metadata.name, space, view, promised, again, shown)
        choice = choose(
            journal,
            JOURNALS.kind,
            view,
            to_blocks=lambda addresses: addresses,
            to_addresses=lambda blocks: blocks,
            also_held=list(shown),
            take=taking.take,
            shows=lambda refusal: has_problem(
                refusal.request, _problem(refusal.reason, refusal.message)
            ),
            batch=self._settings.batch,
            limits=self._limits(network),
        )
        return choice, again

    async def _keep(
        self,
        network: NetworkNamespace,
        static: Static,
        view: View[IPAllocation],
        choice: Choice[IPAllocation],
    ) -> list[Kept[IPAllocation]]:
        """Keep the new promises, and those earlier ones that are due."""
        fresh = [(grant.promise, grant.request) for grant in choice.grants]
        due = self._earlier(network, choice.journal, (promise for promise, _ in fresh))
        earlier = [
            (promise, one) for promise in due if (one := view.at_version(promise)) is not None
        ]
        kept = await self._writer.keep([*earlier, *fresh], static)
        return await self._void_refused(network, kept, self._writer.void_refused)

    def _record(self, network: NetworkNamespace, problem: Problem | None) -> None:
        """Record an event for what is wrong with a network, once until it changes."""
        key, uid = network.metadata.key, network.metadata.uid
        if problem is None:
            self._recorded.end(key)
        elif self._recorded.begin(key, uid, problem):
            self._recorder.record(
                NETWORKS, network, "Warning", problem.reason, problem.message, action=ACTION
            )


class Taking:
    """Takes addresses of a network in a trial, for one IPAllocation after the other.

    Args:
        network: its name.
        space: what it hands out.
        view: what was read.
        promised: what is promised and not written yet.
        again: gets those that leave Error by Pending.
        shown: addresses that machines have without holding them, with the NetworkConfigurations
            that show them; they are held in the trial.
    """

    def __init__(
        self,
        network: str,
        space: NetworkSpace,
        view: View[IPAllocation],
        promised: Sequence[AddressRange],
        again: list[IPAllocation],
        shown: Mapping[AddressRange, Key] = _NOTHING_SHOWN,
    ) -> None:
        self._shown = shown
        self._network = network
        self._space = space
        self._view = view
        self._promised = promised
        self._again = again
        self._requested: dict[AddressRange, Key] = {}

    def take(self, one: IPAllocation) -> AddressRange | None:
        """Return the address of an IPAllocation; None if it leaves Error first.

        Raises:
            Refused: there is none for it.
        """
        address = self._own(one)
        if address is None:
            wanted = one.spec.requestedAddress
            address = self._exactly(wanted, one) if wanted else self._lowest()
        if one.status.phase == ERROR:
            self._again.append(one)
            return None
        return address

    def _own(self, one: IPAllocation) -> AddressRange | None:
        """Return the address that it shows already, where no other holds it."""
        shown = self._space.address(one.status.address) if one.status.address else None
        if shown is None or not self._space.hands_out(shown) or shown in self._promised:
            return None
        other = self._view.holdings.other_holder(shown, holder_of(one))
        return shown if other is None else None

    def _lowest(self) -> AddressRange:
        try:
            return self._view.holdings.space().first(1)[0]
        except PoolExhausted:
            raise Refused(POOL_EXHAUSTED, EXHAUSTED) from None

    def _exactly(self, text: str, one: IPAllocation) -> AddressRange:
        """Take a requested address."""
        key = one.metadata.key
        address = self._space.address(text)
        if address is None:
            raise self._refused(text, "is not an IPv4 address")
        if not self._space.hands_out(address):
            where = f'is not handed out by NetworkNamespace "{self._network}"'
            raise self._refused(text, f"{where} ({self._space.text}, without its gateway)")
        other = self._view.holdings.other_holder(address, holder_of(one))
        key_of_other = self._requested.get(address) if other is None else other.key
        if key_of_other is not None:
            raise self._refused(text, f"is already allocated to IPAllocation {key_of_other.name}")
        machine = self._shown.get(address)
        if machine is not None and machine != one.configuration:
            raise self._refused(text, f"is shown by NetworkConfiguration {machine.name}")
        if machine is not None and address not in self._promised:
            self._requested[address] = key
            return address  # it is held for this machine already
        try:
            taken = self._view.holdings.space().pin(address)
        except RequestRefused:
            raise self._refused(text, "is already allocated") from None
        self._requested[address] = key
        return taken

    def _refused(self, text: str, why: str) -> Refused:
        return Refused(ADDRESS_UNAVAILABLE, f"requested address {quoted(text)} {why}")


def _problem(reason: str, message: str) -> Problem:
    return Problem(ERROR, reason, message)
