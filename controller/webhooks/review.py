"""AdmissionReview: from the bytes of a question to a typed request, and from an answer to bytes.

v1beta1 has the same fields as v1, so it is read the same way and answered in its own version, as
controller-runtime does (pkg/webhook/admission/http.go).
"""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from controller.codec import encode
from controller.webhooks.answers import Allowed, Answer, Denied, Patched
from controller.webhooks.request import (
    AdmissionRequest,
    GroupVersionKind,
    GroupVersionResource,
    Operation,
    UserInfo,
)

T = TypeVar("T")

KIND = "AdmissionReview"
V1 = "admission.k8s.io/v1"
VERSIONS = (V1, "admission.k8s.io/v1beta1")
WARNING_CHARACTERS = 256
"""The API server cuts longer warnings where all together are too long."""
WARNINGS_CHARACTERS = 4096
"""The API server drops what goes beyond, for all warnings of one response."""

_UNFIT = (ValueError, RecursionError)


class BadReview(Exception):
    """What came is no question that can be answered.

    Args:
        message: what is wrong with it.
        uid: of the request, where it could be made out.
        api_version: of the review, where it is one of those that are answered.
    """

    def __init__(self, message: str, *, uid: str = "", api_version: str = V1) -> None:
        super().__init__(message)
        self.uid = uid
        self.api_version = api_version


class _Envelope(msgspec.Struct):
    apiVersion: str = ""
    kind: str = ""
    request: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class _Uid(msgspec.Struct):
    uid: str = ""


class _Request(msgspec.Struct):
    uid: str
    operation: Operation
    kind: GroupVersionKind = GroupVersionKind()
    resource: GroupVersionResource = GroupVersionResource()
    subResource: str = ""
    requestKind: GroupVersionKind | None = None
    requestResource: GroupVersionResource | None = None
    requestSubResource: str = ""
    name: str = ""
    namespace: str = ""
    userInfo: UserInfo = msgspec.field(default_factory=UserInfo)
    object: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    oldObject: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    dryRun: bool | None = None
    options: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Review:
    """A question whose objects are still bytes.

    Args:
        api_version: in which it was asked, and has to be answered.
        fields: all of the request but the objects, by the names of AdmissionRequest.
        object: the JSON of the new object; empty if there is none.
        old_object: the JSON of the stored object; empty if there is none.
    """

    api_version: str
    fields: Mapping[str, Any]
    object: bytes = field(repr=False)
    old_object: bytes = field(repr=False)

    @property
    def uid(self) -> str:
        """The request's."""
        return str(self.fields["uid"])

    def request(self, of: type[T]) -> AdmissionRequest[T]:
        """Return the request with its objects decoded to `of`, or as they came if `of` is bytes.

        Raises:
            BadReview: the new object is none of these.
        """
        new, fault = _decoded(of, self.object)
        if fault:
            raise BadReview(fault, uid=self.uid, api_version=self.api_version)
        old, old_fault = _decoded(of, self.old_object)
        return AdmissionRequest(
            **self.fields,
            object=new,
            oldObject=old,
            objectBytes=self.object,
            oldObjectBytes=self.old_object,
            oldObjectError=old_fault,
        )


def read_review(data: bytes) -> Review:
    """Return the question that a body holds.

    Raises:
        BadReview: it holds none.
    """
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
    except _UNFIT as error:
        raise BadReview(f"the body is no {KIND}: {error}") from error
    if envelope.kind != KIND or envelope.apiVersion not in VERSIONS:
        raise BadReview(
            f'no kind "{envelope.kind}" is registered for version "{envelope.apiVersion}":'
            f" expected {KIND} of {' or '.join(VERSIONS)}"
        )
    version = envelope.apiVersion
    if not _bytes(envelope.request):
        raise BadReview(f"the {KIND} has no request", api_version=version)
    try:
        request = msgspec.json.decode(envelope.request, type=_Request)
    except _UNFIT as error:
        message = f"the request of the {KIND} cannot be read: {error}"
        raise BadReview(message, uid=_uid(envelope.request), api_version=version) from error
    fields = {name: getattr(request, name) for name in _Request.__struct_fields__}
    new, old = _bytes(fields.pop("object")), _bytes(fields.pop("oldObject"))
    fields |= {"dryRun": bool(request.dryRun), "options": request.options or {}}
    return Review(version, fields, new, old)


def write_review(answer: Answer, uid: str, about: Review | None, api_version: str = V1) -> bytes:
    """Return the body that says `answer`.

    Args:
        answer: what the webhook says.
        uid: of the request.
        about: the question; names the object in a refusal's details.
        api_version: of the review.
    """
    response: dict[str, Any] = {"uid": uid, "allowed": not isinstance(answer, Denied)}
    match answer:
        case Allowed():
            response["status"] = {"metadata": {}, "code": 200}
        case Denied():
            response["status"] = _status(answer, about)
        case Patched():
            response["status"] = {"metadata": {}, "code": 200}
            if answer.patch:
                response["patch"] = b64encode(encode(list(answer.patch))).decode()
                response["patchType"] = "JSONPatch"
    if warnings := bounded_warnings(answer.warnings):
        response["warnings"] = warnings
    return encode({"kind": KIND, "apiVersion": api_version, "response": response})


def bounded_warnings(warnings: Iterable[str]) -> list[str]:
    """Return the warnings that the API server would pass on, in one line each.

    Control characters would make it drop a warning: the text becomes a header (RFC 7234, 5.5).
    """
    kept: list[str] = []
    room = WARNINGS_CHARACTERS
    for text in warnings:
        line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        line = line if len(line) <= WARNING_CHARACTERS else line[: WARNING_CHARACTERS - 1] + "…"
        if line and len(line) <= room:
            kept.append(line)
            room -= len(line)
    return kept


def _status(answer: Denied, about: Review | None) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if about is not None:
        kind: GroupVersionKind = about.fields["kind"]
        named = {"name": about.fields["name"], "group": kind.group, "kind": kind.kind}
        details = {name: value for name, value in named.items() if value}
    if answer.causes:
        details["causes"] = [
            {"reason": cause.reason, "message": cause.message, "field": cause.field}
            for cause in answer.causes
        ]
    return {
        "metadata": {},
        "status": "Failure",
        "message": answer.message,
        "reason": answer.reason,
        "details": details,
        "code": answer.code,
    }


def _bytes(raw: msgspec.Raw) -> bytes:
    """Return a copy of a part of the body, so that the rest of it can go; null is nothing."""
    data = bytes(raw)
    return b"" if data == b"null" else data


def _uid(raw: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(raw, type=_Uid).uid
    except _UNFIT:
        return ""


def _decoded(of: type[T], data: bytes) -> tuple[T | None, str]:
    """Return the object, or why there is none."""
    if not data:
        return None, ""
    if of is bytes:
        return data, ""  # type: ignore[return-value] # T is bytes here
    try:
        return msgspec.json.decode(data, type=of), ""
    except _UNFIT as error:
        return None, f"the object cannot be read: {error}"
