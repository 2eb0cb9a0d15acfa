"""What AdmissionReview and ConversionReview have in common: a version, a kind and a request."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from controller.codec import DECODE_ERRORS

T = TypeVar("T")


class BadReview(Exception):
    """The body is not a review of the expected kind, or its request cannot be read.

    Args:
        message: what is wrong with the body.
        api_version: the version for the answer, one of the versions that are served.
        uid: the request's uid; empty if it could not be decoded.
    """

    def __init__(self, message: str, api_version: str, uid: str = "") -> None:
        super().__init__(message)
        self.api_version = api_version
        self.uid = uid


class _Envelope(msgspec.Struct):
    """A review whose request is not decoded yet."""

    apiVersion: str = ""
    kind: str = ""
    request: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class _Uid(msgspec.Struct):
    """A request of which only the uid is decoded."""

    uid: str = ""


def decode_request(
    data: bytes, kind: str, versions: Sequence[str], request_type: type[T]
) -> tuple[str, T]:
    """Return the apiVersion and the request of the review in the body of an HTTP request.

    Args:
        data: the body.
        kind: the kind of review that is expected.
        versions: its versions; the refusal of a review of another version is in the first one.
        request_type: the type of the request; its fields of type Raw are views of `data`.

    Raises:
        BadReview: the body is no such review, or its request is missing or cannot be decoded.
    """
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
    except DECODE_ERRORS as error:
        raise BadReview(f"the body is not a {kind}: {error}", versions[0]) from error
    version = envelope.apiVersion
    if envelope.kind != kind or version not in versions:
        raise BadReview(
            f'no kind "{envelope.kind}" is registered for version "{version}":'
            f" expected {kind} of {' or '.join(versions)}",
            versions[0],
        )
    if bytes(envelope.request) in (b"", b"null"):
        raise BadReview(f"the {kind} has no request", version)
    try:
        return version, msgspec.json.decode(envelope.request, type=request_type)
    except DECODE_ERRORS as error:
        message = f"the request of the {kind} cannot be read: {error}"
        raise BadReview(message, version, _read_uid(envelope.request)) from error


def _read_uid(raw: msgspec.Raw) -> str:
    """Return the uid of a request that cannot be decoded; empty if its uid cannot either."""
    try:
        return msgspec.json.decode(raw, type=_Uid).uid
    except DECODE_ERRORS:
        return ""
