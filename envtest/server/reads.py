"""GET and LIST: selectors, pages with continue tokens, and reads of past revisions."""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import anyio
import msgspec

from controller.managedfields.gotext import quote
from envtest.server.api import Api
from envtest.server.call import AuthorizedCall, ListAnswer, ObjectAnswer
from envtest.server.failures import (
    StatusError,
    build_bad_request,
    build_expired,
    build_unclassified_error,
)
from envtest.server.options import ListOptions, read_list_options
from envtest.server.resource import StoredResource
from envtest.storage import StoredObject, Table
from envtest.wire.texts import find_number_fault


class _Meta(msgspec.Struct):
    """The part of an object that label selectors read."""

    labels: dict[str, str] = {}


class _Labelled(msgspec.Struct):
    metadata: _Meta


_decode_labels = msgspec.json.Decoder(_Labelled).decode


@dataclass(frozen=True, slots=True)
class Selection:
    """The result of a list, or of one page of it."""

    items: Sequence[StoredObject]
    revision: int
    # The continue token of the next page; empty on the last page.
    token: str = ""
    # The number of objects after this page; 0 if there are none, or if it is not known.
    remaining: int = 0


async def answer_get(api: Api, call: AuthorizedCall) -> ObjectAnswer:
    """Answer a GET on one object with its current state.

    A resourceVersion only demands that the state is at least that new.

    Raises:
        StatusError: 404 if there is no such object, 500 for a resourceVersion that is no number,
            504 for a future revision.
    """
    version = call.query.get("resourceVersion", "")
    if version:
        fault = find_revision_fault(version)
        if fault:
            raise build_unclassified_error(fault)
        await wait_until_fresh(api, version)
        refuse_future_revision(api, int(version))
    stored = api.get_stored(call)
    return ObjectAnswer(200, call.resource, call.resource.encode_object(stored))


async def answer_list(api: Api, call: AuthorizedCall) -> ListAnswer:
    """Answer a GET on a collection."""
    options = read_list_options(call.query, call.resource.rules, watch=False)
    if options.version:
        await wait_until_fresh(api, options.version)
    selection = select_objects(api, call, options)
    bodies = [call.resource.encode_body(stored) for stored in selection.items]
    return ListAnswer(
        call.resource,
        bodies,
        revision=selection.revision,
        token=selection.token,
        remaining=selection.remaining,
    )


async def wait_until_fresh(api: Api, version: str) -> None:
    """Wait for a revision that does not exist yet, at most for `api.revision_timeout` seconds.

    The caller refuses a revision that still does not exist then.

    Args:
        api: the state.
        version: the resourceVersion of a read.
    """
    # The caller refuses a version that is no number, with a text that depends on the verb.
    if find_number_fault(version):
        return
    with anyio.move_on_after(api.revision_timeout):
        while int(version) > api.store.revision:
            await api.store.get_next_change().wait()


def find_revision_fault(version: str) -> str:
    """Return why a resourceVersion cannot be parsed; empty if it can."""
    fault = find_number_fault(version)
    return f"resourceVersion: Invalid value: {quote(version)}: {fault}" if fault else ""


def refuse_future_revision(api: Api, revision: int) -> None:
    """Refuse a revision that no write has reached yet.

    Raises:
        StatusError: 504 with a hint to try again.
    """
    if revision > api.store.revision:
        raise build_too_new_error(api, revision)


def build_too_new_error(api: Api, revision: int) -> StatusError:
    """Return 504 for a revision that no write reached in time."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return StatusError(
        504,
        f"Timeout: Too large resource version: {revision}, current: {api.store.revision}",
        "Timeout",
        details={"causes": [cause], "retryAfterSeconds": 1},
        headers={"Retry-After": "1"},
    )


def select_objects(api: Api, call: AuthorizedCall, options: ListOptions) -> Selection:
    """Return the objects that a list asks for.

    Raises:
        StatusError: 400 for an invalid token or resourceVersion, 410 for a revision that is no
            longer kept, 504 for a future revision.
    """
    resource, table = call.resource, api.get_table(call.resource)
    prefix = f"{call.info.namespace}/" if resource.namespaced and call.info.namespace else ""
    revision, after = _find_start(api, options, prefix)
    # The log of changes begins at its floor, so older states cannot be restored.
    if revision < table.log.floor:
        raise _build_too_old_error(options, after.removeprefix(prefix))
    matches = SelectionPredicate(resource, options)
    # For resourceVersion=0 kube-apiserver answers from its watch cache, which ignores the limit.
    limit = 0 if options.version == "0" else options.limit
    items: list[StoredObject] = []
    objects = _iterate_objects(table, revision, prefix=prefix, after=after)
    for stored in objects:
        if matches(stored):
            items.append(stored)
        if limit and len(items) == limit:
            # As in kube-apiserver, the objects after this page are counted without the selectors.
            # So with a selector the number is not reported, and the next page may be empty.
            remaining = sum(1 for _ in objects)
            reported = 0 if options.labels or options.fields else remaining
            token = write_token(revision, items[-1].key.removeprefix(prefix)) if remaining else ""
            return Selection(items, revision, token=token, remaining=reported)
    return Selection(items, revision)


def _find_start(api: Api, options: ListOptions, prefix: str) -> tuple[int, str]:
    """Return the revision that a list reads, and the key after which it begins (empty: the first).

    `prefix` is the beginning of all keys of the list; tokens leave it out.

    Raises:
        StatusError: 400 for an invalid token or resourceVersion, 504 for a future revision.
    """
    if options.token:
        revision, after = read_token(options.token)
        if options.version not in {"", "0"}:
            message = "specifying resource version is not allowed when using continue"
            raise build_bad_request(message)
        if revision < 0:
            # The token of a 410 continues an expired list with the present objects.
            return api.store.revision, f"{prefix}{after}"
        refuse_future_revision(api, revision)
        return revision, f"{prefix}{after}"
    if not options.version:
        return api.store.revision, ""
    fault = find_revision_fault(options.version)
    if fault:
        raise build_bad_request(f"invalid resource version: {fault}")
    revision = int(options.version)
    refuse_future_revision(api, revision)
    # With a limit, a resourceVersion other than 0 means exactly that revision, also without
    # resourceVersionMatch (Kubernetes API concepts, "Resource versions").
    if options.match == "Exact" or (not options.match and options.limit and revision):
        return revision, ""
    return api.store.revision, ""


def _build_too_old_error(options: ListOptions, after: str) -> StatusError:
    """Return 410 for a list of a revision that is no longer kept.

    If the list has a continue token, the refusal has a new token, by which the client can continue
    after the key `after` with the present objects.
    """
    if options.token:
        refusal = build_expired(
            "The provided continue parameter is too old to display a consistent list result. "
            "You can start a new list without the continue parameter, or use the continue token "
            "in this response to retrieve the remainder of the results. Continuing with the "
            "provided token results in an inconsistent list - objects that were created, "
            "modified, or deleted between the time the first chunk was returned and now may show "
            "up in the list."
        )
        refusal.metadata = {"continue": write_token(-1, after)}
        return refusal
    return build_expired("The resourceVersion for the provided list is too old.")


def _iterate_objects(
    table: Table, revision: int, prefix: str, after: str
) -> Iterator[StoredObject]:
    """Yield the objects with a key prefix as they were at a revision, in the order of keys.

    Args:
        table: the objects, with their history.
        revision: a revision that the history still reaches.
        prefix: the beginning of the keys: a namespace, or nothing.
        after: the key after which to begin; empty for the first key.
    """
    # Key -> the former state of an object that changed since; None if it did not exist.
    former_states = table.read_former_states(revision)
    keys: Iterator[str] | list[str] = table.iterate_keys(prefix, after)
    if former_states:
        # Objects that were deleted since are no longer among the keys of the table.
        changed_keys = [key for key in former_states if key.startswith(prefix) and key > after]
        keys = sorted({*keys, *changed_keys})
    for key in keys:
        stored = former_states[key] if key in former_states else table.get(key)
        if stored is not None:
            yield stored


class SelectionPredicate:
    """Label and field selectors as a function of a stored object.

    Objects are decoded only as far as the selectors need.
    """

    def __init__(self, resource: StoredResource, options: ListOptions) -> None:
        self._resource = resource
        self._labels = options.labels
        self._fields = options.fields

    def __call__(self, stored: StoredObject) -> bool:
        """Return whether both selectors match an object."""
        labels = self._labels
        if labels and not labels.matches(_decode_labels(stored.body).metadata.labels):
            return False
        if not self._fields:
            return True
        body = msgspec.json.decode(self._resource.encode_body(stored))
        value_of = self._resource.rules.read_field_value
        return self._fields.matches(lambda field: value_of(body, field))


class _Token(msgspec.Struct):
    """A continue token in the real server's format: base64 of this as JSON.

    Attributes:
        v: the version of the format.
        rv: the revision that the list reads.
        start: the last key of the page, relative to the listed collection, with a zero byte.
    """

    v: str
    rv: int
    start: str


_VERSION = "meta.k8s.io/v1"
_read_json = msgspec.json.Decoder(_Token).decode


def write_token(revision: int, key: str) -> str:
    """Return a continue token; the next page begins after `key`."""
    data = msgspec.json.encode(_Token(_VERSION, revision, f"{key}\0"))
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def read_token(token: str) -> tuple[int, str]:
    """Return the revision and the last key of a continue token.

    The revision -1 means the present objects.

    Raises:
        StatusError: 400 when the token cannot be parsed.
    """
    try:
        position = _read_json(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (ValueError, msgspec.DecodeError) as error:
        raise build_bad_request(f"continue key is not valid: {error}") from None
    # As in kube-apiserver, the key may begin with a slash.
    key = position.start.removeprefix("/").removesuffix("\0")
    if position.v != _VERSION or not position.rv or not key:
        raise build_bad_request("continue key is not valid: it names no revision or no key")
    return position.rv, key
