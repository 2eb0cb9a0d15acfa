"""Validates KKP's IPAMPools, whose rules are in the integration.

What is in use is read from the server, and only if an edit excludes more than before.
"""

from controller.client import Client
from controller.webhooks import Webhook
from reconcilers.integrations.kubermatic import rules
from reconcilers.integrations.kubermatic.api import ALLOCATIONS, POOLS, IPAMPool
from reconcilers.integrations.kubermatic.overlaps import overlaps
from reconcilers.webhooks.admission import webhook
from reconcilers.webhooks.verdict import NOTHING, Verdict


class IPAMPoolValidator:
    """Validates IPAMPools.

    Args:
        client: for live reads.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def created(self, new: IPAMPool) -> Verdict:
        """Validate a new pool."""
        for fault in rules.faults(new):
            return Verdict(refusal=fault, forbidden=True)
        return Verdict(warnings=(*rules.warnings(new), *await self._overlaps(new)))

    async def updated(self, new: IPAMPool, old: IPAMPool | None) -> Verdict:
        """Validate an edit; allocations are read only if it excludes more than before."""
        for fault in rules.faults(new):
            return Verdict(refusal=fault, forbidden=True)
        if old is not None:
            for change in rules.changes(new, old):
                return Verdict(refusal=change, forbidden=True)
            if rules.adds_exclusions(new, old):
                page = await self._client.list(
                    ALLOCATIONS, fields=f"metadata.name={new.metadata.name}"
                )
                for conflict in rules.conflicts(new, old, page.items):
                    return Verdict(refusal=conflict, forbidden=True)
        return Verdict(warnings=(*rules.warnings(new, old), *await self._overlaps(new)))

    async def deleted(self, old: IPAMPool) -> Verdict:
        """Allow every deletion: KKP does, and its allocations go with the pool."""
        del old
        return NOTHING

    async def _overlaps(self, new: IPAMPool) -> list[str]:
        page = await self._client.list(POOLS)
        return [
            f"datacenter {name}: addresses are also handed out by IPAMPool {others}"
            for name, others in overlaps(new, page.items).items()
        ]


def kubermatic_webhooks(client: Client) -> list[Webhook[bytes]]:
    """Return the webhook of KKP's IPAMPools, served where that integration is on.

    Args:
        client: for live reads.
    """
    return [webhook(POOLS, IPAMPoolValidator(client))]
