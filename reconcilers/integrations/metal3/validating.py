"""Validate writes of metal3's objects; the rules are in `rules.py`.

The addresses of a pool that are in use are read from the API server, because `status.indexes` may
be stale. Few edits remove addresses from a pool, so these LISTs cost little.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from controller.client import Client
from controller.errors import Cause
from controller.meta import Key, Object
from controller.webhooks import Webhook
from reconcilers.integrations.clusterapi.api import (
    CONTRACT_VERSIONS,
    get_address_kind,
    get_claim_kind,
)
from reconcilers.integrations.core.claimreading import list_addresses
from reconcilers.integrations.core.discovery import find_served
from reconcilers.integrations.core.platforms import WebhookMaker
from reconcilers.integrations.metal3 import rules
from reconcilers.integrations.metal3.api import (
    ADDRESSES,
    CLAIMS,
    POOLS,
    Metal3Pool,
)
from reconcilers.integrations.metal3.claimformats import (
    AddressT,
    ClaimFormat,
    ClaimT,
    IPAddressClaimFormat,
    IPClaimFormat,
)
from reconcilers.integrations.metal3.offers import make_offers
from reconcilers.promises.unreadable import UnreadableHolders
from reconcilers.spaces.index import SpaceIndex
from reconcilers.specrules.verdict import NOTHING, Verdict

T = TypeVar("T", bound=Object)


class Metal3PoolValidator:
    """Validates IPPools.

    Args:
        client: for live reads.
        spaces: what pools of all kinds hand out.
    """

    def __init__(self, client: Client, spaces: SpaceIndex) -> None:
        self._client = client
        self._spaces = spaces

    async def review_creation(self, new: Metal3Pool) -> Verdict:
        """Validate a new pool; useless entries and overlapping pools are only warnings."""
        return self._check_spec(new, is_new=True)

    async def review_update(self, new: Metal3Pool, old: Metal3Pool | None) -> Verdict:
        """Validate an edit; IPAddresses are read only if the pool may lose addresses.

        Args:
            old: the pool before; None if it cannot be decoded.
        """
        verdict = self._check_spec(new, is_new=False)
        before = None if old is None else old.spec
        if before is not None:
            causes = (*verdict.causes, *rules.find_pool_changes(new.spec, before))
            verdict = Verdict(causes, verdict.warnings)
        if not verdict.allowed or not rules.can_lose_addresses(new.spec, before):
            return verdict
        try:
            in_use = await self._list_in_use(new.metadata.key)
        except UnreadableHolders as unreadable:
            why = f"cannot tell whose addresses would be left out: {unreadable}"
            return Verdict(warnings=verdict.warnings, refusal=why)
        lost = rules.find_lost_addresses(new.spec, before, in_use)
        return Verdict.from_causes(lost, verdict.warnings)

    async def review_deletion(self, old: Metal3Pool) -> Verdict:
        """Allow every deletion: the finalizer of the pool waits for its addresses."""
        del old
        return NOTHING

    def _check_spec(self, new: Metal3Pool, *, is_new: bool) -> Verdict:
        """Return the faults of a pool; warnings: useless entries, and pools that overlap."""
        warnings = [*rules.find_pool_warnings(new.spec)]
        if sentence := self._spaces.find_sharing(make_offers(new)).sentence:
            warnings.append(f"spec.pools: {sentence}")
        return Verdict.from_causes(rules.find_pool_faults(new.spec, is_new=is_new), warnings)

    async def _list_in_use(self, pool: Key) -> list[str]:
        """Return the addresses of the IPAddresses of both kinds that name a pool.

        Raises:
            UnreadableHolders: IPAddresses that may name it cannot be decoded.
            DiscoveryIncomplete: it is not known whether Cluster API's IPAddresses are served.
        """
        in_use = await self._list_addresses(IPClaimFormat(), pool)
        contract = await find_served(self._client, map(get_address_kind, CONTRACT_VERSIONS))
        if contract is not None:
            claim_format = IPAddressClaimFormat(get_claim_kind(contract.version), contract)
            in_use += await self._list_addresses(claim_format, pool)
        return in_use

    async def _list_addresses(
        self, claim_format: ClaimFormat[ClaimT, AddressT], pool: Key
    ) -> list[str]:
        """Return the addresses of the IPAddresses of one kind that name a pool.

        Raises:
            UnreadableHolders: IPAddresses that may name it cannot be decoded.
        """
        listed = await list_addresses(
            self._client, claim_format, kind=claim_format.addresses, pool=pool
        )
        return [address.spec.address for address in listed]


class FieldValidator(Generic[T]):
    """Validates objects of one kind by their own fields.

    Args:
        find_faults: yields the faults of an object.
        find_changes: yields the fields that an edit changes and that cannot be changed.
    """

    def __init__(
        self,
        find_faults: Callable[[T], Iterator[Cause]],
        find_changes: Callable[[T, T], Iterator[Cause]],
    ) -> None:
        self._find_faults = find_faults
        self._find_changes = find_changes

    async def review_creation(self, new: T) -> Verdict:
        """Validate a new object."""
        return Verdict.from_causes(self._find_faults(new))

    async def review_update(self, new: T, old: T | None) -> Verdict:
        """Validate an edit: the fields of the new object, and changes of immutable fields.

        Args:
            old: the object before; None if it cannot be decoded. Then changes are not checked.
        """
        changes = () if old is None else self._find_changes(new, old)
        return Verdict.from_causes([*self._find_faults(new), *changes])

    async def review_deletion(self, old: T) -> Verdict:
        """Allow every deletion: finalizers keep claims and IPAddresses while they are needed."""
        del old
        return NOTHING


def make_webhooks(
    client: Client, spaces: SpaceIndex, make_webhook: WebhookMaker
) -> Sequence[Webhook[bytes]]:
    """Return the webhooks that validate writes of metal3's kinds.

    Args:
        client: for live reads.
        spaces: what pools of all kinds hand out.
        make_webhook: makes the webhook of one kind.
    """
    return (
        make_webhook(POOLS, Metal3PoolValidator(client, spaces)),
        make_webhook(CLAIMS, FieldValidator(rules.find_claim_faults, rules.find_claim_changes)),
        make_webhook(
            ADDRESSES, FieldValidator(rules.find_address_faults, rules.find_address_changes)
        ),
    )
