"""Decodes JSON to typed objects, lists and watch events; makes and encodes the bodies of writes.

An object is decoded straight to its kind's type. Fields that the type does not name, managedFields
among them, are skipped. Only an Untyped object is decoded twice, to its metadata and to a mapping.

A watch event is decoded in two steps: first the envelope, then the object from its raw bytes.
Bookmarks and errors hold no object of the kind. And an object that cannot be decoded must not make
its neighbours fail.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, Self, TypeVar

import msgspec

from controller.errors import ApiError, MalformedAnswer, create_api_error, decode_status
from controller.meta import Key, MetadataOnly, Object, ObjectMeta, Untyped, Version
from controller.resource import Resource
from controller.slices import SLICE

T = TypeVar("T", bound=Object)

# What msgspec raises for bytes that it cannot decode; RecursionError is for deep nesting.
DECODE_ERRORS = (ValueError, RecursionError)


class DecodeFailure(str):
    """Why an object could not be decoded, as text, with the parts that could be.

    Args:
        reason: the decoder's message.
        outline: the object decoded to the resource's outline type; None if that failed too.
        metadata: the metadata of the object; None if it cannot be decoded.
    """

    __slots__ = ("metadata", "outline")

    def __new__(
        cls, reason: str, outline: Object | None = None, metadata: ObjectMeta | None = None
    ) -> Self:
        """Return `reason` with the decoded parts as attributes."""
        failure = super().__new__(cls, reason)
        failure.outline = outline
        failure.metadata = metadata
        return failure

    metadata: ObjectMeta | None
    outline: Object | None


@dataclass(frozen=True, slots=True)
class _ObjectEvent(Generic[T]):
    """A watch event about one object."""

    object: T

    @property
    def key(self) -> Key:
        """Namespace and name of the object."""
        return self.object.metadata.key

    @property
    def revision(self) -> int:
        """The resourceVersion of the event."""
        return self.object.metadata.revision


class Added(_ObjectEvent[T]):
    """An object was created, or matches the watch's selectors now."""

    __slots__ = ()


class Modified(_ObjectEvent[T]):
    """An object was changed."""

    __slots__ = ()


class Deleted(_ObjectEvent[T]):
    """An object was deleted: its last state, with the resourceVersion of the deletion."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An event whose object could not be decoded.

    Args:
        key: namespace and name of the object.
        revision: the resourceVersion of the event.
        reason: why it could not be decoded; a DecodeFailure.
        deleted: whether the event is a deletion.
    """

    key: Key
    revision: int
    reason: str
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The server has sent all events up to `revision`.

    Args:
        revision: a resourceVersion.
        initial_end: whether it ends the initial events of a streamed list.
    """

    revision: int
    initial_end: bool = False


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """The server ends the watch with an error."""

    error: ApiError


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event that cannot be used: its type is unknown, or its object has no name or version."""

    reason: str


ObjectEvent = Added[T] | Modified[T] | Deleted[T] | Unreadable
WatchEvent = ObjectEvent[T] | Bookmark | ErrorEvent | UnknownEvent


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A list response, or several put together.

    Args:
        items: the objects that could be decoded.
        revision: the list's resourceVersion.
        unreadable: the keys of the other objects, with the reason (a DecodeFailure).
        continuation: the continue token of the next page; empty on the last one.
    """

    items: tuple[T, ...]
    revision: int
    unreadable: Mapping[Key, str]
    continuation: str = ""


class _Envelope(msgspec.Struct):
    """A watch event whose object is not decoded yet."""

    type: str
    object: msgspec.Raw


class _ListHead(msgspec.Struct, rename={"continuation": "continue"}):
    """The metadata of a list (metav1.ListMeta)."""

    resourceVersion: str = ""
    continuation: str | None = None


class _List(msgspec.Struct):
    """A list response whose objects are not decoded yet."""

    metadata: _ListHead
    items: list[msgspec.Raw] | None = None


_envelope_decoder = msgspec.json.Decoder(_Envelope)
_metadata_decoder = msgspec.json.Decoder(MetadataOnly)
_list_decoder = msgspec.json.Decoder(_List)
_any_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_decoders: dict[type[Any], Callable[[bytes | msgspec.Raw], Any]] = {}


def get_decoder(of: type[Any]) -> Callable[[bytes | msgspec.Raw], Any]:
    """Return a decoder of JSON to the type `of`; the same one at each call for a type.

    The type is Untyped, a pydantic model, or a type that msgspec knows. The decoder raises
    ValueError or RecursionError for JSON that does not fit the type.
    """
    decode = _decoders.get(of)
    if decode is None:
        decode = _decoders[of] = _create_decoder(of)
    return decode


def _create_decoder(of: type[Any]) -> Callable[[bytes | msgspec.Raw], Any]:
    """Return a new decoder of JSON to the type `of`.

    `get_decoder` keeps the decoder, because it takes msgspec long to make one.

    Pydantic models are recognized by their method, not by isinstance, so that a program without
    such models does not load pydantic.
    """
    if of is Untyped:
        return _decode_untyped
    validate = getattr(of, "model_validate_json", None)
    if validate is not None:
        return lambda data: validate(bytes(data))
    return msgspec.json.Decoder(of).decode


def _decode_untyped(data: bytes | msgspec.Raw) -> Untyped:
    """Return the object with all its fields, as a mapping whose top level cannot be changed."""
    return Untyped(
        _metadata_decoder.decode(data).metadata, MappingProxyType(_any_decoder.decode(data))
    )


def _decode(of: type[T], data: bytes | msgspec.Raw) -> T:
    """Return the object in `data`.

    Raises:
        ValueError, RecursionError: `data` does not fit the type, or the object has no name.
    """
    obj: T = get_decoder(of)(data)
    if not obj.metadata.name:
        raise ValueError("it has no metadata.name")
    return obj


def encode(body: object) -> bytes:
    """Return `body` as JSON; any Mapping is encoded as an object."""
    return msgspec.json.encode(body, enc_hook=_encode_mapping)


def _encode_mapping(value: object) -> object:
    """Return a Mapping as a dict: msgspec calls this for types that it cannot encode itself."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} cannot be sent as JSON")


def decode_json(data: bytes) -> Any:
    """Return `data` decoded to dicts and lists, for responses that are not objects of a resource.

    Raises:
        MalformedAnswer: `data` is no JSON.
    """
    try:
        return _any_decoder.decode(data)
    except DECODE_ERRORS as error:
        raise MalformedAnswer(f"the answer is not JSON: {error}") from error


def decode_object(resource: Resource[T], data: bytes) -> T:
    """Return the object in a response.

    Raises:
        MalformedAnswer: `data` cannot be decoded to the resource's type, or has no name.
    """
    try:
        return _decode(resource.type, data)
    except DECODE_ERRORS as error:
        raise MalformedAnswer(f"the answer is not a {resource.kind}: {error}") from error


def decode_page(resource: Resource[T], data: bytes) -> Page[T]:
    """Return the objects in a list response, and the keys of objects that cannot be decoded.

    Raises:
        MalformedAnswer: `data` is no list, or has no resourceVersion.
    """
    *_, page = decode_page_in_slices(resource, data)
    assert page is not None, "the last value is the page"
    return page


def decode_page_in_slices(resource: Resource[T], data: bytes) -> Iterator[Page[T] | None]:
    """Decode a list response in slices: yield None between two of them, and the page at the end.

    A list without pages may have tens of thousands of objects. Between two slices the caller can
    let other tasks run.

    Raises:
        MalformedAnswer: `data` is no list, or has no resourceVersion.
    """
    try:
        listed = _list_decoder.decode(data)
        revision = int(listed.metadata.resourceVersion)
    except DECODE_ERRORS as error:
        raise MalformedAnswer(f"the answer is not a {resource.kind}List: {error}") from error
    items: list[T] = []
    unreadable: dict[Key, str] = {}
    for number, raw in enumerate(listed.items or ()):
        if number and number % SLICE == 0:
            yield None
        try:
            items.append(_decode(resource.type, raw))
        except DECODE_ERRORS as error:
            # An object without a readable key gets a made-up one, so that it is not overlooked.
            key = _decode_key(raw) or Key("", f"item {number}")
            unreadable[key] = _explain_failure(resource, raw, error)
    yield Page(
        tuple(items),
        revision,
        unreadable=unreadable,
        continuation=listed.metadata.continuation or "",
    )


def decode_event(resource: Resource[T], line: bytes) -> WatchEvent[T]:
    """Return the event in one line of a watch.

    Raises:
        MalformedAnswer: the line is no event, because it is truncated for example.
    """
    try:
        envelope = _envelope_decoder.decode(line)
    except DECODE_ERRORS as error:
        raise MalformedAnswer(f"a line of the {resource.full_name} watch: {error}") from error
    match envelope.type:
        case "ADDED":
            return _decode_object_event(resource, Added, envelope.object)
        case "MODIFIED":
            return _decode_object_event(resource, Modified, envelope.object)
        case "DELETED":
            return _decode_object_event(resource, Deleted, envelope.object)
        case "BOOKMARK":
            return _decode_bookmark(envelope.object)
        case "ERROR":
            return _decode_error_event(envelope.object)
        case unknown_type:
            return UnknownEvent(f"an event of type {unknown_type!r}")


def _decode_object_event(
    resource: Resource[T],
    event_class: type[Added[Any]] | type[Modified[Any]] | type[Deleted[Any]],
    raw: msgspec.Raw,
) -> WatchEvent[T]:
    """Return a watch event with its object; Unreadable if the object cannot be decoded.

    Returns an UnknownEvent if the object lacks what an event needs: a name and a resourceVersion.
    """
    try:
        event = event_class(_decode(resource.type, raw))
        return event if event.revision else UnknownEvent("an object without resourceVersion")
    except DECODE_ERRORS as error:
        return _create_unreadable(
            raw, _explain_failure(resource, raw, error), deleted=event_class is Deleted
        )


def _explain_failure(resource: Resource[T], raw: msgspec.Raw, error: Exception) -> DecodeFailure:
    """Return why decoding failed, with the metadata and the outline if these can be decoded."""
    metadata: ObjectMeta | None = None
    outline: Object | None = None
    # An error here adds nothing: `error` is the reason, and a part that failed stays None.
    with suppress(*DECODE_ERRORS):
        metadata = _metadata_decoder.decode(raw).metadata
        if resource.outline is not None:
            outline = _decode(resource.outline, raw)
    return DecodeFailure(str(error), outline, metadata)


def _create_unreadable(
    raw: msgspec.Raw, reason: str, *, deleted: bool
) -> Unreadable | UnknownEvent:
    """Return the event for an object that cannot be decoded; UnknownEvent without key or revision.

    A cache needs the key and the resourceVersion to note such an object.
    """
    try:
        meta = _metadata_decoder.decode(raw).metadata
        if meta.name and meta.revision:
            return Unreadable(meta.key, meta.revision, reason=reason, deleted=deleted)
    except DECODE_ERRORS as error:
        return UnknownEvent(f"an object with unreadable metadata: {error}")
    return UnknownEvent(f"an object without name or resourceVersion: {reason}")


def _decode_key(raw: msgspec.Raw) -> Key | None:
    """Return the key of an object; None if its metadata cannot be decoded or has no name."""
    try:
        meta = _metadata_decoder.decode(raw).metadata
    except DECODE_ERRORS:
        return None
    return meta.key if meta.name else None


def _decode_bookmark(raw: msgspec.Raw) -> Bookmark | UnknownEvent:
    """Return the bookmark in an event; UnknownEvent if it has no readable resourceVersion."""
    try:
        meta = _metadata_decoder.decode(raw).metadata
        ended = meta.annotations.get("k8s.io/initial-events-end") == "true"
        bookmark = Bookmark(meta.revision, ended)
    except DECODE_ERRORS as error:
        return UnknownEvent(f"a bookmark that cannot be read: {error}")
    return bookmark if bookmark.revision else UnknownEvent("a bookmark without resourceVersion")


def _decode_error_event(raw: msgspec.Raw) -> ErrorEvent:
    """Return the error that ends a watch.

    An object that is no Status, or a Status without a code, gives an error with the code 500.
    """
    status = decode_status(raw) or {"message": "the watch ended with an error that is no Status"}
    return ErrorEvent(create_api_error(status.get("code") or 500, status))


def require_revision(at: Version) -> str:
    """Return the resourceVersion of a version, to be a precondition.

    Raises:
        MalformedAnswer: `at` has no resourceVersion or no uid, so the server would check nothing.
    """
    if not at.resourceVersion or not at.uid:
        raise MalformedAnswer(f"{at.key} has no uid or resourceVersion to be a precondition")
    return at.resourceVersion


def create_pin_operations(pins: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the operations of a JSON patch that make `pins` preconditions.

    The server answers 409 if an operation would change the uid or the resourceVersion.

    Rejected: `test`, whose failure is a 422 like that of invalid content, and no Conflict.
    """
    return [
        {"op": "replace", "path": f"/metadata/{name}", "value": value}
        for name, value in pins.items()
    ]


def with_metadata(body: Mapping[str, Any], pins: Mapping[str, str]) -> dict[str, Any]:
    """Return a copy of `body` with `pins` in its metadata."""
    return {**body, "metadata": {**(body.get("metadata") or {}), **pins}}


def with_defaults(
    resource: Resource[Any], body: Mapping[str, Any], metadata: Mapping[str, str]
) -> dict[str, Any]:
    """Return a copy of `body` with apiVersion, kind and `metadata` added if they are missing."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        **body,
        "metadata": {**metadata, **(body.get("metadata") or {})},
    }


def still_exists(response: object) -> bool:
    """Return whether the response to a deletion is an object that still exists.

    If the object was deleted the response is a Status or, for some built-in kinds, its last state.
    """
    if not isinstance(response, dict) or not isinstance(response.get("metadata"), dict):
        return False
    meta = response["metadata"]
    # Deletion waits for either; an object with only a deletionTimestamp is gone.
    is_kept = bool(meta.get("finalizers")) or bool(meta.get("deletionGracePeriodSeconds"))
    return response.get("kind") != "Status" and bool(meta.get("deletionTimestamp")) and is_kept
