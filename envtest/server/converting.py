"""Conversion of custom resources between versions by a webhook: what is asked, what may come back.

An object is stored as it was written and read in whatever version a client asks for. A webhook may
change everything but an object's identity: of metadata it has a say in labels and annotations
only.
"""

import copy
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from envtest.schema.errors import FieldError, aggregate_message
from envtest.schema.gotext import quote
from envtest.schema.objectmeta import check_annotations, check_labels
from envtest.server.failures import StatusError

Body = dict[str, Any]
# Sends a review to where a clientConfig leads; gives the decoded answer.
Ask = Callable[[Mapping[str, Any], Mapping[str, Any]], Awaitable[Body]]
_GROUP: Final = "apiextensions.k8s.io"
_GO_TYPES: Final = {
    bool: "bool",
    dict: "map[string]interface {}",
    float: "float64",
    int: "int64",
    list: "[]interface {}",
    str: "string",
}
# The server's messages call annotations by a name of their own.
_CHECKED: Final = (
    ("labels", "metadata.labels", check_labels),
    ("annotations", "metadata.annotation", check_annotations),
)


class ConversionFailed(Exception):
    """A webhook could not be asked, or said no; the text is the server's."""


async def nobody_converts(client: Mapping[str, Any], review: Mapping[str, Any]) -> Body:
    """Stand for webhooks where nothing can be asked.

    Raises:
        ConversionFailed: always.
    """
    raise ConversionFailed(f"no way to send a {review['kind']} to {dict(client)}")


class WebhookConversion:
    """Asks the conversion webhook of one CRD.

    Args:
        webhook: `spec.conversion.webhook`.
        ask: sends reviews.
    """

    def __init__(self, webhook: Mapping[str, Any], ask: Ask) -> None:
        self._client: Mapping[str, Any] = webhook.get("clientConfig") or {}
        known = [one for one in webhook["conversionReviewVersions"] if one in {"v1", "v1beta1"}]
        self._version = known[0]
        self._ask = ask

    async def convert(self, objects: Sequence[Body], version: str) -> list[Body]:
        """Return objects as another version has them, all asked for in one review.

        Args:
            objects: with apiVersion, kind and metadata, none of them of that version; not changed.
            version: the apiVersion that is wanted.

        Raises:
            StatusError: 500, with the webhook's reason or with what is wrong with its answer.
        """
        if any(_is_blank(body) for body in objects):
            return [{**body, "apiVersion": version} for body in objects]
        if not objects:
            return []
        named = f"conversion webhook for {_named(objects[0])}"
        try:
            converted = await self._converted(objects, version)
        except ConversionFailed as error:
            raise StatusError(500, f"{named} failed: {error}", "") from None
        if len(converted) != len(objects):
            text = f"{named} returned {len(converted)} objects, expected {len(objects)}"
            raise StatusError(500, text, "")
        found: list[Body] = []
        for index, (given, got) in enumerate(zip(objects, converted, strict=True)):
            place = "" if len(objects) == 1 else f" in object at index {index}"
            fault = _fault(given, got, version, index)
            if fault:
                raise StatusError(500, f"{named} returned {fault}", "")
            try:
                found.append(_restored(given, got))
            except ConversionFailed as error:
                text = f"{named} returned invalid metadata{place}: {error}"
                raise StatusError(500, text, "") from None
        return found

    async def _converted(self, objects: Sequence[Body], version: str) -> list[Any]:
        uid = str(uuid.uuid4())
        request = {
            "uid": uid,
            "desiredAPIVersion": version,
            "objects": list(objects),
        }
        review = {
            "kind": "ConversionReview",
            "apiVersion": f"{_GROUP}/{self._version}",
            "request": request,
            "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
        }
        answer = await self._ask(self._client, review)
        response = answer.get("response")
        if not isinstance(response, dict):
            raise ConversionFailed("no response provided")
        if self._version == "v1" and response.get("uid", "") != uid:
            wanted, got = quote(uid), quote(str(response.get("uid", "")))
            raise ConversionFailed(f"expected response.uid={wanted}, got {got}")
        result = response.get("result") or {}
        if result.get("status") != "Success":
            told = f"response.result.status was '{result.get('status', '')}', not 'Success'"
            raise ConversionFailed(str(result.get("message") or told))
        return list(response.get("convertedObjects") or ())


def _is_blank(body: Body) -> bool:
    """Tell whether an object says nothing but what it is, as new ones are compared with."""
    return body.keys() == {"apiVersion", "kind"}


def _named(body: Body) -> str:
    return f"{body['apiVersion']}, Kind={body['kind']}"


def _fault(given: Body, got: Any, version: str, index: int) -> str:
    """Return what is wrong with a converted object's identity; nothing if it is in order."""
    if not isinstance(got, dict) or not got.get("kind"):
        return f"invalid converted object at index {index}: Object 'Kind' is missing"
    place = f"invalid object at index {index}: "
    here = str(got.get("apiVersion") or "")
    if here != version:
        return f"{place}invalid groupVersion (expected {version}, received {here})"
    if got["kind"] != given["kind"]:
        return f"{place}invalid kind (expected {given['kind']}, received {got['kind']})"
    before, after = given.get("metadata") or {}, got.get("metadata")
    after = after if isinstance(after, dict) else {}
    for field, name in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        old, new = before.get(field, ""), after.get(field, "")
        if old != new:
            return f"invalid object: must have the same {name}: {old} != {new}"
    return ""


def _restored(given: Body, got: Body) -> Body:
    """Return a converted object with the metadata that it had, labels and annotations excepted.

    Raises:
        ConversionFailed: what it has of them cannot be used.
    """
    if "metadata" not in got:
        raise ConversionFailed("missing metadata in converted object")
    said = got["metadata"]
    if not isinstance(said, dict):
        raise ConversionFailed(f"invalid metadata of type {_go_type(said)} in converted object")
    metadata = copy.deepcopy(given.get("metadata") or {})
    for field, named, check in _CHECKED:
        wanted = said.get(field)
        if wanted is None:
            metadata.pop(field, None)
            continue
        if not isinstance(wanted, dict):
            text = f"invalid metadata.{field} of type {_go_type(wanted)} in converted object"
            raise ConversionFailed(text)
        for key, value in wanted.items():
            if not isinstance(value, str):
                text = f"metadata.{field}[{key}] must be a string, but is {_go_type(value)}"
                raise ConversionFailed(f"{text} in converted object")
        if wanted != (metadata.get(field) or {}):
            errors: list[FieldError] = []
            check(wanted, named, errors)
            if errors:
                raise ConversionFailed(aggregate_message(errors))
        metadata[field] = wanted
    return {**got, "metadata": metadata}


def _go_type(value: Any) -> str:
    return _GO_TYPES.get(type(value), "<nil>")
