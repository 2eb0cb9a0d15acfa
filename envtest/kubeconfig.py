"""Self-contained kubeconfigs: server URL, CA and credentials are inline."""

import base64
from typing import Any

import yaml

from envtest.certs import KeyPair


def kubeconfig(
    url: str,
    authority: bytes,
    user: str,
    *,
    token: str = "",
    certificate: KeyPair | None = None,
    name: str = "envtest",
) -> str:
    """Return a kubeconfig as YAML.

    Args:
        url: of the server.
        authority: the PEM certificate that the server's is signed by.
        user: the name of the credentials.
        token: a bearer token, or
        certificate: a client certificate.
        name: of cluster and context.
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
    return base64.b64encode(data).decode()
