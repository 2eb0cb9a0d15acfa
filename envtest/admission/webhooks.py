"""Asking webhooks: one AdmissionReview per hook, in order, with what follows from the answer.

Mutating hooks see an object before the server has given it a uid; validating ones see what will be
stored, after the schema had its say.
"""

import base64
import binascii
import json
import ssl
import uuid
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import anyio

from envtest.access.reviews import describe
from envtest.admission.matching import Write, concerned
from envtest.patching import PatchError, json_patch
from envtest.server.api import Api
from envtest.server.call import Call
from envtest.server.failures import StatusError, bad_request

_DEFAULT_SECONDS = 10
_NO_SIDE_EFFECTS = frozenset({"None", "NoneOnDryRun"})
_ANSWER_LIMIT = 8 * 1024 * 1024


class _CallError(Exception):
    """A hook could not be asked, or its answer makes no sense."""


class Webhooks:
    """The webhooks of one server."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._session: aiohttp.ClientSession | None = None
        self._trust: dict[str, ssl.SSLContext] = {}

    async def close(self) -> None:
        """Release connections."""
        if self._session is not None:
            await self._session.close()

    async def mutate(
        self, call: Call, operation: str, new: dict[str, Any], old: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Return the object after all mutating hooks.

        Raises:
            StatusError: a hook refuses, or cannot be asked and must be.
        """
        write = Write(call, operation, new, old)
        for hook in concerned(self._api, "mutatingwebhookconfigurations", write):
            answer = await self._ask(hook, write)
            if answer is not None and answer.get("patch"):
                new = _patched(hook, new, answer)
                write = Write(call, operation, new, old)
        return new

    async def validate(
        self, call: Call, operation: str, new: dict[str, Any] | None, old: dict[str, Any] | None
    ) -> None:
        """Ask all validating hooks.

        Raises:
            StatusError: a hook refuses, or cannot be asked and must be.
        """
        write = Write(call, operation, new, old)
        for hook in concerned(self._api, "validatingwebhookconfigurations", write):
            await self._ask(hook, write)

    async def _ask(self, hook: dict[str, Any], write: Write) -> dict[str, Any] | None:
        """Return a hook's allowing answer; None if it cannot be had and need not be."""
        if write.call.dry_runs and hook.get("sideEffects") not in _NO_SIDE_EFFECTS:
            raise bad_request(f'admission webhook "{hook["name"]}" does not support dry run')
        review = _review(write)
        try:
            answer = await self._call(hook, review)
        except _CallError as error:
            if hook.get("failurePolicy", "Fail") == "Ignore":
                return None
            raise _failed(f'failed calling webhook "{hook["name"]}": {error}') from None
        write.call.warnings.extend(answer.get("warnings") or ())
        if not answer.get("allowed"):
            raise _denied(hook["name"], answer.get("status") or {})
        return answer

    async def _call(self, hook: dict[str, Any], review: dict[str, Any]) -> dict[str, Any]:
        """Send a review and return the response in it.

        Raises:
            _CallError: there is none.
        """
        seconds = hook.get("timeoutSeconds") or _DEFAULT_SECONDS
        client = hook.get("clientConfig") or {}
        url = f"{_address(client)}?timeout={seconds}s"
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        try:
            with anyio.fail_after(seconds):
                async with self._session.post(
                    url, json=review, ssl=self._context(client.get("caBundle") or "")
                ) as answer:
                    text = await answer.content.read(_ANSWER_LIMIT)
                    status = answer.status
        except TimeoutError:
            why = f'failed to call webhook: Post "{url}": context deadline exceeded'
            raise _CallError(why) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _CallError(f'failed to call webhook: Post "{url}": {_why(url, error)}') from None
        return _response(review, status, text)

    def _context(self, bundle: str) -> ssl.SSLContext:
        """Return the trust that a hook's caBundle stands for."""
        if bundle not in self._trust:
            pem = base64.b64decode(bundle).decode() if bundle else None
            self._trust[bundle] = ssl.create_default_context(cadata=pem)
        return self._trust[bundle]


def _address(client: dict[str, Any]) -> str:
    if client.get("url"):
        return str(client["url"])
    service = client.get("service") or {}
    host = f"{service.get('name')}.{service.get('namespace')}.svc:{service.get('port', 443)}"
    return f"https://{host}/{str(service.get('path') or '').lstrip('/')}"


def _why(url: str, error: Exception) -> str:
    """Return why a connection failed, as Go tells it where that is common."""
    parts = urlsplit(url)
    where = f"{parts.hostname}:{parts.port or 443}"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {parts.hostname}: no such host"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"dial tcp {where}: connect: connection refused"
    return str(error) or "EOF"


def _review(write: Write) -> dict[str, Any]:
    """Return the AdmissionReview of a write."""
    resource, info = write.call.resource, write.call.info
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    plural = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    body = write.new or {}
    named = {"name": info.name or (body.get("metadata") or {}).get("name", "")}
    sub = info.subresource
    request: dict[str, Any] = {
        "uid": str(uuid.uuid4()),
        "kind": kind,
        "resource": plural,
        **({"subResource": sub} if sub else {}),
        "requestKind": kind,
        "requestResource": plural,
        **({"requestSubResource": sub} if sub else {}),
        **(named if named["name"] else {}),
        **({"namespace": write.namespace} if write.namespace else {}),
        "operation": write.operation,
        "userInfo": describe(write.call.user),
        "object": write.new,
        "oldObject": write.old,
        "dryRun": bool(write.call.dry_runs),
        "options": _options(write),
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def _options(write: Write) -> dict[str, Any]:
    kind = f"{write.operation.capitalize()}Options"
    given = dict(write.call.options)
    for name in ("fieldManager", "fieldValidation"):
        if write.operation != "DELETE" and write.call.query.get(name):
            given[name] = write.call.query[name]
    if write.call.dry_runs:
        given["dryRun"] = list(write.call.dry_runs)
    return {**given, "kind": kind, "apiVersion": "meta.k8s.io/v1"}


def _response(review: dict[str, Any], status: int, text: bytes) -> dict[str, Any]:
    """Return the response of an answered review.

    Raises:
        _CallError: there is none.
    """
    if not 200 <= status < 300:
        shown = text.decode("utf-8", "replace").strip()
        raise _CallError(
            f'failed to call webhook: an error on the server ("{shown}") has prevented the '
            "request from succeeding"
        )
    try:
        body = json.loads(text)
    except ValueError:
        raise _CallError("failed to call webhook: the answer is no JSON") from None
    response = body.get("response") if isinstance(body, dict) else None
    if not isinstance(response, dict):
        raise _CallError("received invalid webhook response: webhook response was absent")
    wanted = review["request"]["uid"]
    if response.get("uid") != wanted:
        got = response.get("uid", "")
        raise _CallError(
            f'received invalid webhook response: expected response.uid="{wanted}", got "{got}"'
        )
    return response


def _patched(hook: dict[str, Any], body: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Return the object with a hook's patch applied."""
    try:
        operations = json.loads(base64.b64decode(answer["patch"], validate=True))
        patched: dict[str, Any] = json_patch(body, operations)
    except (ValueError, binascii.Error, PatchError) as error:
        text = f'failed applying the patch of webhook "{hook["name"]}": {error}'
        raise _failed(text) from None
    return patched


def _denied(name: str, status: dict[str, Any]) -> StatusError:
    """Return the refusal that a hook asks for."""
    message = status.get("message") or status.get("reason")
    text = f'admission webhook "{name}" denied the request'
    text += f": {message}" if message else " without explanation"
    return StatusError(
        status.get("code") or 400,
        text,
        status.get("reason", ""),
        details=status.get("details"),
    )


def _failed(text: str) -> StatusError:
    return StatusError(
        500,
        f"Internal error occurred: {text}",
        "InternalError",
        details={"causes": [{"message": text}]},
    )
