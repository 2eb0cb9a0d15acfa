"""IPAddresses of claims: created, adopted, repaired and deleted.

The name of an IPAddress has its address, so a create is a second lock: the name is taken if
another claim of the kind has the address. A replica that froze before a create may create an
IPAddress late. The annotation MADE_FOR tells it from an IPAddress that others left behind.
"""

from collections.abc import Mapping
from typing import Any

from allocator import AddressRange
from controller.client import Client
from controller.errors import AlreadyExists
from controller.loggers import get_logger
from controller.meta import Key, OwnerReference, Version
from reconcilers.api import names
from reconcilers.integrations.core.deletions import delete_with_finalizer
from reconcilers.integrations.core.owners import copied_owner
from reconcilers.integrations.metal3.api import POOL, Metal3Pool
from reconcilers.integrations.metal3.caches import Metal3Caches, SideCaches
from reconcilers.integrations.metal3.entries import EntrySpace, parse_single
from reconcilers.integrations.metal3.sides import Address, Claim, ClaimSide, is_pool_reference
from reconcilers.reporting.releaselog import holder_fields

MADE_FOR = names.ANNOTATION_MADE_FOR
"""Annotation of an IPAddress that this program created: the uid of its claim."""

_log = get_logger(__name__)


class NameTaken(Exception):
    """An IPAddress with the name exists and is not of the claim; the message says which."""


class AddressWrites:
    """Creates, repairs and deletes IPAddresses.

    Args:
        client: for the writes.
        caches: the caches.
    """

    def __init__(self, client: Client, caches: Metal3Caches) -> None:
        self._client = client
        self._caches = caches

    async def ensure(
        self,
        side: SideCaches,
        claim: Claim,
        pool: Metal3Pool,
        space: EntrySpace,
        address: AddressRange,
    ) -> Address:
        """Return the IPAddress of a claim with an address: created, or adopted and repaired.

        An IPAddress that is being deleted is returned as well: the status of the claim has to name
        it before `recreate` may replace it.

        Args:
            side: the kind of the claim.
            claim: that has the address on record, in its status or in the journal.
            pool: of which the address is.
            space: what the pool may hand out.
            address: a single one.

        Raises:
            NameTaken: the name is taken.
            Conflict: an IPAddress changed meanwhile.
            ControllerError: a request failed.
        """
        kind, meta = side.side, claim.metadata
        for known in side.addresses_of(meta.key):
            is_of_pool = kind.pool_of_address(known) == pool.metadata.key
            if is_of_pool and parse_single(known.spec.address) == address:
                return await self.repair(kind, known, claim, pool)
        body = body_of(kind, claim, pool, space, address)
        try:
            return await self._client.create(kind.addresses, meta.namespace, body)
        except AlreadyExists:
            known = await self._client.get(
                kind.addresses, Key(meta.namespace, space.name_of(address))
            )
        if kind.pool_of_address(known) == pool.metadata.key and kind.is_of(known, claim):
            return await self.repair(kind, known, claim, pool)
        raise NameTaken(f"IPAddress {known.metadata.key} exists and is not of the claim")

    async def recreate(
        self, side: ClaimSide, address: Address, claim: Claim, pool: Metal3Pool
    ) -> Address:
        """Replace an IPAddress that is being deleted by one that stays, with the same address.

        The status of the claim names it, so the address is on record meanwhile.
        """
        await self.remove(side, address, "it is being deleted; its claim gets another one")
        body = recreated_body(side, address, claim, pool)
        try:
            return await self._client.create(side.addresses, address.metadata.namespace, body)
        except AlreadyExists:  # a finalizer of others keeps it
            return await self._client.get(side.addresses, address.metadata.key)

    async def repair(
        self, side: ClaimSide, address: Address, claim: Claim, pool: Metal3Pool
    ) -> Address:
        """Restore finalizer, owners and labels of the IPAddress of a claim, where they differ.

        The version that was read is the precondition, so an IPAddress that is gone is noticed.
        """
        patch = missing_metadata(side, address, claim, pool)
        if not patch:
            return address
        at = Version.from_object(address)
        return await self._client.patch(side.addresses, at, {"metadata": patch})

    async def remove(self, side: ClaimSide, address: Address, reason: str) -> None:
        """Delete an IPAddress at the version that was read, then remove our finalizer.

        Args:
            side: the kind of its claim.
            address: as it was read.
            reason: for the log.

        Raises:
            Conflict: it changed meanwhile.
            ControllerError: a request failed.
        """
        claim, pool = side.claim_of_address(address), side.pool_of_address(address)
        holder = f"{side.claims.kind} {claim or address.metadata.key}"
        fields = holder_fields(holder, [address.spec.address], f"{POOL} {pool}", reason)
        _log.info("releasing IPAddress", address=str(address.metadata.key), **fields)
        self._caches.logged.add(address.metadata.uid)
        await delete_with_finalizer(self._client, side.addresses, address, side.address_finalizer)


def body_of(
    side: ClaimSide, claim: Claim, pool: Metal3Pool, space: EntrySpace, address: AddressRange
) -> dict[str, Any]:
    """Return a new IPAddress of a claim.

    Args:
        side: the kind of the claim.
        claim: that it is for.
        pool: that it is of.
        space: what the pool may hand out.
        address: a single one.
    """
    settings = space.settings_of(address)
    spec = side.spec_of(claim, pool.metadata.key, address, settings)
    return {
        "metadata": _metadata_of(side, claim, pool, space.name_of(address)),
        "spec": spec,
    }


def recreated_body(
    side: ClaimSide, address: Address, claim: Claim, pool: Metal3Pool
) -> dict[str, Any]:
    """Return an IPAddress that takes the place of one that is being deleted."""
    settings = side.settings_of(address)
    parsed = parse_single(address.spec.address)
    assert parsed is not None, "its address is on record"
    return {
        "metadata": _metadata_of(side, claim, pool, address.metadata.name),
        "spec": side.spec_of(claim, pool.metadata.key, parsed, settings),
    }


def missing_metadata(
    side: ClaimSide, address: Address, claim: Claim, pool: Metal3Pool
) -> Mapping[str, Any]:
    """Return a patch of the metadata that an IPAddress lacks; empty for nothing.

    Owners are compared by group, kind and name: a stale uid is replaced where it stands. Owners
    and labels of others stay.
    """
    meta, patch = address.metadata, dict[str, Any]()
    if side.address_finalizer not in meta.finalizers and not meta.terminating:
        patch["finalizers"] = [*meta.finalizers, side.address_finalizer]
    missing = list(side.owners(claim, pool))
    references: list[OwnerReference] = []
    for owner in meta.ownerReferences:
        same = next((ours for ours in missing if _identity(ours) == _identity(owner)), None)
        if same is None:
            if not (is_pool_reference(owner) or side.is_claim_reference(owner)):
                references.append(owner)
            continue
        missing.remove(same)
        references.append(owner if owner.uid == same.uid else same)
    references += missing
    if tuple(references) != meta.ownerReferences:
        patch["ownerReferences"] = [copied_owner(owner) for owner in references]
    labels = {
        name: value for name, value in claim.metadata.labels.items() if name not in meta.labels
    }
    if labels:
        patch["labels"] = labels
    return patch


def _metadata_of(side: ClaimSide, claim: Claim, pool: Metal3Pool, name: str) -> dict[str, Any]:
    meta = claim.metadata
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": meta.namespace,
        "annotations": {MADE_FOR: meta.uid},
        "finalizers": [side.address_finalizer],
        "ownerReferences": [copied_owner(owner) for owner in side.owners(claim, pool)],
    }
    if meta.labels:
        metadata["labels"] = dict(meta.labels)
    return metadata


def _identity(owner: OwnerReference) -> tuple[str, str, str]:
    return owner.apiVersion.rpartition("/")[0], owner.kind, owner.name
