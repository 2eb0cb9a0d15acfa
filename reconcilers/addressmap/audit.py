"""Faults of a cluster's objects, as findings that people review and programs read.

An error breaks a rule that tenants rely on: two allocations hold one address, a range is outside
the addresses that its pool may hand out, or an allocation's owner is gone. A warning is a fault
that controllers repair by themselves, or a value that is allowed and likely to be a mistake.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from controller.conditions import find_condition, format_rfc3339, is_true
from controller.markers import Config, with_config
from controller.meta import Key, Object, ObjectMeta
from controller.resource import Resource
from reconcilers.addressing import addresstexts, statusranges
from reconcilers.addressmap import adoption
from reconcilers.addressmap.objects import Objects
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import IPAM
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    PROVIDER_CONFIG,
    TENANT_CLUSTER,
)
from reconcilers.integrations.core.views import HOST_BITS, POOLS_OVERLAP, describe_overlaps
from reconcilers.pictures.extents import AddressHolder, AddressState, Extent
from reconcilers.pictures.poolpicture import PoolFamily, PoolPicture
from reconcilers.reporting import allocationlabels
from reconcilers.reporting.conditions import FOREIGN_MANAGER, READY
from reconcilers.reporting.poolreferences import describe_absent_pools, find_absent_pools
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.offers import PoolName
from reconcilers.tenantcluster.allocations.membership import is_foreign
from reconcilers.tenantcluster.providerreference import describe_absent, find_provider_key

Severity = Literal["error", "warning"]
Action = Literal["none", "delete", "label"]
REVIEWED: Config = {"extra": "forbid"}
"""The configuration of models that people edit in a report: a misspelled field is refused."""


@with_config(REVIEWED)
@dataclass(frozen=True, slots=True)
class Subject:
    """The object that a finding is about, and the version at which it was read."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    resourceVersion: str = ""

    @property
    def text(self) -> str:
        """Return `Kind namespace/name`, or `Kind name` for an object of the whole cluster."""
        return f"{self.kind} {Key(self.namespace, self.name)}"

    @classmethod
    def from_object(cls, resource: Resource[Any], obj: Object) -> "Subject":
        """Return an object as the subject of a finding."""
        meta = obj.metadata
        return cls(
            resource.kind,
            meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resourceVersion=meta.resourceVersion,
        )


@with_config(REVIEWED)
@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of an object.

    Args:
        kind: the sort of fault, as a CamelCase word that does not change between versions.
        severity: error or warning.
        subject: the object.
        sentence: the fault, its consequence, and what to do.
        action: what `--repair` does about it. A reviewer may change it to another of `choices`.
        choices: the actions that are possible.
        labels: the labels that the action `label` writes.
        since: the time when the fault began, in RFC 3339; None if it is not known.
    """

    kind: str
    severity: Severity
    subject: Subject
    sentence: str
    action: Action = "none"
    choices: tuple[Action, ...] = ("none",)
    labels: Mapping[str, str] | None = None
    since: str | None = None


def audit(objects: Objects, pictures: Sequence[PoolPicture]) -> list[Finding]:
    """Return the findings about all objects, gravest first, then by kind and name.

    Args:
        pictures: the pictures of the NetworkPools among the objects.
    """
    findings = [
        *_find_unreadable(objects),
        *_find_pool_faults(objects, pictures),
        *_find_takeover_effects(objects),
        *_find_dangling_references(objects),
        *_list_integration_findings(objects),
        *(
            finding
            for allocation in objects.allocations.values()
            for finding in _find_allocation_faults(allocation, objects)
        ),
    ]
    return sorted(findings, key=build_finding_sort_key)


def build_finding_sort_key(finding: Finding) -> tuple[str, str, str, str, str]:
    """Return the sort key of a finding: gravest first, then by kind and object."""
    subject = finding.subject
    # In the order of letters, "error" comes before "warning".
    return finding.severity, finding.kind, subject.namespace, subject.name, finding.sentence


def _find_unreadable(objects: Objects) -> Iterator[Finding]:
    """Yield a finding for each object that cannot be decoded."""
    consequences = {
        IP_ALLOCATION.kind: "its pool hands out nothing",
        NETWORK_POOL.kind: "it hands out nothing",
    }
    for (kind, key), reason in objects.unreadable.items():
        if (kind, key) in objects.refused:
            # The definition rejects a field that controllers may not even read. If the object were
            # stored, they might serve it, so no consequence is named.
            sentence = f"{reason}; the API server refuses it until it is corrected"
        else:
            consequence = consequences.get(kind, "no controller serves it")
            sentence = f"cannot be read: {reason}; {consequence} until it is repaired"
        yield Finding(
            "Unreadable",
            "error",
            subject=Subject(kind, key.namespace, key.name),
            sentence=sentence,
        )


def _find_pool_faults(objects: Objects, pictures: Sequence[PoolPicture]) -> Iterator[Finding]:
    """Yield the findings about NetworkPools, by themselves and compared with other pools.

    A family with an invalid spec gets only the finding about its spec. A pool is compared with
    other pools if at least one of its families is valid.
    """
    sound_pools = list[NetworkPool]()
    for picture in pictures:
        pool = objects.pools[picture.name.key]
        yield from _find_overlaps(picture, objects)
        for block, family in zip(pool.blocks, picture.families, strict=True):
            if family.fault:
                subject = Subject.from_object(NETWORK_POOL, pool)
                sentence = f"hands out nothing: {family.fault}"
                yield Finding("InvalidPool", "error", subject=subject, sentence=sentence)
                continue
            yield from _find_host_bits(block)
            yield from _find_strays(pool, family, objects)
            if not picture.not_read:  # else the status may count objects that were not read
                yield from _find_status_drift(block, family)
        if not all(family.fault for family in picture.families):
            sound_pools.append(pool)
    yield from _find_overlapping_pools(sound_pools, objects.integrations.spaces)


def _find_host_bits(pool: NetworkPool) -> Iterator[Finding]:
    """Yield a finding for each CIDR in one block of a pool that has host bits set."""
    for cidr in (pool.spec.cidr, *(reserved.cidr for reserved in pool.spec.reserved)):
        if warning := addresstexts.describe_host_bits(cidr):
            yield Finding(
                HOST_BITS,
                "warning",
                subject=Subject.from_object(NETWORK_POOL, pool),
                sentence=warning,
            )


def _find_takeover_effects(objects: Objects) -> Iterator[Finding]:
    """Yield findings about what our controllers will do once they replace another controller.

    UnnotedOrphan: an allocation whose cluster is missing, and which notes no uid of it. Our
    controllers keep it, because its cluster may still be created. NewlyServed: a cluster for
    which the other controller requested no addresses, and which will get some.
    """
    read_objects = (objects.pools, objects.allocations.values(), objects.clusters)
    if objects.owners_known:  # else a cluster that looks missing may exist
        for allocation, sentence in adoption.find_unnoted_orphans(*read_objects):
            yield Finding(
                "UnnotedOrphan",
                "warning",
                subject=Subject.from_object(IP_ALLOCATION, allocation),
                sentence=sentence,
                choices=("none", "delete"),
            )
    if objects.find_unread_lists(IP_ALLOCATION):
        return  # a cluster may have addresses that the user may not read
    for cluster, sentence in adoption.find_newly_served(*read_objects, objects.providers):
        yield Finding(
            "NewlyServed",
            "warning",
            subject=Subject.from_object(TENANT_CLUSTER, cluster),
            sentence=sentence,
        )


def _find_dangling_references(objects: Objects) -> Iterator[Finding]:
    """Yield findings about references to ProviderConfigs and NetworkPools that do not exist.

    1. A ProviderConfig with IPAM names absent pools: an error if all its pools are absent.
    2. A cluster that is not being deleted names an absent ProviderConfig.
    """
    if objects.not_read:
        return  # an object that looks absent may be one that the user may not read
    for key, provider in sorted(objects.providers.items()):
        absent = find_absent_pools(provider, objects.pools.get)
        names_unreadable = any(
            ("NetworkPool", Key(key.namespace, name)) in objects.unreadable for name in absent
        )
        if not absent or names_unreadable or provider.spec.networking.mode != IPAM:
            continue  # no pool is absent, or it has a finding as unreadable, or no pools are used
        are_all_absent = len(absent) == len(provider.spec.networking.list_pools_in_order())
        subject = Subject.from_object(PROVIDER_CONFIG, provider)
        sentence = describe_absent_pools(provider, absent)
        yield Finding(
            "UnknownPool",
            "error" if are_all_absent else "warning",
            subject=subject,
            sentence=sentence,
        )
    provider_names = {key.name for key in objects.providers}
    for _, tenant in sorted(objects.clusters.items()):
        provider_key = find_provider_key(tenant, names.DEFAULT_NAMESPACE, None)
        if (
            provider_key is None
            or provider_key in objects.providers
            or tenant.metadata.is_terminating
        ):
            continue
        reference = tenant.spec.providerConfigRef
        if (
            reference is not None
            and not reference.namespace
            and provider_key.name in provider_names
        ):
            # The reference means the controllers' --namespace, which is not known here. It may be
            # a namespace that has a ProviderConfig of that name.
            continue
        if ("ProviderConfig", provider_key) not in objects.unreadable:
            subject = Subject.from_object(TENANT_CLUSTER, tenant)
            sentence = describe_absent(tenant, provider_key)
            yield Finding("UnknownProviderConfig", "error", subject=subject, sentence=sentence)


def _list_integration_findings(objects: Objects) -> Iterator[Finding]:
    """Yield the findings of integrations about the kinds of other platforms."""
    for trouble in objects.integrations.troubles:
        # An object that cannot be decoded has no `seen`; its uid and version stay empty.
        meta = trouble.seen.metadata if trouble.seen is not None else ObjectMeta()
        version = meta.uid, meta.resourceVersion
        subject = Subject(trouble.subject, trouble.key.namespace, trouble.key.name, *version)
        choices: tuple[Action, ...] = ("none", "delete") if trouble.removable else ("none",)
        since = format_rfc3339(trouble.since) if trouble.since is not None else None
        yield Finding(
            trouble.kind,
            trouble.severity,
            subject=subject,
            sentence=trouble.sentence,
            choices=choices,
            since=since,
        )


def _find_overlaps(pool: PoolPicture, objects: Objects) -> Iterator[Finding]:
    """Yield a finding for each pair of objects that hold the same address.

    A pair without an IPAllocation is left out.
    """
    shared: dict[tuple[AddressHolder, AddressHolder], list[Extent]] = {}
    for family in pool.families:
        for extent in family.extents:
            for pair in combinations(extent.holders, 2):
                shared.setdefault(pair, []).append(extent)
    for holders, extents in shared.items():
        # The finding is about the younger IPAllocation. Overlaps without an IPAllocation are
        # reported by the integration of the holders.
        older, younger = sorted(holders, key=_build_holder_sort_key)
        if younger.kind != IP_ALLOCATION.kind or younger.key not in objects.allocations:
            continue
        where = ", ".join(extent.range.text for extent in extents)
        sentence = (
            f"holds {where}, which {older.kind} {older.key} has held for longer; both"
            " tenants may use these addresses: delete this one (action delete) once its tenant"
            " no longer uses them"
        )
        subject = Subject.from_object(IP_ALLOCATION, objects.allocations[younger.key])
        yield Finding(
            "Overlap", "error", subject=subject, sentence=sentence, choices=("none", "delete")
        )


def _build_holder_sort_key(holder: AddressHolder) -> tuple[bool, str, str]:
    """Return the sort key of a holder: other kinds before IPAllocations, then the oldest first."""
    since = holder.since.isoformat() if holder.since is not None else ""
    return holder.kind == IP_ALLOCATION.kind, since, holder.key.name


def _find_strays(pool: NetworkPool, family: PoolFamily, objects: Objects) -> Iterator[Finding]:
    """Yield a finding for each allocation with addresses that its pool may not hand out."""
    outside: dict[Key, list[Extent]] = {}
    for extent in family.extents:
        if extent.state is not AddressState.STRAY:
            continue
        holder = extent.holders[0]  # an extent with several holders has the state OVERLAP
        if holder.kind == IP_ALLOCATION.kind and holder.key in objects.allocations:
            outside.setdefault(holder.key, []).append(extent)
    for key, extents in outside.items():
        where = ", ".join(extent.range.text for extent in extents)
        sentence = (
            f"holds {where}, which NetworkPool {pool.metadata.key} may not hand out"
            " (reserved, or outside its ranges); ranges are never taken away: widen the pool, or"
            " delete this allocation (action delete)"
        )
        subject = Subject.from_object(IP_ALLOCATION, objects.allocations[key])
        yield Finding(
            "OutOfRange", "error", subject=subject, sentence=sentence, choices=("none", "delete")
        )


def _find_status_drift(block: NetworkPool, family: PoolFamily) -> Iterator[Finding]:
    """Yield a finding if the counters in a pool's status differ from the held addresses.

    Args:
        block: one family of the pool, with its counters.
        family: the picture of that family.
    """
    status = block.status
    if status.observedGeneration != block.metadata.generation:
        return  # no controller has reconciled the current spec yet
    capacity = family.figures.capacity
    pairs = {
        "totalIPs": (status.total, capacity.total),
        "allocatedIPs": (status.allocated, capacity.allocated),
        "availableIPs": (status.available, capacity.available),
        "largestFreeBlock": (status.largest_free, capacity.largest_free),
    }
    wrong = [
        f"{field} is {reported}, not {actual}"
        for field, (reported, actual) in pairs.items()
        if reported != actual
    ]
    ready = find_condition(status.conditions, READY)
    # No controller corrects the counters of a pool that is not Ready, which has its own finding.
    if wrong and (ready is None or ready.status == "True"):
        sentence = f"its status drifted: {'; '.join(wrong)}; a running controller corrects it"
        subject = Subject.from_object(NETWORK_POOL, block)
        yield Finding("StatusDrift", "warning", subject=subject, sentence=sentence)


def _find_overlapping_pools(
    sound_pools: Sequence[NetworkPool], spaces: SpaceIndex
) -> Iterator[Finding]:
    """Yield a finding for each NetworkPool that shares addresses with a pool of any kind."""
    for pool in sound_pools:
        name = PoolName(NETWORK_POOL.kind, pool.metadata.key)
        if sentence := describe_overlaps(spaces, spaces.get_offers(name)):
            subject = Subject.from_object(NETWORK_POOL, pool)
            yield Finding(POOLS_OVERLAP, "warning", subject=subject, sentence=sentence)


def _find_allocation_faults(allocation: IPAllocation, objects: Objects) -> Iterator[Finding]:
    """Yield the findings about one allocation.

    1. Its pool does not exist.
    2. Its cluster is gone.
    3. It holds a range without our finalizer.
    4. Its labels contradict its spec, and the controllers would repair them.
    """
    subject = Subject.from_object(IP_ALLOCATION, allocation)
    if allocation.pool_key not in objects.pools and not objects.may_exist(
        NETWORK_POOL, allocation.pool_key
    ):
        sentence = f"names NetworkPool {allocation.pool_key}, which does not exist; it waits"
        yield Finding("UnknownPool", "error", subject=subject, sentence=sentence)
    yield from _find_orphan(allocation, subject, objects)
    where = ", ".join(held_range.text for held_range in statusranges.list_held_ranges(allocation))
    if where and names.FINALIZER_ALLOCATION not in allocation.metadata.finalizers:
        sentence = (
            f"holds {where} without our finalizer: if it is deleted, its range is handed out"
            " again while the tenant may still use it; a running controller adds the finalizer"
        )
        yield Finding("NoFinalizer", "warning", subject=subject, sentence=sentence)
    wrong = {
        label: value
        for label, value in allocationlabels.build_labels_of(allocation).items()
        if allocation.metadata.labels.get(label) != value
    }
    if wrong and _are_labels_repaired(allocation, objects):
        sentence = f"its labels do not say what its spec says: {', '.join(sorted(wrong))}"
        yield Finding(
            "LabelDrift",
            "warning",
            subject=subject,
            sentence=sentence,
            action="label",
            choices=("none", "label"),
            labels=wrong,
        )


def _find_orphan(
    allocation: IPAllocation, subject: Subject, objects: Objects
) -> Iterator[Finding]:
    """Yield a finding if the cluster of an allocation is gone."""
    if not _is_orphan(allocation, objects):
        return
    key = allocation.spec.tenantClusterRef.key
    noted_uid = allocation.metadata.annotations[names.ANNOTATION_TENANT_UID]
    cluster = objects.clusters.get(key)
    deviation = (
        "is gone" if cluster is None else f"is another one now (uid {cluster.metadata.uid})"
    )
    sentence = f"TenantCluster {key}, which it was created for (uid {noted_uid}), {deviation}"
    yield Finding(
        "Orphan",
        "error",
        subject=subject,
        sentence=sentence,
        action="delete",
        choices=("none", "delete"),
    )


def _is_orphan(allocation: IPAllocation, objects: Objects) -> bool:
    """Return whether the cluster that an allocation was created for is known to be gone.

    The allocation notes the uid of that cluster.
    """
    key = allocation.spec.tenantClusterRef.key
    is_noted = names.ANNOTATION_TENANT_UID in allocation.metadata.annotations
    if not is_noted:
        return False  # the allocation may have been created before its cluster
    if ("TenantCluster", key) in objects.unreadable or not objects.owners_known:
        return False  # the cluster may exist although it was not read
    cluster = objects.clusters.get(key)
    return cluster is None or is_foreign(allocation, cluster)


def _are_labels_repaired(allocation: IPAllocation, objects: Objects) -> bool:
    """Return whether the controllers repair the labels of an allocation.

    They do not repair three sorts of allocations (networkpool/orphans.py):

    1. An allocation that is being deleted.
    2. An orphan, because it will be deleted.
    3. An allocation of a pool whose status another controller writes, too.
    """
    pool = objects.pools.get(allocation.pool_key)
    has_other_manager = pool is not None and is_true(pool.status.conditions, FOREIGN_MANAGER)
    is_leaving = allocation.metadata.is_terminating or _is_orphan(allocation, objects)
    return not is_leaving and not has_other_manager
