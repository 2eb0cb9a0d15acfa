"""PATCH: JSON patch, merge patch, strategic merge patch and server-side apply."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from controller.managedfields import PatchError, apply
from controller.managedfields.gotext import json_kind, json_text
from envtest.kinds.typed import TypedError
from envtest.patching import PatchHints, check_operations, json_patch, merge_patch, strategic_merge
from envtest.schema import (
    MalformedJSON,
    MalformedMetadata,
    MalformedObject,
    MalformedYAML,
    read_json,
    read_yaml,
)
from envtest.schema.errors import invalid
from envtest.server import failures, objectmeta
from envtest.server.api import Api
from envtest.server.bodies import Decoded, enforce_field_validation, kind_fault
from envtest.server.call import AuthorizedCall, One
from envtest.server.failures import StatusError, bad_request, invalid_object, refused_patch
from envtest.server.options import WriteOptions, write_options
from envtest.server.resource import StoredResource
from envtest.server.writes import check_names, create_object, update_object
from envtest.storage import Stored

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def list_patch_types(resource: StoredResource) -> tuple[str, ...]:
    """Return the patch types of a resource, as the refusal of others lists them."""
    if resource.rules.custom:
        return (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
    return (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


async def patch(api: Api, call: AuthorizedCall) -> One:
    """Answer a PATCH on an object or one of its subresources."""
    kind = call.content_type
    if kind not in list_patch_types(call.resource):
        raise failures.unsupported_media_type(list_patch_types(call.resource))
    applied = kind == APPLY_PATCH
    options = write_options(
        "PatchOptions", call.query, dry_runs=call.dry_runs, agent=call.agent, apply=applied
    )
    try:
        if applied:
            return await _apply_patch(api, call, options)
        return await _patch(api, call, options)
    except PatchError as error:
        raise refused_patch(error) from error


async def _patch(api: Api, call: AuthorizedCall, options: WriteOptions) -> One:
    """Change an existing object; a missing object is reported before any fault of the patch."""
    api.current(call)
    change, noticed = _reader(call)
    for attempt in range(_TRIES):
        stored = api.current(call)
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
        _fit_patched(call.resource, decoded, live=before, quoted=quoted)
        _judge_patched(call, decoded, options=options, quoted=quoted)
        check_names(call, decoded.body)
        try:
            return await update_object(
                api, call, stored=stored, live=live, body=decoded.body, options=options
            )
        except StatusError as error:
            moved = api.table(call.resource).get(call.key) is not stored
            if error.code != 409 or pinned or not moved or attempt == _TRIES - 1:
                raise
    raise call.resource.conflict(call.info.name)


def _shares(call: AuthorizedCall) -> bool:
    """Return whether the patched object may share with the stored one what the patch leaves alone.

    A merge patch copies what it changes. The rules of custom resources change nothing below the
    top of what was decoded before, and know what they need not look at again; the rules of
    built-in kinds may fill in anything.
    """
    return call.content_type == MERGE_PATCH and call.resource.rules.custom


def _is_pinned(body: dict[str, Any], stored: Stored) -> bool:
    """Return whether a patch asks for another revision than the present one."""
    meta = body.get("metadata")
    revision = meta.get("resourceVersion") if isinstance(meta, dict) else None
    return bool(revision) and revision != str(stored.revision)


def _reader(call: AuthorizedCall) -> tuple[Callable[[dict[str, Any]], dict[str, Any]], list[str]]:
    """Return the change that the body describes, and what was noticed while reading it."""
    try:
        content, noticed = read_json(call.data)
    except MalformedJSON as error:
        prefix = "" if call.content_type == STRATEGIC_PATCH else "error decoding patch: "
        raise bad_request(f"{prefix}{error}") from None
    if call.content_type == JSON_PATCH:
        noticed = [f"json patch {problem}" for problem in noticed] + check_operations(content)
        return lambda body: _object(json_patch(body, content)), noticed
    if call.content_type == MERGE_PATCH:
        return lambda body: _object(merge_patch(body, content)), noticed
    resource = call.resource
    hints = PatchHints.builtin(resource.group, resource.version, resource.kind)
    return lambda body: _object(strategic_merge(body, content, hints)), noticed


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise failures.unprocessable()
    return value


# How often a patch without resourceVersion is tried again when another write comes in between.
_TRIES = 5

_Quoted = Callable[[], dict[str, Any]]


def _fit_patched(
    resource: StoredResource, decoded: Decoded, live: dict[str, Any], quoted: _Quoted
) -> None:
    """Decode the patched object as its kind; refuse a patch after which it does not fit.

    Args:
        resource: its kind.
        decoded: the object.
        live: the object before the patch; nothing if there was none.
        quoted: gives the object as it was before decoding, which is what refusals quote.
    """
    try:
        unknown = _decode_patched(resource, decoded.body, live)
    except (TypedError, MalformedObject, MalformedMetadata) as error:
        patch_text = json_text(quoted())
        raise invalid_object(
            "", "", name="", problems=[invalid("patch", patch_text, str(error))]
        ) from None
    decoded.complaints += [f'unknown field "{path}"' for path in unknown]


def _decode_patched(
    resource: StoredResource, body: dict[str, Any], live: dict[str, Any]
) -> list[str]:
    """Decode a patched object, in place; return the paths of unknown fields.

    Entries of managedFields that the patch left alone were decoded when they were stored; they are
    most of an object, so they are not decoded again.

    Raises:
        TypedError: it is of another kind now, or does not fit its own.
        MalformedObject: an embedded object does not fit.
        MalformedMetadata: metadata does not fit.
    """
    if resource.rules.custom and not body.get("kind"):
        raise TypedError(f"Object 'Kind' is missing in '{json_text(body)}'")
    body["apiVersion"] = body.get("apiVersion") or resource.api_version
    body["kind"] = body.get("kind") or resource.kind
    if not resource.rules.custom and (fault := kind_fault(resource, body)):
        raise TypedError(fault)
    if body.get("metadata") is None:
        body["metadata"] = {}
    meta, owners = body["metadata"], live.get("metadata", {}).get("managedFields")
    spared = owners is not None and isinstance(meta, dict) and meta.get("managedFields") is owners
    if not spared:
        return resource.rules.decode_changed(body, live)
    del meta["managedFields"]
    try:
        return resource.rules.decode_changed(body, live)
    finally:
        body["metadata"]["managedFields"] = owners


def _judge_patched(
    call: AuthorizedCall, decoded: Decoded, options: WriteOptions, quoted: _Quoted
) -> None:
    """Refuse, report or ignore what the patched object has no place for.

    Raises:
        StatusError: 422 under Strict; the patch is to blame, not the object.
    """
    if decoded.complaints and options.field_validation == "Strict":
        message = f"strict decoding error: {', '.join(decoded.complaints)}"
        patch_text = json_text(quoted())
        raise invalid_object("", "", name="", problems=[invalid("patch", patch_text, message)])
    enforce_field_validation(
        call.resource, decoded, validation=options.field_validation, warnings=call.warnings
    )


async def _apply_patch(api: Api, call: AuthorizedCall, options: WriteOptions) -> One:
    """Create or update what the applier owns."""
    resource = call.resource
    applied, duplicates = _read_applied(call)
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
            versions=resource.versions,
        )
        body = _strict_copy(result)
        _judge_duplicates(call, options, duplicates)
        decoded = Decoded(body)
        _fit_patched(
            resource, decoded, live={}, quoted=partial(_decode, msgspec.json.encode(body))
        )
        enforce_field_validation(
            resource, decoded, validation=options.field_validation, warnings=call.warnings
        )
        # Only now: a conflict wins over a wrong name.
        check_names(call, body)
        if stored is None or live is None:
            _refuse_uid(call, body)
            body["metadata"].pop("resourceVersion", None)
            return await create_object(api, call, body=body, options=options, tracked=True)
        try:
            return await update_object(
                api,
                call,
                stored=stored,
                live=resource.load(stored),
                body=body,
                options=options,
                tracked=True,
            )
        except StatusError as error:
            moved = api.table(resource).get(call.key) is not stored
            if error.code != 409 or not moved or attempt == _TRIES - 1:
                raise
    raise resource.conflict(call.info.name)


def _refuse_uid(call: AuthorizedCall, body: Mapping[str, Any]) -> None:
    """Refuse to create what was to be applied to one particular object.

    Raises:
        StatusError: 409.
    """
    uid = body["metadata"].get("uid")
    if uid:
        raise call.resource.conflict(
            call.info.name,
            f"uid mismatch: the provided object specified uid {uid}, and no existing object was"
            " found",
        )


def _judge_duplicates(call: AuthorizedCall, options: WriteOptions, duplicates: list[str]) -> None:
    """Refuse, report or ignore duplicate keys of an applied document.

    Raises:
        StatusError: 400 under Strict.
    """
    if not duplicates or options.field_validation == "Ignore":
        return
    if options.field_validation == "Strict":
        raise bad_request(f"strict decoding error: {', '.join(duplicates)}")
    call.warnings += duplicates


def _strict_copy(body: dict[str, Any]) -> dict[str, Any]:
    """Return an object of the same content that shares nothing with others."""
    copied: dict[str, Any] = _copy(body)
    return copied


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


def _read_applied(call: AuthorizedCall) -> tuple[dict[str, Any], list[str]]:
    """Read the body of an apply: YAML, of which JSON is a part; return complaints with it."""
    try:
        content, duplicates = read_yaml(call.data)
    except MalformedYAML as error:
        message = f"error decoding YAML: error converting YAML to JSON: {error}"
        raise bad_request(message) from None
    content = {} if content is None else content
    if not isinstance(content, dict):
        raise bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot "
            f"unmarshal {json_kind(content)} into Go value of type map[string]interface {{}}"
        )
    return content, duplicates
