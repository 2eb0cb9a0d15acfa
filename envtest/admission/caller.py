"""Send reviews to webhooks and read their answers, with limits of time and size."""

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
    """A webhook could not be called, or its answer is invalid; the failurePolicy decides."""


@dataclass(frozen=True, slots=True)
class ReviewResponse:
    """The response of an AdmissionReview; `patch` has the operations of its JSON patch."""

    allowed: bool
    status: Mapping[str, Any]
    warnings: list[str]
    patch: list[Any]


def _read_response(
    code: int, data: bytes, review: Mapping[str, Any], *, mutating: bool
) -> ReviewResponse:
    """Return the response in a webhook's answer.

    Args:
        code: the HTTP status.
        data: the body.
        review: the review that was sent.
        mutating: whether the webhook may return a patch.

    Raises:
        CallFailed: the answer is an error, cannot be parsed, or does not fit the review.
    """
    # The codes that client-go takes for success.
    if not 200 <= code <= 206:
        content = quote(data.decode("utf-8", "replace").strip())
        raise _build_call_failure(
            f"an error on the server ({content}) has prevented the request from succeeding"
        )
    if not data:
        raise _build_call_failure(f"0-length response with status code: {code}")
    try:
        body, _ = read_json(data)
    except MalformedJSON as error:
        message = f"couldn't get version/kind; json parse error: {error}"
        raise _build_call_failure(message) from None
    version, kind = review["apiVersion"], review["kind"]
    if not isinstance(body, dict):
        raise _build_call_failure(f"the answer is no {kind}")
    if (body.get("apiVersion") or version, body.get("kind") or kind) != (version, kind):
        message = f"expected {version}, Kind={kind}"
        raise _build_invalid_answer(
            f"{message}, got {body.get('apiVersion')}, Kind={body.get('kind')}"
        )
    response = body.get("response")
    if response is None:
        raise _build_invalid_answer("webhook response was absent")
    if not isinstance(response, dict) or not isinstance(response.get("status") or {}, dict):
        raise _build_invalid_answer("webhook response or its status is no object")
    expected, actual = review["request"]["uid"], response.get("uid") or ""
    if actual != expected:
        raise _build_invalid_answer(
            f"expected response.uid={quote(expected)}, got {quote(str(actual))}"
        )
    return ReviewResponse(
        allowed=response.get("allowed") is True,
        status=response.get("status") or {},
        warnings=[str(warning) for warning in response.get("warnings") or ()],
        patch=_read_patch(response, mutating=mutating),
    )


def _read_patch(response: Mapping[str, Any], *, mutating: bool) -> list[Any]:
    """Return the operations of the patch in a response; empty if it has no patch.

    Raises:
        CallFailed: it is no JSON patch, or comes from a validating webhook.
    """
    patch = response.get("patch")
    if not patch:
        return []
    if not mutating:
        raise _build_invalid_answer("validating webhook may not return response.patch")
    if response.get("patchType") != "JSONPatch":
        raise _build_invalid_answer(
            "webhook returned response.patch but not response.patchType JSONPatch"
        )
    try:
        operations, _ = read_json(base64.b64decode(patch, validate=True))
    except (MalformedJSON, binascii.Error, TypeError, ValueError) as error:
        raise CallFailed(f"received undecodable patch in webhook response: {error}") from None
    if not isinstance(operations, list | None):
        raise CallFailed("received undecodable patch in webhook response: it is no list")
    return operations or []


def _build_call_failure(why: str) -> CallFailed:
    """Return the error of a call without a usable answer, in kube-apiserver's words."""
    return CallFailed(f"failed to call webhook: {why}")


def _build_invalid_answer(why: str) -> CallFailed:
    """Return the error of an answer that breaks the protocol, in kube-apiserver's words."""
    return CallFailed(f"received invalid webhook response: {why}")


_DEFAULT_SECONDS: Final = 10
_DEFAULT_PORT: Final = 443
# An answer contains at most a patch. The real server has no limit.
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

    async def send_review(
        self, hook: Hook, review: Mapping[str, Any], *, mutating: bool
    ) -> ReviewResponse:
        """Send a review and return the response in the answer.

        Raises:
            CallFailed: there is no valid answer in time.
        """
        client = hook.body.get("clientConfig") or {}
        seconds = int(hook.body.get("timeoutSeconds") or _DEFAULT_SECONDS)
        url, connect_url = _build_urls(self._api, client, seconds)
        # The message after a timeout; an error replaces it.
        why: object = "context deadline exceeded"
        with anyio.move_on_after(seconds):
            try:
                code, data = await self._post(url, connect_url, client=client, review=review)
                return _read_response(code, data, review, mutating=mutating)
            except aiohttp.ClientConnectorCertificateError as error:
                why = f"tls: failed to verify certificate: {error.certificate_error}"
            except aiohttp.ClientConnectorDNSError as error:
                why = f"dial tcp: lookup {error.host}: no such host"
            except aiohttp.ClientConnectorError as error:
                # The error's own message contains the address of a Python object.
                reason = os.strerror(error.errno or errno.ECONNREFUSED).lower()
                why = f"dial tcp {error.host}:{error.port}: connect: {reason}"
            except (aiohttp.ClientError, OSError, ValueError) as error:
                why = error
        raise CallFailed(f'failed to call webhook: Post "{url}": {why}')

    async def _post(
        self, url: str, connect_url: str, client: Mapping[str, Any], review: Mapping[str, Any]
    ) -> tuple[int, bytes]:
        """Post a review; return status and body of the answer.

        Args:
            url: the URL by which the webhook is named and its certificate is verified.
            connect_url: the same URL with the host to connect to.
            client: the clientConfig of the webhook.

        Raises:
            ValueError: the body of the answer is too long.
        """
        if self._session is None:
            self._session = aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
            )
        parts = urlsplit(url)
        async with self._session.post(
            connect_url,
            data=json.dumps(review).encode(),
            headers={**_HEADERS, "Host": parts.netloc},
            ssl=_create_tls(str(client.get("caBundle") or "")),
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
def _create_tls(bundle: str) -> ssl.SSLContext:
    """Return TLS settings that trust a caBundle (base64 of PEM), or the system's if it is empty.

    They are those of Go. Python's defaults are stricter: a chain has to end at a self-signed
    certificate, and extensions are required. They are also laxer: a common name may be the host.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.hostname_checks_common_name = False
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    if not bundle:
        context.load_default_certs()
        return context
    # As in Go, a bundle without a valid certificate trusts no server.
    with suppress(ssl.SSLError, ValueError, binascii.Error):
        context.load_verify_locations(cadata=base64.b64decode(bundle).decode("ascii"))
    return context


def _build_urls(api: Api, client: Mapping[str, Any], seconds: int) -> tuple[str, str]:
    """Return the URL that names a webhook, and the URL to connect to.

    As in the real server, a Service is reached by its cluster IP or, for type ExternalName, by its
    external name. Nothing routes cluster IPs of the embedded server, so only an ExternalName such
    as `localhost` is reachable there.

    Args:
        api: the state, with the Services.
        client: the clientConfig of the webhook.
        seconds: the timeout, which the URL tells the webhook.

    Raises:
        CallFailed: the Service does not exist, or does not have the port.
    """
    if client.get("url"):
        parts = urlsplit(str(client["url"]))
        url = f"{parts.scheme}://{parts.netloc}{parts.path or '/'}?timeout={seconds}s"
        return url, url
    service = client.get("service") or {}
    name, namespace = str(service.get("name")), str(service.get("namespace"))
    port, path = int(service.get("port") or _DEFAULT_PORT), str(service.get("path") or "/")
    rest = f":{port}/{path.lstrip('/')}?timeout={seconds}s"
    url = f"https://{name}.{namespace}.svc{rest}"
    services = api.registry.find("", "v1", "services")
    assert services is not None
    stored = api.get_table(services).get(f"{namespace}/{name}")
    if stored is None:
        raise CallFailed(f'failed to call webhook: Post "{url}": service "{name}" not found')
    spec = services.decode_object(stored).get("spec") or {}
    is_external = spec.get("type") == "ExternalName"
    host = str(spec.get("externalName") if is_external else spec.get("clusterIP"))
    if not is_external and all(entry.get("port") != port for entry in spec.get("ports") or ()):
        message = f'no service port {port} found for service "{name}"'
        raise CallFailed(f'failed to call webhook: Post "{url}": {message}')
    # In a URL an IPv6 address stands in brackets.
    return url, f"https://[{host}]{rest}" if ":" in host else f"https://{host}{rest}"
