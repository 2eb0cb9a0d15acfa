"""IPAddresses of claims: created, adopted, repaired and deleted.

The name of an IPAddress has its address, so a create is a second lock: the name is taken if
another claim of the kind has the address. A replica that froze before a create may create an
IPAddress late. The annotation MADE_FOR tells it from an IPAddress that others left behind.
"""

from collections.abc import Mapping
from typing import Any

from allocator import AddressRange
from controller.client import Client
from reconcilers.api import names
from reconcilers.integrations.core.addressobjects import AddressObjects, missing_metadata
from reconcilers.integrations.core.claimwrites import AddressInTheWay
from reconcilers.integrations.core.owners import copied_owner
from reconcilers.integrations.metal3.api import Metal3Pool
from reconcilers.integrations.metal3.caches import Metal3Caches, SideCaches
from reconcilers.integrations.metal3.entries import EntrySpace, parse_single
from reconcilers.integrations.metal3.gonelog import release_fields
from reconcilers.integrations.metal3.sides import AddressT, ClaimSide, ClaimT

MADE_FOR = names.ANNOTATION_MADE_FOR
"""Annotation of an IPAddress that this program created: the uid of its claim."""


class AddressWrites:
    """Creates, repairs and deletes IPAddresses of both kinds.

    Args:
        client: for the writes.
    """

    def __init__(self, client: Client, caches: Metal3Caches) -> None:
        self._objects: Mapping[str, AddressObjects[Any]] = {
            kind: AddressObjects(
                client,
                side.side.addresses,
                finalizer=side.side.address_finalizer,
                logged=caches.logged,
            )
            for kind, side in caches.sides.items()
        }

    def _objects_of(self, side: ClaimSide[ClaimT, AddressT]) -> AddressObjects[AddressT]:
        """Return the writer of IPAddresses for one kind of claims."""
        return self._objects[side.claim_kind]

    async def ensure(
        self,
        side: SideCaches[ClaimT, AddressT],
        claim: ClaimT,
        pool: Metal3Pool,
        space: EntrySpace,
        address: AddressRange,
    ) -> AddressT:
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
            AddressInTheWay: the name is taken.
            Conflict: an IPAddress changed meanwhile.
            ControllerError: a request failed.
        """
        kind, meta = side.side, claim.metadata
        for known in side.addresses_of(meta.key):
            is_of_pool = kind.pool_of_address(known) == pool.metadata.key
            if is_of_pool and parse_single(known.spec.address) == address:
                return await self.repair(kind, known, claim=claim, pool=pool)
        body = body_of(kind, claim, pool=pool, space=space, address=address)
        known, is_new = await self._objects_of(kind).create(body)
        if is_new:
            return known
        is_same = parse_single(known.spec.address) == address
        is_of_pool = kind.pool_of_address(known) == pool.metadata.key
        if is_same and is_of_pool and kind.is_of(known, claim):
            return await self.repair(kind, known, claim=claim, pool=pool)
        why = "is not of the claim" if is_same else f"is {known.spec.address!r}"
        raise AddressInTheWay(f"IPAddress {known.metadata.key} exists and {why}")

    async def recreate(
        self, side: ClaimSide[ClaimT, AddressT], address: AddressT, claim: ClaimT, pool: Metal3Pool
    ) -> AddressT:
        """Replace an IPAddress that is being deleted by one that stays, with the same address."""
        fields = release_fields(side, address, "it is being deleted; its claim gets another one")
        body = recreated_body(side, address, claim=claim, pool=pool)
        return await self._objects_of(side).recreate(address, body, fields)

    async def repair(
        self, side: ClaimSide[ClaimT, AddressT], address: AddressT, claim: ClaimT, pool: Metal3Pool
    ) -> AddressT:
        """Restore finalizer, owners and labels of the IPAddress of a claim, where they differ."""
        meta = address.metadata
        labels = {
            name: value for name, value in claim.metadata.labels.items() if name not in meta.labels
        }
        patch = missing_metadata(
            meta,
            side.address_finalizer,
            owners=side.owners(claim, pool),
            labels=labels,
            is_stale=side.is_owner_kind,
        )
        return await self._objects_of(side).repair(address, patch)

    async def remove(
        self, side: ClaimSide[ClaimT, AddressT], address: AddressT, reason: str
    ) -> None:
        """Delete an IPAddress at the version that was read, then remove our finalizer.

        Args:
            side: the kind of its claim.
            address: as it was read.
            reason: for the log.

        Raises:
            Conflict: it changed meanwhile.
            ControllerError: a request failed.
        """
        fields = release_fields(side, address, reason)
        await self._objects_of(side).remove(address, fields)


def body_of(
    side: ClaimSide[ClaimT, AddressT],
    claim: ClaimT,
    pool: Metal3Pool,
    space: EntrySpace,
    address: AddressRange,
) -> dict[str, Any]:
    """Return a new IPAddress of a claim.

    Args:
        side: the kind of the claim.
        claim: that it is for.
        space: what the pool may hand out.
        address: a single one.
    """
    settings = space.settings_of(address)
    spec = side.spec_of(claim, pool.metadata.key, address=address, settings=settings)
    return {
        "metadata": _metadata_of(side, claim, pool=pool, name=space.name_of(address)),
        "spec": spec,
    }


def recreated_body(
    side: ClaimSide[ClaimT, AddressT], address: AddressT, claim: ClaimT, pool: Metal3Pool
) -> dict[str, Any]:
    """Return an IPAddress that takes the place of one that is being deleted."""
    settings = side.settings_of(address)
    parsed = parse_single(address.spec.address)
    assert parsed is not None, "its address is on record"
    return {
        "metadata": _metadata_of(side, claim, pool=pool, name=address.metadata.name),
        "spec": side.spec_of(claim, pool.metadata.key, address=parsed, settings=settings),
    }


def _metadata_of(
    side: ClaimSide[ClaimT, AddressT], claim: ClaimT, pool: Metal3Pool, name: str
) -> dict[str, Any]:
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
