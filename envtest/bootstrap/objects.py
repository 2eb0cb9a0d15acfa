"""The objects that every server holds, apart from roles: as facts, without a server."""

import hashlib
import uuid
from base64 import b32encode
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from envtest.builtins.priorities import SYSTEM

Body = dict[str, Any]

_SELF = "kube-apiserver"

# What the classes are for, whose names are reserved.
_PURPOSES = {
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another "
        "node if necessary."
    ),
    "system-node-critical": (
        "Used for system critical pods that must not be moved from their current node."
    ),
}


def namespaces() -> Iterator[Body]:
    """Yield the namespaces of the system."""
    for name in ("default", "kube-node-lease", "kube-public", "kube-system"):
        yield {"metadata": {"name": name}}


def priority_classes() -> Iterator[Body]:
    """Yield the classes of pods that the cluster cannot do without."""
    for name, value in SYSTEM.items():
        yield {"metadata": {"name": name}, "value": value, "description": _PURPOSES[name]}


def service(address: str, port: int) -> Body:
    """Return the server's own service.

    Args:
        address: the first one of the range of cluster addresses.
        port: at which the server listens.
    """
    labels = {"component": "apiserver", "provider": "kubernetes"}
    way = {"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}
    return {
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "spec": {"clusterIP": address, "ipFamilyPolicy": "SingleStack", "ports": [way]},
    }


def endpoints(address: str, port: int) -> Body:
    """Return where the server's own service leads to, in the old form."""
    subset = {"addresses": [{"ip": address}], "ports": [_port(port)]}
    labels = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    meta = {"name": "kubernetes", "namespace": "default", "labels": labels}
    return {"metadata": meta, "subsets": [subset]}


def endpoint_slice(address: str, port: int) -> Body:
    """Return where the server's own service leads to, in the new form."""
    labels = {"kubernetes.io/service-name": "kubernetes"}
    return {
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "addressType": "IPv6" if ":" in address else "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [_port(port)],
    }


def authentication(client_authority: str) -> Body:
    """Return what aggregated API servers read to know clients as this server does."""
    meta = {"name": "extension-apiserver-authentication", "namespace": "kube-system"}
    return {"metadata": meta, "data": {"client-ca-file": client_authority}}


def token_tracking(day: str) -> Body:
    """Return since when the use of long-lived service-account tokens is noted.

    Args:
        day: as 2026-01-31.
    """
    name = "kube-apiserver-legacy-service-account-token-tracking"
    return {"metadata": {"name": name, "namespace": "kube-system"}, "data": {"since": day}}


def lease(host: str, now: datetime) -> Body:
    """Return the sign of life of the server on a host."""
    name = identity(host)
    labels = {"apiserver.kubernetes.io/identity": _SELF, "kubernetes.io/hostname": host}
    return {
        "metadata": {"name": name, "namespace": "kube-system", "labels": labels},
        "spec": {
            "holderIdentity": f"{name}_{uuid.uuid4()}",
            "leaseDurationSeconds": 3600,
            "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        },
    }


def identity(host: str) -> str:
    """Return the name of the server on a host among all of its cluster.

    As kube-apiserver makes it: a hash of the host and of what it is, each behind its length.
    """
    parts = (part.encode() for part in (host, _SELF))
    digest = hashlib.sha256(b"".join(len(one).to_bytes(2, "big") + one for one in parts))
    return "apiserver-" + b32encode(digest.digest()[:16]).decode().rstrip("=").lower()


def _port(port: int) -> Body:
    return {"name": "https", "port": port, "protocol": "TCP"}
