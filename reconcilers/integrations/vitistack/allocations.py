"""One pass over one IPAllocation of vitistack: all but the choice of its address.

waits, its network hands out nothing    write why
waits otherwise                         its network's pass serves it (`networks.py`)
holds its address                       copy the network's settings to it; renew, or release it
released                                request again, once its NetworkConfiguration exists

An address in use is never released or replaced, even if the network changes. It is in use while
the NetworkConfiguration exists, by a live read. Then the expiry is renewed before it passes; else
the address is released when it passes.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

from allocator import InvalidPool
from controller.client import Client
from controller.clock import Clock
from controller.errors import Conflict, NotFound
from controller.events import Recorder
from controller.meta import Key, Version
from controller.outcome import SETTLED, Again, Blocked, Outcome
from reconcilers.api.names import make_label_value
from reconcilers.integrations.core.owners import make_owner_reference, render_owner_reference
from reconcilers.integrations.vitistack.api import (
    ALLOCATIONS,
    CONFIGURATIONS,
    LABEL_CONFIGURATION,
    LABEL_NETWORK,
    PENDING,
    RELEASED,
    NetworkConfiguration,
    Static,
    VitistackAllocation,
)
from reconcilers.integrations.vitistack.caches import (
    VitistackCaches,
    VitistackProblem,
    find_problem,
    find_static,
)
from reconcilers.integrations.vitistack.ranges import parse_space
from reconcilers.integrations.vitistack.writing import (
    ACTION,
    RELEASE,
    VitistackWriter,
    compute_expiry,
    compute_lifetime,
    release,
    release_fields,
    render_network_settings,
)
from reconcilers.reporting.releaselog import GONE, GoneHolders

RETRY = 0.2
"""Seconds until a pass is repeated that found the caches to be behind."""
SOONEST = 1.0
"""The fewest seconds until the next pass over an IPAllocation that holds its address."""
EXPIRED = "Expired"
UNREADABLE = "Unreadable"


def make_labels(network: str, configuration: str) -> dict[str, str]:
    """Return the labels that an IPAllocation has to have; they are for people only."""
    return {
        LABEL_NETWORK: make_label_value(network),
        LABEL_CONFIGURATION: make_label_value(configuration),
    }


def compute_renewal_margin(uid: str, ttl: int) -> float:
    """Return how many seconds before its expiry an IPAllocation is renewed.

    The result is between a quarter and a half of the lifetime, depending on the uid. So addresses
    that were given at the same time are not renewed at the same time.

    Args:
        uid: the uid of the IPAllocation.
        ttl: the lifetime in seconds.
    """
    return ttl / 4 + ttl / 4 * (crc32(uid.encode()) % 1024) / 1024


def parse_moment(timestamp: str) -> datetime | None:
    """Parse a timestamp; None if it is empty or cannot be parsed. Without zone it is UTC."""
    try:
        time = datetime.fromisoformat(timestamp)
    except ValueError:  # empty, or edited by hand
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


class AllocationReconciler:
    """Brings one IPAllocation up to date.

    Args:
        client: for the requests.
        writer: writes statuses.
        recorder: takes the events.
        clock: the time.
    """

    def __init__(
        self,
        client: Client,
        caches: VitistackCaches,
        writer: VitistackWriter,
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._caches = caches
        self._writer = writer
        self._recorder = recorder
        self._clock = clock
        caches.allocations.subscribe(GoneHolders(RELEASE, self._describe_gone).log)

    def _describe_gone(self, gone: VitistackAllocation) -> dict[str, str] | None:
        """Return the fields of the log line about a deleted IPAllocation; None for no line.

        There is no line if it held no address or is of another provider's network.
        """
        network = self._caches.find_network_of(gone)
        is_ours = network is None or self._caches.is_ours(network)
        return release_fields(gone, GONE) if gone.holds and is_ours else None

    async def reconcile(self, key: Key) -> Outcome:
        """Bring one IPAllocation up to date."""
        # The caches may show objects from before a restore of etcd.
        if not self._caches.is_history_confirmed:
            return Again(RETRY)
        allocation = self._caches.allocations.get(key)
        if allocation is None or allocation.metadata.is_terminating:
            return SETTLED
        unreadable_networks = self._caches.networks.unreadable
        if key in self._caches.allocations.unreadable or allocation.network in unreadable_networks:
            return Blocked(UNREADABLE)  # the provider and the lifetime may have changed
        network = self._caches.find_network_of(allocation)
        if network is not None and not self._caches.is_ours(network):
            return SETTLED
        try:
            return await self._reconcile(allocation)
        except (Conflict, NotFound):
            return Again(RETRY)  # it was written or deleted meanwhile

    async def _reconcile(self, allocation: VitistackAllocation) -> Outcome:
        """Do the first step that an IPAllocation of one of our networks needs.

        1. Released: request again, if its machine exists.
        2. Labels or owner missing: add them.
        3. Holds its address: update, renew or release it.
        4. Its network hands out nothing: write why. Otherwise the network's pass serves it.
        """
        if allocation.status.phase == RELEASED:
            return await self._request_again(allocation)
        if allocation.status.phase and await self._adopt(allocation):
            return SETTLED  # the write leads to an event, and that to the next pass
        if allocation.holds:
            return await self._keep(allocation)
        problem = find_problem(
            self._caches.find_network_of(allocation), allocation.spec.networkNamespaceName
        )
        # Without problem, the pass over the network serves it.
        if problem is not None:
            return _end_pass(await self._writer.write_problems([(allocation, problem)]))
        return SETTLED

    async def _adopt(self, allocation: VitistackAllocation) -> bool:
        """Add missing labels and the owner to an IPAllocation; return whether it was written.

        An IPAllocation that another program or a person created lacks them.
        """
        expected_labels = make_labels(
            allocation.spec.networkNamespaceName, allocation.spec.networkConfigurationName
        )
        old_labels = allocation.metadata.labels
        labels = {
            name: value for name, value in expected_labels.items() if old_labels.get(name) != value
        }
        metadata: dict[str, Any] = {"labels": labels} if labels else {}
        if not allocation.owner and self._is_readable(allocation.configuration):
            # Read live, because the cache may be behind: the garbage collector deletes an object
            # whose owner does not exist.
            owner = await self._read_configuration(allocation)
            if owner is not None and not owner.metadata.is_terminating:
                others = [
                    render_owner_reference(reference)
                    for reference in allocation.metadata.ownerReferences
                ]
                metadata["ownerReferences"] = [
                    *others,
                    make_owner_reference(owner, CONFIGURATIONS),
                ]
        if not metadata:
            return False
        await self._client.patch(
            ALLOCATIONS, Version.from_object(allocation), {"metadata": metadata}
        )
        return True

    def _is_readable(self, configuration: Key) -> bool:
        """Return whether a NetworkConfiguration exists and can be decoded, by the cache."""
        cache = self._caches.configurations
        return configuration in cache and configuration not in cache.unreadable

    async def _is_used(self, allocation: VitistackAllocation) -> bool:
        """Return whether the NetworkConfiguration of an IPAllocation exists, by a live read.

        Only its metadata is read: a NetworkConfiguration that cannot be decoded uses the address,
        too.
        """
        return (
            await self._client.find(CONFIGURATIONS.metadata_only, allocation.configuration)
            is not None
        )

    async def _read_configuration(
        self, allocation: VitistackAllocation
    ) -> NetworkConfiguration | None:
        """Return the NetworkConfiguration of an IPAllocation, as the API server has it now."""
        return await self._client.find(CONFIGURATIONS, allocation.configuration)

    async def _keep(self, allocation: VitistackAllocation) -> Outcome:
        """Write changed settings of the network; renew or set the expiry, or release the address.

        If the expiry is far enough ahead, it stays. Otherwise, the first row that applies decides:

            NetworkConfiguration exists   renew the expiry
            no expiry yet                 set the expiry, at which the address is released
            expiry has passed             release the address
            otherwise                     run the next pass at the expiry
        """
        static = find_static(self._caches.find_network_of(allocation))
        changes = _list_changes(allocation, static)
        ttl = compute_lifetime(static)
        now = self._clock.now()
        expires = parse_moment(allocation.status.expiresAt)
        seconds_left = (expires - now).total_seconds() if expires is not None else 0.0
        margin = compute_renewal_margin(allocation.metadata.uid, ttl)
        next_pass = seconds_left - margin
        # An expiry beyond the lifetime was set by an earlier, longer lifetime, or by a person.
        if seconds_left <= margin or seconds_left > ttl + SOONEST:
            if await self._is_used(allocation):
                changes["expiresAt"] = compute_expiry(static, now)
                next_pass = ttl - margin
            elif expires is None:
                changes["expiresAt"] = compute_expiry(static, now)
                next_pass = ttl
            elif seconds_left <= 0:
                return await self._release(allocation)
            else:
                next_pass = seconds_left
        if changes:
            await self._client.patch_status(ALLOCATIONS, allocation, changes)
        return Again(max(next_pass, SOONEST))

    async def _release(self, allocation: VitistackAllocation) -> Outcome:
        """Release the address of an IPAllocation that has expired, with an event."""
        name, address = allocation.spec.networkConfigurationName, allocation.status.address
        message = (
            f"{address} was released: it expired, and NetworkConfiguration {name} is not there"
        )
        written = await release(self._client, allocation, message)
        self._recorder.record(ALLOCATIONS, written, "Normal", EXPIRED, message, action=ACTION)
        return SETTLED

    async def _request_again(self, allocation: VitistackAllocation) -> Outcome:
        """Put a released IPAllocation in phase Pending if its NetworkConfiguration exists."""
        configuration = self._caches.configurations.get(allocation.configuration)
        # With another owner, it belongs to an earlier NetworkConfiguration of the same name.
        if configuration is None or allocation.owner not in {"", configuration.metadata.uid}:
            return SETTLED
        if not self._is_readable(allocation.configuration):
            return Blocked(UNREADABLE)
        # Read live, because the cache may be behind.
        live = await self._read_configuration(allocation)
        if (
            live is None
            or live.metadata.is_terminating
            or allocation.owner not in {"", live.metadata.uid}
        ):
            return SETTLED
        message = f"NetworkConfiguration {live.metadata.name} is there again"
        return _end_pass(
            await self._writer.write_problems(
                [(allocation, VitistackProblem(PENDING, "", message))]
            )
        )


def _end_pass(seconds: float | None) -> Outcome:
    """Return the outcome of a pass whose next pass is due in some seconds.

    Args:
        seconds: until the next pass; None if only a change of an object leads to it.
    """
    return SETTLED if seconds is None else Again(seconds)


def _list_changes(allocation: VitistackAllocation, static: Static | None) -> dict[str, Any]:
    """Return the network's settings that differ in an IPAllocation's status, as a merge patch."""
    if static is None:
        return {}
    try:
        space = parse_space(static)
    except InvalidPool:
        return {}  # nothing can be derived from such settings; the network reports it
    address = space.address(allocation.status.address)
    if address is None or not space.layout.cidr.contains(address):
        return {}  # the address is of an earlier CIDR of the network, as is its gateway
    status = allocation.status
    present: Mapping[str, Any] = {
        "gateway": status.gateway,
        "prefix": status.prefix,
        "vlanId": status.vlanId,
        "dns": list(status.dns),
    }
    desired = render_network_settings(static)
    return {name: value for name, value in desired.items() if present[name] != value}
