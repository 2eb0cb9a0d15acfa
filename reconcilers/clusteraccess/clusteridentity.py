"""Which cluster an API server belongs to, by the uid of its kube-system; and who may use it.

The namespace kube-system is created with the cluster and cannot be deleted, and its uid is unique.
So two kubeconfigs that show the same uid lead to the same cluster, whatever addresses and names
they have. The objects that we create in tenants name our management cluster by this uid: to
another management cluster, the names and resourceVersions in them would mean nothing.
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
"""The form of a uid. A tenant could answer with anything, and the uid is written on objects of the
management cluster."""

UNKNOWN_SECONDS = 300.0
"""Seconds until an identity that may not be read is read again."""

_log = get_logger(__name__)


async def read_cluster_identity(client: Client) -> str:
    """Return the uid that identifies the cluster of a client; empty if there is no usable uid.

    It is empty if kube-system may not be read or is absent, and if its uid has another form.

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
        clock: the time, for the pause before an identity that may not be read is read again.
    """

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self.known: str | None = None
        """The identity; None before the first read, empty if the cluster showed no usable one."""
        self._read_again = float("-inf")

    async def read(self) -> str:
        """Return the identity, from memory if it is known; empty if the cluster shows none.

        Raises:
            ControllerError: the cluster did not answer.
        """
        now = self._clock.monotonic()
        # An identity never changes. An empty one is read again, but not at each call.
        if not self.known and now >= self._read_again:
            self.known = await read_cluster_identity(self._client)
            self._read_again = now + UNKNOWN_SECONDS
        return self.known or ""


def build_management_annotation(management: str) -> dict[str, str]:
    """Return the annotation for an object in a tenant that names its management cluster.

    Empty if the management cluster's identity is not known.
    """
    return {names.ANNOTATION_PROJECTION_MANAGEMENT: management} if management else {}


def find_management_uid(obj: Object) -> str:
    """Return the management cluster that an object in a tenant names; empty if it names none."""
    noted = obj.metadata.annotations.get(names.ANNOTATION_PROJECTION_MANAGEMENT, "")
    return noted if _UID.fullmatch(noted) else ""


def is_of_other_management(obj: Object, management: str) -> bool:
    """Return whether an object in a tenant names another management cluster than `management`.

    False if the object names no management cluster, because then no other owner is known. False,
    too, if `management` is empty, because then this management cluster's identity is not known.
    """
    noted_management = find_management_uid(obj)
    if not noted_management or not management:
        return False
    return noted_management != management


class TenantGuard(Protocol):
    """Decides whether a TenantCluster may use the cluster that its kubeconfig leads to."""

    async def read_management_identity(self) -> str:
        """Return the identity of the management cluster; empty if it may not be read.

        Raises:
            ControllerError: the management cluster did not answer.
        """
        ...

    async def admit(self, tenant: TenantCluster, identity: str, client: Client) -> None:
        """Raise an exception unless a tenant may use the cluster that its kubeconfig leads to.

        Args:
            identity: of the tenant's cluster; empty if it is not known.
            client: of the tenant's cluster.

        Raises:
            TenantUnavailable: the tenant may not use it.
            ControllerError: the cluster did not answer.
        """
        ...


class AdmitAll(TenantGuard):
    """Admits every cluster; for clients that only read.

    Args:
        management: reads the identity of the management cluster; None reports it as not known.
    """

    def __init__(self, management: ClusterIdentity | None = None) -> None:
        self._management = management

    @override
    async def read_management_identity(self) -> str:
        """Return the identity of the management cluster; empty without a reader for it."""
        return await self._management.read() if self._management is not None else ""

    @override
    async def admit(self, tenant: TenantCluster, identity: str, client: Client) -> None:
        """Admit the tenant: raise no exception."""
