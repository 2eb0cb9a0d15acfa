"""PATCH: JSON patch, merge patch, strategic merge patch and server-side apply."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from envtest.patching import (
    PatchError,
    PatchHints,
    check_operations,
    json_patch,
    merge_patch,
    strategic_merge,
)
from envtest.schema import (
    MalformedJSON,
    read_json,
)
from envtest.server import failures
from envtest.server.api import Api
from envtest.server.applying import apply_patch
from envtest.server.bodies import Decoded
from envtest.server.call import Call, One
from envtest.server.failures import StatusError, bad_request, refused_patch
from envtest.server.options import WriteOptions, write_options
from envtest.server.patched import TRIES, fit_patched, judge_patched
from envtest.server.resource import Resource
from envtest.server.writes import check_names, update_object
from envtest.storage import Stored

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def accepted(resource: Resource) -> tuple[str, ...]:
    """Return the patch types of a resource, as the refusal of others lists them."""
    if resource.rules.custom:
        return (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
    return (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


async def patch(api: Api, call: Call) -> One:
    """Answer a PATCH on an object or one of its subresources."""
    kind = call.content_type
    if kind not in accepted(call.resource):
        raise failures.unsupported_media_type(accepted(call.resource))
    applied = kind == APPLY_PATCH
    options = write_options("PatchOptions", call.query, call.dry_runs, call.agent, apply=applied)
    try:
        if applied:
            return await apply_patch(api, call, options)
        return await _patch(api, call, options)
    except PatchError as error:
        raise refused_patch(error) from error


async def _patch(api: Api, call: Call, options: WriteOptions) -> One:
    """Change an existing object; that there is none is told before any fault of the patch."""
    api.current(call)
    change, noticed = _reader(call)
    for attempt in range(TRIES):
        stored = api.current(call)
        await call.resource.ready([stored])
        live = call.resource.load(stored)
        before = live if _shares(call) else call.resource.load(stored)
        decoded = Decoded(change(before))
        if decoded.body.get("metadata") is before["metadata"]:
            # The server writes into the object's own metadata, never below.
            decoded.body["metadata"] = dict(decoded.body["metadata"])
        pinned = _is_pinned(decoded.body, stored)
        decoded.complaints += noticed
        # Decoding changes the body; a refusal quotes it as it was. A merge patch, which leaves
        # alone what it is applied to, is rather applied once more for each refusal.
        data = b"" if before is live else msgspec.json.encode(decoded.body)
        quoted = partial(change, before) if before is live else partial(_decode, data)
        fit_patched(call.resource, decoded, before, quoted)
        judge_patched(call, decoded, options, quoted)
        check_names(call, decoded.body)
        try:
            return await update_object(api, call, stored, live, decoded.body, options)
        except StatusError as error:
            moved = api.table(call.resource).get(call.key) is not stored
            if error.code != 409 or pinned or not moved or attempt == TRIES - 1:
                raise
    raise call.resource.conflict(call.info.name)


def _shares(call: Call) -> bool:
    """Tell whether the patched object may share with the stored one what the patch leaves alone.

    A merge patch copies what it changes. The rules of custom resources change nothing below the
    top of what was decoded before, and know what they need not look at again; the rules of
    built-in kinds fill in as they like.
    """
    return call.content_type == MERGE_PATCH and call.resource.rules.custom


def _is_pinned(body: dict[str, Any], stored: Stored) -> bool:
    """Tell whether a patch asks for another revision than the present one."""
    meta = body.get("metadata")
    given = meta.get("resourceVersion") if isinstance(meta, dict) else None
    return bool(given) and given != str(stored.revision)


def _reader(call: Call) -> tuple[Callable[[dict[str, Any]], dict[str, Any]], list[str]]:
    """Return the change that the body describes, and what was noticed while reading it."""
    try:
        content, noticed = read_json(call.data)
    except MalformedJSON as error:
        prefix = "" if call.content_type == STRATEGIC_PATCH else "error decoding patch: "
        raise bad_request(f"{prefix}{error}") from None
    if call.content_type == JSON_PATCH:
        noticed = [f"json patch {text}" for text in noticed] + check_operations(content)
        return lambda body: _object(json_patch(body, content)), noticed
    if call.content_type == MERGE_PATCH:
        return lambda body: _object(merge_patch(body, content)), noticed
    hints = PatchHints.builtin(call.resource.group, call.resource.kind, call.resource.version)
    return lambda body: _object(strategic_merge(body, content, hints)), noticed


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise failures.unprocessable()
    return value
