"""Validates writes of Cluster API's pools; the rules are in `rules.py`.

The addresses in use are read from the server, not from a cache: an address may have been handed
out a moment ago. Such a LIST is affordable, because few edits remove addresses from a pool.
"""

from controller.client import Client
from controller.resource import Resource
from reconcilers.integrations.clusterapi import rules
from reconcilers.integrations.clusterapi.api import (
    CONTRACT_VERSIONS,
    IPPoolSpec,
    Pool,
    find_pool_key,
    get_address_kind,
)
from reconcilers.integrations.clusterapi.caches import CONTRACT_FIELDS, ClaimPool
from reconcilers.integrations.clusterapi.offers import make_offers
from reconcilers.integrations.core.claimreading import check_readable
from reconcilers.integrations.core.discovery import find_served
from reconcilers.promises.unreadable import UnreadableHolders
from reconcilers.spaces.index import SpaceIndex
from reconcilers.specrules.verdict import NOTHING, Verdict


class ClusterApiPoolValidator:
    """Validates the pools of one kind.

    Args:
        client: for live reads.
        spaces: the addresses that pools of all kinds hand out, for warnings about overlaps.
    """

    def __init__(self, client: Client, kind: Resource[Pool], spaces: SpaceIndex) -> None:
        self._client = client
        self._kind = kind
        self._spaces = spaces

    async def review_creation(self, new: Pool) -> Verdict:
        """Validate a new pool; overlaps with other pools are only a warning."""
        warnings = [*rules.find_warnings(new.spec)]
        if sentence := self._spaces.find_sharing(make_offers(self._kind, new)).sentence:
            field = "spec.addresses" if isinstance(new.spec, IPPoolSpec) else "spec.prefixes"
            warnings.append(f"{field}: {sentence}")
        return Verdict.from_causes(rules.find_faults(new.spec), warnings)

    async def review_update(self, new: Pool, old: Pool | None) -> Verdict:
        """Validate an edit: its spec, immutable fields, and the addresses in use.

        The addresses in use are read only if the new spec may lack addresses of the old one.

        Args:
            old: the pool before the edit; None if it could not be decoded.
        """
        verdict = await self.review_creation(new)
        before = None if old is None else old.spec
        if before is not None:
            causes = (*verdict.causes, *rules.find_immutable_edits(new.spec, before))
            verdict = Verdict(causes, verdict.warnings)
        if not verdict.allowed or not rules.may_give_up_blocks(new.spec, before):
            return verdict
        try:
            in_use = await self._list_in_use(new)
        except UnreadableHolders as unreadable:
            why = f"cannot tell whose addresses would be left out: {unreadable}"
            return Verdict(warnings=verdict.warnings, refusal=why)
        return Verdict(
            warnings=verdict.warnings, refusal=rules.describe_left_out(new.spec, before, in_use)
        )

    async def review_deletion(self, old: Pool) -> Verdict:
        """Refuse a deletion while IPAddresses name the pool, or may name it and are unreadable.

        `may_be_deleted_in_use` tells for which pools that does not matter.
        """
        try:
            if rules.may_be_deleted_in_use(old) or not await self._list_in_use(old):
                return NOTHING
        except UnreadableHolders as unreadable:
            return Verdict(refusal=f"cannot tell whether its addresses are in use: {unreadable}")
        return Verdict(refusal=rules.REFUSED_DELETION)

    async def _list_in_use(self, pool: Pool) -> list[tuple[str, int]]:
        """Return address and prefix of each IPAddress that names a pool.

        Raises:
            UnreadableHolders: IPAddresses that may name it cannot be decoded.
            DiscoveryIncomplete: it is not known whether IPAddresses are served.
        """
        meta = pool.metadata
        kind_and_key = (self._kind.kind, meta.key)
        resource = await find_served(self._client, map(get_address_kind, CONTRACT_VERSIONS))
        if resource is None:
            return []
        page = await self._client.list(resource, namespace=meta.namespace)
        check_readable(CONTRACT_FIELDS, ClaimPool(self._kind, meta.key), {}, page.unreadable)
        return [
            (address.spec.address, address.spec.prefix)
            for address in page.items
            if (
                address.spec.poolRef.kind,
                find_pool_key(address.spec.poolRef, address.metadata.namespace),
            )
            == kind_and_key
        ]
