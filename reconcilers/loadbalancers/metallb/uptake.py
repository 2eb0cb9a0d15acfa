"""Detect whether a tenant's MetalLB has loaded the pools that are stored now.

MetalLB hands out addresses by the last configuration that it read and could use. While it stands
still, or while any pool of the tenant makes the configuration unusable (its webhook being off),
it goes on handing out what our pool does not hold any more.

From 0.15 on MetalLB counts the addresses of each pool in the pool's status. So after a range was
taken out of our pool, another pool, the marker, is given a number of addresses that it did not
have before: addresses for documentation (RFC 5737), which are never assigned automatically.
MetalLB reads all pools together, in the order of their writes; so once it counts that many in the
marker, it has read our pool without the range, and has written every Service that it gave an
address by an earlier configuration. The count of our own pool would not do: a range that takes
the place of another of its size leaves it as it is, and a pool that is deleted has none.

The marker is not given another number before MetalLB has counted the last one, so no number is
used that MetalLB may know from before. A marker that was made just now, because a user deleted
the last one, may have the number of that one: MetalLB then counts by its old configuration what it
finds under the name. So a new marker proves nothing before it was given a second number.

A replica that lags behind must not create the marker again after another one has torn down the
cluster: nobody would delete it. So the creation is recorded on the holder of the range before, and
the record is removed afterwards (`CreationNote` of the port); if the holder is gone by then, the
new marker is deleted. A range whose holder has a record of another process is not free yet.

An older MetalLB shows nothing. Its pools are checked here instead, and a while is waited; as it is
where MetalLB's kinds are not served any more, for the process that may have read them before.
"""

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import islice, pairwise
from typing import Any

from allocator import AddressRange
from controller.client import Client
from controller.errors import ApiError, NotFound, ServerFailure
from controller.meta import Key, Version
from reconcilers.addressing import addresstexts
from reconcilers.api import names
from reconcilers.clusteraccess.clusteridentity import find_management_uid, is_of_other_management
from reconcilers.loadbalancers.metallb.kinds import (
    CONFIGURATION_STATE,
    IP_ADDRESS_POOL,
    SERVICE_BGP_STATUS,
    AddressPoolStatus,
    IPAddressPool,
)
from reconcilers.loadbalancers.metallb.projection import POOL_NAME, basis_of, is_ours
from reconcilers.loadbalancers.port import (
    CreationNote,
    NotYet,
    Proven,
    Unprovable,
    Withdrawal,
    WithdrawalAnswer,
)
from reconcilers.reporting.wording import truncate

MARKER = names.METALLB_MARKER
NOT_READ = "MetalLB in the tenant has not read its pools since the range was taken out"
MOST_ENTRIES = 4_096
"""How many entries of a tenant's pools are checked; what a tenant has beyond that is not read,
so that no pass waits for the arithmetic."""
_LARGEST = 250
_NEW = 1
"""The generation of an object whose spec was not written since it was created."""
_BLOCKS = ("192.0.2", "198.51.100", "203.0.113")
_MARKER_ENTRY = re.compile(
    rf"(?P<block>{'|'.join(map(re.escape, _BLOCKS))})\.1-(?P=block)\.(?P<size>[0-9]{{1,3}})"
)
_ENORMOUS = 1 << 62
_INT64_MAX = (1 << 63) - 1
_CONTROLLER_STATE = "controller"
"""The name of the ConfigurationState that MetalLB's controller writes."""
_LONGEST = 300


class UptakeStep(Enum):
    """What comes next for a range that is out of our pool.

    MARK: give the marker a number of addresses that MetalLB has not counted yet.
    WAIT: MetalLB has yet to count what the marker has.
    DONE: MetalLB has read the pools since the range was taken out.
    """

    MARK = "mark"
    WAIT = "wait"
    DONE = "done"


def next_step(
    pools: Mapping[str, IPAddressPool], mark: int, basis: int, management: str = ""
) -> UptakeStep:
    """Return the next step of the proof, as MetalLB's pools show it.

    The marker carries the basis that was true when it was written: every range that was marked at
    or before that was out of our pool. One above the present basis is of a history that the
    management cluster has lost, so it says nothing; nor does one of another management cluster.

    Args:
        pools: all of them, by name; ours does not have the range.
        mark: the resourceVersion at which the range was marked.
        basis: every range that was marked at or before this is out of our pool now.
        management: the identity of the management cluster; empty if it is not known.
    """
    marker = pools.get(MARKER)
    if marker is None or marker_size(marker) is None or _is_overlapped(marker, pools):
        return UptakeStep.MARK
    if count_reported_addresses(marker.status) != marker_size(marker):
        return UptakeStep.WAIT
    if (marker.metadata.generation or 0) <= _NEW:
        return UptakeStep.MARK
    if management not in {"", find_management_uid(marker)}:
        return UptakeStep.MARK
    return UptakeStep.DONE if mark <= basis_of(marker) <= basis else UptakeStep.MARK


def count_reported_addresses(status: AddressPoolStatus | None) -> int | None:
    """Return how many addresses MetalLB reports for a pool; None if it reports no number."""
    if status is None:
        return None
    four, six = status.assignedIPv4 + status.availableIPv4, status.assignedIPv6
    return four + six + status.availableIPv6


def metallb_counts(spans: Iterable[AddressRange]) -> tuple[int, int]:
    """Return how many addresses MetalLB finds in a pool of these: 0.16.2 and newer, and older.

    MetalLB adds up the addresses of IPv6 by CIDR, in an integer of 64 bits. A CIDR of 2^62
    addresses or more sets the sum to the greatest integer. From 0.16.2 on a greater sum stays at
    the greatest integer; before, it overflows.
    """
    spans = list(spans)
    newer = older = 0
    for part in (cidr for span in spans if span.family == 6 for cidr in span.cidrs()):
        if part.size >= _ENORMOUS:
            newer = older = _INT64_MAX
            continue
        newer = min(newer + part.size, _INT64_MAX)
        older = (older + part.size + _INT64_MAX + 1) % (1 << 64) - _INT64_MAX - 1
    four = sum(span.size for span in spans if span.family == 4)
    return newer + four, older + four


def marker_size(marker: IPAddressPool) -> int | None:
    """Return how many addresses the marker has; None if it is not as we write it."""
    if len(marker.spec.addresses) != 1 or marker.spec.autoAssign:
        return None
    match = _MARKER_ENTRY.fullmatch(marker.spec.addresses[0])
    return int(match["size"]) if match is not None else None


def marker_entry(pools: Mapping[str, IPAddressPool], basis: int) -> str:
    """Return the marker's next range: of another number of addresses than it has, if it has any.

    The first block for documentation that no other pool overlaps, as MetalLB would refuse that.
    """
    marker = pools.get(MARKER)
    before = (
        {marker_size(marker), count_reported_addresses(marker.status)}
        if marker is not None
        else set()
    )
    sizes = (1 + (basis + offset) % _LARGEST for offset in range(len(before) + 1))
    size = next(candidate for candidate in sizes if candidate not in before)
    others = list(_others(pools))
    entries = [f"{block}.1-{block}.{size}" for block in _BLOCKS]
    free = [
        entry for entry in entries if not _overlaps_any(f"{entry.rpartition('.')[0]}.254", others)
    ]
    return next(iter(free), entries[0])


def _marker_content(
    pools: Mapping[str, IPAddressPool], basis: int, owner: Mapping[str, str]
) -> dict[str, Any]:
    """Return the marker's next annotations and spec."""
    annotations = {names.ANNOTATION_PROJECTION_BASIS: str(basis), **owner}
    spec = {"addresses": [marker_entry(pools, basis)], "autoAssign": False}
    return {"metadata": {"annotations": annotations}, "spec": spec}


def _is_overlapped(marker: IPAddressPool, pools: Mapping[str, IPAddressPool]) -> bool:
    """Return whether another pool came to have the marker's addresses, and none has others."""
    here = marker.spec.addresses[0]
    others = list(_others(pools))
    return _overlaps_any(here, others) and not _overlaps_any(marker_entry(pools, 0), others)


def _others(pools: Mapping[str, IPAddressPool]) -> Iterable[AddressRange]:
    others = (pool for name, pool in pools.items() if name != MARKER)
    entries = (entry for pool in others for entry in pool.spec.addresses)
    parsed = map(addresstexts.parse_cidr_or_span, islice(entries, MOST_ENTRIES))
    return (addresses for addresses in parsed if addresses is not None)


def _overlaps_any(entry: str, others: Iterable[AddressRange]) -> bool:
    ours = addresstexts.parse_cidr_or_span(entry)
    return ours is not None and any(ours.overlaps(span) for span in others)


def refusal(pools: Mapping[str, IPAddressPool]) -> str:
    """Return why MetalLB cannot use these pools, as a sentence's end; empty if it seems to.

    MetalLB has more reasons than these: those that it has for a single pool are rare, as API
    server and webhook refuse such a pool, and two that overlap each other are what is met.
    """
    extents: list[tuple[int, int, int, str]] = []
    for name, pool in sorted(pools.items()):
        if not pool.spec.addresses:
            return f"IPAddressPool {truncate(name, _LONGEST)} has no addresses"
        for entry in pool.spec.addresses[: MOST_ENTRIES - len(extents)]:
            span = addresstexts.parse_cidr_or_span(entry)
            if span is None:
                subject = f"IPAddressPool {truncate(name, _LONGEST)}"
                return f"{subject} has {truncate(entry, _LONGEST)!r}, which is not a range"
            extents.append((span.family, span.first, span.last, name))
    for (family, _, last, name), (next_family, first, _, next_name) in pairwise(sorted(extents)):
        if family == next_family and first <= last:
            both = " and ".join(truncate(pool, _LONGEST) for pool in sorted((name, next_name)))
            return f"IPAddressPools {both} overlap"
    return ""


class WithdrawalCheck:
    """Finds out whether the MetalLB of one tenant has read that ranges are out of its pool.

    Args:
        client: of the tenant.
        namespace: MetalLB's namespace there.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def prove_withdrawal(
        self,
        pools: Mapping[str, IPAddressPool],
        withdrawal: Withdrawal,
        basis: int,
        owner: Mapping[str, str],
    ) -> WithdrawalAnswer:
        """Return whether MetalLB has read its pools since ours was without the ranges.

        Args:
            pools: MetalLB's pools as they are now; ours does not have the ranges.
            withdrawal: the ranges.
            basis: every range that was marked at or before this is out of our pool now.
            owner: annotations of the marker that say for whom it is.

        Raises:
            Conflict: the marker changed since `pools` were read.
            ControllerError: the tenant did not answer.
        """
        if not await self._counts(pools):
            return _unshown(pools, withdrawal.note)
        marker = pools.get(MARKER)
        if marker is not None and not is_ours(marker):
            return NotYet(
                f"IPAddressPool {MARKER} was not created by this controller: rename or delete it"
            )
        management = owner.get(names.ANNOTATION_PROJECTION_MANAGEMENT, "")
        step = next_step(pools, withdrawal.mark, basis=basis, management=management)
        if step is UptakeStep.DONE:
            return _may_still_be_created() if withdrawal.note.is_pending else Proven()
        if step is UptakeStep.MARK and marker is not None:
            await self._mark(marker, pools, basis=basis, owner=owner)
        elif step is UptakeStep.MARK:
            await self._create(pools, basis, owner=owner, note=withdrawal.note)
        return NotYet(await self._not_read(pools))

    async def _counts(self, pools: Mapping[str, IPAddressPool]) -> bool:
        """Return whether MetalLB is one that counts the addresses of pools."""
        has_status = any(pool.status is not None for pool in pools.values())
        return has_status or await self._client.is_served(SERVICE_BGP_STATUS)

    async def _mark(
        self,
        marker: IPAddressPool,
        pools: Mapping[str, IPAddressPool],
        basis: int,
        owner: Mapping[str, str],
    ) -> None:
        """Give the marker another number of addresses."""
        patch = _marker_content(pools, basis, owner)
        await self._client.patch(IP_ADDRESS_POOL, Version.from_object(marker), patch)

    async def _create(
        self,
        pools: Mapping[str, IPAddressPool],
        basis: int,
        owner: Mapping[str, str],
        note: CreationNote,
    ) -> None:
        """Create the marker, unless the range has no holder any more."""
        if not await note.begin():
            return
        body = _marker_content(pools, basis, owner)
        body["metadata"] |= {
            "name": MARKER,
            "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
        }
        try:
            created = await self._client.create(IP_ADDRESS_POOL, self._namespace, body)
        except ApiError as error:
            if not isinstance(error, ServerFailure):  # which may have come too late
                await note.end()
            raise
        if not await note.end():
            await self._client.delete(IP_ADDRESS_POOL, Version.from_object(created))

    async def _not_read(self, pools: Mapping[str, IPAddressPool]) -> str:
        why = refusal(pools) or await configuration_error(self._client, self._namespace)
        return f"{NOT_READ}: {why}" if why else NOT_READ


def _may_still_be_created() -> NotYet:
    return NotYet(f"another replica may still create IPAddressPool {MARKER}")


def _unshown(pools: Mapping[str, IPAddressPool], note: CreationNote) -> NotYet | Unprovable:
    """Return the answer for a MetalLB that shows nothing.

    The wait restarts whenever MetalLB cannot use its pools, and with each change of ours: a
    user may have put the range back for a moment.
    """
    why = refusal(pools)
    if why:
        return NotYet(f"{NOT_READ}: {why}")
    if note.is_pending:
        return _may_still_be_created()
    pool = pools.get(POOL_NAME)
    version = (pool.metadata.uid, pool.metadata.generation or 0) if pool is not None else ("", 0)
    return Unprovable("to read its pools: before 0.15 it does not report that", version)


async def configuration_error(client: Client, namespace: str) -> str:
    """Return the error that MetalLB's controller reports of its pools; empty if there is none.

    Each speaker has a ConfigurationState of its own, which reports problems of its node's
    announcements. They do not keep the controller from reading pools.

    Raises:
        ControllerError: the tenant did not answer.
    """
    if not await client.is_served(CONFIGURATION_STATE):
        return ""
    try:
        state = await client.get(CONFIGURATION_STATE, Key(namespace, _CONTROLLER_STATE))
    except NotFound:
        return ""
    return truncate(state.status.errorSummary, _LONGEST)


async def remove_marker(client: Client, namespace: str, management: str) -> None:
    """Delete the marker, once nothing is given back any more; one of others stays.

    Args:
        client: of the tenant.
        namespace: MetalLB's namespace there.
        management: the identity of the management cluster; empty if it is not known.

    Raises:
        NotFound: there is none.
        Conflict: it changed since it was read.
        ControllerError: the tenant did not answer.
    """
    marker = await client.get(IP_ADDRESS_POOL, Key(namespace, MARKER))
    if is_ours(marker) and not is_of_other_management(marker, management):
        await client.delete(IP_ADDRESS_POOL, Version.from_object(marker))
