"""The way into a tenant: its kubeconfig from a Secret, and a client over it.

A tenant is not trusted. Its kubeconfig is read by a strict loader, its answers are bounded in
size and time. A client is kept until a request through it fails in a way that new credentials or
a new address could mend; then the Secret is read again. So a rotation is met without asking for
the Secret while all is well.
"""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass

from controller.client import Client
from controller.errors import ConfigurationError, ControllerError, NotFound
from controller.meta import Key
from controller.tenantconfig import parse_kubeconfig, tenant_transport
from controller.transport import Transport
from reconcilers.api.resources import SECRET, Secret
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.settings import TenantSettings

ADMIN_KEY = "admin.conf"
CLUSTER_API_KEY = "value"


class NoWayIn(ControllerError):
    """The tenant cannot be entered.

    Args:
        reason: CamelCase word for a condition.
        message: a sentence for people.
        absent: whether live reads showed that no Secret is there, as opposed to unusable.
    """

    def __init__(self, reason: str, message: str, *, absent: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.absent = absent


@dataclass(frozen=True, slots=True)
class _Open:
    uid: str
    transport: Transport
    client: Client


class Tenants:
    """Clients for tenants, kept while they work."""

    def __init__(self, management: Client, settings: TenantSettings) -> None:
        self._management = management
        self._settings = settings
        self._open: dict[Key, _Open] = {}

    async def enter(self, tenant: TenantCluster) -> Client:
        """Return a client for `tenant`.

        Raises:
            NoWayIn: there is no kubeconfig, or none that may be used.
            ControllerError: the management cluster did not answer.
        """
        known = self._open.get(tenant.metadata.key)
        if known is not None and known.uid == tenant.metadata.uid:
            return known.client
        await self.leave(tenant.metadata.key)
        kubeconfig = await self.kubeconfig(tenant)
        try:
            credentials = parse_kubeconfig(
                kubeconfig,
                allow_proxy=self._settings.allow_proxy,
                allow_insecure=self._settings.allow_insecure,
            )
            transport = tenant_transport(
                credentials,
                max_bytes=self._settings.answer_limit,
                timeout=self._settings.request_timeout,
            )
        except ConfigurationError as refused:
            raise NoWayIn("KubeconfigRefused", str(refused)) from refused
        self._open[tenant.metadata.key] = _Open(tenant.metadata.uid, transport, Client(transport))
        return self._open[tenant.metadata.key].client

    async def leave(self, key: Key) -> None:
        """Close the client of a tenant that failed, changed or went."""
        known = self._open.pop(key, None)
        if known is not None:
            await known.transport.aclose()

    async def aclose(self) -> None:
        """Close all clients."""
        for key in list(self._open):
            await self.leave(key)

    async def kubeconfig(self, tenant: TenantCluster) -> bytes:
        """Return the tenant's kubeconfig as its Secret has it now.

        Raises:
            NoWayIn: there is none; `absent` if live reads showed so.
            ControllerError: the management cluster did not answer.
        """
        tried = []
        for key, entry in places(tenant):
            try:
                secret = await self._management.get(SECRET, key)
            except NotFound as missing:
                if missing.reason != "NotFound":
                    raise
                tried.append(str(key))
                continue
            return _entry(secret, entry)
        raise NoWayIn(
            "KubeconfigMissing",
            f"waiting for the kubeconfig Secret; looked for {', '.join(tried)}",
            absent=True,
        )


def places(tenant: TenantCluster) -> Iterator[tuple[Key, str]]:
    """Yield where the tenant's kubeconfig may be: Secret and entry, first choice first."""
    name, own = tenant.metadata.name, tenant.metadata.namespace
    namespaces = dict.fromkeys([tenant.status.tenantNamespace or own, own])
    for namespace in namespaces:
        yield Key(namespace, f"{name}-admin-kubeconfig"), ADMIN_KEY
    for namespace in namespaces:
        yield Key(namespace, f"{name}-kubeconfig"), CLUSTER_API_KEY


def _entry(secret: Secret, entry: str) -> bytes:
    where = f"Secret {secret.metadata.key}"
    encoded = secret.data.get(entry)
    if not encoded:
        raise NoWayIn("KubeconfigRefused", f"{where} has no entry {entry!r}; add it")
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as wrong:
        raise NoWayIn("KubeconfigRefused", f"{where}, entry {entry!r}: {wrong}") from wrong
