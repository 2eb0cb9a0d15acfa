"""Kubeconfigs of tenants: the Secrets that may hold them, and transports made of them.

A tenant is not trusted, so its kubeconfig is read by a strict loader.
"""

import base64
import binascii
from collections.abc import Callable, Iterator

from controller.client import Client
from controller.meta import Key
from controller.tenantconfig import parse_kubeconfig, tenant_transport
from controller.transport import Transport
from reconcilers.api.resources import SECRET, EncodedSecret
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.clusteraccess.tenantfailures import TenantUnavailable
from reconcilers.configuration.settings import TenantSettings

ADMIN_KEY = "admin.conf"
CLUSTER_API_KEY = "value"

OpenTransport = Callable[[bytes], Transport]


async def read_kubeconfig(management: Client, tenant: TenantCluster) -> bytes:
    """Return the tenant's kubeconfig as its Secret has it now.

    Raises:
        TenantUnavailable: there is none; `absent` if live reads showed so.
        ControllerError: the management cluster did not answer.
    """
    tried = []
    for key, entry in places(tenant):
        secret = await management.find(SECRET, key)
        if secret is not None:
            return _entry(secret, entry)
        tried.append(str(key))
    raise TenantUnavailable(
        "KubeconfigMissing",
        f"waiting for the kubeconfig Secret; looked for {', '.join(tried)}",
        absent=True,
    )


def strict_opener(settings: TenantSettings) -> OpenTransport:
    """Return a function that makes a transport of a kubeconfig, or refuses it as unsafe."""

    def open_transport(kubeconfig: bytes) -> Transport:
        credentials = parse_kubeconfig(
            kubeconfig,
            allow_proxy=settings.allow_proxy,
            allow_insecure=settings.allow_insecure,
        )
        return tenant_transport(
            credentials, max_bytes=settings.answer_limit, timeout=settings.request_timeout
        )

    return open_transport


def places(tenant: TenantCluster) -> Iterator[tuple[Key, str]]:
    """Yield where the tenant's kubeconfig may be: Secret and entry, first choice first."""
    name, own = tenant.metadata.name, tenant.metadata.namespace
    namespaces = dict.fromkeys([tenant.status.tenantNamespace or own, own])
    for namespace in namespaces:
        yield Key(namespace, f"{name}-admin-kubeconfig"), ADMIN_KEY
    for namespace in namespaces:
        yield Key(namespace, f"{name}-kubeconfig"), CLUSTER_API_KEY


def _entry(secret: EncodedSecret, entry: str) -> bytes:
    """Return a decoded entry of a kubeconfig Secret; raise TenantUnavailable if it is unusable."""
    where = f"Secret {secret.metadata.key}"
    encoded = secret.data.get(entry)
    if not encoded:
        raise TenantUnavailable("KubeconfigRefused", f"{where} has no entry {entry!r}; add it")
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as wrong:
        raise TenantUnavailable(
            "KubeconfigRefused", f"{where}, entry {entry!r}: {wrong}"
        ) from wrong
