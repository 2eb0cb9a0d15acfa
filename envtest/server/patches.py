"""PATCH: JSON patch, merge patch, strategic merge patch and server-side apply."""

from collections.abc import Callable
from typing import Any

import msgspec

from envtest.kinds.typed import TypedError
from envtest.patching import (
    PatchError,
    PatchHints,
    apply,
    check_operations,
    json_patch,
    merge_patch,
    strategic_merge,
)
from envtest.schema import (
    MalformedJSON,
    MalformedMetadata,
    MalformedObject,
    settle_numbers,
    strict_json,
)
from envtest.schema.errors import invalid
from envtest.schema.gotext import json_text
from envtest.server import failures, objectmeta
from envtest.server.api import Api
from envtest.server.bodies import Decoded, check_version, judge_complaints
from envtest.server.call import Call, One
from envtest.server.failures import StatusError, bad_request, invalid_object
from envtest.server.options import WriteOptions, write_options
from envtest.server.resource import Resource
from envtest.server.writes import check_names, create_object, update_object
from envtest.wire.yamltext import YamlError, read_yaml

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

# The order in which Go writes the fields of ObjectMeta and of a managedFields entry.
_META_ORDER = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
_ENTRY_ORDER = (
    "manager",
    "operation",
    "apiVersion",
    "time",
    "fieldsType",
    "fieldsV1",
    "subresource",
)
# How often a patch without resourceVersion is tried again when somebody else writes in between.
_TRIES = 5


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
            return await _apply(api, call, options)
        return await _patch(api, call, options)
    except PatchError as error:
        raise StatusError(error.status, str(error), error.reason, details=error.details) from error


async def _patch(api: Api, call: Call, options: WriteOptions) -> One:
    """Change an existing object."""
    change, noticed = _reader(call)
    for attempt in range(_TRIES):
        stored = api.current(call)
        decoded = Decoded(change(call.resource.load(stored)))
        pinned = bool((decoded.body.get("metadata") or {}).get("resourceVersion")) and (
            decoded.body["metadata"]["resourceVersion"] != str(stored.revision)
        )
        decoded.complaints += noticed
        shown = _fit_patched(call.resource, decoded)
        _judge_patched(call, decoded, options, shown)
        if not call.resource.rules.custom:
            check_version(call.resource, decoded.body)
        check_names(call, decoded.body)
        live = call.resource.load(stored)
        try:
            return await update_object(api, call, stored, live, decoded.body, options)
        except StatusError as error:
            moved = api.table(call.resource).get(call.key) is not stored
            if error.code != 409 or pinned or not moved or attempt == _TRIES - 1:
                raise
    raise call.resource.conflict(call.info.name)


def _reader(call: Call) -> tuple[Callable[[dict[str, Any]], dict[str, Any]], list[str]]:
    """Return the change that the body describes, and what was noticed while reading it."""
    try:
        content, noticed = strict_json(call.data)
    except MalformedJSON as error:
        raise bad_request(f"error decoding patch: {error}") from None
    content = settle_numbers(content)
    if call.content_type == JSON_PATCH:
        noticed += check_operations(content)
        return lambda body: _object(json_patch(body, content)), noticed
    if not isinstance(content, dict):
        shape = {list: "array", str: "string", bool: "bool"}.get(type(content), "number")
        fault = f"json: cannot unmarshal {shape} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding patch: {fault}")
    if call.content_type == MERGE_PATCH:
        return lambda body: _object(merge_patch(body, content)), noticed
    hints = PatchHints.builtin(call.resource.group, call.resource.kind, call.resource.version)
    return lambda body: _object(strategic_merge(body, content, hints)), noticed


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise failures.unprocessable()
    return value


def _fit_patched(resource: Resource, decoded: Decoded) -> bytes:
    """Decode the patched object as its kind; a misfit is the patch's fault.

    Returns:
        The object as it was before decoding, which is what refusals quote.
    """
    body = decoded.body
    # Decoding changes the body; a refusal quotes it as it was.
    before = msgspec.json.encode(body)
    body.setdefault("apiVersion", resource.api_version)
    body.setdefault("kind", resource.kind)
    if not isinstance(body.get("metadata"), dict):
        body["metadata"] = {}
    try:
        unknown = resource.rules.decode(body)
    except (TypedError, MalformedObject, MalformedMetadata) as error:
        shown = _shown(resource, msgspec.json.decode(before))
        raise invalid_object("", "", "", [invalid("patch", shown, str(error))]) from None
    decoded.complaints += [f'unknown field "{path}"' for path in unknown]
    return before


def _judge_patched(call: Call, decoded: Decoded, options: WriteOptions, before: bytes) -> None:
    """Refuse, report or ignore what the patched object has no place for.

    Raises:
        StatusError: 422 under Strict; the patch is to blame, not the object.
    """
    if decoded.complaints and options.field_validation == "Strict":
        text = f"strict decoding error: {', '.join(decoded.complaints)}"
        shown = _shown(call.resource, msgspec.json.decode(before))
        raise invalid_object("", "", "", [invalid("patch", shown, text)])
    judge_complaints(call.resource, decoded, options.field_validation, call.warnings)


def _shown(resource: Resource, body: dict[str, Any]) -> str:
    """Return the patched object as the refusal of it quotes it."""
    if resource.rules.custom or not isinstance(body.get("metadata"), dict):
        return json_text(body)
    meta = _ordered(body["metadata"], _META_ORDER)
    entries = meta.get("managedFields")
    if isinstance(entries, list):
        meta["managedFields"] = [_ordered(entry, _ENTRY_ORDER) for entry in entries]
    parts = [
        f"{json_text(name)}:{_unsorted(meta) if name == 'metadata' else json_text(body[name])}"
        for name in sorted(body)
    ]
    return "{" + ",".join(parts) + "}"


def _ordered(body: dict[str, Any], order: tuple[str, ...]) -> dict[str, Any]:
    rest = [name for name in body if name not in order]
    return {name: body[name] for name in (*order, *rest) if name in body}


def _unsorted(value: Any) -> str:
    """Return JSON that keeps the order of metadata and its entries, but sorts below."""
    if isinstance(value, dict) and ("name" in value or "manager" in value):
        parts = [f"{json_text(name)}:{_unsorted(item)}" for name, item in value.items()]
        return "{" + ",".join(parts) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_unsorted(item) for item in value) + "]"
    return json_text(value)


async def _apply(api: Api, call: Call, options: WriteOptions) -> One:
    """Create or update what the applier owns."""
    resource = call.resource
    applied = _read_applied(call, options)
    for attempt in range(_TRIES):
        stored = api.table(resource).get(call.key)
        if stored is None and call.info.subresource:
            raise resource.not_found(call.info.name)
        live = resource.load(stored) if stored else None
        result = apply(
            live,
            applied,
            manager=options.manager,
            force=options.force,
            fields=resource.rules.model(),
            subresource=call.info.subresource,
            now=objectmeta.timestamp(),
            kind=(resource.api_version, resource.kind),
        )
        body = strict_copy(result)
        decoded = Decoded(body)
        _fit_patched(resource, decoded)
        judge_complaints(resource, decoded, options.field_validation, call.warnings)
        if stored is None or live is None:
            meta = body["metadata"]
            meta.setdefault("name", call.info.name)
            check_names(call, body)
            return await create_object(api, call, body, options, tracked=True)
        check_names(call, body)
        try:
            return await update_object(
                api, call, stored, resource.load(stored), body, options, tracked=True
            )
        except StatusError as error:
            moved = api.table(resource).get(call.key) is not stored
            if error.code != 409 or not moved or attempt == _TRIES - 1:
                raise
    raise resource.conflict(call.info.name)


def strict_copy(body: dict[str, Any]) -> dict[str, Any]:
    """Return an object of the same content that shares nothing with others."""
    copied: dict[str, Any] = _copy(body)
    return copied


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


def _read_applied(call: Call, options: WriteOptions) -> dict[str, Any]:
    """Read the body of an apply: YAML, of which JSON is a part."""
    try:
        content, duplicates = read_yaml(call.data)
    except YamlError as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    if not isinstance(content, dict):
        raise bad_request("error decoding YAML: the document is no object")
    noticed = Decoded({}, duplicates)
    judge_complaints(call.resource, noticed, options.field_validation, call.warnings)
    content = settle_numbers(content)
    meta = content.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    if isinstance(name, str) and name != call.info.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL "
            f"({call.info.name})"
        )
    applied: dict[str, Any] = content
    return applied
