"""Write the statuses of IPAllocations and NetworkNamespaces.

An IPAllocation's status has its address, the reason why it has none, or phase Released. A
*promise* is an address that the journal of a network reserves for one version of an IPAllocation.
The address is written with exactly the resourceVersion that the promise names. On a conflict the
IPAllocation has another version by now, so the promise can never take effect. To *void* a promise
is to write the IPAllocation once, so that it gets another version.

A network's status has how much is in use, and which pools share its addresses.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from controller.client import Client
from controller.clock import Clock
from controller.conditions import find_condition, format_rfc3339
from controller.events import Recorder
from controller.loggers import get_logger
from reconcilers.configuration.settings import PoolSettings
from reconcilers.integrations.vitistack.api import (
    ALLOCATED,
    ALLOCATIONS,
    NETWORKS,
    PENDING,
    RELEASED,
    STATIC,
    NetworkNamespace,
    NetworkSummary,
    Static,
    VitistackAllocation,
)
from reconcilers.integrations.vitistack.caches import VitistackCaches, VitistackProblem
from reconcilers.integrations.vitistack.offers import make_offers
from reconcilers.integrations.vitistack.ranges import NetworkSpace, parse_space
from reconcilers.promises.concurrency import run_concurrently
from reconcilers.promises.fence import Fence
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.journal import Promise
from reconcilers.promises.keeping import (
    Granted,
    Kept,
    build_refused_message,
    keep_each,
    void_each,
)
from reconcilers.promises.refusedwrites import RefusedWrites
from reconcilers.promises.results import WriteResult
from reconcilers.reporting.conditions import ConditionFinding, make_conditions_patch
from reconcilers.reporting.releaselog import build_holder_fields
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.sharing import OVERLAPPING

_log = get_logger(__name__)

ACTION = "Allocating"
RELEASE = "released IPAllocation of vitistack"
"""The log line about each release."""
ALLOCATION_FAILED = "AllocationFailed"
LONGEST_SECONDS = 100 * 365 * 86_400
"""The longest lifetime of an address: a hundred years."""
NO_HELD_ADDRESS_PATCH: Mapping[str, Any] = {
    "address": None,
    "gateway": None,
    "prefix": None,
    "vlanId": None,
    "dns": None,
    "expiresAt": None,
}
"""The patch that removes all fields about a held address from a status."""


def render_network_settings(static: Static) -> dict[str, Any]:
    """Return the part of an IPAllocation's status with the settings of its network."""
    return {
        "gateway": static.ipv4Gateway,
        "prefix": parse_space(static).prefix,
        "vlanId": static.vlanId,
        "dns": list(static.dns),
    }


def compute_lifetime(static: Static | None) -> int:
    """Return the lifetime of an address in seconds, limited so that its expiry is a valid date.

    Args:
        static: the settings of the network; None for the default lifetime.
    """
    return min((static or Static()).ttlSeconds, LONGEST_SECONDS)


def compute_expiry(static: Static | None, now: datetime) -> str:
    """Return the expiry, in RFC 3339, of an address that is given or renewed now."""
    return format_rfc3339(now + timedelta(seconds=compute_lifetime(static)))


def build_allocated_status(static: Static, address: str, now: datetime) -> dict[str, Any]:
    """Return the status of an IPAllocation that gets an address."""
    return {
        "phase": ALLOCATED,
        "address": address,
        **render_network_settings(static),
        "expiresAt": compute_expiry(static, now),
        "message": "IP allocated successfully",
    }


def build_released_status(message: str) -> dict[str, Any]:
    """Return the status of an IPAllocation whose address is free again."""
    return {"phase": RELEASED, **NO_HELD_ADDRESS_PATCH, "message": message}


async def release(
    client: Client, allocation: VitistackAllocation, why: str
) -> VitistackAllocation:
    """Write phase Released to an IPAllocation, which frees its address; return the new version.

    Args:
        client: writes the status.
        allocation: the IPAllocation as it was read.
        why: why the address is released, for the message of the status and the log.

    Raises:
        ControllerError: the write failed.
    """
    written = await client.patch_status(ALLOCATIONS, allocation, build_released_status(why))
    _log.info(RELEASE, **release_fields(allocation, why))
    return written


def release_fields(allocation: VitistackAllocation, why: str) -> dict[str, str]:
    """Return the fields of a log line about the release of an IPAllocation's address."""
    address = allocation.status.address
    holder = f"{ALLOCATIONS.full_name} {allocation.metadata.key}"
    pool = f"NetworkNamespace {allocation.network}"
    return build_holder_fields(holder, [address] if address else (), pool=pool, reason=why)


def build_refused_status(
    allocation: VitistackAllocation, problem: VitistackProblem
) -> dict[str, Any]:
    """Return the status of an IPAllocation that gets no address.

    A waiting IPAllocation may show an address that another operator gave, and that the machine
    uses. So while the problem may pass, the address stays in the status.
    """
    keeps_address = problem.phase == PENDING and allocation.status.address
    held_fields = {} if keeps_address else NO_HELD_ADDRESS_PATCH
    return {"phase": problem.phase, **held_fields, "message": problem.message}


class VitistackWriter:
    """Writes the statuses of IPAllocations.

    Args:
        client: for the writes.
        recorder: takes the events.
        clock: the time.
        settings: writes in flight at once, and when a refused write is tried again.
    """

    def __init__(
        self, client: Client, recorder: Recorder, clock: Clock, settings: PoolSettings
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._width = settings.width
        self._refused = RefusedWrites(clock, settings.resync)
        self.fence = Fence(
            client,
            ALLOCATIONS,
            may_have_promise=lambda allocation: allocation.waits,
            void=self._void,
            width=settings.width,
        )
        """Voids promises that a network made before it was read."""

    async def keep(
        self, granted: Sequence[Granted[VitistackAllocation]], static: Static
    ) -> list[Kept[VitistackAllocation]]:
        """Write promised addresses to IPAllocations; return the outcome of each write."""

        async def write(promise: Promise, allocation: VitistackAllocation) -> None:
            """Write the address of a promise to its IPAllocation."""
            [promised] = promise.list_ranges_in_space()  # an IPAllocation gets one address
            status = build_allocated_status(static, promised.start_text, self._clock.now())
            await self._client.patch_status(ALLOCATIONS, allocation, status)

        return await keep_each(granted, write, self._width)

    async def void_refused(
        self, refused: Sequence[Kept[VitistackAllocation]]
    ) -> list[WriteResult]:
        """Void promises whose write the API server rejected for good; show why on IPAllocations.

        Args:
            refused: the promises, with their IPAllocations.

        Returns:
            The result of each voiding write, in order.
        """

        async def void(entry: Kept[VitistackAllocation]) -> None:
            """Write the reason to an IPAllocation, which voids the promise; record an event."""
            message = build_refused_message(entry.why, self._clock.now())
            problem = VitistackProblem(PENDING, ALLOCATION_FAILED, message)
            status = {"phase": problem.phase, "message": problem.message}
            written = await self._client.patch_status(ALLOCATIONS, entry.request, status)
            self._recorder.record(
                ALLOCATIONS, written, "Warning", ALLOCATION_FAILED, entry.why, action=ACTION
            )

        return await void_each(refused, void, self._width)

    async def write_problems(
        self, problems: Sequence[tuple[VitistackAllocation, VitistackProblem]]
    ) -> float | None:
        """Write on each IPAllocation why it has no address, unless it shows that already.

        Returns:
            In how many seconds the writes that the API server rejected are due again; None if it
            rejected none.
        """
        unshown = [
            (allocation, problem)
            for allocation, problem in problems
            if not shows_problem(allocation, problem)
        ]
        await run_concurrently(
            [partial(self._write_problem, *entry) for entry in unshown], self._width
        )
        return self._refused.next_in(allocation.metadata for allocation, _ in unshown)

    async def _write_problem(
        self, allocation: VitistackAllocation, problem: VitistackProblem
    ) -> None:
        """Write a problem, with an event if it does not pass by itself.

        A rejected write raises nothing, because other IPAllocations of the network come after it.
        """
        write = partial(
            self._client.patch_status,
            ALLOCATIONS,
            allocation,
            build_refused_status(allocation, problem),
        )
        written = await self._refused.attempt(allocation.metadata, write)
        if written is None:
            return  # the API server rejected the write, or did so a short time ago
        if problem.phase != PENDING:
            self._recorder.record(
                ALLOCATIONS, written, "Warning", problem.reason, problem.message, action=ACTION
            )

    async def _void(self, allocation: VitistackAllocation) -> VitistackAllocation:
        """Write an allocation once, so that no promise to its present version can be kept.

        The API server makes no new version of an unchanged object. The time in the message, to the
        microsecond, makes each such write a change.
        """
        message = (
            f'NetworkNamespace "{allocation.network.name}" begins to serve;'
            f" promises before {self._clock.now().isoformat()} are void"
        )
        status = {"phase": PENDING, "message": message}
        return await self._client.patch_status(ALLOCATIONS, allocation, status)


def shows_problem(allocation: VitistackAllocation, problem: VitistackProblem) -> bool:
    """Return whether an IPAllocation shows a problem already, so that it need not be written."""
    status = allocation.status
    may_show_address = problem.phase == PENDING
    is_written = (status.phase, status.message) == (problem.phase, problem.message)
    return is_written and (may_show_address or not status.address)


class NetworkStatuses:
    """Writes the statuses of networks.

    Args:
        client: for the writes.
        recorder: takes the events.
        clock: the time.
        spaces: what pools of all kinds hand out.
    """

    def __init__(
        self,
        client: Client,
        caches: VitistackCaches,
        recorder: Recorder,
        clock: Clock,
        *,
        spaces: SpaceIndex,
    ) -> None:
        self._client = client
        self._caches = caches
        self._spaces = spaces
        self._recorder = recorder
        self._clock = clock
        self._without_conditions = False
        """Whether the kind's definition has no conditions, so that the API server drops them."""

    async def write_status(
        self, network: NetworkNamespace, vlan_id: int, space: NetworkSpace, holdings: Holdings
    ) -> None:
        """Write a network's counts and its condition Overlapping; nothing if they are current.

        Args:
            network: the network as it was read.
            vlan_id: the VLAN of its settings, which its status repeats.
            space: the addresses of the network, for the total and the prefix.
            holdings: the addresses that are held, for the other counts.

        Raises:
            Conflict: the network changed meanwhile.
        """
        counts = self._build_counts(network, vlan_id, space=space, holdings=holdings)
        await self._write(network, counts)

    async def write_overlaps(self, network: NetworkNamespace) -> None:
        """Write the condition Overlapping of an unserved network; nothing if it is current.

        Raises:
            Conflict: the network changed meanwhile.
        """
        await self._write(network, {})

    async def _write(self, network: NetworkNamespace, patch: dict[str, Any]) -> None:
        """Write a patch of the status, together with the condition Overlapping if that differs."""
        overlapping = self._find_overlapping(network)
        generation = network.metadata.generation
        findings = [] if overlapping is None else [overlapping]
        patch |= make_conditions_patch(
            network.status.conditions, findings, generation=generation, now=self._clock.now()
        )
        if not patch:
            return
        written = await self._client.patch_status(NETWORKS, network, patch)
        if overlapping is None or "conditions" not in patch:
            return
        # The API server has dropped the condition if the definition has none.
        self._without_conditions = not written.status.conditions
        if overlapping.status:
            self._recorder.record(
                NETWORKS, written, "Warning", OVERLAPPING, overlapping.message, action=ACTION
            )

    def _find_overlapping(self, network: NetworkNamespace) -> ConditionFinding | None:
        """Return the condition Overlapping to write; None to write none.

        A network that shares no addresses, and never did, gets no such condition.
        """
        if self._without_conditions:
            return None
        finding = self._spaces.make_overlap_finding(make_offers(network))
        # Without shared addresses, only a condition that exists already has to become False.
        is_shown = find_condition(network.status.conditions, OVERLAPPING) is not None
        return finding if finding is not None and (finding.status or is_shown) else None

    def _build_counts(
        self, network: NetworkNamespace, vlan_id: int, space: NetworkSpace, holdings: Holdings
    ) -> dict[str, Any]:
        """Return the counts that differ from the status, as a merge patch; empty if none does."""
        settings = network.spec.ipAllocation
        summary = NetworkSummary(
            type=STATIC,
            provider=(settings.provider if settings is not None else "") or self._caches.provider,
            allocatedCount=holdings.in_use_count,
            availableCount=holdings.get_space().free,
            totalCount=space.layout.total,
        )
        status, prefix = network.status, space.layout.cidr.text
        if (status.ipAllocationSummary, status.ipv4Prefix, status.vlanId) == (
            summary,
            prefix,
            vlan_id,
        ):
            return {}
        counts: Mapping[str, Any] = {
            name: getattr(summary, name) for name in NetworkSummary.__slots__
        }
        return {"ipv4Prefix": prefix, "vlanId": vlan_id, "ipAllocationSummary": counts}
