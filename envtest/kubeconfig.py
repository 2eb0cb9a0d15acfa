"""Self-contained kubeconfigs: server URL, CA and credentials are inline."""

import base64
from typing import Any

import yaml

from envtest.certs import KeyPair


def build_kubeconfig(
    url: str,
    authority: bytes,
    user: str,
    *,
    token: str = "",
    certificate: KeyPair | None = None,
    name: str = "envtest",
) -> str:
    """Return a kubeconfig as YAML, with one cluster, one user and one context.

    Args:
        url: the URL of the server.
        authority: the certificate that signed the server's, as PEM.
        user: the name of the user.
        token: the user's bearer token; empty for none.
        certificate: the user's client certificate; None for none.
        name: the name of the cluster and the context.
    """
    credentials: dict[str, Any] = {"token": token} if token else {}
    if certificate is not None:
        credentials["client-certificate-data"] = _encode_base64(certificate.certificate)
        credentials["client-key-data"] = _encode_base64(certificate.key)
    cluster = {"server": url, "certificate-authority-data": _encode_base64(authority)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
    }
    return yaml.safe_dump(document, sort_keys=False)


def _encode_base64(data: bytes) -> str:
    """Return data as base64, as kubeconfigs have it."""
    return base64.b64encode(data).decode()
