"""What a process remembers of the access to each tenant.

A tenant that did not answer is *silent*: for a pause, no request is sent to it. A connection is
*retired* when new callers must not use it.
"""

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
    """An open connection to a tenant, which callers share.

    Args:
        identity: which cluster the connection leads to.
        users: how many callers use the client or wait for the lock.
        retired: whether new callers get another connection; this one is closed after its last use.
        lock: gives the client to one caller at a time.
    """

    transport: Transport
    client: Client
    identity: ClusterIdentity
    users: int = 0
    retired: bool = False
    lock: anyio.Lock = field(default_factory=anyio.Lock)


@dataclass(frozen=True, slots=True)
class Silence:
    """The pause after a tenant did not answer.

    Args:
        failures: how many times in a row the tenant did not answer.
        until: when the pause ends, on the monotonic clock.
        why: the last failure, for a condition.
        at: when the last failure happened.
    """

    failures: int
    until: float
    why: str
    at: datetime

    @property
    def error(self) -> TenantUnavailable:
        """The exception for callers during the pause."""
        return TenantUnavailable(UNREACHABLE, self.why, failed_at=self.at)


@dataclass(slots=True)
class TenantAccess:
    """What a process remembers of the access to one tenant.

    Args:
        connection: the connection that is kept; None if there is none.
        silence: the pause after a failure; None if the tenant answered last time.
        is_refused: whether the guard refused the tenant's cluster at the last use.
        is_forgotten: whether the tenant is gone; then a connection that is still in use, or that
            is just being opened, is closed after that use.
    """

    connection: TenantConnection | None = None
    silence: Silence | None = None
    is_refused: bool = False
    is_forgotten: bool = False


class TenantAccesses(Protocol):
    """Keeps what a process remembers of the access to each tenant."""

    def get_access(self, tenant: TenantCluster) -> TenantAccess:
        """Return the access to a tenant; create it at the first use."""
        ...

    def list_accesses(self) -> Iterable[tuple[Key, TenantAccess]]:
        """Return all accesses, each with namespace and name of its TenantCluster.

        Several have the same name while a deleted cluster of that name still has allocations.
        """
        ...

    def find_accesses_by_name(self, key: Key) -> Iterable[TenantAccess]:
        """Return the accesses to the TenantClusters of one namespace and name."""
        ...
