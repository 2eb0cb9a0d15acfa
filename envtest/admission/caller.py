"""Sends reviews to webhooks: one HTTP session, bounded answers, Go's words for what fails."""

import errno
import json
import os
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import anyio

from envtest.admission.addresses import Address, address_of, certificate_fault, trust
from envtest.admission.answers import (
    FAILED,
    Answer,
    CallFailed,
    Response,
    read_response,
    read_review,
)
from envtest.admission.matching import Hook
from envtest.server.api import Api
from envtest.server.converting import ConversionFailed

_SECONDS: Final = 10
_CONVERSION_SECONDS: Final = 30
_PORT: Final = 443
# An answer is a patch at most; the real server reads without end.
_ANSWER_LIMIT: Final = 8 * 1024 * 1024
_HEADERS: Final = {
    "Accept": "application/json, */*",
    "Accept-Encoding": "gzip",
    "Content-Type": "application/json",
    "User-Agent": "kube-apiserver-admission",
}
_REFUSED_AT: Final = re.compile(r"\('([^']+)', (\d+)")


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
        address = address_of(self._api, client, seconds)
        try:
            with anyio.fail_after(seconds):
                answer = await self._post(address, str(client.get("caBundle") or ""), review)
        except TimeoutError:
            raise _unreached(address, "context deadline exceeded") from None
        return read_response(answer, review, mutating=mutating)

    async def converse(
        self, client: Mapping[str, Any], review: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Send a review about conversion and return the one that comes back.

        Raises:
            ConversionFailed: none does.
        """
        try:
            address = address_of(self._api, client, _CONVERSION_SECONDS)
            return read_review(await self._within(address, client, review), review)
        except CallFailed as error:
            raise ConversionFailed(str(error).removeprefix(FAILED)) from None

    async def _within(
        self, address: Address, client: Mapping[str, Any], review: Mapping[str, Any]
    ) -> Answer:
        """Post a review and wait for the answer as long as conversions may take.

        Raises:
            CallFailed: none comes.
        """
        try:
            with anyio.fail_after(_CONVERSION_SECONDS):
                return await self._post(address, str(client.get("caBundle") or ""), review)
        except TimeoutError:
            raise _unreached(address, "context deadline exceeded") from None

    async def _post(self, address: Address, bundle: str, review: Mapping[str, Any]) -> Answer:
        try:
            return await self._send(address, bundle, review)
        except aiohttp.ClientConnectorCertificateError as error:
            dialled = urlsplit(address.dialled)
            why = await certificate_fault(
                error.certificate_error,
                bundle,
                address.server_name,
                (dialled.hostname or "", dialled.port or _PORT),
            )
            why = f"tls: failed to verify certificate: {why}"
            raise _unreached(address, why) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _unreached(address, _why(address, error)) from None

    async def _send(self, address: Address, bundle: str, review: Mapping[str, Any]) -> Answer:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
            )
        async with self._session.post(
            address.dialled,
            data=json.dumps(review).encode(),
            headers={**_HEADERS, "Host": address.host},
            ssl=trust(bundle),
            server_hostname=address.server_name,
            allow_redirects=False,
        ) as answer:
            data = await _bounded(answer.content)
            return Answer(answer.status, answer.headers.get("Content-Type", ""), data)


async def _bounded(content: aiohttp.StreamReader) -> bytes:
    """Read an answer up to the limit.

    Raises:
        ValueError: it is longer.
    """
    chunks: list[bytes] = []
    size = 0
    async for chunk in content.iter_any():
        size += len(chunk)
        if size > _ANSWER_LIMIT:
            raise ValueError(f"the answer is longer than {_ANSWER_LIMIT} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _unreached(address: Address, why: str) -> CallFailed:
    return CallFailed(f'failed to call webhook: Post "{address.url}": {why}')


def _why(address: Address, error: Exception) -> str:
    """Return why there is no answer, as Go tells it."""
    dialled = urlsplit(address.dialled)
    where = f"{dialled.hostname}:{dialled.port or _PORT}"
    why = str(error) or "EOF"
    match error:
        case aiohttp.ClientConnectorDNSError():
            why = f"dial tcp: lookup {dialled.hostname}: no such host"
        case aiohttp.ClientSSLError() if "WRONG_VERSION_NUMBER" in why:
            why = "http: server gave HTTP response to HTTPS client"
        case aiohttp.ClientSSLError():
            why = f"remote error: tls: {why}"
        case aiohttp.ClientConnectorError():
            why = _refused(where, error.os_error)
        case aiohttp.ServerDisconnectedError():
            why = "EOF"
        case OSError() if error.errno == errno.ECONNRESET:
            why = f"read tcp {where}: read: connection reset by peer"
    return why


def _refused(where: str, error: OSError) -> str:
    """Return why nobody could be connected to; a name may stand for several addresses."""
    found = _REFUSED_AT.search(str(error))
    if found:
        host = f"[{found[1]}]" if ":" in found[1] else found[1]
        where = f"{host}:{found[2]}"
    number = error.errno
    if number is None:
        # Several attempts at once: the first one speaks for all.
        several = re.search(r"\[Errno (\d+)\]", str(error))
        number = int(several[1]) if several else errno.ECONNREFUSED
    return f"dial tcp {where}: connect: {os.strerror(number).lower()}"
