"""Writes the IPAddressPool in a tenant, so that a late write does no harm.

A *projection* is the set of ranges that the tenant should hold. The pool carries its basis as an
annotation: the position of the cache that it was computed from. A projection reads the pool live,
gives up if that basis is newer than its own, and writes with the pool's resourceVersion. So an
older view can never undo a newer one.

A missing pool carries no basis, and no write can have its absence as a precondition. So it is
created in a form without effect, with an address for documentation (RFC 5737) that is not assigned
automatically. Then the ranges are confirmed live. Then they are filled in, with that pool's
version as precondition. Two cases show why that is safe:

- A process that froze before it created the pool creates a harmless pool. It confirms the ranges
  after any release.
- A process that froze after it created the pool gets a conflict when it fills the pool. The *mark*
  is the position at which the release of a range began. No range is released while a pool exists
  that was not written since the mark, so some write has changed the pool before.
"""

from collections.abc import Iterable
from typing import Any

from controller.client import Client
from controller.errors import MalformedAnswer, NotFound
from controller.meta import Key, Object, Version
from reconcilers.api import names
from reconcilers.loadbalancers.corrections import describe_edit
from reconcilers.loadbalancers.metallb.keptstate import MetalLBKeptState
from reconcilers.loadbalancers.metallb.kinds import (
    IP_ADDRESS_POOL,
    L2_ADVERTISEMENT,
    IPAddressPool,
)
from reconcilers.loadbalancers.ownernotes import read_position
from reconcilers.loadbalancers.port import (
    BEHIND,
    CONTESTED,
    MADE_BY_OTHERS,
    BalancerBlocked,
    Confirm,
    Offer,
    Permit,
    Projection,
)

POOL_NAME = names.METALLB_POOL
NO_ADDRESS = "192.0.2.0-192.0.2.0"
"""The entry of a pool that has no ranges yet; MetalLB refuses a pool without addresses."""
ADVERTISEMENT_NAME = names.METALLB_ADVERTISEMENT
NOT_INSTALLED = "MetalLBNotInstalled"
"""The reason where the tenant positively does not serve MetalLB's kinds."""


def read_basis(pool: IPAddressPool) -> int:
    """Return the position that the pool's content was computed from; 0 if the pool has none.

    On a pool of another tool, another annotation holds the position: it does not claim the pool.
    """
    annotations = (names.ANNOTATION_PROJECTION_BASIS, names.ANNOTATION_PROJECTION_SEEN)
    return max(read_position(pool, name) for name in annotations)


class TenantMetalLB:
    """Reads and writes the IPAddressPools of one tenant.

    Args:
        client: a client of the tenant.
        namespace: MetalLB's namespace there.
        kept_state: the memory of our objects there, which shows edits by others.
        now: monotonic seconds.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        kept_state: MetalLBKeptState | None = None,
        now: float = 0.0,
    ) -> None:
        self._client = client
        self._pool = Key(namespace, POOL_NAME)
        self._advertisement = Key(namespace, ADVERTISEMENT_NAME)
        self._kept_state = kept_state or MetalLBKeptState()
        self._now = now

    async def read_pool(self) -> IPAddressPool | None:
        """Return our pool by a live read; None if it does not exist, but MetalLB is installed.

        Raises:
            BalancerBlocked: the tenant positively does not serve MetalLB's kinds.
            ControllerError: the tenant did not answer.
        """
        try:
            return await self._client.get(IP_ADDRESS_POOL, self._pool)
        except NotFound:
            await self._require_installed()
            return None

    async def read_pools(self) -> dict[str, IPAddressPool]:
        """Return all of MetalLB's pools by a live read, by name.

        A pool of others that cannot be decoded is left out.

        Raises:
            BalancerBlocked: the tenant positively does not serve MetalLB's kinds.
            ControllerError: the tenant did not answer, or a pool of ours cannot be decoded.
        """
        try:
            page = await self._client.list(IP_ADDRESS_POOL, namespace=self._pool.namespace)
        except NotFound:
            await self._require_installed()
            raise  # MetalLB was installed after the LIST: a later pass reads its pools
        unreadable_names = {key.name for key in page.unreadable}
        our_unreadable_names = {POOL_NAME, names.METALLB_MARKER} & unreadable_names
        if our_unreadable_names:
            raise MalformedAnswer(
                f"IPAddressPools that cannot be read: {sorted(our_unreadable_names)}"
            )
        return {pool.metadata.name: pool for pool in page.items}

    async def _require_installed(self) -> None:
        """Raise BalancerBlocked if the tenant does not serve MetalLB's kinds."""
        if not await self._client.is_served(IP_ADDRESS_POOL):
            raise BalancerBlocked(
                NOT_INSTALLED,
                "MetalLB is not installed in the tenant: metallb.io is not served",
            ) from None

    async def project(
        self,
        projection: Projection,
        confirm: Confirm,
        permit: Permit,
    ) -> None:
        """Make the pool hold the ranges of `projection`, writing only what differs.

        A pool without ranges is deleted.

        Args:
            projection: from the cache.
            confirm: reads the projection live from the management cluster; called after a pool was
                created, before it is given its ranges.
            permit: raises BalancerBlocked if the present pool must not be written.

        Raises:
            BalancerBlocked: MetalLB is missing, the pool is not ours, or a newer view has
                written.
            Conflict: the pool changed since it was read; begin again.
            ControllerError: the tenant did not answer.
        """
        live = await self.read_pool()
        if not projection.entries:
            # From now on a missing pool is intended, and no edit by others.
            self._kept_state.clear()
            if live is None:
                return
        if live is not None and not await self._ask_permit(live, projection, permit):
            return
        edit = self._describe_edit(live, projection)
        # A write that is needed anyway, because the ranges changed, never waits.
        if edit and self._has_written(projection):
            self._require_correction_due(edit)
        if live is None:
            live = await self._create(projection)
        if read_basis(live) > projection.basis:
            raise BalancerBlocked(BEHIND, "another replica has written a newer state of the pool")
        if not projection.entries:
            await self._delete_objects(live, projection)
            return
        await self._write(live, projection, confirm)
        if edit:
            self._kept_state.note_correction(IP_ADDRESS_POOL.kind, edit, self._now)
        self._kept_state.entries = projection.entries

    async def _write(
        self,
        live: IPAddressPool,
        projection: Projection,
        confirm: Confirm,
    ) -> None:
        """Write the differences between the pool and `projection`.

        A pool without effect is filled, if a live read confirms the ranges. Fields that others set
        are removed by a patch, because an apply leaves them. Other differences are applied.
        """
        if is_empty(live):
            await self._fill_pool(live, projection, await confirm())
        elif live.spec.edited_fields and is_ours(live):
            await self._patch(live, projection)
        elif self._needs_write(live, projection):
            await self._apply(live, projection)

    def _has_written(self, projection: Projection) -> bool:
        """Return whether this process has already made the pool hold these ranges."""
        return self._kept_state.entries == projection.entries

    def _describe_edit(self, live: IPAddressPool | None, projection: Projection) -> str:
        """Return how others changed our pool, in words.

        Empty if they did not, or if the pool is written anyway.
        """
        has_written = self._has_written(projection)
        if live is None:
            return f"IPAddressPool {POOL_NAME} (deleted)" if has_written else ""
        # A pool without effect, or one that may have a marked range, is written in any case: that
        # write is no correction of an edit.
        is_write_due = is_empty(live) or read_basis(live) < projection.needed
        # A pool that others made, and to which this process has not given these ranges, was not
        # ours to be edited.
        is_of_others = not is_ours(live) and not has_written
        if is_write_due or is_of_others:
            return ""
        fields: list[str] = []
        # If this process has not written these ranges, other addresses are our own last state.
        if has_written and live.spec.addresses != projection.entries:
            fields.append("addresses")
        # Without our annotations it is not known which of its fields others have set.
        fields += live.spec.edited_fields if is_ours(live) else ["annotations"]
        return describe_edit(live.metadata, IP_ADDRESS_POOL.kind, fields) if fields else ""

    def _require_correction_due(self, edit: str) -> None:
        """Raise BalancerBlocked if the correction of a repeated edit has to wait."""
        if not self._kept_state.request_correction(edit, self._now):
            raise BalancerBlocked(CONTESTED, self._kept_state.describe_contest(self._now))

    async def _ask_permit(
        self,
        live: IPAddressPool,
        projection: Projection,
        permit: Permit,
    ) -> bool:
        """Return whether the projection goes on with the pool that is there.

        A pool of another tool that must not be written is annotated, so that no other replica
        takes it over with a range that is being released.

        Raises:
            BalancerBlocked: the pool must not be written, and there are ranges to write.
        """
        try:
            await permit(make_offer(live))
        except BalancerBlocked as blocked:
            is_of_another_tool = blocked.reason == MADE_BY_OTHERS
            if projection.entries:
                if is_of_another_tool:
                    await self._annotate_seen_basis(live, projection)
                raise
            # There are no ranges to write. Beside a pool of another tool, our L2Advertisement may
            # be left over; the projection goes on, and deletes it. Objects of another
            # TenantCluster stay as they are.
            return is_of_another_tool
        return True

    @staticmethod
    def _needs_write(live: IPAddressPool, projection: Projection) -> bool:
        """Return whether the pool has to be written: its ranges, its basis or its owner differ.

        With each event the basis differs. If nothing else does, it is written only if a release
        needs it: if it is below `projection.needed`.
        """
        return (
            live.spec.addresses != projection.entries
            or read_basis(live) < projection.needed
            or not is_ours(live)
            or not projection.owner.items() <= live.metadata.annotations.items()
        )

    async def _patch(self, live: IPAddressPool, projection: Projection) -> None:
        """Merge-patch our fields, and remove the fields of spec that others set.

        An apply would not remove the fields of others: their field manager owns them.
        """
        spec = {"addresses": list(projection.entries)} | dict.fromkeys(live.spec.edited_fields)
        patch = {"metadata": {"annotations": make_basis_annotations(projection)}, "spec": spec}
        await self._client.patch(IP_ADDRESS_POOL, Version.from_object(live), patch)

    async def _apply(self, live: IPAddressPool, projection: Projection) -> None:
        """Apply `projection` to the pool at the version that was read.

        Raises:
            Conflict: the pool changed since it was read, or is gone.
            ControllerError: the tenant did not answer.
        """
        await self._client.apply(
            IP_ADDRESS_POOL,
            self._pool,
            _make_pool_body(projection.entries, projection),
            manager=names.TENANT_FIELD_MANAGER,
            force=True,
            version=live.metadata.resourceVersion,
            uid=live.metadata.uid,
        )

    async def _create(self, projection: Projection) -> IPAddressPool:
        """Create the pool in a form without effect; its basis is that of the cache."""
        body = _make_pool_body([NO_ADDRESS], projection)
        body["metadata"]["name"] = POOL_NAME
        body["spec"]["autoAssign"] = False
        return await self._client.create(
            IP_ADDRESS_POOL,
            self._pool.namespace,
            body,
            field_manager=names.TENANT_FIELD_MANAGER,
        )

    async def _fill_pool(
        self, empty: IPAddressPool, projection: Projection, confirmed: Projection
    ) -> None:
        """Give a pool without effect its ranges, if a live read after its creation confirms them.

        The basis that is written is the cache's. The live read may be newer, but a lower basis
        claims less.

        Args:
            confirmed: the projection by the live read.

        Raises:
            BalancerBlocked: the live read shows other ranges.
            Conflict: the pool changed since it was read.
        """
        if confirmed.entries != projection.entries:
            raise BalancerBlocked(BEHIND, "the cache is stale: a live read shows other ranges")
        await self._patch(empty, projection)

    async def _delete_objects(self, pool: IPAddressPool, projection: Projection) -> None:
        """Delete our objects when no ranges are left: MetalLB refuses a pool without addresses.

        A pool of another tool stays. It is annotated with our basis if ranges are being released,
        so that a late write of another replica to it conflicts.
        """
        try:
            advertisement = await self._client.get(L2_ADVERTISEMENT, self._advertisement)
        except NotFound:
            advertisement = None
        if advertisement is not None and is_ours(advertisement):
            await self._client.delete(L2_ADVERTISEMENT, Version.from_object(advertisement))
        if is_ours(pool):
            await self._client.delete(IP_ADDRESS_POOL, Version.from_object(pool))
        else:
            await self._annotate_seen_basis(pool, projection)

    async def _annotate_seen_basis(self, pool: IPAddressPool, projection: Projection) -> None:
        """Annotate a pool of another tool with our basis, while ranges of ours are being released.

        Another replica may have read the pool before, and be about to take it over with such a
        range. The annotation changes the pool's resourceVersion, so that write conflicts.
        """
        if read_basis(pool) < projection.needed:
            annotations = {names.ANNOTATION_PROJECTION_SEEN: str(projection.basis)}
            patch = {"metadata": {"annotations": annotations}}
            await self._client.patch(IP_ADDRESS_POOL, Version.from_object(pool), patch)

    async def overwrite(self, live: IPAddressPool, projection: Projection) -> None:
        """Apply `projection` to a pool whose basis is of a lost history.

        Raises:
            Conflict: the pool changed since it was read, or is gone.
            ControllerError: the tenant did not answer.
        """
        if not projection.entries:
            await self._delete_objects(live, projection)
            return
        await self._apply(live, projection)


LABELS = {names.LABEL_MANAGED_BY: names.MANAGED_BY}


def is_ours(obj: Object) -> bool:
    """Return whether we made this object in the tenant.

    Our own annotation says so. The label is for people, and other tools overwrite it.
    """
    return names.ANNOTATION_PROJECTION_BASIS in obj.metadata.annotations


def make_offer(pool: IPAddressPool) -> Offer:
    """Return a pool as an Offer, the form in which all backends show their objects."""
    return Offer(
        metadata=pool.metadata,
        kind=IP_ADDRESS_POOL.kind,
        entries=pool.spec.addresses,
        is_made_by_us=is_ours(pool),
        basis=read_basis(pool),
        edited_fields=pool.spec.edited_fields,
    )


def is_empty(pool: IPAddressPool) -> bool:
    """Return whether a pool of ours still has the form without effect."""
    return is_ours(pool) and pool.spec.addresses == (NO_ADDRESS,)


def make_basis_annotations(projection: Projection) -> dict[str, str]:
    """Return the annotations with the basis and the owner of `projection`."""
    return {names.ANNOTATION_PROJECTION_BASIS: str(projection.basis), **projection.owner}


def _make_pool_body(entries: Iterable[str], projection: Projection) -> dict[str, Any]:
    """Return the body of our pool with these entries, without its name."""
    return {
        "metadata": {
            "labels": dict(LABELS),
            "annotations": make_basis_annotations(projection),
        },
        "spec": {"addresses": list(entries)},
    }
