"""Services that growth did not help, remembered so that it is not tried for them again and again.

When a growth range is given back that no Service used while one waited, more of the same would not
serve it either: MetalLB does not give it an address, for a reason of its own. Without a memory
such a Service would make its tenant grow and shrink every ten minutes.

The memory is an annotation of the TenantCluster: how many addresses were in use then, and a digest
of each Service and what it asks for. A Service that changes counts anew. So do all of them when
more addresses are in use than then, because MetalLB hands out addresses again. That number only
rises, so this ends, and at rest nothing happens.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from reconcilers.api import names
from reconcilers.api.resources import Service
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.tenantcluster.elastic.demand import requirements

_MOST_DIGITS = 10
LIMIT = 1_000
"""How many Services are remembered; a digest takes nine bytes of an annotation."""


@dataclass(frozen=True, slots=True)
class UnservedGrowth:
    """What is remembered.

    Args:
        used: how many addresses were in use when it was written.
        digests: of the Services that growth did not help.
    """

    used: int
    digests: frozenset[str]

    @classmethod
    def from_tenant(cls, tenant: TenantCluster) -> "UnservedGrowth":
        """Read the annotation; one that cannot be parsed remembers nothing."""
        text = tenant.metadata.annotations.get(names.ANNOTATION_GROWN_IN_VAIN, "")
        used, _, digests = text.partition(":")
        if not used.isdecimal() or len(used) > _MOST_DIGITS:
            return cls(0, frozenset())
        return cls(int(used), frozenset(digests.split(",")) - {""})

    @property
    def text(self) -> str | None:
        """The annotation; None if there is nothing to remember."""
        return f"{self.used}:{','.join(sorted(self.digests))}" if self.digests else None

    def covers(self, service: Service, used: int) -> bool:
        """Return whether growth is known not to help `service`, with `used` addresses in use."""
        return used <= self.used and digest(service) in self.digests

    def updated(self, waiting: Iterable[Service], used: int) -> "UnservedGrowth":
        """Return the memory after a growth range was given back while `waiting` waited.

        Services that wait no longer are forgotten; the number of addresses in use never falls.
        """
        digests = sorted(digest(service) for service in waiting)
        return UnservedGrowth(max(self.used, used), frozenset(digests[:LIMIT]))


def digest(service: Service) -> str:
    """Return a short hash of a Service and what it asks for."""
    return names.short_hash(requirements(service))
