"""What MetalLB in a tenant should hold, and writing it so that a late write does no harm.

The tenant's IPAddressPool carries the position of the cache that it was computed from, as an
annotation. A projection reads the pool live, gives up if that basis is newer than its own, and
writes with the pool's resourceVersion: so an older view can never undo a newer one.

A missing pool carries no basis, and nothing can be made to fail on its absence. So it is
created in a form without effect, with an address for documentation (RFC 5737) that is not assigned
automatically; then the ranges are confirmed live; then they are filled in, with that pool's
version as precondition. A process that froze before creating it creates something harmless, and
confirms later than any range was given back; one that froze after it conflicts, as no range is
given back while a pool exists that was not written since.
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
"""What a pool holds that holds nothing yet; MetalLB refuses one without addresses."""
ADVERTISEMENT_NAME = names.METALLB_ADVERTISEMENT
NOT_INSTALLED = "MetalLBNotInstalled"
"""The reason where the tenant positively does not serve MetalLB's kinds."""


def basis_of(pool: IPAddressPool) -> int:
    """Return the position that the pool's content was computed from; 0 if it does not say.

    For a pool of others, the position of the last reader that made earlier writes of it conflict.
    """
    marks = (names.ANNOTATION_PROJECTION_BASIS, names.ANNOTATION_PROJECTION_SEEN)
    return max(read_position(pool, name) for name in marks)


class TenantMetalLB:
    """The MetalLB of one tenant.

    Args:
        client: a client of the tenant.
        namespace: MetalLB's namespace there.
        kept_state: what we keep there, to tell edits by others from news of ours.
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

    async def pool(self) -> IPAddressPool | None:
        """Return the pool as it is now; None if there is none, but MetalLB is installed.

        Raises:
            BalancerBlocked: the tenant positively does not serve MetalLB's kinds.
            ControllerError: the tenant did not answer.
        """
        try:
            return await self._client.get(IP_ADDRESS_POOL, self._pool)
        except NotFound:
            await self._require_installed()
            return None

    async def pools(self) -> dict[str, IPAddressPool]:
        """Return all of MetalLB's pools as they are now, by name.

        One of others that cannot be decoded is left out.

        Raises:
            BalancerBlocked: the tenant positively does not serve MetalLB's kinds.
            ControllerError: the tenant did not answer, or one of ours cannot be decoded.
        """
        try:
            page = await self._client.list(IP_ADDRESS_POOL, namespace=self._pool.namespace)
        except NotFound:
            await self._require_installed()
            raise
        ours = {POOL_NAME, names.METALLB_MARKER} & {key.name for key in page.unreadable}
        if ours:
            raise MalformedAnswer(f"IPAddressPools that cannot be read: {sorted(ours)}")
        return {pool.metadata.name: pool for pool in page.items}

    async def _require_installed(self) -> None:
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
        """Make the tenant hold what `projection` says, writing only what differs.

        Args:
            projection: from the cache.
            confirm: reads the same live from the management cluster. Asked after a pool was
                created, and before it is given its ranges.
            permit: raises BalancerBlocked if the pool that is there is not to be written.

        Raises:
            BalancerBlocked: MetalLB is missing, the pool is not ours, or a newer view has
                written.
            Conflict: the pool changed since it was read; begin again.
            ControllerError: the tenant did not answer.
        """
        live = await self.pool()
        if not projection.entries:
            self._kept_state.clear()
            if live is None:
                return
        if live is not None and not await self._may_go_on(live, projection, permit):
            return
        edit = self._describe_edit(live, projection)
        if edit and self._has_written(projection):
            self._require_correction_due(edit)
        if live is None:
            live = await self._create(projection)
        if basis_of(live) > projection.basis:
            raise BalancerBlocked(BEHIND, "another replica has written a newer state of the pool")
        if not projection.entries:
            await self._delete_ours(live, projection)
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
        """Write the differences between the pool and `projection`."""
        if is_empty(live):
            await self._fill(live, projection, await confirm())
        elif live.spec.edited and is_ours(live):
            await self._patch(live, projection)
        elif self._differs(live, projection):
            await self._apply(live, projection)

    def _has_written(self, projection: Projection) -> bool:
        """Return whether this process has already made the pool hold these ranges."""
        return self._kept_state.entries == projection.entries

    def _describe_edit(self, live: IPAddressPool | None, projection: Projection) -> str:
        """Describe how others changed our pool; empty if they did not.

        Other addresses are an edit only if this process has written these ranges before. Otherwise
        they are the last state of ours. A pool without effect, and one with a marked range, are
        written in any case, so they are no edit either.
        """
        has_written = self._has_written(projection)
        if live is None:
            return f"IPAddressPool {POOL_NAME} (deleted)" if has_written else ""
        is_write_due = is_empty(live) or basis_of(live) < projection.needed
        is_of_others = not is_ours(live) and not has_written
        if is_write_due or is_of_others:
            return ""
        fields: list[str] = []
        if has_written and live.spec.addresses != projection.entries:
            fields.append("addresses")
        # Without our annotations it is not known which of its fields others have set.
        fields += live.spec.edited if is_ours(live) else ["annotations"]
        return describe_edit(live.metadata, IP_ADDRESS_POOL.kind, fields) if fields else ""

    def _require_correction_due(self, edit: str) -> None:
        """Raise BalancerBlocked while an edit that others repeat is not written back yet."""
        if not self._kept_state.may_correct(edit, self._now):
            raise BalancerBlocked(CONTESTED, self._kept_state.describe_contest(self._now))

    async def _may_go_on(
        self,
        live: IPAddressPool,
        projection: Projection,
        permit: Permit,
    ) -> bool:
        """Return whether the projection goes on with the pool that is there.

        Raises:
            BalancerBlocked: the pool must not be written, and there are ranges to write.
        """
        try:
            await permit(offer_of(live))
        except BalancerBlocked as refusal:
            is_of_another_tool = refusal.reason == MADE_BY_OTHERS
            if projection.entries:
                if is_of_another_tool:
                    await self._raise_seen_basis(live, projection)
                raise
            # There is nothing to write. Our L2Advertisement may still stand beside a pool of
            # another tool, and goes. Objects of another TenantCluster stay as they are.
            return is_of_another_tool
        return True

    @staticmethod
    def _differs(live: IPAddressPool, projection: Projection) -> bool:
        return (
            live.spec.addresses != projection.entries
            or basis_of(live) < projection.needed
            or not is_ours(live)
            or not projection.owner.items() <= live.metadata.annotations.items()
        )

    async def _patch(self, live: IPAddressPool, projection: Projection) -> None:
        """Merge-patch our fields, and remove those of spec that others set: apply would not."""
        spec = {"addresses": list(projection.entries)} | dict.fromkeys(live.spec.edited)
        patch = {"metadata": {"annotations": basis_annotation(projection)}, "spec": spec}
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
            _pool_body(projection.entries, projection),
            manager=names.TENANT_FIELD_MANAGER,
            force=True,
            version=live.metadata.resourceVersion,
            uid=live.metadata.uid,
        )

    async def _create(self, projection: Projection) -> IPAddressPool:
        """Create the pool in a form without effect, on the cache's basis."""
        body = _pool_body([NO_ADDRESS], projection)
        body["metadata"]["name"] = POOL_NAME
        body["spec"]["autoAssign"] = False
        return await self._client.create(
            IP_ADDRESS_POOL,
            self._pool.namespace,
            body,
            field_manager=names.TENANT_FIELD_MANAGER,
        )

    async def _fill(
        self, empty: IPAddressPool, projection: Projection, confirmed: Projection
    ) -> None:
        """Give a pool without effect its ranges, if what was read live after it says the same.

        The basis is the cache's, not that of the live read, which may be newer: an older one
        claims less.
        """
        if confirmed.entries != projection.entries:
            raise BalancerBlocked(BEHIND, "the cache is stale: a live read shows other ranges")
        await self._patch(empty, projection)

    async def _delete_ours(self, pool: IPAddressPool, projection: Projection) -> None:
        """Delete what we made: MetalLB refuses a pool without addresses."""
        try:
            advertisement = await self._client.get(L2_ADVERTISEMENT, self._advertisement)
        except NotFound:
            advertisement = None
        if advertisement is not None and is_ours(advertisement):
            await self._client.delete(L2_ADVERTISEMENT, Version.from_object(advertisement))
        if is_ours(pool):
            await self._client.delete(IP_ADDRESS_POOL, Version.from_object(pool))
        else:
            await self._raise_seen_basis(pool, projection)

    async def _raise_seen_basis(self, pool: IPAddressPool, projection: Projection) -> None:
        """Annotate a pool of another tool with our basis, while ranges of ours are being released.

        The annotation changes the pool's resourceVersion. So if another replica read the pool
        before, and takes it over with such a range, its write conflicts.
        """
        if basis_of(pool) < projection.needed:
            seen = {names.ANNOTATION_PROJECTION_SEEN: str(projection.basis)}
            patch = {"metadata": {"annotations": seen}}
            await self._client.patch(IP_ADDRESS_POOL, Version.from_object(pool), patch)

    async def overwrite(self, live: IPAddressPool, projection: Projection) -> None:
        """Apply `projection` to a pool that was written in another history.

        Raises:
            Conflict: the pool changed since it was read, or is gone.
            ControllerError: the tenant did not answer.
        """
        if not projection.entries:
            await self._delete_ours(live, projection)
            return
        await self._apply(live, projection)


LABELS = {names.LABEL_MANAGED_BY: names.MANAGED_BY}


def is_ours(obj: Object) -> bool:
    """Return whether we made this object in the tenant.

    Our own annotation says so. The label is for people, and other tools overwrite it.
    """
    return names.ANNOTATION_PROJECTION_BASIS in obj.metadata.annotations


def offer_of(pool: IPAddressPool) -> Offer:
    """Return a pool as an offer."""
    return Offer(
        metadata=pool.metadata,
        kind=IP_ADDRESS_POOL.kind,
        entries=pool.spec.addresses,
        is_made_by_us=is_ours(pool),
        basis=basis_of(pool),
        edited=pool.spec.edited,
    )


def is_empty(pool: IPAddressPool) -> bool:
    """Return whether a pool of ours still has the form without effect."""
    return is_ours(pool) and pool.spec.addresses == (NO_ADDRESS,)


def basis_annotation(projection: Projection) -> dict[str, str]:
    """Return the annotations with the owner and the cache position of `projection`."""
    return {names.ANNOTATION_PROJECTION_BASIS: str(projection.basis), **projection.owner}


def _pool_body(entries: Iterable[str], projection: Projection) -> dict[str, Any]:
    return {
        "metadata": {
            "labels": dict(LABELS),
            "annotations": basis_annotation(projection),
        },
        "spec": {"addresses": list(entries)},
    }
