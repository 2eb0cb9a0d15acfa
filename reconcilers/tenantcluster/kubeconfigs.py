"""A tenant's kubeconfig: which Secret holds it, and what of it is trusted."""

import base64
import binascii
from collections.abc import Callable, Iterator

from controller.client import Client
from controller.errors import ControllerError, NotFound
from controller.meta import Key
from controller.tenantconfig import parse_kubeconfig, tenant_transport
from controller.transport import Transport
from reconcilers.api.resources import SECRET, Secret
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.settings import TenantSettings

ADMIN_KEY = "admin.conf"
CLUSTER_API_KEY = "value"

OpenTransport = Callable[[bytes], Transport]


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


async def read_kubeconfig(management: Client, tenant: TenantCluster) -> bytes:
    """Return the tenant's kubeconfig as its Secret has it now.

    Raises:
        NoWayIn: there is none; `absent` if live reads showed so.
        ControllerError: the management cluster did not answer.
    """
    tried = []
    for key, entry in places(tenant):
        try:
            secret = await management.get(SECRET, key)
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


def strictly(settings: TenantSettings) -> OpenTransport:
    """Return the opener that takes nothing from a kubeconfig that a stranger could abuse."""

    def opened(kubeconfig: bytes) -> Transport:
        credentials = parse_kubeconfig(
            kubeconfig,
            allow_proxy=settings.allow_proxy,
            allow_insecure=settings.allow_insecure,
        )
        return tenant_transport(
            credentials, max_bytes=settings.answer_limit, timeout=settings.request_timeout
        )

    return opened


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
