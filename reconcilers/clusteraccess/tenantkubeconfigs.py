"""Kubeconfigs of tenants: the Secrets that may hold them, and transports made of them.

A tenant is not trusted, so its kubeconfig is read by a strict loader.
"""

import base64
import binascii
from collections.abc import Callable, Iterator

from controller.client import Client
from controller.meta import Key
from controller.tenantconfig import create_tenant_transport, parse_kubeconfig
from controller.transport import Transport
from reconcilers.api.resources import SECRET, EncodedSecret
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.clusteraccess.tenantfailures import TenantUnavailable
from reconcilers.configuration.settings import TenantSettings

ADMIN_KEY = "admin.conf"
CLUSTER_API_KEY = "value"

OpenTransport = Callable[[bytes], Transport]


async def read_kubeconfig(management: Client, tenant: TenantCluster) -> bytes:
    """Return the tenant's kubeconfig from its Secret, read live.

    Raises:
        TenantUnavailable: there is no Secret (with `absent`), or the Secret is unusable.
        ControllerError: the management cluster did not answer.
    """
    tried = []
    for key, entry in list_kubeconfig_secrets(tenant):
        secret = await management.find(SECRET, key)
        if secret is not None:
            return _decode_entry(secret, entry)
        tried.append(str(key))
    raise TenantUnavailable(
        "KubeconfigMissing",
        f"waiting for the kubeconfig Secret; looked for {', '.join(tried)}",
        absent=True,
    )


def make_strict_opener(settings: TenantSettings) -> OpenTransport:
    """Return a function that makes a transport from a kubeconfig.

    That function raises ConfigurationError for a malformed or unsafe kubeconfig. Unsafe means that
    the kubeconfig reads files or runs programs. A proxy, or no check of the server's certificate,
    is unsafe, too, unless the settings allow it.
    """

    def open_transport(kubeconfig: bytes) -> Transport:
        """Return a transport by a kubeconfig, with the bounds of the settings."""
        credentials = parse_kubeconfig(
            kubeconfig,
            allow_proxy=settings.allow_proxy,
            allow_insecure=settings.allow_insecure,
        )
        return create_tenant_transport(
            credentials, max_bytes=settings.answer_limit, timeout=settings.request_timeout
        )

    return open_transport


def list_kubeconfig_secrets(tenant: TenantCluster) -> Iterator[tuple[Key, str]]:
    """Yield the key of each Secret that may hold the tenant's kubeconfig, with the entry's name.

    Butler's own Secrets come before those of Cluster API; in each case the tenant's namespace
    comes before that of the TenantCluster.
    """
    name, cluster_namespace = tenant.metadata.name, tenant.metadata.namespace
    namespaces = dict.fromkeys(
        [tenant.status.tenantNamespace or cluster_namespace, cluster_namespace]
    )
    for namespace in namespaces:
        yield Key(namespace, f"{name}-admin-kubeconfig"), ADMIN_KEY
    for namespace in namespaces:
        yield Key(namespace, f"{name}-kubeconfig"), CLUSTER_API_KEY


def _decode_entry(secret: EncodedSecret, entry: str) -> bytes:
    """Return a decoded entry of a kubeconfig Secret.

    Raises:
        TenantUnavailable: the Secret has no such entry, or the entry is not base64.
    """
    where = f"Secret {secret.metadata.key}"
    encoded = secret.data.get(entry)
    if not encoded:
        raise TenantUnavailable("KubeconfigRefused", f"{where} has no entry {entry!r}; add it")
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise TenantUnavailable(
            "KubeconfigRefused", f"{where}, entry {entry!r}: {error}"
        ) from error
