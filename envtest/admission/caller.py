"""Sends reviews to webhooks: one HTTP session, bounded in time and size."""

import base64
import binascii
import errno
import json
import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import anyio

from envtest.admission.answers import CallFailed, Response, read_response
from envtest.admission.matching import Hook
from envtest.server.api import Api

_SECONDS: Final = 10
_PORT: Final = 443
# An answer is a patch at most; the real server reads without end.
_ANSWER_LIMIT: Final = 8 * 1024 * 1024
_HEADERS: Final = {
    "Accept": "application/json, */*",
    "Content-Type": "application/json",
    "User-Agent": "kube-apiserver-admission",
}


class Caller:
    """Asks webhooks; made once per server."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Release connections."""
        if self._session is not None:
            await self._session.close()

    async def ask(self, hook: Hook, review: Mapping[str, Any], *, mutating: bool) -> Response:
        """Send a review and return the response in the answer.

        Raises:
            CallFailed: there is none.
        """
        client = hook.body.get("clientConfig") or {}
        seconds = int(hook.body.get("timeoutSeconds") or _SECONDS)
        url, dialled = _addresses(self._api, client, seconds)
        why: object = "context deadline exceeded"
        with anyio.move_on_after(seconds):
            try:
                code, data = await self._post(url, dialled, client, review)
                return read_response(code, data, review, mutating=mutating)
            except aiohttp.ClientConnectorCertificateError as error:
                why = f"tls: failed to verify certificate: {error.certificate_error}"
            except aiohttp.ClientConnectorDNSError as error:
                why = f"dial tcp: lookup {error.host}: no such host"
            except aiohttp.ClientConnectorError as error:
                # Its own text shows where an object of ours is in memory.
                told = os.strerror(error.errno or errno.ECONNREFUSED).lower()
                why = f"dial tcp {error.host}:{error.port}: connect: {told}"
            except (aiohttp.ClientError, OSError, ValueError) as error:
                why = error
        raise CallFailed(f'failed to call webhook: Post "{url}": {why}')

    async def _post(
        self, url: str, dialled: str, client: Mapping[str, Any], review: Mapping[str, Any]
    ) -> tuple[int, bytes]:
        """Return status and body of the answer.

        Raises:
            ValueError: the body is too long.
        """
        if self._session is None:
            self._session = aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
            )
        parts = urlsplit(url)
        async with self._session.post(
            dialled,
            data=json.dumps(review).encode(),
            headers={**_HEADERS, "Host": parts.netloc},
            ssl=_trust(str(client.get("caBundle") or "")),
            server_hostname=parts.hostname,
            allow_redirects=False,
        ) as answer:
            data = bytearray()
            async for chunk in answer.content.iter_any():
                data += chunk
                if len(data) > _ANSWER_LIMIT:
                    raise ValueError(f"the answer is longer than {_ANSWER_LIMIT} bytes")
            return answer.status, bytes(data)


@lru_cache(maxsize=256)
def _trust(bundle: str) -> ssl.SSLContext:
    """Return TLS settings that trust a caBundle (base64 of PEM), or the system's without one.

    Go asks less than Python's defaults: any certificate of the bundle may be the end of a chain,
    and extensions may be missing. It asks more, too: common names do not count.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.hostname_checks_common_name = False
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    if not bundle:
        context.load_default_certs()
        return context
    # Where nothing in it is a certificate, nobody is trusted, as in Go.
    with suppress(ssl.SSLError, ValueError, binascii.Error):
        context.load_verify_locations(cadata=base64.b64decode(bundle).decode("ascii"))
    return context


def _addresses(api: Api, client: Mapping[str, Any], seconds: int) -> tuple[str, str]:
    """Return the URL of a webhook, and the same with the host that is connected to.

    A Service is found by its cluster address, as the real server does without a proxy of its own.
    Behind the embedded server nothing routes cluster addresses; a Service of type ExternalName
    that names, say, `localhost` is reached on either server.

    Raises:
        CallFailed: the Service is not there, or leads nowhere.
    """
    if client.get("url"):
        parts = urlsplit(str(client["url"]))
        url = f"{parts.scheme}://{parts.netloc}{parts.path or '/'}?timeout={seconds}s"
        return url, url
    service = client.get("service") or {}
    name, namespace = str(service.get("name")), str(service.get("namespace"))
    port, path = int(service.get("port") or _PORT), str(service.get("path") or "/")
    rest = f":{port}/{path.lstrip('/')}?timeout={seconds}s"
    url = f"https://{name}.{namespace}.svc{rest}"
    services = api.registry.find("", "v1", "services")
    assert services is not None
    stored = api.table(services).get(f"{namespace}/{name}")
    if stored is None:
        raise CallFailed(f'failed to call webhook: Post "{url}": service "{name}" not found')
    spec = services.load(stored).get("spec") or {}
    outside = spec.get("type") == "ExternalName"
    host = str(spec.get("externalName") if outside else spec.get("clusterIP"))
    if not outside and all(one.get("port") != port for one in spec.get("ports") or ()):
        text = f'no service port {port} found for service "{name}"'
        raise CallFailed(f'failed to call webhook: Post "{url}": {text}')
    return url, f"https://[{host}]{rest}" if ":" in host else f"https://{host}{rest}"
