"""Which cluster an API server belongs to, by the uid of its kube-system; and who may use it.

That namespace is made with the cluster, cannot be deleted, and its uid is never given again; so
two kubeconfigs that show the same uid lead to the same cluster, by whatever addresses and names.
"""

import re
from typing import Protocol

import structlog
from typing_extensions import override

from controller.client import Client
from controller.errors import Forbidden, NotFound
from controller.meta import Key
from reconcilers.api.resources import NAMESPACE
from reconcilers.api.tenantcluster import TenantCluster

_NAMESPACE = Key("", "kube-system")
_UID = re.compile(r"[0-9A-Za-z.-]{1,64}")
"""What a uid may look like: a tenant's answer is written on objects of the management cluster."""

_log = structlog.get_logger(__name__)


async def cluster_identity(client: Client) -> str:
    """Return the identity of the cluster that `client` leads to; empty if it may not be read.

    Raises:
        ControllerError: the cluster did not answer.
    """
    try:
        found = await client.get(NAMESPACE, _NAMESPACE)
    except (Forbidden, NotFound) as error:
        _log.warning(
            "cannot read the cluster's identity, the uid of kube-system", error=str(error)
        )
        return ""
    return found.metadata.uid if _UID.fullmatch(found.metadata.uid) else ""


class TenantGuard(Protocol):
    """Decides whether a TenantCluster may use the cluster that its kubeconfig leads to."""

    async def prepare(self) -> None:
        """Read what is needed of the management cluster, before any tenant is asked.

        Raises:
            ControllerError: the management cluster did not answer.
        """
        ...

    async def admit(self, tenant: TenantCluster, identity: str, client: Client) -> None:
        """Raise if `tenant` may not use the cluster with that identity; empty if unknown.

        Raises:
            TenantUnavailable: it may not.
            ControllerError: the cluster did not answer.
        """
        ...


class AdmitAll(TenantGuard):
    """Admits every cluster; for clients that only read."""

    @override
    async def prepare(self) -> None:
        """Need nothing."""

    @override
    async def admit(self, tenant: TenantCluster, identity: str, client: Client) -> None:
        """Raise nothing."""
