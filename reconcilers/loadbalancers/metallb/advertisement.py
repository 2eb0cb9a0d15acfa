"""The L2Advertisement of our pool in a tenant: without one no node announces its addresses."""

import dataclasses

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
    basis_annotation,
    is_ours,
)
from reconcilers.loadbalancers.port import CONTESTED, BalancerBlocked, Projection


class Advertiser:
    """Keeps the L2Advertisement in one tenant.

    Args:
        client: a client of the tenant.
        namespace: MetalLB's namespace there.
        kept_state: what we keep there, to tell edits by others from news of ours.
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
        """Make sure that an L2Advertisement names the pool; one of others that does may stay.

        Raises:
            BalancerBlocked: the tenant positively does not serve the kind, or another writer
                keeps writing another content into ours.
            Conflict: it changed since it was read.
            ControllerError: the tenant did not answer.
        """
        live = await self._read_advertisement()
        if live is not None and self._is_ours(live):
            await self._correct(live, projection)
        elif live is None or not live.spec.announces(POOL_NAME):
            await self._apply(live, projection)

    def _is_ours(self, live: L2Advertisement) -> bool:
        return is_ours(live) or live.metadata.uid == self._kept_state.own_advertisement

    async def _read_advertisement(self) -> L2Advertisement | None:
        """Read our L2Advertisement; raise BalancerBlocked if its kind is not served."""
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
        """Create ours, or add the pool to one of others."""
        known = self._kept_state.advertised
        edit = f"{L2_ADVERTISEMENT.kind} {ADVERTISEMENT_NAME} (deleted)"
        if live is not None:
            edit = describe_edit(live.metadata, L2_ADVERTISEMENT.kind, ["ipAddressPools"])
        if known:
            self._require_correction_due(edit)
        pools = [*(live.spec.ipAddressPools if live is not None else ()), POOL_NAME]
        marks = {"labels": LABELS, "annotations": basis_annotation(projection)} if not live else {}
        applied = await self._client.apply(
            L2_ADVERTISEMENT,
            self._key,
            {"metadata": marks, "spec": {"ipAddressPools": pools}},
            manager=names.TENANT_FIELD_MANAGER,
            force=True,
        )
        self._kept_state.advertised = True
        if live is None:
            self._kept_state.own_advertisement = applied.metadata.uid
        if known:
            self._kept_state.note_correction(L2_ADVERTISEMENT.kind, edit, self._now)

    async def _correct(self, live: L2Advertisement, projection: Projection) -> None:
        """Write ours as it was, where others have changed it."""
        self._kept_state.advertised = True
        self._kept_state.own_advertisement = live.metadata.uid
        ours = AdvertisementSpec(ipAddressPools=(POOL_NAME,))
        fields = [
            field.name
            for field in dataclasses.fields(ours)
            if getattr(live.spec, field.name) != getattr(ours, field.name)
        ]
        bare = [] if is_ours(live) else ["annotations"]
        if not fields and not bare:
            return
        edit = describe_edit(live.metadata, L2_ADVERTISEMENT.kind, [*fields, *bare])
        self._require_correction_due(edit)
        spec = dict.fromkeys(fields) | {"ipAddressPools": [POOL_NAME]}
        patch = {"metadata": {"annotations": basis_annotation(projection)}, "spec": spec}
        await self._client.patch(L2_ADVERTISEMENT, Version.from_object(live), patch)
        self._kept_state.note_correction(L2_ADVERTISEMENT.kind, edit, self._now)

    def _require_correction_due(self, edit: str) -> None:
        """Raise BalancerBlocked while an edit that others repeat is not written back yet."""
        if not self._kept_state.may_correct(edit, self._now):
            raise BalancerBlocked(CONTESTED, self._kept_state.describe_contest(self._now))
