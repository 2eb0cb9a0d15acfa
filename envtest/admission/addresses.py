"""Where a webhook is: the URL of its clientConfig, and what is dialled for it."""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from envtest.admission.answers import CallFailed
from envtest.server.api import Api

_PORT: Final = 443
# What Go leaves unescaped in a path.
_PATH_SAFE: Final = "/$&+,:;=@~"


@dataclass(frozen=True, slots=True)
class Address:
    """Where to send a review.

    Attributes:
        url: the address as messages show it.
        dialled: the same with the host that is connected to.
        host: the Host header.
        server_name: the name that the certificate must be for.
    """

    url: str
    dialled: str
    host: str
    server_name: str


def address_of(api: Api, client: Mapping[str, Any], seconds: int) -> Address:
    """Return where a webhook is.

    A Service is found by its cluster address, as the real server does without a proxy of its own.
    Behind the embedded server nobody routes cluster addresses; a Service of type ExternalName
    that names, say, `localhost` is reached on either server.

    Args:
        api: the state, for services.
        client: the clientConfig.
        seconds: how long the webhook has; it is told so.

    Raises:
        CallFailed: the service is not there, or leads nowhere.
    """
    if client.get("url"):
        parts = urlsplit(str(client["url"]))
        url = f"{parts.scheme}://{parts.netloc}{_path(parts.path)}?timeout={seconds}s"
        return Address(url, url, parts.netloc, parts.hostname or "")
    service = client.get("service") or {}
    name, namespace = str(service.get("name")), str(service.get("namespace"))
    port = int(service.get("port") or _PORT)
    server_name = f"{name}.{namespace}.svc"
    rest = f"{_path(str(service.get('path') or ''))}?timeout={seconds}s"
    url = f"https://{server_name}:{port}{rest}"
    try:
        host = _route(api, namespace, name, port)
    except LookupError as error:
        raise CallFailed(f'failed to call webhook: Post "{url}": {error.args[0]}') from None
    return Address(url, f"https://{host}:{port}{rest}", f"{server_name}:{port}", server_name)


def _path(path: str) -> str:
    """Return a path as Go's path.Join makes it: clean, without a slash at the end."""
    clean = posixpath.normpath("/" + unquote(path).lstrip("/"))
    return quote(clean, safe=_PATH_SAFE)


def _route(api: Api, namespace: str, name: str, port: int) -> str:
    """Return the host that a service stands for.

    Raises:
        LookupError: none; the message is the real server's.
    """
    services = api.registry.find("", "v1", "services")
    assert services is not None
    stored = api.table(services).get(f"{namespace}/{name}")
    if stored is None:
        raise LookupError(f'service "{name}" not found')
    spec = services.load(stored).get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName"))
    if spec.get("clusterIP") == "None":
        raise LookupError('cannot route to service with ClusterIP "None"')
    if all(one.get("port") != port for one in spec.get("ports") or ()):
        raise LookupError(f'no service port {port} found for service "{name}"')
    address = str(spec.get("clusterIP"))
    return f"[{address}]" if ":" in address else address
