"""What a webhook answered, and which answers count."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envtest.schema import MalformedJSON, read_json
from envtest.schema.gotext import quote


class CallFailed(Exception):
    """A webhook could not be asked, or its answer makes no sense; the failure policy decides."""


@dataclass(frozen=True, slots=True)
class Response:
    """The part of an AdmissionReview that says what shall be; `patch` has the operations."""

    allowed: bool
    status: Mapping[str, Any]
    warnings: list[str]
    patch: list[Any]


def read_response(
    code: int, data: bytes, review: Mapping[str, Any], *, mutating: bool
) -> Response:
    """Return what an answer says.

    Args:
        code: of the HTTP answer.
        data: its body.
        review: what was asked.
        mutating: whether patches are welcome.

    Raises:
        CallFailed: it says nothing that counts.
    """
    if not 200 <= code <= 206:
        told = quote(data.decode("utf-8", "replace").strip())
        raise _failed(f"an error on the server ({told}) has prevented the request from succeeding")
    if not data:
        raise _failed(f"0-length response with status code: {code}")
    try:
        body, _ = read_json(data)
    except MalformedJSON as error:
        text = f"couldn't get version/kind; json parse error: {error}"
        raise _failed(text) from None
    version, kind = review["apiVersion"], review["kind"]
    if not isinstance(body, dict):
        raise _failed(f"the answer is no {kind}")
    if (body.get("apiVersion") or version, body.get("kind") or kind) != (version, kind):
        text = f"expected {version}, Kind={kind}"
        raise _invalid(f"{text}, got {body.get('apiVersion')}, Kind={body.get('kind')}")
    response = body.get("response")
    if response is None:
        raise _invalid("webhook response was absent")
    if not isinstance(response, dict) or not isinstance(response.get("status") or {}, dict):
        raise _invalid("webhook response or its status is no object")
    wanted, got = review["request"]["uid"], response.get("uid") or ""
    if got != wanted:
        raise _invalid(f"expected response.uid={quote(wanted)}, got {quote(str(got))}")
    return Response(
        allowed=response.get("allowed") is True,
        status=response.get("status") or {},
        warnings=[str(one) for one in response.get("warnings") or ()],
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
        found, _ = read_json(base64.b64decode(patch, validate=True))
    except (MalformedJSON, binascii.Error, TypeError, ValueError) as error:
        raise CallFailed(f"received undecodable patch in webhook response: {error}") from None
    if not isinstance(found, list | None):
        raise CallFailed("received undecodable patch in webhook response: it is no list")
    return found or []


def _failed(why: str) -> CallFailed:
    return CallFailed(f"failed to call webhook: {why}")


def _invalid(why: str) -> CallFailed:
    return CallFailed(f"received invalid webhook response: {why}")
