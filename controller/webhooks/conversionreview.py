"""ConversionReview (apiextensions.k8s.io): decoding requests, encoding answers, and their rules.

v1beta1 has the same fields as v1: it is decoded in the same way and answered in its own version.

An API server (1.31, 1.36) rejects a converted object that has another apiVersion than desired.
It also rejects another kind, name, namespace or uid, and malformed labels or annotations. It
silently undoes changes of all other metadata. Here such changes are refused as well, because a
function that changes metadata expects an effect.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from controller.codec import encode
from controller.webhooks.carrying import UnfitResult
from controller.webhooks.envelope import decode_request

KIND = "ConversionReview"
V1 = "apiextensions.k8s.io/v1"
VERSIONS = (V1, "apiextensions.k8s.io/v1beta1")
CHANGEABLE = ("labels", "annotations")


class _Request(msgspec.Struct):
    """The request in a ConversionReview; the objects in it stay views of the body."""

    uid: str
    desiredAPIVersion: str
    objects: list[msgspec.Raw]


@dataclass(frozen=True, slots=True)
class ConversionReview:
    """Objects that are to be converted.

    Args:
        api_version: the version of the review, and of its answer.
        uid: the uid of the request.
        desired: group and version of the results.
        objects: the JSON of each object.
    """

    api_version: str
    uid: str
    desired: str
    objects: Sequence[bytes]


def decode_review(data: bytes) -> ConversionReview:
    """Return the ConversionReview in the body of a request.

    Raises:
        BadReview: the body is not a ConversionReview.
    """
    version, request = decode_request(data, KIND, versions=VERSIONS, request_type=_Request)
    objects = [bytes(document) for document in request.objects]
    return ConversionReview(
        version, request.uid, desired=request.desiredAPIVersion, objects=objects
    )


def encode_success(review: ConversionReview, converted: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the answer to `review` with its objects converted, in the same order."""
    return _encode_review(
        review.api_version, review.uid, converted=list(converted), result={"status": "Success"}
    )


def encode_failure(message: str, uid: str = "", api_version: str = V1) -> bytes:
    """Return the answer that nothing was converted.

    Args:
        message: what is wrong, where, and how to fix it; the API server shows it.
        uid: the uid of the request, if it could be read.
        api_version: the version of the review.
    """
    return _encode_review(
        api_version, uid, converted=[], result={"status": "Failure", "message": message}
    )


def _encode_review(
    api_version: str, uid: str, converted: list[Mapping[str, Any]], result: dict[str, str]
) -> bytes:
    """Return the JSON of a ConversionReview with a response."""
    response = {"uid": uid, "convertedObjects": converted, "result": result}
    return encode({"kind": KIND, "apiVersion": api_version, "response": response})


def check_converted(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Refuse a converted object whose metadata the API server would reject or change.

    Its apiVersion and kind are not checked, because the caller has set them.

    Args:
        before: the object in the request.
        after: the converted object.

    Raises:
        UnfitResult: metadata is missing, or has other changes than labels and annotations.
    """
    old, new = before.get("metadata"), after.get("metadata")
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        raise UnfitResult("metadata is missing: return the object with its metadata")
    for name in {**old, **new}:
        if name in CHANGEABLE:
            _check_texts(new.get(name), f"metadata.{name}")
        elif old.get(name) != new.get(name):
            change = _describe_change(old.get(name), new.get(name))
            raise UnfitResult(
                f"metadata.{name} {change}: a conversion may change labels and annotations, and no"
                " other metadata"
            )


def _describe_change(old: object, new: object) -> str:
    """Return the words for a change of a value in a message; both values are in it if short."""
    are_short = all(value is None or isinstance(value, str | int) for value in (old, new))
    return f"was changed from {old!r} to {new!r}" if are_short else "was changed"


def _check_texts(value: object, path: str) -> None:
    """Refuse labels or annotations that are not an object of strings; None is an absent field.

    Raises:
        UnfitResult: the value or one of its members has another type.
    """
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise UnfitResult(f"{path} is {value!r}, but must be an object")
    for name, label in value.items():
        if not isinstance(label, str):
            raise UnfitResult(f"{path}[{name}] is {label!r}, but must be a string")
