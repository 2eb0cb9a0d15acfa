"""Validate writes of KKP's IPAMPools; the rules are in `rules.py`.

Allocations are read from the API server, because a cache may lag, and only if an edit adds
exclusions.
"""

from controller.client import Client
from reconcilers.integrations.kubermatic import rules
from reconcilers.integrations.kubermatic.api import ALLOCATIONS, IPAMPool
from reconcilers.integrations.kubermatic.offers import list_shared_addresses
from reconcilers.integrations.kubermatic.reading import check_readable
from reconcilers.promises.unreadable import UnreadableHolders
from reconcilers.spaces.index import SpaceIndex
from reconcilers.specrules.verdict import NOTHING, Verdict


class IPAMPoolValidator:
    """Validates IPAMPools.

    Args:
        client: for live reads.
        spaces: what pools of all kinds hand out.
    """

    def __init__(self, client: Client, spaces: SpaceIndex) -> None:
        self._client = client
        self._spaces = spaces

    async def review_creation(self, new: IPAMPool) -> Verdict:
        """Validate a new pool; refuse it with the first fault, as KKP's webhook does."""
        if missing := rules.find_missing_datacenters(new) or rules.find_unnamed_datacenter(new):
            return Verdict(refusal=missing, forbidden=True)
        if fault := next(iter(rules.list_faults(new)), ""):
            return Verdict(refusal=fault, forbidden=True)
        return Verdict(
            warnings=(*rules.find_warnings(new), *list_shared_addresses(new, self._spaces))
        )

    async def review_update(self, new: IPAMPool, old: IPAMPool | None) -> Verdict:
        """Validate an edit; refuse it with the first fault, change or conflict, as KKP does.

        Args:
            old: the pool before the edit; None if it cannot be decoded. Then changes and
                exclusions are not checked.
        """
        if missing := rules.find_missing_datacenters(new, old) or rules.find_unnamed_datacenter(
            new, old
        ):
            return Verdict(refusal=missing, forbidden=True)
        if fault := next(iter(rules.list_faults(new)), ""):
            return Verdict(refusal=fault, forbidden=True)
        if old is not None:
            if change := next(iter(rules.find_forbidden_changes(new, old)), ""):
                return Verdict(refusal=change, forbidden=True)
            if rules.adds_exclusions(new, old):
                page = await self._client.list(
                    ALLOCATIONS, fields=f"metadata.name={new.metadata.name}"
                )
                try:
                    check_readable(new.metadata.name, page.unreadable)
                except UnreadableHolders as unreadable:
                    # Their addresses may be the ones that the edit excludes.
                    why = f"cannot tell whose addresses would be excluded: {unreadable}"
                    return Verdict(refusal=why, forbidden=True)
                if conflict := next(iter(rules.find_conflicts(new, old, page.items)), ""):
                    return Verdict(refusal=conflict, forbidden=True)
        return Verdict(
            warnings=(*rules.find_warnings(new, old), *list_shared_addresses(new, self._spaces))
        )

    async def review_deletion(self, old: IPAMPool) -> Verdict:
        """Allow every deletion, as KKP does; the garbage collector deletes the allocations."""
        del old
        return NOTHING
