"""GET and LIST: selection, chunks, and reading the past."""

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import anyio
import msgspec

from envtest.schema.jsonerrors import explain
from envtest.server.api import Api
from envtest.server.call import Call, Many, One
from envtest.server.failures import StatusError, bad_request, expired
from envtest.server.options import ListOptions, list_options
from envtest.server.resource import Resource
from envtest.storage import Stored, Table
from envtest.wire.gotexts import base64_fault, number_fault


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


async def get(api: Api, call: Call) -> One:
    """Answer a GET on one object; reads are always of the present."""
    version = call.query.get("resourceVersion", "")
    if version:
        fault = number_fault(version)
        if fault:
            raise bad_request(
                f'invalid resource version: resourceVersion: Invalid value: "{version}": {fault}'
            )
        check_not_future(api, int(version))
    stored = api.current(call)
    await call.resource.ready([stored])
    return One(200, call.resource, call.resource.dressed(stored))


async def list_(api: Api, call: Call) -> Many:
    """Answer a GET on a collection."""
    options = list_options(call.query, watch=False)
    if options.fields:
        await ready_to_select(api, call.resource)
    found = select(api, call, options)
    await call.resource.ready(found.items)
    bodies = [call.resource.bare(stored) for stored in found.items]
    return Many(call.resource, bodies, found.revision, found.token, found.remaining)


async def ready_to_select(api: Api, resource: Resource) -> None:
    """Make all objects ready to be read, as fields are selected by what they are when read.

    Raises:
        StatusError: 500; a conversion webhook fails.
    """
    table = api.table(resource)
    await resource.ready([held for key in table.scan() if (held := table.get(key)) is not None])


async def wait_until_fresh(api: Api, version: str) -> None:
    """Give a revision that is still to come a moment to come.

    Args:
        api: the state; it says how long that is.
        version: the resourceVersion of a get, list or watch; what is none is judged elsewhere.
    """
    if number_fault(version):
        return
    with anyio.move_on_after(api.patience):
        while int(version) > api.store.revision:
            await api.store.bell().wait()


def check_not_future(api: Api, revision: int) -> None:
    """Refuse a revision that was never given out.

    Raises:
        StatusError: 504 with a hint to try again.
    """
    if revision > api.store.revision:
        cause = {
            "reason": "ResourceVersionTooLarge",
            "message": "Too large resource version",
        }
        raise StatusError(
            504,
            f"Timeout: Too large resource version: {revision}, current: {api.store.revision}",
            "Timeout",
            details={"causes": [cause], "retryAfterSeconds": 1},
            headers={"Retry-After": "1"},
        )


def select(api: Api, call: Call, options: ListOptions) -> Selected:
    """Return the objects that a list asks for.

    Raises:
        StatusError: 400, 410 or 504 when it cannot be answered.
    """
    resource, table = call.resource, api.table(call.resource)
    check_fields(resource, options)
    revision, after = api.store.revision, ""
    if options.token:
        revision, after = _read_token(options.token)
        if options.revision:
            text = "specifying resource version is not allowed when using continue"
            raise bad_request(text)
        revision = api.store.revision if revision < 0 else revision
    elif options.revision is not None:
        check_not_future(api, options.revision)
        if options.match == "Exact":
            revision = options.revision
        else:
            revision = api.store.present(table, options.revision)
    if revision < table.log.floor:
        raise _too_old(options, revision, table.log.floor, after)
    prefix = f"{call.info.namespace}/" if resource.namespaced and call.info.namespace else ""
    matches = selector(resource, options)
    items: list[Stored] = []
    walk = _walk(table, revision, prefix, after)
    for stored in walk:
        if not matches(stored):
            continue
        if options.limit and len(items) == options.limit:
            left = 0 if options.labels or options.fields else 1 + sum(1 for _ in walk)
            return Selected(items, revision, _token(revision, items[-1].key), left)
        items.append(stored)
    return Selected(items, revision)


def _too_old(options: ListOptions, revision: int, floor: int, after: str) -> StatusError:
    """Return the refusal; that of a page brings a token for going on with what there is now."""
    if options.token:
        refusal = expired(
            "The provided continue parameter is too old to display a consistent list result. "
            "You can start a new list without the continue parameter, or use the continue token "
            "in this response to retrieve the remainder of the results. Continuing with the "
            "provided token results in an inconsistent list - objects that were created, "
            "modified, or deleted between the time the first chunk was returned and now may show "
            "up in the list."
        )
        refusal.metadata = {"continue": _token(-1, after)}
        return refusal
    return expired(f"The resourceVersion for the provided list is too old. ({revision} < {floor})")


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


def check_fields(resource: Resource, options: ListOptions) -> None:
    """Refuse a field selector that names what this kind cannot select by.

    Raises:
        StatusError: 400.
    """
    for term in options.fields.terms:
        if not resource.rules.selectable(term.field):
            raise bad_request(resource.rules.unselectable(term.field))


class selector:  # used like a function
    """A predicate over stored objects; decodes only what the selectors need."""

    def __init__(self, resource: Resource, options: ListOptions) -> None:
        self._resource = resource
        self._labels = options.labels
        self._fields = options.fields

    def __call__(self, stored: Stored) -> bool:
        """Tell whether an object is selected."""
        if self._labels and not self._labels.matches(_labels(stored.body).metadata.labels):
            return False
        if not self._fields:
            return True
        body = msgspec.json.decode(self._resource.bare(stored))
        value_of = self._resource.rules.field_value
        return self._fields.matches(lambda field: value_of(body, field))


def _token(revision: int, key: str) -> str:
    """Return a continue token in the real server's form."""
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": f"{key}\u0000"})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, str]:
    """Return the revision and the last key of a continue token.

    Raises:
        StatusError: 400 when it is none of ours.
    """
    at = base64_fault(token, url_safe=True)
    if at is not None:
        raise _bad_token(f"illegal base64 data at input byte {at}")
    try:
        text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        data = json.loads(text.decode("utf-8", "replace"))
        return int(data["rv"]), str(data["start"]).removesuffix("\u0000")
    except json.JSONDecodeError as error:
        raise _bad_token(explain(error.doc.encode())) from None
    except (ValueError, KeyError, TypeError, binascii.Error):
        raise _bad_token("unexpected content") from None


def _bad_token(why: str) -> StatusError:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")
