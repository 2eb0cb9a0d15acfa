"""Sends reviews to webhooks and reads their answers; bounded in time and size."""

import base64
import binascii
import errno
import json
import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import anyio

from controller.managedfields.gotext import quote
from envtest.admission.matching import Hook
from envtest.schema import MalformedJSON, read_json
from envtest.server.api import Api


class CallFailed(Exception):
    """A webhook could not be called, or its answer is not valid; the failure policy decides."""


@dataclass(frozen=True, slots=True)
class ReviewResponse:
    """The part of an AdmissionReview that says what shall be; `patch` has the operations."""

    allowed: bool
    status: Mapping[str, Any]
    warnings: list[str]
    patch: list[Any]


def _read_response(
    code: int, data: bytes, review: Mapping[str, Any], *, mutating: bool
) -> ReviewResponse:
    """Return the response in a webhook's answer.

    Args:
        code: of the HTTP answer.
        data: its body.
        review: what was asked.
        mutating: whether patches are welcome.

    Raises:
        CallFailed: it says nothing that counts.
    """
    if not 200 <= code <= 206:
        content = quote(data.decode("utf-8", "replace").strip())
        raise _build_failure(
            f"an error on the server ({content}) has prevented the request from succeeding"
        )
    if not data:
        raise _build_failure(f"0-length response with status code: {code}")
    try:
        body, _ = read_json(data)
    except MalformedJSON as error:
        message = f"couldn't get version/kind; json parse error: {error}"
        raise _build_failure(message) from None
    version, kind = review["apiVersion"], review["kind"]
    if not isinstance(body, dict):
        raise _build_failure(f"the answer is no {kind}")
    if (body.get("apiVersion") or version, body.get("kind") or kind) != (version, kind):
        message = f"expected {version}, Kind={kind}"
        raise _invalid(f"{message}, got {body.get('apiVersion')}, Kind={body.get('kind')}")
    response = body.get("response")
    if response is None:
        raise _invalid("webhook response was absent")
    if not isinstance(response, dict) or not isinstance(response.get("status") or {}, dict):
        raise _invalid("webhook response or its status is no object")
    expected, got = review["request"]["uid"], response.get("uid") or ""
    if got != expected:
        raise _invalid(f"expected response.uid={quote(expected)}, got {quote(str(got))}")
    return ReviewResponse(
        allowed=response.get("allowed") is True,
        status=response.get("status") or {},
        warnings=[str(warning) for warning in response.get("warnings") or ()],
        patch=_operations(response, mutating=mutating),
    )


def _operations(response: Mapping[str, Any], *, mutating: bool) -> list[Any]:
    """Return the operations of the patch in a response; none if nothing is to be changed.

    Raises:
        CallFailed: it is no JSON patch, or comes from a hook that may not change anything.
    """
    patch = response.get("patch")
    if not patch:
        return []
    if not mutating:
        raise _invalid("validating webhook may not return response.patch")
    if response.get("patchType") != "JSONPatch":
        raise _invalid("webhook returned response.patch but not response.patchType JSONPatch")
    try:
        operations, _ = read_json(base64.b64decode(patch, validate=True))
    except (MalformedJSON, binascii.Error, TypeError, ValueError) as error:
        raise CallFailed(f"received undecodable patch in webhook response: {error}") from None
    if not isinstance(operations, list | None):
        raise CallFailed("received undecodable patch in webhook response: it is no list")
    return operations or []


def _build_failure(why: str) -> CallFailed:
    return CallFailed(f"failed to call webhook: {why}")


def _invalid(why: str) -> CallFailed:
    return CallFailed(f"received invalid webhook response: {why}")


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
    """Calls webhooks; one per server."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Release connections."""
        if self._session is not None:
            await self._session.close()

    async def ask(
        self, hook: Hook, review: Mapping[str, Any], *, mutating: bool
    ) -> ReviewResponse:
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
                code, data = await self._post(url, dialled, client=client, review=review)
                return _read_response(code, data, review, mutating=mutating)
            except aiohttp.ClientConnectorCertificateError as error:
                why = f"tls: failed to verify certificate: {error.certificate_error}"
            except aiohttp.ClientConnectorDNSError as error:
                why = f"dial tcp: lookup {error.host}: no such host"
            except aiohttp.ClientConnectorError as error:
                # Its own text shows where an object of ours is in memory.
                reason = os.strerror(error.errno or errno.ECONNREFUSED).lower()
                why = f"dial tcp {error.host}:{error.port}: connect: {reason}"
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
    # Without a certificate in it no server is trusted, as in Go.
    with suppress(ssl.SSLError, ValueError, binascii.Error):
        context.load_verify_locations(cadata=base64.b64decode(bundle).decode("ascii"))
    return context


def _addresses(api: Api, client: Mapping[str, Any], seconds: int) -> tuple[str, str]:
    """Return the URL of a webhook, and the same with the host that is connected to.

    A Service is found by its cluster address, as the real server does without a proxy of its own.
    Behind the embedded server nothing routes cluster addresses; a Service of type ExternalName
    that names, say, `localhost` is reached on either server.

    Raises:
        CallFailed: the Service does not exist, or leads nowhere.
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
    if not outside and all(entry.get("port") != port for entry in spec.get("ports") or ()):
        message = f'no service port {port} found for service "{name}"'
        raise CallFailed(f'failed to call webhook: Post "{url}": {message}')
    return url, f"https://[{host}]{rest}" if ":" in host else f"https://{host}{rest}"
