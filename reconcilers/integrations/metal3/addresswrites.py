"""Create, adopt, repair and delete the IPAddresses of claims.

The name of an IPAddress contains its address, so a create is a second lock: it fails if another
claim of the kind has the address. A replica that froze before a create may create an IPAddress
late. The annotation MADE_FOR distinguishes it from IPAddresses that other programs created.
"""

from typing import Any, Generic

from allocator import AddressRange
from controller.client import Client
from controller.errors import ControllerError
from reconcilers.api import names
from reconcilers.integrations.core.addressobjects import (
    AddressObjects,
    build_missing_metadata_patch,
)
from reconcilers.integrations.core.claimwrites import AddressInTheWay
from reconcilers.integrations.core.owners import render_owner_reference
from reconcilers.integrations.metal3.api import Metal3Pool
from reconcilers.integrations.metal3.caches import IPPoolClaimCaches, Metal3Caches
from reconcilers.integrations.metal3.claimformats import AddressT, ClaimFormat, ClaimT
from reconcilers.integrations.metal3.entries import EntrySpace, parse_single
from reconcilers.integrations.metal3.gonelog import release_fields

MADE_FOR = names.ANNOTATION_MADE_FOR
"""Annotation of an IPAddress that this program created: the uid of its claim."""


class AddressWrites(Generic[ClaimT, AddressT]):
    """Creates, repairs and deletes the IPAddresses of one kind of claims.

    Args:
        client: for the writes.
        caches: all caches of this integration.
        claim_caches: the caches of this kind of claims.
    """

    def __init__(
        self,
        client: Client,
        caches: Metal3Caches,
        claim_caches: IPPoolClaimCaches[ClaimT, AddressT],
    ) -> None:
        self._claim_caches = claim_caches
        self._claim_format = claim_caches.claim_format
        self._unnamed = caches.unnamed
        finalizer = self._claim_format.address_finalizer
        self._objects = AddressObjects(
            client, self._claim_format.addresses, finalizer=finalizer, logged=caches.logged
        )

    async def ensure(
        self, claim: ClaimT, pool: Metal3Pool, space: EntrySpace, address: AddressRange
    ) -> AddressT:
        """Create the IPAddress of a claim, or adopt and repair an existing one; return it.

        An existing IPAddress that is being deleted is returned as well: the status of the claim
        must name it before `recreate` may replace it.

        Args:
            claim: its status names the IPAddress, or the journal promises the address to it.
            pool: the pool of the address.
            space: what the pool may hand out.
            address: a single address.

        Raises:
            AddressInTheWay: another IPAddress has the name.
            Conflict: an IPAddress changed meanwhile.
            ControllerError: a request failed.
        """
        claim_format, meta = self._claim_format, claim.metadata
        for cached in self._claim_caches.list_addresses_of_claim(meta.key):
            is_of_pool = claim_format.find_pool_of_address(cached) == pool.metadata.key
            if is_of_pool and parse_single(cached.spec.address) == address:
                return await self.repair(cached, claim=claim, pool=pool)
        body = render_address(claim_format, claim, pool=pool, space=space, address=address)
        if not claim_format.get_address_name(claim):
            # Before the create: the watch may show the IPAddress before the answer comes.
            self._unnamed.add(meta.uid)
        try:
            ip_address, is_new = await self._objects.create(body)
        except ControllerError:
            self._unnamed.discard(meta.uid)
            raise
        if is_new:
            return ip_address
        self._unnamed.discard(meta.uid)
        # An IPAddress with the name exists. It may be this claim's, although the cache is behind.
        is_same = parse_single(ip_address.spec.address) == address
        is_of_pool = claim_format.find_pool_of_address(ip_address) == pool.metadata.key
        if is_same and is_of_pool and claim_format.is_address_of_claim(ip_address, claim):
            return await self.repair(ip_address, claim=claim, pool=pool)
        why = "is not of the claim" if is_same else f"is {ip_address.spec.address!r}"
        raise AddressInTheWay(f"IPAddress {ip_address.metadata.key} exists and {why}")

    async def recreate(self, address: AddressT, claim: ClaimT, pool: Metal3Pool) -> AddressT:
        """Replace an IPAddress that is being deleted by a new one with the same address."""
        reason = "it is being deleted; its claim gets another one"
        fields = release_fields(self._claim_format, address, reason)
        body = render_recreated_address(self._claim_format, address, claim=claim, pool=pool)
        return await self._objects.recreate(address, body, fields)

    async def repair(self, address: AddressT, claim: ClaimT, pool: Metal3Pool) -> AddressT:
        """Restore finalizer, owners and labels of the IPAddress of a claim, where they differ."""
        meta, claim_format = address.metadata, self._claim_format
        labels = {
            name: value for name, value in claim.metadata.labels.items() if name not in meta.labels
        }
        patch = build_missing_metadata_patch(
            meta,
            claim_format.address_finalizer,
            owners=claim_format.make_owner_references(claim, pool),
            labels=labels,
            is_stale=claim_format.is_owner_kind,
        )
        return await self._objects.repair(address, patch)

    async def remove(self, address: AddressT, reason: str) -> None:
        """Delete an IPAddress at the version that was read, then remove our finalizer.

        Args:
            address: as it was read.
            reason: why the address is released, for the log.

        Raises:
            Conflict: the IPAddress changed meanwhile.
            ControllerError: a request failed.
        """
        fields = release_fields(self._claim_format, address, reason)
        await self._objects.remove(address, fields)


def render_address(
    claim_format: ClaimFormat[ClaimT, AddressT],
    claim: ClaimT,
    pool: Metal3Pool,
    space: EntrySpace,
    address: AddressRange,
) -> dict[str, Any]:
    """Return the body of a new IPAddress of a claim.

    Args:
        claim_format: renders IPAddresses of this kind of claims.
        claim: the claim that gets the IPAddress.
        space: what the pool may hand out.
        address: a single address.
    """
    settings = space.find_settings(address)
    spec = claim_format.render_spec(claim, pool.metadata.key, address=address, settings=settings)
    return {
        "metadata": _build_metadata(
            claim_format, claim, pool=pool, name=space.make_address_name(address)
        ),
        "spec": spec,
    }


def render_recreated_address(
    claim_format: ClaimFormat[ClaimT, AddressT], address: AddressT, claim: ClaimT, pool: Metal3Pool
) -> dict[str, Any]:
    """Return the body of the IPAddress that replaces a given one, which is being deleted.

    Name, address and settings stay, even if the pool's spec has other settings by now.

    Args:
        address: the IPAddress that is being deleted; its address can be parsed.
    """
    settings = claim_format.find_settings(address)
    parsed = parse_single(address.spec.address)
    assert parsed is not None, "only an IPAddress with a valid address is recreated"
    return {
        "metadata": _build_metadata(claim_format, claim, pool=pool, name=address.metadata.name),
        "spec": claim_format.render_spec(
            claim, pool.metadata.key, address=parsed, settings=settings
        ),
    }


def _build_metadata(
    claim_format: ClaimFormat[ClaimT, AddressT], claim: ClaimT, pool: Metal3Pool, name: str
) -> dict[str, Any]:
    """Return the metadata of a new IPAddress, with the labels of its claim."""
    meta = claim.metadata
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": meta.namespace,
        "annotations": {MADE_FOR: meta.uid},
        "finalizers": [claim_format.address_finalizer],
        "ownerReferences": [
            render_owner_reference(owner)
            for owner in claim_format.make_owner_references(claim, pool)
        ],
    }
    if meta.labels:
        metadata["labels"] = dict(meta.labels)
    return metadata
