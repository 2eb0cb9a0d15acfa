"""IPAddresses, the answers to claims: made, adopted, repaired and taken away.

A create has no precondition, so an IPAddress is no effect of a promise: that is the claim's
addressRef. A replica that froze before it made an IPAddress may make it late; then no addressRef
leads to it, and it is taken away again (`claims.py`) without any machine having used it.
"""

from collections.abc import Mapping
from typing import Any

from allocator.addresses import parse_address
from controller.client import Client
from controller.errors import AlreadyExists
from controller.loggers import get_logger
from controller.meta import Key, OwnerReference, Version
from controller.resource import Resource
from reconcilers.api import names
from reconcilers.integrations.clusterapi.api import (
    ADDRESS_ALLOCATED,
    ADDRESS_FINALIZER,
    CLUSTER_LABEL,
    GROUP,
    IPAddress,
    IPAddressClaim,
)
from reconcilers.integrations.clusterapi.caches import ClaimCaches, kind_of
from reconcilers.integrations.clusterapi.gonelog import release_fields
from reconcilers.integrations.clusterapi.statuses import record_of, restored_record_of
from reconcilers.integrations.core.deletions import delete_with_finalizer
from reconcilers.integrations.core.owners import copied_owner
from reconcilers.reporting.conditions import READY, Finding

_log = get_logger(__name__)

RELEASED_AT = names.ANNOTATION_RELEASED_AT
"""Annotation of an IPAddress whose claim is gone, while the pool's grace period holds it back."""


class NotOurs(Exception):
    """An IPAddress of the claim's name exists and cannot answer it; the message says why."""


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
    claim: IPAddressClaim, claim_kind: Resource[Any], pool: Any, pool_kind: Resource[Any]
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
    return any(_identity(owner) == pool for owner in meta.ownerReferences)


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
    claim: IPAddressClaim, caches: ClaimCaches, reason: str, message: str
) -> Finding:
    """Return condition Ready of a claim that is not served, or whose promises are voided.

    A claim that another provider served stays Ready: its address is still in use. The message says
    what keeps this program from serving it.

    Args:
        claim: that is written.
        caches: the caches.
        reason: of the condition if the claim has no address.
        message: of the condition.
    """
    if is_served_by_another(claim, caches):
        return Finding(READY, True, ADDRESS_ALLOCATED, message)
    return Finding(READY, False, reason, message)


def missing_metadata(
    address: IPAddress, owner_references: tuple[OwnerReference, ...], claim: IPAddressClaim
) -> dict[str, Any]:
    """Return a patch of what an IPAddress lacks: finalizer, owners, label; empty for nothing.

    Owners are compared by group, kind and name: versions change with the API, and a stale uid is
    replaced where it stands. Foreign owners stay, and stay in front. A restored IPAddress that is
    being deleted lacks nothing: another one takes its place.
    """
    meta, patch = address.metadata, dict[str, Any]()
    if is_restored(address, claim):
        return patch
    if ADDRESS_FINALIZER not in meta.finalizers and not meta.terminating:
        patch["finalizers"] = [*meta.finalizers, ADDRESS_FINALIZER]
    rest = list(owner_references)
    references: list[OwnerReference] = []
    for reference in meta.ownerReferences:
        same = next(
            (candidate for candidate in rest if _identity(candidate) == _identity(reference)), None
        )
        if same is None:
            references.append(reference)
            continue
        rest.remove(same)
        kept = reference.uid == same.uid and reference.controller == same.controller
        references.append(reference if kept and reference.blockOwnerDeletion else same)
    references += rest
    if tuple(references) != meta.ownerReferences:
        patch["ownerReferences"] = [copied_owner(reference) for reference in references]
    cluster = claim.cluster
    if cluster is not None and meta.labels.get(CLUSTER_LABEL) != cluster.name:
        patch["labels"] = {CLUSTER_LABEL: cluster.name}
    return {"metadata": patch} if patch else {}


def _identity(reference: OwnerReference) -> tuple[str, str, str]:
    return reference.apiVersion.rpartition("/")[0], reference.kind, reference.name


class Answers:
    """Makes, repairs and removes IPAddresses.

    Args:
        client: for the writes.
        caches: the caches.
    """

    def __init__(self, client: Client, caches: ClaimCaches) -> None:
        self._client = client
        self._caches = caches

    async def ensure(
        self,
        claim: IPAddressClaim,
        pool: Any,
        pool_kind: Resource[Any],
        spec: Mapping[str, Any],
    ) -> IPAddress:
        """Return the IPAddress of a claim's name, made if there is none, repaired if need be.

        Args:
            claim: that it answers, and that has its address on record, there or in the journal.
            pool: that it is of.
            pool_kind: the kind of `pool`.
            spec: what a new one says of address, prefix and gateway.

        Raises:
            NotOurs: there is one that cannot answer the claim.
            Conflict: it changed meanwhile.
            ControllerError: a request failed.
        """
        kind, owner_references = self._caches.address_kind, self._owners(claim, pool, pool_kind)
        address = self._caches.addresses.get(claim.metadata.key)
        if address is None:
            body = body_of(claim, *owner_references, spec)
            try:
                return await self._client.create(kind, claim.metadata.namespace, body)
            except AlreadyExists:
                address = await self._client.get(kind, claim.metadata.key)
        if reason := why_not(address, claim):
            raise NotOurs(reason)
        if must_be_recorded(address, claim):
            raise NotOurs(f"IPAddress {address.metadata.key} was restored, and is recreated soon")
        if is_restored(address, claim):
            return await self._recreate(address, owner_references, claim)
        return await self._write_missing_metadata(address, owner_references, claim)

    async def _recreate(
        self,
        address: IPAddress,
        owner_references: tuple[OwnerReference, OwnerReference],
        claim: IPAddressClaim,
    ) -> IPAddress:
        """Replace an IPAddress that is being deleted by one that stays, with the same address.

        The claim has the address on record, so nobody else gets it meanwhile. While a finalizer of
        others keeps the IPAddress, it is left as it is.
        """
        kind, spec = self._caches.address_kind, address.spec
        await self.remove(address, "it is being deleted; its claim gets another with its address")
        body = body_of(claim, *owner_references, spec_of(spec.address, spec.prefix, spec.gateway))
        try:
            return await self._client.create(kind, claim.metadata.namespace, body)
        except AlreadyExists:
            return await self._client.get(kind, claim.metadata.key)

    async def repair(
        self, address: IPAddress, claim: IPAddressClaim, pool: Any, pool_kind: Resource[Any]
    ) -> None:
        """Restore finalizer, owners and label on the IPAddress of a claim, where missing."""
        await self._write_missing_metadata(address, self._owners(claim, pool, pool_kind), claim)

    async def _write_missing_metadata(
        self,
        address: IPAddress,
        owner_references: tuple[OwnerReference, ...],
        claim: IPAddressClaim,
    ) -> IPAddress:
        patch = missing_metadata(address, owner_references, claim)
        if not patch:
            return address
        return await self._client.patch(
            self._caches.address_kind, Version.from_object(address), patch
        )

    def _owners(
        self, claim: IPAddressClaim, pool: Any, pool_kind: Resource[Any]
    ) -> tuple[OwnerReference, OwnerReference]:
        return owners(claim, self._caches.claim_kind, pool, pool_kind)

    async def remove(self, address: IPAddress, reason: str) -> None:
        """Delete an IPAddress, then remove our finalizer.

        Args:
            address: as it was read.
            reason: for the log.

        Raises:
            Conflict: it changed meanwhile.
            ControllerError: a request failed.
        """
        kind, spec = self._caches.address_kind, address.spec
        claim = Key(address.metadata.namespace, spec.claimRef.name)
        fields = release_fields(claim, spec.poolRef, spec.address, spec.prefix, reason)
        _log.info("releasing IPAddress", address=str(address.metadata.key), **fields)
        self._caches.logged.add(address.metadata.uid)
        await delete_with_finalizer(self._client, kind, address, ADDRESS_FINALIZER)

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
