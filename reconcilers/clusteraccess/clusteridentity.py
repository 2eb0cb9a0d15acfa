"""Which cluster an API server belongs to, by the uid of its kube-system; and who may use it.

That namespace is made with the cluster, cannot be deleted, and its uid is never given again; so
two kubeconfigs that show the same uid lead to the same cluster, by whatever addresses and names.
What is made in a tenant names the management cluster in this way: names and resourceVersions of
another one say nothing here.
"""

import re
from typing import Protocol

from typing_extensions import override

from controller.client import Client
from controller.clock import Clock
from controller.errors import Forbidden, NotFound
from controller.loggers import get_logger
from controller.meta import Key, Object
from reconcilers.api import names
from reconcilers.api.resources import NAMESPACE
from reconcilers.api.tenantcluster import TenantCluster

_NAMESPACE = Key("", "kube-system")
_UID = re.compile(r"[0-9A-Za-z.-]{1,64}")
"""What a uid may look like: a tenant's answer is written on objects of the management cluster."""

UNKNOWN_SECONDS = 300.0
"""How long until an identity that could not be read is read again."""

_log = get_logger(__name__)


async def cluster_identity(client: Client) -> str:
    """Return the identity of the cluster that `client` leads to; empty if it may not be read.

    Raises:
        ControllerError: the cluster did not answer.
    """
    try:
        namespace = await client.get(NAMESPACE, _NAMESPACE)
    except (Forbidden, NotFound) as error:
        _log.warning(
            "cannot read the cluster's identity, the uid of kube-system", error=str(error)
        )
        return ""
    return namespace.metadata.uid if _UID.fullmatch(namespace.metadata.uid) else ""


class ClusterIdentity:
    """The identity of a cluster, read when it is first asked for.

    Args:
        client: of the cluster.
        clock: the time, for when one that could not be read is read again.
    """

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self.known: str | None = None
        """None before it was read, empty if that was refused."""
        self._read_again = float("-inf")

    async def read(self) -> str:
        """Return it; empty if it may not be read.

        Raises:
            ControllerError: the cluster did not answer.
        """
        now = self._clock.monotonic()
        if not self.known and now >= self._read_again:
            self.known = await cluster_identity(self._client)
            self._read_again = now + UNKNOWN_SECONDS
        return self.known or ""


def management_note(management: str) -> dict[str, str]:
    """Return the annotation that says which management cluster something was made by."""
    return {names.ANNOTATION_PROJECTION_MANAGEMENT: management} if management else {}


def management_of(obj: Object) -> str:
    """Return the uid of the management cluster that wrote a tenant's object; empty if unknown."""
    noted = obj.metadata.annotations.get(names.ANNOTATION_PROJECTION_MANAGEMENT, "")
    return noted if _UID.fullmatch(noted) else ""


def is_of_another(obj: Object, management: str) -> bool:
    """Return whether something in a tenant names another management cluster than `management`.

    An object that names none was made by an earlier release. False, too, if `management` is empty:
    this cluster's own identity is not known then.
    """
    return management not in {"", management_of(obj)} and management_of(obj) != ""


class TenantGuard(Protocol):
    """Decides whether a TenantCluster may use the cluster that its kubeconfig leads to."""

    async def management(self) -> str:
        """Return the identity of the management cluster; empty if it may not be read.

        Raises:
            ControllerError: the management cluster did not answer.
        """
        ...

    async def admit(self, tenant: TenantCluster, identity: str, client: Client) -> None:
        """Check that a tenant may use the cluster that its kubeconfig leads to.

        Args:
            identity: of that cluster; empty if it is not known.
            client: of that cluster.

        Raises:
            TenantUnavailable: it may not.
            ControllerError: the cluster did not answer.
        """
        ...


class AdmitAll(TenantGuard):
    """Admits every cluster; for clients that only read.

    Args:
        management: the identity of the management cluster, if it is needed.
    """

    def __init__(self, management: ClusterIdentity | None = None) -> None:
        self._management = management

    @override
    async def management(self) -> str:
        return await self._management.read() if self._management is not None else ""

    @override
    async def admit(self, tenant: TenantCluster, identity: str, client: Client) -> None:
        """Raise nothing."""
