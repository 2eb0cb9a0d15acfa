"""AdmissionReview (admission.k8s.io): decoding requests, encoding answers.

v1beta1 has the same fields as v1: it is decoded in the same way and answered in its own version,
as in controller-runtime (pkg/webhook/admission/http.go). The fields of AdmissionRequest have the
API's names. Its objects are decoded to the type that the webhook was registered with. Their bytes
are there, too, because a patch must not remove fields that the type does not name.
"""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar

import msgspec

from controller.codec import DECODE_ERRORS, encode, get_decoder
from controller.meta import Key
from controller.plaintext import escape_text
from controller.webhooks.answers import Allowed, Answer, Denied, Patched
from controller.webhooks.envelope import BadReview, decode_request

T = TypeVar("T")
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]

KIND = "AdmissionReview"
V1 = "admission.k8s.io/v1"
VERSIONS = (V1, "admission.k8s.io/v1beta1")
WARNING_CHARACTERS = 256
"""The API server cuts longer warnings if all together are too long."""
WARNINGS_CHARACTERS = 4096
"""The API server drops further warnings of one response."""

_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class GroupVersionKind:
    """A kind by group and version.

    Args:
        group: empty for the core group.
        version: for example `v1`.
        kind: for example `Pod`.
    """

    group: str = ""
    version: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class GroupVersionResource:
    """A resource by group and version.

    Args:
        group: empty for the core group.
        version: for example `v1`.
        resource: the plural name, for example `pods`.
    """

    group: str = ""
    version: str = ""
    resource: str = ""


@dataclass(frozen=True, slots=True)
class UserInfo:
    """The user who sent the write, as authenticated by the API server.

    Args:
        username: for example `system:serviceaccount:NAMESPACE:NAME`.
        uid: the user's uid, if the authenticator has one.
        groups: the user's groups.
        extra: further fields of the authenticator.
    """

    username: str = ""
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=lambda: _EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest(Generic[T]):
    """A write that waits for an answer.

    Args:
        uid: the uid of this request; the answer repeats it.
        kind: the object's kind, in a version that the webhook's rules name.
        resource: the resource that is written to, in that version.
        subResource: for example `status` or `scale`; empty for the object itself.
        requestKind: the kind in the version of the client's request.
        requestResource: the resource in the version of the client's request.
        requestSubResource: the subresource of the client's request.
        name: the object's name; empty for a create with generateName, and if a collection is
            deleted.
        namespace: the object's namespace; empty if it is cluster-scoped.
        operation: the kind of write.
        userInfo: the user who sent the write.
        object: the object to be stored; None for DELETE.
        oldObject: the stored object; None for CREATE and CONNECT, and if it cannot be decoded.
        objectBytes: the JSON of `object`; empty if there is none.
        oldObjectBytes: the JSON of `oldObject`; empty if there is none.
        oldObjectError: why the stored object cannot be decoded; empty if it can. The write is not
            refused for that, so that a broken object can be repaired and deleted.
        dryRun: nothing will be stored, so the webhook must have no side effects.
        options: the CreateOptions, UpdateOptions or DeleteOptions of the request.
    """

    uid: str
    kind: GroupVersionKind
    resource: GroupVersionResource
    operation: Operation
    subResource: str = ""
    requestKind: GroupVersionKind | None = None
    requestResource: GroupVersionResource | None = None
    requestSubResource: str = ""
    name: str = ""
    namespace: str = ""
    userInfo: UserInfo = field(default_factory=UserInfo)
    object: T | None = None
    oldObject: T | None = None
    objectBytes: bytes = b""
    oldObjectBytes: bytes = b""
    oldObjectError: str = ""
    dryRun: bool = False
    options: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)

    @property
    def key(self) -> Key:
        """The namespace and name."""
        return Key(self.namespace, self.name)


class _Request(msgspec.Struct):
    """The request in an AdmissionReview; the objects in it stay views of the body."""

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
    """An AdmissionReview whose objects are not decoded yet.

    Args:
        api_version: the version of the review, and of its answer.
        fields: all fields of the request but the objects, with the names of AdmissionRequest.
        object: the JSON of the new object; empty if there is none.
        old_object: the JSON of the stored object; empty if there is none.
    """

    api_version: str
    fields: Mapping[str, Any]
    object: bytes = field(repr=False)
    old_object: bytes = field(repr=False)

    @property
    def uid(self) -> str:
        """The uid of the request."""
        return str(self.fields["uid"])

    def create_request(self, object_type: type[T]) -> AdmissionRequest[T]:
        """Return the request with its objects decoded to `object_type`; bytes stay as they are.

        Raises:
            BadReview: the new object cannot be decoded.
        """
        new, error = _decode(object_type, self.object)
        if error:
            raise BadReview(error, self.api_version, self.uid)
        old, old_error = _decode(object_type, self.old_object)
        return AdmissionRequest(
            **self.fields,
            object=new,
            oldObject=old,
            objectBytes=self.object,
            oldObjectBytes=self.old_object,
            oldObjectError=old_error,
        )


def decode_review(data: bytes) -> Review:
    """Return the AdmissionReview in the body of a request.

    Raises:
        BadReview: the body is not an AdmissionReview, or its request cannot be decoded.
    """
    version, request = decode_request(data, KIND, versions=VERSIONS, request_type=_Request)
    fields = {name: getattr(request, name) for name in _Request.__struct_fields__}
    # Review has the objects as bytes of their own, and not among its `fields`.
    new, old = _copy_json(fields.pop("object")), _copy_json(fields.pop("oldObject"))
    fields |= {"dryRun": bool(request.dryRun), "options": request.options or {}}
    return Review(version, fields, object=new, old_object=old)


def encode_review(answer: Answer, uid: str, review: Review | None, api_version: str = V1) -> bytes:
    """Return the AdmissionReview with `answer` as JSON.

    Args:
        answer: the webhook's answer.
        uid: the uid of the request.
        review: the review that is answered; it names the object in a refusal's details. None if
            it could not be decoded.
        api_version: the version of the review.
    """
    response: dict[str, Any] = {"uid": uid, "allowed": not isinstance(answer, Denied)}
    match answer:
        case Allowed():
            response["status"] = {"metadata": {}, "code": 200}
        case Denied():
            response["status"] = _create_status(answer, review)
        case Patched():
            response["status"] = {"metadata": {}, "code": 200}
            if answer.patch:
                response["patch"] = b64encode(encode(list(answer.patch))).decode()
                response["patchType"] = "JSONPatch"
    if warnings := limit_warnings(answer.warnings):
        response["warnings"] = warnings
    return encode({"kind": KIND, "apiVersion": api_version, "response": response})


def limit_warnings(warnings: Iterable[str]) -> list[str]:
    """Return the warnings in the form that the API server passes on, one line each.

    Each is cut at WARNING_CHARACTERS. A warning is dropped if it is empty, or if all together
    would exceed WARNINGS_CHARACTERS. The API server sends warnings in a header (RFC 7234, 5.5) and
    drops those with control characters, so these are escaped.
    """
    lines: list[str] = []
    remaining = WARNINGS_CHARACTERS
    for warning in warnings:
        line = escape_text(" ".join(warning.split()), WARNING_CHARACTERS)
        if line and len(line) <= remaining:
            lines.append(line)
            remaining -= len(line)
    return lines


def _create_status(answer: Denied, review: Review | None) -> dict[str, Any]:
    """Return the status that an AdmissionReview's response carries for a refusal.

    Its details name the object of the request and the causes, as far as they are known.
    """
    details: dict[str, Any] = {}
    # If a Status is Invalid and names an object, kubectl prints its causes and not its message.
    # So without causes the object is not named.
    hides_message = answer.reason == "Invalid" and not answer.causes
    if review is not None and not hides_message:
        kind: GroupVersionKind = review.fields["kind"]
        named_object = {"name": review.fields["name"], "group": kind.group, "kind": kind.kind}
        details = {name: value for name, value in named_object.items() if value}
    if answer.causes:
        details["causes"] = [
            {"reason": cause.reason, "message": escape_text(cause.message), "field": cause.field}
            for cause in answer.causes
        ]
    return {
        "metadata": {},
        "status": "Failure",
        "message": escape_text(answer.message),
        "reason": answer.reason,
        "details": details,
        "code": answer.code,
    }


def _copy_json(raw: msgspec.Raw) -> bytes:
    """Return a copy of a part of the body, so that the body can be freed; empty for null."""
    data = bytes(raw)
    return b"" if data == b"null" else data


def _decode(object_type: type[T], data: bytes) -> tuple[T | None, str]:
    """Return the decoded object, and why it cannot be decoded.

    The object is None if `data` is empty or cannot be decoded. The text is empty unless `data`
    cannot be decoded.
    """
    if not data:
        return None, ""
    if object_type is bytes:
        return data, ""  # type: ignore[return-value] # T is bytes here
    try:
        return get_decoder(object_type)(data), ""
    except DECODE_ERRORS as error:
        return None, f"the object cannot be read: {error}"
