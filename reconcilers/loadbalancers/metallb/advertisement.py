"""Keeps the L2Advertisement of our pool in a tenant: without it no node announces addresses.

A *projection* is the set of ranges that the tenant should hold, which are in the pool. Its *basis*
is the cache position that it was computed from.
"""

import dataclasses
from typing import Any

from controller.client import Client
from controller.errors import NotFound
from controller.meta import Key, Version
from reconcilers.api import names
from reconcilers.loadbalancers.corrections import describe_edit
from reconcilers.loadbalancers.metallb.keptstate import MetalLBKeptState
from reconcilers.loadbalancers.metallb.kinds import (
    L2_ADVERTISEMENT,
    AdvertisementSpec,
    L2Advertisement,
)
from reconcilers.loadbalancers.metallb.projection import (
    ADVERTISEMENT_NAME,
    LABELS,
    NOT_INSTALLED,
    POOL_NAME,
    is_ours,
    make_basis_annotations,
)
from reconcilers.loadbalancers.port import CONTESTED, BalancerBlocked, Projection


class Advertiser:
    """Keeps the L2Advertisement in one tenant.

    Args:
        client: a client of the tenant.
        namespace: MetalLB's namespace there.
        kept_state: the memory of our objects there, which shows edits by others.
        now: monotonic seconds.
    """

    def __init__(
        self, client: Client, namespace: str, kept_state: MetalLBKeptState, now: float
    ) -> None:
        self._client = client
        self._key = Key(namespace, ADVERTISEMENT_NAME)
        self._kept_state = kept_state
        self._now = now

    async def advertise(self, projection: Projection) -> None:
        """Make sure that an L2Advertisement announces the pool.

        An L2Advertisement that others made under our name stays. If it does not announce our pool,
        the pool is added to it.

        Raises:
            BalancerBlocked: the tenant positively does not serve the kind, or another writer
                keeps changing our L2Advertisement.
            Conflict: the L2Advertisement changed since it was read.
            ControllerError: the tenant did not answer.
        """
        live = await self._read_advertisement()
        if live is not None and self._is_ours(live):
            await self._correct_edits(live, projection)
        elif live is None or not live.spec.announces(POOL_NAME):
            await self._apply(live, projection)

    def _is_ours(self, live: L2Advertisement) -> bool:
        """Return whether we made the L2Advertisement, even if others removed our annotations."""
        return is_ours(live) or live.metadata.uid == self._kept_state.own_advertisement_uid

    async def _read_advertisement(self) -> L2Advertisement | None:
        """Return the L2Advertisement of our name by a live read; None if it does not exist.

        Raises:
            BalancerBlocked: the tenant positively does not serve the kind.
            ControllerError: the tenant did not answer.
        """
        try:
            return await self._client.get(L2_ADVERTISEMENT, self._key)
        except NotFound:
            if not await self._client.is_served(L2_ADVERTISEMENT):
                raise BalancerBlocked(
                    NOT_INSTALLED,
                    "MetalLB is installed in the tenant only in part: L2Advertisement is not"
                    " served",
                ) from None
            return None

    async def _apply(self, live: L2Advertisement | None, projection: Projection) -> None:
        """Create our L2Advertisement, or add the pool to one that others made.

        Args:
            live: the one that others made; None to create ours.
        """
        # If the L2Advertisement was right before, others deleted it, or took our pool out of it.
        is_edit = self._kept_state.is_advertised
        edit = f"{L2_ADVERTISEMENT.kind} {ADVERTISEMENT_NAME} (deleted)"
        if live is not None:
            edit = describe_edit(live.metadata, L2_ADVERTISEMENT.kind, ["ipAddressPools"])
        if is_edit:
            self._require_correction_due(edit)
        # The list is one value for server-side apply, so the pools of others are repeated.
        pools = [*(live.spec.ipAddressPools if live is not None else ()), POOL_NAME]
        metadata: dict[str, Any] = {}
        if live is None:
            # Only on our own: the annotation with the basis says that we made the object.
            metadata = {"labels": LABELS, "annotations": make_basis_annotations(projection)}
        applied = await self._client.apply(
            L2_ADVERTISEMENT,
            self._key,
            {"metadata": metadata, "spec": {"ipAddressPools": pools}},
            manager=names.TENANT_FIELD_MANAGER,
            force=True,
        )
        self._kept_state.is_advertised = True
        if live is None:
            self._kept_state.own_advertisement_uid = applied.metadata.uid
        if is_edit:
            self._kept_state.note_correction(L2_ADVERTISEMENT.kind, edit, self._now)

    async def _correct_edits(self, live: L2Advertisement, projection: Projection) -> None:
        """Write back the fields of our L2Advertisement that others have changed, if any."""
        self._kept_state.is_advertised = True
        self._kept_state.own_advertisement_uid = live.metadata.uid
        our_spec = AdvertisementSpec(ipAddressPools=(POOL_NAME,))
        spec_fields = [
            field.name
            for field in dataclasses.fields(our_spec)
            if getattr(live.spec, field.name) != getattr(our_spec, field.name)
        ]
        metadata_fields = [] if is_ours(live) else ["annotations"]
        if not spec_fields and not metadata_fields:
            return
        edit = describe_edit(
            live.metadata, L2_ADVERTISEMENT.kind, [*spec_fields, *metadata_fields]
        )
        self._require_correction_due(edit)
        # None removes a field that others have set.
        spec = dict.fromkeys(spec_fields) | {"ipAddressPools": [POOL_NAME]}
        patch = {"metadata": {"annotations": make_basis_annotations(projection)}, "spec": spec}
        await self._client.patch(L2_ADVERTISEMENT, Version.from_object(live), patch)
        self._kept_state.note_correction(L2_ADVERTISEMENT.kind, edit, self._now)

    def _require_correction_due(self, edit: str) -> None:
        """Raise BalancerBlocked if the correction of a repeated edit has to wait."""
        if not self._kept_state.request_correction(edit, self._now):
            raise BalancerBlocked(CONTESTED, self._kept_state.describe_contest(self._now))
