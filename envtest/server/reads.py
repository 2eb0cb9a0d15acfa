"""GET and LIST: selection, chunks, and reading the past."""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import anyio
import msgspec

from controller.managedfields.gotext import quote
from envtest.server.api import Api
from envtest.server.call import AuthorizedCall, Many, One
from envtest.server.failures import StatusError, bad_request, build_expired, internal
from envtest.server.options import ListOptions, list_options
from envtest.server.resource import StoredResource
from envtest.storage import Stored, Table
from envtest.wire.texts import number_fault


class _Meta(msgspec.Struct):
    """The part of an object that label selectors look at."""

    labels: dict[str, str] = {}


class _Labelled(msgspec.Struct):
    metadata: _Meta


_labels = msgspec.json.Decoder(_Labelled).decode


@dataclass(frozen=True, slots=True)
class Selected:
    """What a list found."""

    items: Sequence[Stored]
    revision: int
    token: str = ""
    remaining: int = 0


async def get(api: Api, call: AuthorizedCall) -> One:
    """Answer a GET on one object; reads are always of the present.

    Raises:
        StatusError: 400, 500 or 504 when its options make no sense or cannot be met.
    """
    version = call.query.get("resourceVersion", "")
    if version:
        fault = revision_fault(version)
        if fault:
            raise internal(fault)
        await wait_until_fresh(api, version)
        check_not_future(api, int(version))
    stored = api.current(call)
    return One(200, call.resource, call.resource.json_of(stored))


async def list_(api: Api, call: AuthorizedCall) -> Many:
    """Answer a GET on a collection."""
    options = list_options(call.query, call.resource.rules, watch=False)
    if options.version:
        await wait_until_fresh(api, options.version)
    selection = select(api, call, options)
    bodies = [call.resource.body_of(stored) for stored in selection.items]
    return Many(
        call.resource,
        bodies,
        revision=selection.revision,
        token=selection.token,
        remaining=selection.remaining,
    )


async def wait_until_fresh(api: Api, version: str) -> None:
    """Wait a moment for a revision that does not exist yet.

    Args:
        api: the state; it says how long that is.
        version: the resourceVersion of a read; it is validated elsewhere.
    """
    if number_fault(version):
        return
    with anyio.move_on_after(api.patience):
        while int(version) > api.store.revision:
            await api.store.next_change().wait()


def revision_fault(version: str) -> str:
    """Return why a resourceVersion is none; nothing if it is one."""
    fault = number_fault(version)
    return f"resourceVersion: Invalid value: {quote(version)}: {fault}" if fault else ""


def check_not_future(api: Api, revision: int) -> None:
    """Refuse a revision that was never given out.

    Raises:
        StatusError: 504 with a hint to try again.
    """
    if revision > api.store.revision:
        raise too_new(api, revision)


def too_new(api: Api, revision: int) -> StatusError:
    """Return the refusal of a revision that did not come in time."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return StatusError(
        504,
        f"Timeout: Too large resource version: {revision}, current: {api.store.revision}",
        "Timeout",
        details={"causes": [cause], "retryAfterSeconds": 1},
        headers={"Retry-After": "1"},
    )


def select(api: Api, call: AuthorizedCall, options: ListOptions) -> Selected:
    """Return the objects that a list asks for.

    Raises:
        StatusError: 400, 410 or 504 when it cannot be answered.
    """
    resource, table = call.resource, api.table(call.resource)
    prefix = f"{call.info.namespace}/" if resource.namespaced and call.info.namespace else ""
    revision, after = _starting_point(api, options, prefix)
    if revision < table.log.floor:
        raise _too_old(options, after.removeprefix(prefix))
    matches = selector(resource, options)
    # What may be as old as it likes comes from a cache, and whole.
    limit = 0 if options.version == "0" else options.limit
    items: list[Stored] = []
    walk = _walk(table, revision, prefix=prefix, after=after)
    for stored in walk:
        if matches(stored):
            items.append(stored)
        if limit and len(items) == limit:
            # Whether what is left would be selected is not looked at.
            remaining = sum(1 for _ in walk)
            counted = 0 if options.labels or options.fields else remaining
            token = write_token(revision, items[-1].key.removeprefix(prefix)) if remaining else ""
            return Selected(items, revision, token=token, remaining=counted)
    return Selected(items, revision)


def _starting_point(api: Api, options: ListOptions, prefix: str) -> tuple[int, str]:
    """Return the revision that a list is of, and the key after which it begins.

    Raises:
        StatusError: 400 for a token or revision that is none, 504 for one of the future.
    """
    if options.token:
        revision, after = read_token(options.token)
        if options.version not in {"", "0"}:
            message = "specifying resource version is not allowed when using continue"
            raise bad_request(message)
        if revision < 0:
            return api.store.revision, f"{prefix}{after}"
        check_not_future(api, revision)
        return revision, f"{prefix}{after}"
    if not options.version:
        return api.store.revision, ""
    fault = revision_fault(options.version)
    if fault:
        raise bad_request(f"invalid resource version: {fault}")
    revision = int(options.version)
    check_not_future(api, revision)
    # A page of a revision is a page of that one, said or not.
    if options.match == "Exact" or (not options.match and options.limit and revision):
        return revision, ""
    return api.store.revision, ""


def _too_old(options: ListOptions, after: str) -> StatusError:
    """Return the refusal; that of a page brings a token for going on with what there is now."""
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


def _walk(table: Table, revision: int, prefix: str, after: str) -> Iterator[Stored]:
    """Yield objects as they were at a revision, in order."""
    then = table.at(revision)
    keys: Iterator[str] | list[str] = table.scan(prefix, after)
    if then:
        gone = [key for key in then if key.startswith(prefix) and key > after]
        keys = sorted({*keys, *gone})
    for key in keys:
        stored = then[key] if key in then else table.get(key)
        if stored is not None:
            yield stored


class selector:  # used like a function
    """A predicate over stored objects; decodes only what the selectors need."""

    def __init__(self, resource: StoredResource, options: ListOptions) -> None:
        self._resource = resource
        self._labels = options.labels
        self._fields = options.fields

    def __call__(self, stored: Stored) -> bool:
        """Return whether an object is selected."""
        if self._labels and not self._labels.matches(_labels(stored.body).metadata.labels):
            return False
        if not self._fields:
            return True
        body = msgspec.json.decode(self._resource.body_of(stored))
        value_of = self._resource.rules.field_value
        return self._fields.matches(lambda field: value_of(body, field))


class _Token(msgspec.Struct):
    """A continue token: where the next page begins, and of which revision it is.

    Tokens are the real server's own: base64 of this as JSON. The key is the one behind which to go
    on, as it is below the collection that is listed.
    """

    v: str
    rv: int
    start: str


_VERSION = "meta.k8s.io/v1"
_read_json = msgspec.json.Decoder(_Token).decode


def write_token(revision: int, key: str) -> str:
    """Return a continue token."""
    data = msgspec.json.encode(_Token(_VERSION, revision, f"{key}\0"))
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def read_token(token: str) -> tuple[int, str]:
    """Return the revision and the last key of a continue token; below 0 for what there is now.

    Raises:
        StatusError: 400 when it is none of ours.
    """
    try:
        position = _read_json(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"continue key is not valid: {error}") from None
    key = position.start.removeprefix("/").removesuffix("\0")
    if position.v != _VERSION or not position.rv or not key:
        raise bad_request("continue key is not valid: it names no revision or no key")
    return position.rv, key
