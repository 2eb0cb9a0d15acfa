"""Claims that a restore created, and whose IPAddresses it may create after them.

`core/restoredrequests.py` has the rule.
"""

from controller.cache import Cache
from controller.clock import Clock
from reconcilers.integrations.clusterapi.api import IPAddressClaim
from reconcilers.integrations.clusterapi.caches import space_of
from reconcilers.integrations.clusterapi.statuses import waits
from reconcilers.integrations.core.restoredrequests import RestoredRequests


class RestoredClaims(RestoredRequests[IPAddressClaim]):
    """Knows which claims may still get an IPAddress from a restore.

    Args:
        claims: all IPAddressClaims.
        clock: measures the time since a claim came.
    """

    def __init__(self, claims: Cache[IPAddressClaim], clock: Clock) -> None:
        super().__init__(claims, clock, waits, space_of)
