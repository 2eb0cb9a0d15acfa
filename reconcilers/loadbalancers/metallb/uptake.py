"""Detects whether a tenant's MetalLB has loaded the pools that are stored now.

MetalLB hands out addresses by the last configuration that it read and could use. It may stand
still. Or, with its webhook off, any pool of the tenant may make the configuration unusable. In
both cases it goes on handing out addresses that our pool does not have any more.

From 0.15 on MetalLB counts the addresses of each pool in the pool's status. After a range was
taken out of our pool, another pool, the *marker*, is given a number of addresses that it did not
have before. They are addresses for documentation (RFC 5737), which are never assigned
automatically. MetalLB reads all pools together, in the order of their writes. So once it counts
that number in the marker, it has read our pool without the range. It has also written every
Service that it gave an address by an earlier configuration. The count of our own pool is no proof:
it stays the same if a range is replaced by another of its size, and a deleted pool has no count.

The marker is given another number only after MetalLB has counted the last one, so MetalLB cannot
know the new number from before. A marker that was created again, because a user deleted it, may
have the number of the deleted marker: then the count may be of the old configuration. So a new
marker proves nothing until it was given a second number.

A replica that lags behind must not create the marker again after another replica has torn down the
cluster: nobody would delete it. So the creation is recorded beforehand on the IPAllocation that
holds the range, and the record is removed afterwards (`CreationNote` of the port). If that
IPAllocation is gone by then, the new marker is deleted. A range is not free while its IPAllocation
has a record of another process.

An older MetalLB shows no counts. Its pools are checked here instead, and the caller waits a
bounded time.
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
from reconcilers.loadbalancers.metallb.projection import POOL_NAME, is_ours, read_basis
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
"""How many entries of a tenant's pools are checked. Further entries are not read, so that no pass
waits for the arithmetic."""
_LARGEST_MARKER = 250
"""The largest number of addresses of the marker: a block has 254."""
_FIRST_GENERATION = 1
"""The generation of an object whose spec was not written since it was created."""
_BLOCKS = ("192.0.2", "198.51.100", "203.0.113")
_MARKER_ENTRY = re.compile(
    rf"(?P<block>{'|'.join(map(re.escape, _BLOCKS))})\.1-(?P=block)\.(?P<size>[0-9]{{1,3}})"
)
_UNCOUNTED_CIDR_SIZE = 1 << 62
"""The size from which on MetalLB no longer counts the addresses of a CIDR."""
_INT64_MAX = (1 << 63) - 1
_CONTROLLER_STATE = "controller"
"""The name of the ConfigurationState that MetalLB's controller writes."""
_LONGEST_QUOTE = 300
"""How many characters of a tenant's text a message has."""


class UptakeStep(Enum):
    """The next step of the proof for a range that is out of our pool.

    MARK: give the marker a number of addresses that MetalLB has not counted yet.
    WAIT: wait until MetalLB has counted the marker's addresses.
    DONE: MetalLB has read the pools since the range was taken out.
    """

    MARK = "mark"
    WAIT = "wait"
    DONE = "done"


def find_next_step(
    pools: Mapping[str, IPAddressPool], mark: int, basis: int, management: str = ""
) -> UptakeStep:
    """Return the next step of the proof, as MetalLB's pools show it.

    The marker carries the basis of its last write: every range whose release began at or before
    that position was out of our pool then.

    Args:
        pools: all pools, by name; ours does not have the range.
        mark: the resourceVersion at which the release of the range began.
        basis: a position; every range that was marked up to it is out of our pool now.
        management: the identity of the management cluster; empty if it is not known.
    """
    marker = pools.get(MARKER)
    if marker is None or count_marker_addresses(marker) is None:
        return UptakeStep.MARK  # it is missing, or others have changed it
    if _is_overlapped(marker, pools):
        return UptakeStep.MARK  # MetalLB cannot use overlapping pools, so it would never count it
    if count_reported_addresses(marker.status) != count_marker_addresses(marker):
        return UptakeStep.WAIT
    if (marker.metadata.generation or 0) <= _FIRST_GENERATION:
        return UptakeStep.MARK  # the count may be of an earlier marker with the same number
    if management not in {"", find_management_uid(marker)}:
        return UptakeStep.MARK  # its basis is a position of another management cluster
    # A basis above the present one is of a history that this management cluster has lost.
    return UptakeStep.DONE if mark <= read_basis(marker) <= basis else UptakeStep.MARK


def count_reported_addresses(status: AddressPoolStatus | None) -> int | None:
    """Return how many addresses MetalLB reports for a pool; None if it reports no number."""
    if status is None:
        return None
    ipv4_number = status.assignedIPv4 + status.availableIPv4
    ipv6_number = status.assignedIPv6 + status.availableIPv6
    return ipv4_number + ipv6_number


def compute_metallb_counts(spans: Iterable[AddressRange]) -> tuple[int, int]:
    """Return the numbers that two versions of MetalLB report for a pool with these ranges.

    MetalLB adds up the addresses of IPv6 by CIDR, in an integer of 64 bits. A CIDR of 2^62
    addresses or more sets the sum to the greatest integer. From 0.16.2 on a greater sum stays at
    the greatest integer; before, it overflows.

    Returns:
        The number of 0.16.2 and newer, and the number of older versions.
    """
    spans = list(spans)
    newer = older = 0
    for cidr in (cidr for span in spans if span.family == 6 for cidr in span.split_into_cidrs()):
        if cidr.size >= _UNCOUNTED_CIDR_SIZE:
            newer = older = _INT64_MAX
            continue
        newer = min(newer + cidr.size, _INT64_MAX)
        # The sum as a signed integer of 64 bits, which overflows.
        older = (older + cidr.size + _INT64_MAX + 1) % (1 << 64) - _INT64_MAX - 1
    ipv4_number = sum(span.size for span in spans if span.family == 4)
    return newer + ipv4_number, older + ipv4_number


def count_marker_addresses(marker: IPAddressPool) -> int | None:
    """Return how many addresses the marker has; None if others have changed its spec."""
    if len(marker.spec.addresses) != 1 or marker.spec.autoAssign:
        return None
    match = _MARKER_ENTRY.fullmatch(marker.spec.addresses[0])
    return int(match["size"]) if match is not None else None


def choose_marker_entry(pools: Mapping[str, IPAddressPool], basis: int) -> str:
    """Return the marker's next range, with another number of addresses than MetalLB may know.

    It is in the first block for documentation that no other pool overlaps, because MetalLB refuses
    overlapping pools. If other pools overlap all blocks, the range is in the first block.

    Args:
        pools: all pools, by name.
        basis: the position from which the number of addresses is computed, so that two markers
            rarely have the same number.
    """
    marker = pools.get(MARKER)
    known_sizes = (
        {count_marker_addresses(marker), count_reported_addresses(marker.status)}
        if marker is not None
        else set()
    )
    # One candidate more than known sizes, so that one of them is free.
    sizes = (1 + (basis + offset) % _LARGEST_MARKER for offset in range(len(known_sizes) + 1))
    size = next(candidate for candidate in sizes if candidate not in known_sizes)
    other_spans = list(_parse_other_pools(pools))
    entries = [f"{block}.1-{block}.{size}" for block in _BLOCKS]
    # The whole block up to .254 has to be free, so that a later size fits, too.
    free_entries = [
        entry
        for entry in entries
        if not _overlaps_any(f"{entry.rpartition('.')[0]}.254", other_spans)
    ]
    return next(iter(free_entries), entries[0])


def _make_marker_content(
    pools: Mapping[str, IPAddressPool], basis: int, owner: Mapping[str, str]
) -> dict[str, Any]:
    """Return the marker's next annotations and spec."""
    annotations = {names.ANNOTATION_PROJECTION_BASIS: str(basis), **owner}
    spec = {"addresses": [choose_marker_entry(pools, basis)], "autoAssign": False}
    return {"metadata": {"annotations": annotations}, "spec": spec}


def _is_overlapped(marker: IPAddressPool, pools: Mapping[str, IPAddressPool]) -> bool:
    """Return whether another pool overlaps the marker, and the marker can move to a free block.

    If no block is free, another range of the marker would be overlapped, too.
    """
    entry = marker.spec.addresses[0]
    # Whether a block is free does not depend on the basis, so any basis serves here.
    other_spans = list(_parse_other_pools(pools))
    return _overlaps_any(entry, other_spans) and not _overlaps_any(
        choose_marker_entry(pools, 0), other_spans
    )


def _parse_other_pools(pools: Mapping[str, IPAddressPool]) -> Iterable[AddressRange]:
    """Return the ranges of all pools but the marker; invalid entries are left out."""
    other_pools = (pool for name, pool in pools.items() if name != MARKER)
    entries = (entry for pool in other_pools for entry in pool.spec.addresses)
    parsed = map(addresstexts.parse_cidr_or_span, islice(entries, MOST_ENTRIES))
    return (span for span in parsed if span is not None)


def _overlaps_any(entry: str, spans: Iterable[AddressRange]) -> bool:
    """Return whether an entry overlaps a range; False if the entry cannot be parsed."""
    entry_span = addresstexts.parse_cidr_or_span(entry)
    return entry_span is not None and any(entry_span.overlaps(span) for span in spans)


def describe_unusable(pools: Mapping[str, IPAddressPool]) -> str:
    """Return why MetalLB cannot use these pools, as the end of a sentence; empty without a cause.

    Only frequent causes are found. API server and webhook reject most pools that are wrong by
    themselves; two pools that overlap are the usual case.
    """
    extents: list[tuple[int, int, int, str]] = []
    for name, pool in sorted(pools.items()):
        if not pool.spec.addresses:
            return f"IPAddressPool {truncate(name, _LONGEST_QUOTE)} has no addresses"
        # At most MOST_ENTRIES of all pools together.
        for entry in pool.spec.addresses[: MOST_ENTRIES - len(extents)]:
            span = addresstexts.parse_cidr_or_span(entry)
            if span is None:
                subject = f"IPAddressPool {truncate(name, _LONGEST_QUOTE)}"
                return f"{subject} has {truncate(entry, _LONGEST_QUOTE)!r}, which is not a range"
            extents.append((span.family, span.first, span.last, name))
    # Sorted by their first address: if any two ranges overlap, two neighbours do.
    for (family, _, last, name), (next_family, first, _, next_name) in pairwise(sorted(extents)):
        if family == next_family and first <= last:
            if name == next_name:
                return f"IPAddressPool {truncate(name, _LONGEST_QUOTE)} has entries that overlap"
            pool_names = " and ".join(
                truncate(pool, _LONGEST_QUOTE) for pool in sorted((name, next_name))
            )
            return f"IPAddressPools {pool_names} overlap"
    return ""


class WithdrawalCheck:
    """Finds out whether the MetalLB of one tenant has read that ranges are out of our pool.

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
        """Return whether MetalLB has read its pools since the ranges were taken out of ours.

        If it has not, the marker may be written, as the next step of the proof.

        Args:
            pools: MetalLB's pools by a live read; ours does not have the ranges.
            withdrawal: the ranges.
            basis: a position; every range that was marked up to it is out of our pool now.
            owner: annotations of the marker that name its owner.

        Raises:
            Conflict: the marker changed since `pools` were read.
            ControllerError: the tenant did not answer.
        """
        if not await self._does_count(pools):
            return _answer_without_counts(pools, withdrawal.note)
        marker = pools.get(MARKER)
        if marker is not None and not is_ours(marker):
            # It must not be overwritten, so the proof cannot go on.
            return NotYet(
                f"IPAddressPool {MARKER} was not created by this controller: rename or delete it"
            )
        management = owner.get(names.ANNOTATION_PROJECTION_MANAGEMENT, "")
        step = find_next_step(pools, withdrawal.mark, basis=basis, management=management)
        if step is UptakeStep.DONE:
            # While another process may still create a marker, the range stays: a marker that is
            # created after the release would never be deleted.
            return _answer_creation_pending() if withdrawal.note.is_pending else Proven()
        if step is UptakeStep.MARK and marker is not None:
            await self._change_marker(marker, pools, basis=basis, owner=owner)
        elif step is UptakeStep.MARK:
            await self._create_marker(pools, basis, owner=owner, note=withdrawal.note)
        return NotYet(await self._describe_unread(pools))

    async def _does_count(self, pools: Mapping[str, IPAddressPool]) -> bool:
        """Return whether the tenant's MetalLB counts the addresses of pools: 0.15 and newer.

        A pool that was just created has no status yet. Then a kind that 0.15 introduced tells
        whether MetalLB counts.
        """
        has_status = any(pool.status is not None for pool in pools.values())
        return has_status or await self._client.is_served(SERVICE_BGP_STATUS)

    async def _change_marker(
        self,
        marker: IPAddressPool,
        pools: Mapping[str, IPAddressPool],
        basis: int,
        owner: Mapping[str, str],
    ) -> None:
        """Give the marker another number of addresses."""
        patch = _make_marker_content(pools, basis, owner)
        await self._client.patch(IP_ADDRESS_POOL, Version.from_object(marker), patch)

    async def _create_marker(
        self,
        pools: Mapping[str, IPAddressPool],
        basis: int,
        owner: Mapping[str, str],
        note: CreationNote,
    ) -> None:
        """Create the marker, with a note of the creation on the IPAllocation of the range.

        Nothing is created if the note cannot be written. If the IPAllocation is gone after the
        creation, the marker is deleted again.
        """
        if not await note.begin():
            return  # a later pass tries again
        body = _make_marker_content(pools, basis, owner)
        body["metadata"] |= {
            "name": MARKER,
            "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
        }
        try:
            created = await self._client.create(IP_ADDRESS_POOL, self._namespace, body)
        except ApiError as error:
            # After a failure of the server the marker may exist all the same: then the note stays.
            if not isinstance(error, ServerFailure):
                await note.remove()
            raise
        if not await note.remove():
            await self._client.delete(IP_ADDRESS_POOL, Version.from_object(created))

    async def _describe_unread(self, pools: Mapping[str, IPAddressPool]) -> str:
        """Return the sentence for a MetalLB that has not read its pools, with a known cause."""
        why = describe_unusable(pools) or await read_configuration_error(
            self._client, self._namespace
        )
        return f"{NOT_READ}: {why}" if why else NOT_READ


def _answer_creation_pending() -> NotYet:
    """Return the answer while a creation that another process noted may still arrive."""
    return NotYet(f"another replica may still create IPAddressPool {MARKER}")


def _answer_without_counts(
    pools: Mapping[str, IPAddressPool], note: CreationNote
) -> NotYet | Unprovable:
    """Return the answer for a MetalLB that reports no counts.

    NotYet if its pools are unusable, or if another process may still create the marker. Otherwise
    Unprovable: the caller waits a bounded time.
    """
    why = describe_unusable(pools)
    if why:
        # MetalLB reads nothing while its pools are wrong. So NotYet also ends a wait that has
        # begun.
        return NotYet(f"{NOT_READ}: {why}")
    if note.is_pending:
        return _answer_creation_pending()
    pool = pools.get(POOL_NAME)
    # Each change of our pool restarts the wait: a user may have put the range back for a moment.
    version = (pool.metadata.uid, pool.metadata.generation or 0) if pool is not None else ("", 0)
    return Unprovable("to read its pools: before 0.15 it does not report that", version)


async def read_configuration_error(client: Client, namespace: str) -> str:
    """Return the error that MetalLB's controller reports of its pools; empty if it reports none.

    Only the ConfigurationState of the controller is read. Each speaker has another, about the
    announcements of its node, and a problem there does not keep the controller from reading pools.

    Raises:
        ControllerError: the tenant did not answer.
    """
    if not await client.is_served(CONFIGURATION_STATE):
        return ""
    try:
        state = await client.get(CONFIGURATION_STATE, Key(namespace, _CONTROLLER_STATE))
    except NotFound:
        return ""
    return truncate(state.status.errorSummary, _LONGEST_QUOTE)


async def remove_marker(client: Client, namespace: str, management: str) -> None:
    """Delete the marker, after all ranges of the tenant were released.

    A marker that another tool or another management cluster made stays.

    Args:
        client: of the tenant.
        namespace: MetalLB's namespace there.
        management: the identity of the management cluster; empty if it is not known.

    Raises:
        NotFound: there is no marker.
        Conflict: the marker changed since it was read.
        ControllerError: the tenant did not answer.
    """
    marker = await client.get(IP_ADDRESS_POOL, Key(namespace, MARKER))
    if is_ours(marker) and not is_of_other_management(marker, management):
        await client.delete(IP_ADDRESS_POOL, Version.from_object(marker))
