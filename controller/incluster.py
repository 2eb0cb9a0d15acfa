"""The configuration of a pod: its service account's token, and the authority beside it.

Read here and not by kubernetes_asyncio, whose import costs 40 MiB and half a second, more than
anything else in a controller that runs in a cluster. What is read are four short texts, and the
rules are client-go's.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from controller.errors import ConfigurationError

HOST = "KUBERNETES_SERVICE_HOST"
PORT = "KUBERNETES_SERVICE_PORT"


@dataclass(frozen=True, slots=True)
class PodConfiguration:
    """What a pod knows of its API server, in the words of kubernetes_asyncio's Configuration.

    Args:
        host: the server's URL.
        ssl_ca_cert: path of the authority's certificates, PEM.
        api_key: the token, under `BearerToken`.
    """

    host: str
    ssl_ca_cert: str
    api_key: dict[str, str] = field(repr=False)
    verify_ssl: bool = True
    cert_file: str = ""
    key_file: str = ""
    tls_server_name: str = ""
    proxy: str = ""
    refresh_api_key_hook: None = None
    """Nothing: whoever reads the token again watches its file."""


def pod_configuration(
    token_file: Path, environment: Mapping[str, str] = os.environ
) -> PodConfiguration:
    """Read the service account of the pod that we run in.

    Args:
        token_file: where kubelet keeps the token; `ca.crt` lies beside it.
        environment: names the server's host and port, as kubelet sets them.

    Raises:
        ConfigurationError: something of it is not there, or empty.
    """
    host, port = environment.get(HOST, ""), environment.get(PORT, "")
    if not host or not port:
        raise ConfigurationError(f"the pod's service account cannot be used: no {HOST} or {PORT}")
    authority = token_file.with_name("ca.crt")
    for file in (token_file, authority):
        try:
            empty = not file.read_bytes().strip()
        except OSError as error:
            raise ConfigurationError(
                f"the pod's service account cannot be used: {file}: {error.strerror}"
            ) from error
        if empty:
            raise ConfigurationError(f"the pod's service account cannot be used: {file} is empty")
    where = f"[{host}]" if ":" in host else host
    token = token_file.read_text().strip()
    return PodConfiguration(
        f"https://{where}:{port}", str(authority), {"BearerToken": f"Bearer {token}"}
    )
