"""IPAddresses, the answers to claims: created, adopted, repaired and removed.

An IPAddress *answers* a claim if the claim's status can name it: it has the claim's name and pool,
and a valid address. To *adopt* an IPAddress is to add the owners and finalizer that it lacks.

A promise is an entry in the journal of a pool: an address that the pool reserved for a claim. It
is kept once the claim's `status.addressRef` is written. The IPAddress alone does not keep it,
because a create has no precondition: a replica that froze before its create may send it late. Then
no addressRef leads to that IPAddress, and `claims.py` removes it before a machine has used it.
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
from reconcilers.integrations.clusterapi.caches import ClaimCaches, find_pool_kind
from reconcilers.integrations.clusterapi.gonelog import release_fields
from reconcilers.integrations.clusterapi.statuses import read_record, read_restored_record
from reconcilers.integrations.core.addressobjects import (
    AddressObjects,
    build_missing_metadata_patch,
)
from reconcilers.integrations.core.claimproblems import ADDRESS_ALLOCATED, ClaimProblem
from reconcilers.integrations.core.claimwrites import AddressInTheWay
from reconcilers.integrations.core.owners import get_owner_identity, render_owner_reference
from reconcilers.reporting.conditions import READY, ConditionFinding

RELEASED_AT = names.ANNOTATION_RELEASED_AT
"""Annotation of an IPAddress whose claim is gone, while the pool's grace period holds it back."""


def render_address(
    claim: IPAddressClaim, owner: OwnerReference, pool: OwnerReference, spec: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the IPAddress that answers a claim.

    Args:
        claim: the claim, which gives the IPAddress its name.
        owner: the claim as owner.
        pool: the pool as owner.
        spec: address, prefix and gateway.
    """
    ref = claim.spec.poolRef
    metadata: dict[str, Any] = {
        "name": claim.metadata.name,
        "namespace": claim.metadata.namespace,
        "finalizers": [ADDRESS_FINALIZER],
        "ownerReferences": [render_owner_reference(owner), render_owner_reference(pool)],
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


def render_spec(address: str, prefix: int, gateway: str) -> dict[str, Any]:
    """Return the spec of an IPAddress: address, prefix and, if the pool has one, gateway."""
    # No gateway rather than an empty one: Cluster API's CRD rejects an empty string.
    spec: dict[str, Any] = {"address": address, "prefix": prefix}
    return spec | ({"gateway": gateway} if gateway else {})


def make_owners(
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


def find_controlling_claim(address: IPAddress) -> OwnerReference | None:
    """Return the claim that controls an IPAddress by its owner references; None if none does."""
    for reference in address.metadata.ownerReferences:
        group = reference.apiVersion.rpartition("/")[0]
        if reference.controller and (group, reference.kind) == (GROUP, "IPAddressClaim"):
            return reference
    return None


def is_made_for_claim(address: IPAddress) -> bool:
    """Return whether a provider created or adopted an IPAddress for a claim: we may remove it.

    An IPAddress that a person created lacks the finalizer or the owner, and is never removed.
    """
    return (
        ADDRESS_FINALIZER in address.metadata.finalizers
        and find_controlling_claim(address) is not None
    )


def is_held_back(address: IPAddress) -> bool:
    """Return whether a grace period holds an IPAddress back that its claim has released."""
    meta = address.metadata
    return ADDRESS_FINALIZER in meta.finalizers and RELEASED_AT in meta.annotations


def is_left_over(address: IPAddress) -> bool:
    """Return whether an IPAddress was made for a claim that is no longer among its owners.

    Once a claim is deleted, the garbage collector removes it from the owners of its IPAddress.
    The pool stays an owner, because an IPAddress has several owners and the pool still exists.
    """
    ref, meta = address.spec.poolRef, address.metadata
    kind = find_pool_kind(ref)
    # Without our kind of pool and our finalizer, another program or a person made the IPAddress.
    if kind is None or ADDRESS_FINALIZER not in meta.finalizers:
        return False
    # `clusterctl move` leaves IPAddresses of cluster-scoped pools behind, although machines in
    # the other cluster use the addresses. Only the label tells whether that happened: it names a
    # Cluster, which is gone after a move. Without the label the address may be in use.
    if not kind.namespaced and CLUSTER_LABEL not in meta.labels:
        return False
    # The claim still owns it, or its grace period runs already (`is_held_back`).
    if find_controlling_claim(address) is not None or RELEASED_AT in meta.annotations:
        return False
    # Only a provider makes the pool an owner, so a provider made this IPAddress for a claim.
    pool_identity = (ref.apiGroup, ref.kind, ref.name)
    return any(get_owner_identity(owner) == pool_identity for owner in meta.ownerReferences)


def is_restored(address: IPAddress, claim: IPAddressClaim) -> bool:
    """Return whether an IPAddress is being deleted and this claim is not its owner.

    A restore from a backup causes this: it gives each object another uid. So the owner reference
    of a restored IPAddress has the uid of the claim before the restore, and the garbage collector
    deletes the IPAddress. Our finalizer keeps it until it is recreated, because a machine still
    uses its address. An earlier claim of the same name has the same effect.
    """
    owner = find_controlling_claim(address)
    is_owner = owner is not None and owner.uid == claim.metadata.uid
    return address.metadata.is_terminating and not is_owner


def must_be_recorded(address: IPAddress, claim: IPAddressClaim) -> bool:
    """Return whether a claim must record its restored IPAddress's address before it is recreated.

    To recreate an IPAddress is to delete and create it, and the replica may stop in between.
    Then only the record on the claim keeps the address from being handed out to another claim.
    """
    # With a record in its status, the claim holds the address already.
    if read_record(claim) is not None or not is_restored(address, claim):
        return False
    restored = read_restored_record(claim)
    # A record of another address is overwritten: the IPAddress says which one the machine has.
    return restored is None or (
        parse_address(restored.address) != parse_address(address.spec.address)
    )


def explain_unusable(address: IPAddress, claim: IPAddressClaim) -> str:
    """Return why the IPAddress of a claim's name cannot answer it; empty if it can."""
    name, claim_ref, address_ref = address.metadata.key, claim.spec.poolRef, address.spec.poolRef
    if (address_ref.apiGroup, address_ref.kind, address_ref.name) != (
        claim_ref.apiGroup,
        claim_ref.kind,
        claim_ref.name,
    ):
        return f"IPAddress {name} exists and is of {address_ref.kind} {address_ref.name}"
    if address.spec.claimRef.name != claim.metadata.name:
        return f"IPAddress {name} exists and is for claim {address.spec.claimRef.name}"
    if parse_address(address.spec.address) is None:
        return f"IPAddress {name} exists and has no address that can be read"
    if RELEASED_AT in address.metadata.annotations:
        return f"IPAddress {name} of an earlier claim is still being released"
    return ""


def is_served_by_another(claim: IPAddressClaim, caches: ClaimCaches) -> bool:
    """Return whether a claim without our record has an address from another provider.

    It has one if its addressRef names an IPAddress for the claim: a machine uses that address.
    An addressRef to a missing IPAddress, or to another claim's, gives a machine no address.
    """
    if not claim.address_name:
        return False
    key = Key(claim.metadata.namespace, claim.address_name)
    address = caches.addresses.get(key)
    if address is None or key in caches.addresses.unreadable:
        # An IPAddress that cannot be decoded may hold an address that a machine uses.
        return key in caches.addresses.unreadable
    is_for_claim = address.spec.claimRef.name == claim.metadata.name
    has_address = parse_address(address.spec.address) is not None
    return is_for_claim and has_address and RELEASED_AT not in address.metadata.annotations


def make_ready_finding(
    claim: IPAddressClaim, caches: ClaimCaches, problem: ClaimProblem
) -> ConditionFinding:
    """Return condition Ready of a claim that this program does not serve.

    It is False with the reason of the problem. It stays True for a claim that another provider
    served, because its address is still in use; then only the message reports the problem.

    Args:
        problem: what keeps this program from serving the claim.
    """
    if is_served_by_another(claim, caches):
        return ConditionFinding(READY, True, reason=ADDRESS_ALLOCATED, message=problem.message)
    return problem.make_ready_finding()


def render_missing_metadata(
    address: IPAddress, owner_references: tuple[OwnerReference, ...], claim: IPAddressClaim
) -> dict[str, Any]:
    """Return a merge patch with the finalizer, owners and label that an IPAddress lacks.

    The patch is empty if the IPAddress lacks nothing.

    Args:
        owner_references: the owners that the IPAddress must have: its claim and its pool.
    """
    # A restored IPAddress that is being deleted is recreated with all of them instead.
    if is_restored(address, claim):
        return {}
    labels = {} if claim.cluster is None else {CLUSTER_LABEL: claim.cluster.name}
    return build_missing_metadata_patch(
        address.metadata, ADDRESS_FINALIZER, owners=owner_references, labels=labels
    )


class Answers:
    """Creates, repairs and removes the IPAddresses of claims.

    Args:
        client: sends the writes to the API server.
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
        """Create or repair the IPAddress of a claim's name, and return it.

        An existing IPAddress keeps its spec, which may differ from `spec`: machines use it.

        Args:
            claim: the claim, whose address its status or the pool's journal records already.
            spec: address, prefix and gateway for a new IPAddress.

        Raises:
            AddressInTheWay: an IPAddress of that name cannot answer the claim.
            Conflict: the IPAddress changed after it was read.
            ControllerError: a request failed.
        """
        owner_references = self._make_owners(claim, pool, pool_kind)
        address = self._caches.addresses.get(claim.metadata.key)
        if address is None:
            body = render_address(claim, *owner_references, spec)
            address, is_new = await self._objects.create(body)
            if is_new:
                return address
            # Another replica or a person created it, and the cache does not show it yet.
        if reason := explain_unusable(address, claim):
            raise AddressInTheWay(reason)
        # The IPAddressClaim controller writes that record; the next pass finds it.
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
        """Replace an IPAddress that is being deleted by a new one with the same address."""
        spec = address.spec
        reason = "it is being deleted; its claim gets another with its address"
        body = render_address(
            claim, *owner_references, render_spec(spec.address, spec.prefix, spec.gateway)
        )
        return await self._objects.recreate(address, body, _release_fields(address, reason))

    async def repair(
        self, address: IPAddress, claim: IPAddressClaim, pool: Object, pool_kind: Resource[Object]
    ) -> None:
        """Restore finalizer, owners and label on the IPAddress of a claim, where missing."""
        await self._write_missing_metadata(
            address, self._make_owners(claim, pool, pool_kind), claim
        )

    async def _write_missing_metadata(
        self,
        address: IPAddress,
        owner_references: tuple[OwnerReference, ...],
        claim: IPAddressClaim,
    ) -> IPAddress:
        """Add missing finalizer, owners and label, and return the IPAddress as it is then."""
        patch = render_missing_metadata(address, owner_references, claim)
        return await self._objects.repair(address, patch)

    def _make_owners(
        self, claim: IPAddressClaim, pool: Object, pool_kind: Resource[Object]
    ) -> tuple[OwnerReference, OwnerReference]:
        """Return the owner references that the IPAddress needs: its claim, then its pool."""
        return make_owners(claim, self._caches.claim_kind, pool=pool, pool_kind=pool_kind)

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
        """Annotate an IPAddress with the time of its release, from which a grace period runs.

        The claim is removed from the owners: with a dependent, a claim that is deleted in the
        foreground would stay until the grace period is over.

        Args:
            since: when the claim released the address, in RFC 3339.
        """
        claim = find_controlling_claim(address)
        kept_owners = [
            render_owner_reference(reference)
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
