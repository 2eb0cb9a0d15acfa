"""What a process remembers of the access to each tenant."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import anyio

from controller.client import Client
from controller.meta import Key
from controller.transport import Transport
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.clusteraccess.clusteridentity import ClusterIdentity
from reconcilers.clusteraccess.tenantfailures import UNREACHABLE, TenantUnavailable


@dataclass(slots=True)
class TenantConnection:
    """A client that is kept, which cluster it leads to, and how many use it or wait for it."""

    transport: Transport
    client: Client
    identity: ClusterIdentity
    users: int = 0
    retired: bool = False
    lock: anyio.Lock = field(default_factory=anyio.Lock)


@dataclass(frozen=True, slots=True)
class Silence:
    """A tenant that did not answer: how often in a row, until when it is not tried, and why."""

    failures: int
    until: float
    why: str
    at: datetime

    @property
    def error(self) -> TenantUnavailable:
        """What a caller gets while the tenant is not tried."""
        return TenantUnavailable(UNREACHABLE, self.why, failed_at=self.at)


@dataclass(slots=True)
class TenantAccess:
    """What a process remembers of the access to one tenant.

    Args:
        connection: the client that is kept; None if there is none.
        silence: the pause of a tenant that did not answer; None if it answered.
        is_refused: whether the kubeconfig led to a cluster that the tenant may not use, when it
            was last entered.
        is_forgotten: whether the tenant is gone; then a client that is still in use, or that is
            just being opened, is closed after that use.
    """

    connection: TenantConnection | None = None
    silence: Silence | None = None
    is_refused: bool = False
    is_forgotten: bool = False


class TenantAccesses(Protocol):
    """Keeps what a process remembers of the access to each tenant."""

    def access_to(self, tenant: TenantCluster) -> TenantAccess:
        """Return the access to a tenant; create it at the first use."""
        ...

    def accesses_by_name(self) -> Iterable[tuple[Key, TenantAccess]]:
        """Return all accesses with the TenantClusters' namespace and name.

        Several have the same name while a deleted cluster of that name has allocations.
        """
        ...

    def accesses_of_name(self, key: Key) -> Iterable[TenantAccess]:
        """Return the accesses to the tenants of one name."""
        ...
