"""Bytes to typed values, once: objects, lists, watch events.

An event is decoded in two steps, the envelope first and the object from the envelope's bytes:
bookmarks and errors carry other things than objects, and an object that cannot be read must not
take its neighbours along. managedFields and all that a kind's type does not name is skipped
without being built.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

import msgspec

from controller.errors import ApiError, MalformedAnswer, api_error
from controller.meta import Key, Object, ObjectMeta
from controller.resource import Resource
from controller.statuses import decode_status

T = TypeVar("T", bound=Object)

# What decoding raises on bytes that do not fit; brackets nested without end are the second.
_UNFIT = (ValueError, RecursionError)


class Misfit(str):
    """Why an object does not fit its type; a plain reason to whoever only tells it.

    Args:
        reason: the decoder's words.
        outline: the object as the resource's outline type, if it fits that.
    """

    __slots__ = ("outline",)

    def __new__(cls, reason: str, outline: Object | None = None) -> Self:
        """Return `reason` with `outline` attached."""
        made = super().__new__(cls, reason)
        made.outline = outline
        return made

    outline: Object | None


@dataclass(frozen=True, slots=True)
class _ObjectEvent(Generic[T]):
    object: T

    @property
    def key(self) -> Key:
        """Which object."""
        return self.object.metadata.key

    @property
    def revision(self) -> int:
        """The event's place in the kind's history."""
        return self.object.metadata.revision


class Added(_ObjectEvent[T]):
    """An object is new, or matches the watch's selectors now."""

    __slots__ = ()


class Modified(_ObjectEvent[T]):
    """An object has changed."""

    __slots__ = ()


class Deleted(_ObjectEvent[T]):
    """An object is gone; this is its last state, with the resourceVersion of the deletion."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An event whose object does not fit its type: which object, and why."""

    key: Key
    revision: int
    reason: str
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Everything up to `revision` has been sent.

    Args:
        revision: the position.
        initial_end: this closes the initial events of a streamed list.
    """

    revision: int
    initial_end: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """The server ends the watch with an error."""

    error: ApiError


@dataclass(frozen=True, slots=True)
class Unknown:
    """An event that says nothing we can use: of a type that we do not know, or nameless."""

    reason: str


WatchEvent = Added[T] | Modified[T] | Deleted[T] | Unreadable | Bookmark | Failure | Unknown


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A list, whole or a part of it.

    Args:
        items: the objects that could be read.
        revision: the list's resourceVersion.
        unreadable: the other objects, with the reason.
        continuation: the token for the next part; empty if this is the last.
    """

    items: tuple[T, ...]
    revision: int
    unreadable: Mapping[Key, str]
    continuation: str = ""


class _Envelope(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Head(msgspec.Struct):
    metadata: ObjectMeta


class _ListHead(msgspec.Struct, rename={"continuation": "continue"}):
    resourceVersion: str = ""
    continuation: str | None = None


class _List(msgspec.Struct):
    metadata: _ListHead
    items: list[msgspec.Raw] | None = None


_envelopes = msgspec.json.Decoder(_Envelope)
_heads = msgspec.json.Decoder(_Head)
_lists = msgspec.json.Decoder(_List)
_anything: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}


def _decode(of: type[T], data: bytes | msgspec.Raw) -> T:
    """Return the named object that `data` holds; raises one of `_UNFIT`."""
    decoder = _decoders.get(of)
    if decoder is None:
        decoder = _decoders[of] = msgspec.json.Decoder(of)
    obj: T = decoder.decode(data)
    if not obj.metadata.name:
        raise ValueError("it has no metadata.name")
    return obj


def encode(body: object) -> bytes:
    """Return `body` as JSON; any mapping may stand for an object."""
    return msgspec.json.encode(body, enc_hook=_plain)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} cannot be sent as JSON")


def decode_json(data: bytes) -> Any:
    """Return what `data` says, untyped; for answers that are no objects of a resource.

    Raises:
        MalformedAnswer: it is no JSON.
    """
    try:
        return _anything.decode(data)
    except _UNFIT as error:
        raise MalformedAnswer(f"the answer is no JSON: {error}") from error


def decode_object(resource: Resource[T], data: bytes) -> T:
    """Return the object in an answer.

    Raises:
        MalformedAnswer: it does not fit the resource's type, or has no name.
    """
    try:
        return _decode(resource.type, data)
    except _UNFIT as error:
        raise MalformedAnswer(f"the answer is no {resource.kind}: {error}") from error


def decode_page(resource: Resource[T], data: bytes) -> Page[T]:
    """Return the objects in a list; one that cannot be read does not cost the others.

    Raises:
        MalformedAnswer: it is no list, or has no resourceVersion.
    """
    try:
        listed = _lists.decode(data)
        revision = int(listed.metadata.resourceVersion)
    except _UNFIT as error:
        raise MalformedAnswer(f"the answer is no {resource.kind}List: {error}") from error
    items: list[T] = []
    unreadable: dict[Key, str] = {}
    for number, raw in enumerate(listed.items or ()):
        try:
            items.append(_decode(resource.type, raw))
        except _UNFIT as error:
            where = _key_of(raw) or Key("", f"item {number}")
            unreadable[where] = _misfit(resource, raw, error)
    return Page(tuple(items), revision, unreadable, listed.metadata.continuation or "")


def decode_event(resource: Resource[T], line: bytes) -> WatchEvent[T]:
    """Return the event in one line of a watch.

    Raises:
        MalformedAnswer: the line is no event at all, a truncated one say.
    """
    try:
        envelope = _envelopes.decode(line)
    except _UNFIT as error:
        raise MalformedAnswer(f"a line of the {resource.full_name} watch: {error}") from error
    match envelope.type:
        case "ADDED":
            return _object_event(resource, Added, envelope.object)
        case "MODIFIED":
            return _object_event(resource, Modified, envelope.object)
        case "DELETED":
            return _object_event(resource, Deleted, envelope.object)
        case "BOOKMARK":
            return _bookmark(envelope.object)
        case "ERROR":
            return _failure(envelope.object)
        case other:
            return Unknown(f"an event of type {other!r}")


def _object_event(
    resource: Resource[T],
    kind: type[Added[Any]] | type[Modified[Any]] | type[Deleted[Any]],
    raw: msgspec.Raw,
) -> WatchEvent[T]:
    try:
        event = kind(_decode(resource.type, raw))
        return event if event.revision else Unknown("an object without resourceVersion")
    except _UNFIT as error:
        return _unreadable(raw, _misfit(resource, raw, error), deleted=kind is Deleted)


def _misfit(resource: Resource[T], raw: msgspec.Raw, error: Exception) -> Misfit:
    """Return why an object does not fit, with what can be told of it all the same."""
    if resource.outline is None:
        return Misfit(str(error))
    try:
        return Misfit(str(error), _decode(resource.outline, raw))
    except _UNFIT:
        return Misfit(str(error))


def _unreadable(raw: msgspec.Raw, reason: str, *, deleted: bool) -> Unreadable | Unknown:
    try:
        meta = _heads.decode(raw).metadata
        if meta.name and meta.revision:
            return Unreadable(meta.key, meta.revision, reason, deleted)
    except _UNFIT as error:
        return Unknown(f"an object with unreadable metadata: {error}")
    return Unknown(f"an object without name or resourceVersion: {reason}")


def _key_of(raw: msgspec.Raw) -> Key | None:
    try:
        meta = _heads.decode(raw).metadata
    except _UNFIT:
        return None
    return meta.key if meta.name else None


def _bookmark(raw: msgspec.Raw) -> Bookmark | Unknown:
    try:
        meta = _heads.decode(raw).metadata
        ended = meta.annotations.get("k8s.io/initial-events-end") == "true"
        bookmark = Bookmark(meta.revision, ended)
    except _UNFIT as error:
        return Unknown(f"a bookmark that cannot be read: {error}")
    return bookmark if bookmark.revision else Unknown("a bookmark without resourceVersion")


def _failure(raw: msgspec.Raw) -> Failure:
    status = decode_status(raw) or {"message": "the watch ended with an error that is no Status"}
    return Failure(api_error(status.get("code") or 500, status))
