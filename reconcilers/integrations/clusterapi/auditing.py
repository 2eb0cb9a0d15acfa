"""What is wrong among Cluster API's pools, claims and IPAddresses, as findings for people.

An error is a state that must not occur: two objects hold one address, or an addressRef names an
IPAddress that does not exist. A warning is a state that controllers correct by themselves, or an
allowed state that is probably a mistake.

A *record* is the address that the status of a claim states, so that the claim holds it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import datetime, timedelta

from controller.meta import Key
from reconcilers.api.networkpool import NetworkPool
from reconcilers.integrations.clusterapi.addresses import PoolSpace
from reconcilers.integrations.clusterapi.answers import RELEASED_AT
from reconcilers.integrations.clusterapi.api import (
    ADDRESS_FINALIZER,
    ADDRESSES,
    CLAIMS,
    CLUSTERS,
    IPAddress,
    IPAddressClaim,
)
from reconcilers.integrations.clusterapi.caches import ClaimCaches, find_pool_kind, get_pool_key
from reconcilers.integrations.clusterapi.contents import ADDRESS, CLAIM, PoolContents
from reconcilers.integrations.clusterapi.poolstatus import compute_counts
from reconcilers.integrations.clusterapi.rules import list_host_bit_warnings
from reconcilers.integrations.clusterapi.statuses import read_record
from reconcilers.integrations.core.scopedlists import NotRead, is_left_out, list_limits
from reconcilers.integrations.core.troubles import (
    build_invalid_pool_trouble,
    build_unknown_pool_trouble,
)
from reconcilers.integrations.core.views import HOST_BITS, Trouble
from reconcilers.spaces.offers import PoolName

_HOLDERS = frozenset(kind.full_name for kind in (CLAIMS, ADDRESSES))
STUCK_AFTER = timedelta(minutes=10)
"""A deletion that takes longer than this is reported."""


def audit(
    caches: ClaimCaches,
    pools: Sequence[PoolContents],
    now: datetime,
    not_read: Sequence[NotRead] = (),
) -> Iterator[Trouble]:
    """Yield the troubles of pools, claims and IPAddresses.

    Args:
        caches: all objects.
        pools: the pools with their contents.
        now: the time, for deletions that take too long.
        not_read: the kinds that the user may not read, NetworkPools included. An object of such a
            kind is not reported as missing, and status counts that include it are not checked.
    """
    for contents in pools:
        yield from _find_pool_troubles(contents, not_read)
        yield from _find_host_bits(contents)
    yield from _find_claim_troubles(caches, now, not_read)
    yield from _find_address_troubles(caches, not_read)


def _find_host_bits(contents: PoolContents) -> Iterator[Trouble]:
    """Yield a trouble for each CIDR of a pool that has host bits set; none for a NetworkPool."""
    # The audit of NetworkPools has rules of its own.
    if isinstance(contents.pool, NetworkPool):
        return
    for warning in list_host_bit_warnings(contents.pool.spec):
        yield Trouble(
            HOST_BITS,
            "warning",
            subject=contents.kind.kind,
            key=contents.pool.metadata.key,
            sentence=warning,
            seen=contents.pool,
        )


def _find_pool_troubles(contents: PoolContents, not_read: Sequence[NotRead]) -> Iterator[Trouble]:
    """Yield the troubles of one pool.

    For all pools these are addresses that several objects hold, and addresses outside of the pool.
    The others are only for pools of the in-cluster provider: an invalid spec, addresses of the
    other family, and a status that differs from the contents.
    """
    # The audit of NetworkPools reports their spec and status, and IPAllocations of both families.
    is_in_cluster_pool = not isinstance(contents.pool, NetworkPool)
    if contents.space is None:
        # Without a valid spec there are no blocks to compare.
        if is_in_cluster_pool:
            name = PoolName(contents.kind.kind, contents.pool.metadata.key)
            yield build_invalid_pool_trouble(name, contents.fault, contents.pool)
        return
    yield from _find_block_troubles(contents, contents.space)
    if is_in_cluster_pool:
        yield from _find_other_family_troubles(contents)
        yield from _find_status_drift(contents, not_read)


def _find_block_troubles(contents: PoolContents, space: PoolSpace) -> Iterator[Trouble]:
    """Yield a trouble for each block that several objects hold, or that is outside of the pool."""
    kind, key = contents.kind.kind, contents.pool.metadata.key
    for blocks, (state, holders) in contents.held_blocks.items():
        first_address = space.get_first_address(blocks.first)
        # The trouble is reported once, of the youngest holder: the others had the address before.
        youngest = max(holders, key=lambda key: _order_by_age(contents, key))
        subject = CLAIM if youngest in contents.claims else ADDRESS
        seen = contents.find_holder(youngest)
        if state == "shared":
            others = ", ".join(
                contents.describe_holder(other) for other in holders if other != youngest
            )
            sentence = (
                f"holds {first_address} of {kind} {key}, which {others} has too: delete this one"
                " (action delete) once its owner no longer uses the address"
            )
            yield Trouble(
                "Overlap",
                "error",
                subject=subject,
                key=youngest,
                sentence=sentence,
                seen=seen,
                removable=True,
            )
        elif state == "outside":
            sentence = (
                f"holds {first_address}, which {kind} {key} may not hand out; it is never taken"
                " away: widen the pool, or delete this one (action delete)"
            )
            yield Trouble(
                "OutOfRange",
                "warning",
                subject=subject,
                key=youngest,
                sentence=sentence,
                seen=seen,
                removable=True,
            )


def _find_other_family_troubles(contents: PoolContents) -> Iterator[Trouble]:
    """Yield a trouble for each holder of addresses of the family that the pool does not have."""
    kind, key = contents.kind.kind, contents.pool.metadata.key
    for holder, parts in contents.other_family_ranges.items():
        addresses = ", ".join(part.text for part in parts)
        sentence = (
            f"holds {addresses}, of a family that {kind} {key} does not have; it is never taken"
            " away: delete this one (action delete)"
        )
        subject = CLAIM if holder in contents.claims else ADDRESS
        seen = contents.find_holder(holder)
        yield Trouble(
            "OutOfRange",
            "warning",
            subject=subject,
            key=holder,
            sentence=sentence,
            seen=seen,
            removable=True,
        )


def _find_status_drift(contents: PoolContents, not_read: Sequence[NotRead]) -> Iterator[Trouble]:
    """Yield a trouble if the counts in a pool's status differ from the contents of the pool."""
    pool, key = contents.pool, contents.pool.metadata.key
    if isinstance(pool, NetworkPool) or contents.space is None or contents.holdings is None:
        return
    # If the user may not read all claims and IPAddresses, the counts here are too low.
    if list_limits(key.namespace, _HOLDERS, not_read):
        return
    in_status, counts = pool.status.ipAddresses, compute_counts(contents.space, contents.holdings)
    if in_status is None or in_status == counts:
        return
    differences = [
        f"{field.name} is {getattr(in_status, field.name)}, not {getattr(counts, field.name)}"
        for field in fields(counts)
        if getattr(in_status, field.name) != getattr(counts, field.name)
    ]
    yield Trouble(
        "StatusDrift",
        "warning",
        subject=contents.kind.kind,
        key=key,
        sentence=f"its status drifted: {'; '.join(differences)}; a running controller corrects it",
        seen=pool,
    )


def _pool_may_exist(
    caches: ClaimCaches, obj: IPAddressClaim | IPAddress, not_read: Sequence[NotRead]
) -> bool:
    """Return whether the pool that a claim or an IPAddress names exists, or may exist.

    It may exist if it cannot be decoded, or if the user may not read it.
    """
    kind = find_pool_kind(obj.spec.poolRef)
    return (
        caches.find_pool(obj) is not None
        or caches.is_pool_unreadable(obj)
        or (kind is not None and is_left_out(kind, get_pool_key(kind, obj), not_read))
    )


def _order_by_age(contents: PoolContents, key: Key) -> tuple[str, Key]:
    """Return a sort key that is highest for the youngest holder."""
    since = contents.find_holder(key).metadata.creationTimestamp
    return since.isoformat() if since else "", key


def _find_claim_troubles(
    caches: ClaimCaches, now: datetime, not_read: Sequence[NotRead]
) -> Iterator[Trouble]:
    """Yield the troubles of claims, in order of their keys."""
    for claim in sorted(caches.claims, key=lambda claim: claim.metadata.key):
        key, kind = claim.metadata.key, find_pool_kind(claim.spec.poolRef)
        # Another provider serves the claim.
        if kind is None:
            continue
        since = claim.metadata.deletionTimestamp
        if not _pool_may_exist(caches, claim, not_read):
            pool = PoolName(kind.kind, get_pool_key(kind, claim))
            yield build_unknown_pool_trouble(CLAIM, key, pool, seen=claim)
        # A Cluster that the user may not read can exist all the same.
        is_cluster_unseen = claim.cluster is not None and is_left_out(
            CLUSTERS, claim.cluster, not_read
        )
        if since is None and caches.names_missing_cluster(claim) and not is_cluster_unseen:
            consequence = (
                "it waits"
                if read_record(claim) is None
                else "it keeps its address, and no controller looks after it"
            )
            sentence = f"names Cluster {claim.cluster}, which does not exist; {consequence}"
            yield Trouble(
                "UnknownCluster", "error", subject=CLAIM, key=key, sentence=sentence, seen=claim
            )
        address_key = Key(key.namespace, claim.address_name)
        is_address_gone = (
            address_key not in caches.addresses
            and address_key not in caches.addresses.unreadable
            and not is_left_out(caches.address_kind, address_key, not_read)
        )
        if since is None and claim.address_name and is_address_gone:
            sentence = f"its addressRef names IPAddress {claim.address_name}, which is gone"
            yield Trouble(
                "LostAddress", "error", subject=CLAIM, key=key, sentence=sentence, seen=claim
            )
        if since is not None and now - since > STUCK_AFTER:
            minutes = int((now - since).total_seconds() // 60)
            sentence = f"has been deleted for {minutes} minutes and is not gone"
            yield Trouble(
                "StuckRelease",
                "warning",
                subject=CLAIM,
                key=key,
                sentence=sentence,
                seen=claim,
                since=since,
            )


def _find_address_troubles(caches: ClaimCaches, not_read: Sequence[NotRead]) -> Iterator[Trouble]:
    """Yield the troubles of IPAddresses, in order of their keys."""
    for address in sorted(caches.addresses, key=lambda address: address.metadata.key):
        key = address.metadata.key
        claim_key = Key(key.namespace, address.spec.claimRef.name)
        kind = find_pool_kind(address.spec.poolRef)
        # Another provider serves the IPAddress, or its claim is gone and a grace period runs.
        if kind is None or RELEASED_AT in address.metadata.annotations:
            continue
        # If its claim exists or may exist, the troubles of the claim are reported instead.
        if (
            claim_key in caches.claims
            or claim_key in caches.claims.unreadable
            or is_left_out(caches.claim_kind, claim_key, not_read)
        ):
            continue
        if not _pool_may_exist(caches, address, not_read):
            sentence = f"names {kind.kind} {get_pool_key(kind, address)}, which does not exist"
            yield Trouble(
                "UnknownPool", "warning", subject=ADDRESS, key=key, sentence=sentence, seen=address
            )
        # Without the finalizer a person created the IPAddress, and needs no claim for it.
        if ADDRESS_FINALIZER in address.metadata.finalizers:
            sentence = (
                f"its IPAddressClaim {claim_key} does not exist; its address stays in use until"
                " it is deleted (action delete)"
            )
            yield Trouble(
                "Unclaimed",
                "warning",
                subject=ADDRESS,
                key=key,
                sentence=sentence,
                seen=address,
                removable=True,
            )
