"""IPAddresses, the answers to claims: made, adopted, repaired and taken away.

A create has no precondition, so an IPAddress is no effect of a promise: that is the claim's
addressRef. A replica that froze before it made an IPAddress may make it late; then no addressRef
leads to it, and it is taken away again (`claims.py`) without any machine having used it.
"""

from collections.abc import Mapping
from typing import Any

from allocator.addresses import parse_address
from controller.client import Client
from controller.meta import Key, Object, OwnerReference, Version
from controller.resource import Resource
from reconcilers.api import names
from reconcilers.integrations.clusterapi.api import (
    ADDRESS_FINALIZER,
    CLUSTER_LABEL,
    GROUP,
    IPAddress,
    IPAddressClaim,
)
from reconcilers.integrations.clusterapi.caches import ClaimCaches, kind_of
from reconcilers.integrations.clusterapi.gonelog import release_fields
from reconcilers.integrations.clusterapi.statuses import record_of, restored_record_of
from reconcilers.integrations.core.addressobjects import AddressObjects, missing_metadata
from reconcilers.integrations.core.claimproblems import ADDRESS_ALLOCATED, ClaimProblem
from reconcilers.integrations.core.claimwrites import AddressInTheWay
from reconcilers.integrations.core.owners import copied_owner, owner_identity
from reconcilers.reporting.conditions import READY, ConditionFinding

RELEASED_AT = names.ANNOTATION_RELEASED_AT
"""Annotation of an IPAddress whose claim is gone, while the pool's grace period holds it back."""


def body_of(
    claim: IPAddressClaim, owner: OwnerReference, pool: OwnerReference, spec: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the IPAddress that answers a claim.

    Args:
        claim: whose name it gets.
        owner: the claim as owner.
        pool: the pool as owner.
        spec: address, prefix and gateway.
    """
    ref = claim.spec.poolRef
    metadata: dict[str, Any] = {
        "name": claim.metadata.name,
        "namespace": claim.metadata.namespace,
        "finalizers": [ADDRESS_FINALIZER],
        "ownerReferences": [copied_owner(owner), copied_owner(pool)],
    }
    if claim.cluster is not None:
        metadata["labels"] = {CLUSTER_LABEL: claim.cluster.name}
    return {
        "metadata": metadata,
        "spec": {
            "claimRef": {"name": claim.metadata.name},
            "poolRef": {"apiGroup": ref.apiGroup, "kind": ref.kind, "name": ref.name},
            **spec,
        },
    }


def spec_of(address: str, prefix: int, gateway: str) -> dict[str, Any]:
    """Return address, prefix and, unless it is empty, gateway; an empty one is refused."""
    spec: dict[str, Any] = {"address": address, "prefix": prefix}
    return spec | ({"gateway": gateway} if gateway else {})


def owners(
    claim: IPAddressClaim, claim_kind: Resource[Object], pool: Object, pool_kind: Resource[Object]
) -> tuple[OwnerReference, OwnerReference]:
    """Return the owner references of an IPAddress: its claim, then its pool."""
    return (
        OwnerReference(
            claim_kind.api_version,
            claim_kind.kind,
            claim.metadata.name,
            claim.metadata.uid,
            controller=True,
            blockOwnerDeletion=True,
        ),
        OwnerReference(
            pool_kind.api_version,
            pool_kind.kind,
            pool.metadata.name,
            pool.metadata.uid,
            controller=False,
            blockOwnerDeletion=True,
        ),
    )


def controlling_claim(address: IPAddress) -> OwnerReference | None:
    """Return the claim that controls an IPAddress by its owner references; None if none does."""
    for reference in address.metadata.ownerReferences:
        group = reference.apiVersion.rpartition("/")[0]
        if reference.controller and (group, reference.kind) == (GROUP, "IPAddressClaim"):
            return reference
    return None


def is_made_for_claim(address: IPAddress) -> bool:
    """Return whether an IPAddress was made, or adopted, by a provider: it may be taken away."""
    return (
        ADDRESS_FINALIZER in address.metadata.finalizers and controlling_claim(address) is not None
    )


def is_held_back(address: IPAddress) -> bool:
    """Return whether a claim of ours released an IPAddress that a grace period holds back."""
    meta = address.metadata
    return ADDRESS_FINALIZER in meta.finalizers and RELEASED_AT in meta.annotations


def is_left_over(address: IPAddress) -> bool:
    """Return whether an IPAddress was made for a claim that is no longer among its owners.

    Once a claim is gone, the garbage collector removes it from the owners and leaves the pool,
    which only a provider makes an owner. The claims of a pool of the whole cluster may have been
    moved to another cluster, where the addresses are in use: without the name of a Cluster nothing
    shows that, so the IPAddress stays.
    """
    kind, ref, meta = kind_of(address.spec.poolRef), address.spec.poolRef, address.metadata
    if kind is None or ADDRESS_FINALIZER not in meta.finalizers:
        return False
    if not kind.namespaced and CLUSTER_LABEL not in meta.labels:
        return False
    if controlling_claim(address) is not None or RELEASED_AT in meta.annotations:
        return False
    pool = (ref.apiGroup, ref.kind, ref.name)
    return any(owner_identity(owner) == pool for owner in meta.ownerReferences)


def is_restored(address: IPAddress, claim: IPAddressClaim) -> bool:
    """Return whether an IPAddress that is being deleted answers a claim by its name alone.

    A restore gives each object another uid, so the owners that it restored do not exist, and the
    garbage collector deletes what they own. The finalizer keeps the IPAddress, whose address the
    machine has.
    """
    owner = controlling_claim(address)
    is_owner = owner is not None and owner.uid == claim.metadata.uid
    return address.metadata.terminating and not is_owner


def must_be_recorded(address: IPAddress, claim: IPAddressClaim) -> bool:
    """Return whether a claim has to record the address of its restored IPAddress first.

    It is recreated, and a replica may stop after it was removed. What the claim records is not
    free meanwhile, even if the promise to the claim is over because the claim was edited.
    """
    if record_of(claim) is not None or not is_restored(address, claim):
        return False
    restored = restored_record_of(claim)
    return restored is None or (
        parse_address(restored.address) != parse_address(address.spec.address)
    )


def why_not(address: IPAddress, claim: IPAddressClaim) -> str:
    """Return why the IPAddress of a claim's name cannot answer it; empty if it can."""
    name, ref, other = address.metadata.key, claim.spec.poolRef, address.spec.poolRef
    if (other.apiGroup, other.kind, other.name) != (ref.apiGroup, ref.kind, ref.name):
        return f"IPAddress {name} exists and is of {other.kind} {other.name}"
    if address.spec.claimRef.name != claim.metadata.name:
        return f"IPAddress {name} exists and is for claim {address.spec.claimRef.name}"
    if parse_address(address.spec.address) is None:
        return f"IPAddress {name} exists and has no address that can be read"
    if RELEASED_AT in address.metadata.annotations:
        return f"IPAddress {name} of an earlier claim is still being released"
    return ""


def is_served_by_another(claim: IPAddressClaim, caches: ClaimCaches) -> bool:
    """Return whether a claim without our record has an address that another provider gave it.

    Its addressRef names an IPAddress that exists and is for it: a machine uses that address. An
    addressRef that names no IPAddress, or another claim's, gives a machine nothing.
    """
    if not claim.address_name:
        return False
    key = Key(claim.metadata.namespace, claim.address_name)
    address = caches.addresses.get(key)
    if address is None or key in caches.addresses.unreadable:
        return key in caches.addresses.unreadable  # what it holds is unknown, so it may be in use
    is_for_claim = address.spec.claimRef.name == claim.metadata.name
    has_address = parse_address(address.spec.address) is not None
    return is_for_claim and has_address and RELEASED_AT not in address.metadata.annotations


def ready_of_refused(
    claim: IPAddressClaim, caches: ClaimCaches, problem: ClaimProblem
) -> ConditionFinding:
    """Return condition Ready of a claim that is not served, or whose promises are voided.

    A claim that another provider served stays Ready: its address is still in use. The message says
    what keeps this program from serving it.

    Args:
        claim: that is written.
        problem: what keeps this program from serving it.
    """
    if is_served_by_another(claim, caches):
        return ConditionFinding(READY, True, reason=ADDRESS_ALLOCATED, message=problem.message)
    return ConditionFinding(READY, False, reason=problem.reason, message=problem.message)


def missing_of(
    address: IPAddress, owner_references: tuple[OwnerReference, ...], claim: IPAddressClaim
) -> dict[str, Any]:
    """Return a patch of the metadata that an IPAddress lacks; empty for nothing.

    A restored IPAddress that is being deleted lacks nothing: another one takes its place.
    """
    if is_restored(address, claim):
        return {}
    labels = {} if claim.cluster is None else {CLUSTER_LABEL: claim.cluster.name}
    return missing_metadata(
        address.metadata, ADDRESS_FINALIZER, owners=owner_references, labels=labels
    )


class Answers:
    """Makes, repairs and removes IPAddresses.

    Args:
        client: for the writes.
    """

    def __init__(self, client: Client, caches: ClaimCaches) -> None:
        self._client = client
        self._caches = caches
        self._objects = AddressObjects(
            client, caches.address_kind, finalizer=ADDRESS_FINALIZER, logged=caches.logged
        )

    async def ensure(
        self,
        claim: IPAddressClaim,
        pool: Object,
        pool_kind: Resource[Object],
        spec: Mapping[str, Any],
    ) -> IPAddress:
        """Return the IPAddress of a claim's name, made if there is none, repaired if need be.

        Args:
            claim: that it answers, and that has its address on record, there or in the journal.
            spec: what a new one says of address, prefix and gateway.

        Raises:
            AddressInTheWay: there is one that cannot answer the claim.
            Conflict: it changed meanwhile.
            ControllerError: a request failed.
        """
        owner_references = self._owners(claim, pool, pool_kind)
        address = self._caches.addresses.get(claim.metadata.key)
        if address is None:
            body = body_of(claim, *owner_references, spec)
            address, is_new = await self._objects.create(body)
            if is_new:
                return address
        if reason := why_not(address, claim):
            raise AddressInTheWay(reason)
        if must_be_recorded(address, claim):
            raise AddressInTheWay(
                f"IPAddress {address.metadata.key} was restored, and is recreated soon"
            )
        if is_restored(address, claim):
            return await self._recreate(address, owner_references, claim)
        return await self._write_missing_metadata(address, owner_references, claim)

    async def _recreate(
        self,
        address: IPAddress,
        owner_references: tuple[OwnerReference, OwnerReference],
        claim: IPAddressClaim,
    ) -> IPAddress:
        """Replace an IPAddress that is being deleted by one that stays, with the same address."""
        spec, reason = address.spec, "it is being deleted; its claim gets another with its address"
        body = body_of(claim, *owner_references, spec_of(spec.address, spec.prefix, spec.gateway))
        return await self._objects.recreate(address, body, _release_fields(address, reason))

    async def repair(
        self, address: IPAddress, claim: IPAddressClaim, pool: Object, pool_kind: Resource[Object]
    ) -> None:
        """Restore finalizer, owners and label on the IPAddress of a claim, where missing."""
        await self._write_missing_metadata(address, self._owners(claim, pool, pool_kind), claim)

    async def _write_missing_metadata(
        self,
        address: IPAddress,
        owner_references: tuple[OwnerReference, ...],
        claim: IPAddressClaim,
    ) -> IPAddress:
        patch = missing_of(address, owner_references, claim)
        return await self._objects.repair(address, patch)

    def _owners(
        self, claim: IPAddressClaim, pool: Object, pool_kind: Resource[Object]
    ) -> tuple[OwnerReference, OwnerReference]:
        return owners(claim, self._caches.claim_kind, pool=pool, pool_kind=pool_kind)

    async def remove(self, address: IPAddress, reason: str) -> None:
        """Delete an IPAddress, then remove our finalizer.

        Args:
            address: as it was read.
            reason: for the log.

        Raises:
            Conflict: it changed meanwhile.
            ControllerError: a request failed.
        """
        await self._objects.remove(address, _release_fields(address, reason))

    async def hold_back(self, address: IPAddress, since: str) -> None:
        """Annotate an IPAddress that its claim released it: the grace period begins.

        It is the claim's no more: a dependent would keep one that is deleted in the foreground,
        and the garbage collector takes the reference away anyhow, once the claim is gone.
        """
        claim = controlling_claim(address)
        kept_owners = [
            copied_owner(reference)
            for reference in address.metadata.ownerReferences
            if reference != claim
        ]
        patch = {"metadata": {"annotations": {RELEASED_AT: since}, "ownerReferences": kept_owners}}
        await self._client.patch(self._caches.address_kind, Version.from_object(address), patch)


def _release_fields(address: IPAddress, reason: str) -> dict[str, str]:
    """Return the fields of the log line about the release of an IPAddress."""
    spec, claim = address.spec, Key(address.metadata.namespace, address.spec.claimRef.name)
    return release_fields(
        claim, spec.poolRef, address=spec.address, prefix=spec.prefix, reason=reason
    )
