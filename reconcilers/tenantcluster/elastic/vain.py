"""Services that growth did not help: told durably, so that it is not tried for them for ever.

When a growth range goes that served nobody while a Service waited, more of the same would not
serve it either: MetalLB does not give it an address, for a reason of its own. Without a memory
such a Service would make its tenant grow and shrink every ten minutes.

The memory is an annotation of the TenantCluster: how many addresses were in use then, and a digest
of each Service and what it asks for. A Service that changes is a new question. So are all of them
when more addresses are in use than then, as MetalLB hands out again, or at last. That number only
rises, so there is an end to it, and at rest nothing happens.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from reconcilers.api import names
from reconcilers.api.resources import Service
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.tenantcluster.elastic.inventory import asking

LIMIT = 1_000
"""How many Services are remembered; a digest takes nine bytes of an annotation."""


@dataclass(frozen=True, slots=True)
class Vain:
    """What is remembered.

    Args:
        used: how many addresses were in use when it was written.
        digests: of the Services that growth did not help.
    """

    used: int
    digests: frozenset[str]

    @classmethod
    def of(cls, tenant: TenantCluster) -> "Vain":
        """Read the annotation; one that somebody garbled remembers nothing."""
        text = tenant.metadata.annotations.get(names.ANNOTATION_GROWN_IN_VAIN, "")
        used, _, digests = text.partition(":")
        if not used.isdecimal():
            return cls(0, frozenset())
        return cls(int(used), frozenset(digests.split(",")) - {""})

    @property
    def text(self) -> str | None:
        """The annotation; None if there is nothing to remember."""
        return f"{self.used}:{','.join(sorted(self.digests))}" if self.digests else None

    def holds(self, service: Service, used: int) -> bool:
        """Return whether growing for `service` is known to be in vain, with `used` in use now."""
        return used <= self.used and digest(service) in self.digests

    def joined(self, waiting: Iterable[Service], used: int) -> "Vain":
        """Return the memory after a growth range went while `waiting` waited.

        Those who wait no longer are forgotten, and so is the number of a time with fewer in use.
        """
        digests = sorted(digest(service) for service in waiting)
        return Vain(max(self.used, used), frozenset(digests[:LIMIT]))


def digest(service: Service) -> str:
    """Return what stands for a Service and what it asks for."""
    return names.short_hash(asking(service))
