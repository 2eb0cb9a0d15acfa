"""PATCH: JSON patch, merge patch, strategic merge patch and server-side apply."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from controller.managedfields import PatchError, apply
from controller.managedfields.gotext import encode_json, name_json_type
from envtest.kinds.typed import TypedError
from envtest.patching import (
    PatchHints,
    apply_json_patch,
    apply_merge_patch,
    apply_strategic_patch,
    check_operations,
)
from envtest.schema import (
    MalformedJSON,
    MalformedMetadata,
    MalformedObject,
    MalformedYAML,
    read_json,
    read_yaml,
)
from envtest.schema.errors import build_invalid_error
from envtest.server import failures, objectmeta
from envtest.server.api import Api
from envtest.server.bodies import DecodedBody, enforce_field_validation, find_kind_fault
from envtest.server.call import AuthorizedCall, ObjectAnswer
from envtest.server.failures import (
    StatusError,
    build_bad_request,
    build_invalid_object,
    build_patch_error,
)
from envtest.server.options import WriteOptions, read_write_options
from envtest.server.resource import StoredResource
from envtest.server.writes import create_object, fit_names_to_path, update_object
from envtest.storage import StoredObject

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def list_patch_types(resource: StoredResource) -> tuple[str, ...]:
    """Return the patch types of a resource, as the refusal of others lists them."""
    if resource.rules.is_custom:
        return (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
    return (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


async def answer_patch(api: Api, call: AuthorizedCall) -> ObjectAnswer:
    """Answer a PATCH on an object or one of its subresources."""
    patch_type = call.content_type
    if patch_type not in list_patch_types(call.resource):
        raise failures.build_unsupported_media_type(list_patch_types(call.resource))
    is_apply = patch_type == APPLY_PATCH
    options = read_write_options(
        "PatchOptions", call.query, dry_runs=call.dry_runs, agent=call.agent, apply=is_apply
    )
    try:
        if is_apply:
            return await _apply_patch(api, call, options)
        return await _patch_existing(api, call, options)
    except PatchError as error:
        raise build_patch_error(error) from error


async def _patch_existing(api: Api, call: AuthorizedCall, options: WriteOptions) -> ObjectAnswer:
    """Apply a JSON, merge or strategic merge patch to an object that exists.

    After a concurrent write, the patch is applied again, to the new state.
    """
    # Called for its 404: kube-apiserver reports a missing object before any fault of the patch.
    api.get_stored(call)
    apply_to, complaints = _read_patch(call)
    for attempt in range(_MAX_ATTEMPTS):
        stored = api.get_stored(call)
        live = call.resource.decode_object(stored)
        original = live if _may_share_parts(call) else call.resource.decode_object(stored)
        decoded = DecodedBody(apply_to(original))
        if decoded.body.get("metadata") is original["metadata"]:
            # A write sets fields of metadata, but nothing below them. So a shallow copy protects
            # the original.
            decoded.body["metadata"] = dict(decoded.body["metadata"])
        sets_other_revision = _sets_other_revision(decoded.body, stored)
        decoded.complaints += complaints
        # Refusals quote the patched object as it was before `_fit_patched` decodes it in place.
        # A merge patch does not change its original, so a refusal applies it again. The result
        # of another patch is encoded beforehand.
        data = b"" if original is live else msgspec.json.encode(decoded.body)
        copy_undecoded = (
            partial(apply_to, original) if original is live else partial(_decode, data)
        )
        _fit_patched(call.resource, decoded, live=original, copy_undecoded=copy_undecoded)
        _enforce_field_validation_on_patched(
            call, decoded, options=options, copy_undecoded=copy_undecoded
        )
        fit_names_to_path(call, decoded.body)
        try:
            return await update_object(
                api, call, stored=stored, live=live, body=decoded.body, options=options
            )
        except StatusError as error:
            has_other_write = api.get_table(call.resource).get(call.key) is not stored
            # A client that sends a resourceVersion wants the conflict. A conflict without another
            # write, such as a webhook's, would only recur.
            if (
                error.code != 409
                or sets_other_revision
                or not has_other_write
                or attempt == _MAX_ATTEMPTS - 1
            ):
                raise
    # Never reached, because the last attempt returns or raises; the type checker needs it.
    raise call.resource.build_conflict_error(call.info.name)


def _may_share_parts(call: AuthorizedCall) -> bool:
    """Return whether the patched object may share its unchanged parts with the original.

    A merge patch copies the parts that it changes. The rules of custom resources do not change
    parts that are the very same object in the original, and skip them. The rules of built-in
    kinds may fill in fields at any depth, which would change the original as well.
    """
    return call.content_type == MERGE_PATCH and call.resource.rules.is_custom


def _sets_other_revision(body: dict[str, Any], stored: StoredObject) -> bool:
    """Return whether a patch sets a resourceVersion that is not the current one."""
    meta = body.get("metadata")
    revision = meta.get("resourceVersion") if isinstance(meta, dict) else None
    return bool(revision) and revision != str(stored.revision)


def _read_patch(
    call: AuthorizedCall,
) -> tuple[Callable[[dict[str, Any]], dict[str, Any]], list[str]]:
    """Return a function that applies the patch to an object, and complaints about the patch.

    Complaints are duplicate keys and unknown fields of operations.
    """
    try:
        content, complaints = read_json(call.data)
    except MalformedJSON as error:
        prefix = "" if call.content_type == STRATEGIC_PATCH else "error decoding patch: "
        raise build_bad_request(f"{prefix}{error}") from None
    if call.content_type == JSON_PATCH:
        complaints = [f"json patch {problem}" for problem in complaints]
        complaints += check_operations(content)
        return lambda body: _require_object(apply_json_patch(body, content)), complaints
    if call.content_type == MERGE_PATCH:
        return lambda body: _require_object(apply_merge_patch(body, content)), complaints
    resource = call.resource
    hints = PatchHints.for_builtin_kind(resource.group, resource.version, resource.kind)
    return lambda body: _require_object(apply_strategic_patch(body, content, hints)), complaints


def _require_object(value: Any) -> dict[str, Any]:
    """Return the result of a patch; refuse a result that is not an object."""
    if not isinstance(value, dict):
        raise failures.build_unprocessable()
    return value


# How often a patch is tried while concurrent writes change the object.
_MAX_ATTEMPTS = 5

_BuildObject = Callable[[], dict[str, Any]]


def _fit_patched(
    resource: StoredResource,
    decoded: DecodedBody,
    live: dict[str, Any],
    copy_undecoded: _BuildObject,
) -> None:
    """Decode the patched object as its kind; refuse a patch after which it does not fit.

    Args:
        resource: the kind of the object.
        decoded: the patched object; it is decoded in place.
        live: the object before the patch, whose managedFields are not decoded again if they are
            the same Python object in the patched one; empty if they cannot be.
        copy_undecoded: returns the patched object before decoding, which refusals quote.
    """
    try:
        unknown = _decode_patched(resource, decoded.body, live)
    except (TypedError, MalformedObject, MalformedMetadata) as error:
        patch_text = encode_json(copy_undecoded())
        raise build_invalid_object(
            "", "", name="", problems=[build_invalid_error("patch", patch_text, str(error))]
        ) from None
    decoded.complaints += [f'unknown field "{path}"' for path in unknown]


def _decode_patched(
    resource: StoredResource, body: dict[str, Any], live: dict[str, Any]
) -> list[str]:
    """Decode a patched object, in place; return the paths of unknown fields.

    managedFields are most of an object. If the patch did not change them, they are taken out
    while the rest is decoded, because they were decoded when they were stored.

    Raises:
        TypedError: the patch changed the kind, or the object does not fit its kind.
        MalformedObject: an embedded object cannot be decoded.
        MalformedMetadata: metadata cannot be decoded.
    """
    if resource.rules.is_custom and not body.get("kind"):
        raise TypedError(f"Object 'Kind' is missing in '{encode_json(body)}'")
    body["apiVersion"] = body.get("apiVersion") or resource.api_version
    body["kind"] = body.get("kind") or resource.kind
    if not resource.rules.is_custom and (fault := find_kind_fault(resource, body)):
        raise TypedError(fault)
    if body.get("metadata") is None:
        body["metadata"] = {}
    meta, managed_fields = body["metadata"], live.get("metadata", {}).get("managedFields")
    is_unchanged = (
        managed_fields is not None
        and isinstance(meta, dict)
        and meta.get("managedFields") is managed_fields
    )
    if not is_unchanged:
        return resource.rules.decode_update(body, live)
    del meta["managedFields"]
    try:
        return resource.rules.decode_update(body, live)
    finally:
        body["metadata"]["managedFields"] = managed_fields


def _enforce_field_validation_on_patched(
    call: AuthorizedCall, decoded: DecodedBody, options: WriteOptions, copy_undecoded: _BuildObject
) -> None:
    """Treat unknown and duplicate fields of a patched object as fieldValidation says.

    Raises:
        StatusError: 422 under Strict. `enforce_field_validation` would answer 400, but
            kube-apiserver calls the patch invalid here.
    """
    if decoded.complaints and options.field_validation == "Strict":
        message = f"strict decoding error: {', '.join(decoded.complaints)}"
        patch_text = encode_json(copy_undecoded())
        raise build_invalid_object(
            "", "", name="", problems=[build_invalid_error("patch", patch_text, message)]
        )
    enforce_field_validation(
        call.resource, decoded, validation=options.field_validation, warnings=call.warnings
    )


async def _apply_patch(api: Api, call: AuthorizedCall, options: WriteOptions) -> ObjectAnswer:
    """Apply a configuration (server-side apply): create the object, or update owned fields.

    After a concurrent write, the configuration is applied again, to the new state.
    """
    resource = call.resource
    applied, duplicates = _read_applied(call)
    for attempt in range(_MAX_ATTEMPTS):
        stored = api.get_table(resource).get(call.key)
        # Only the main resource creates objects.
        if stored is None and call.info.subresource:
            raise resource.build_not_found_error(call.info.name)
        live = resource.decode_object(stored) if stored else None
        result = apply(
            live,
            applied,
            manager=options.manager,
            force=options.force,
            fields=resource.rules.get_field_model(),
            subresource=call.info.subresource,
            now=objectmeta.format_current_time(),
            kind=(resource.api_version, resource.kind),
            versions=resource.versions,
        )
        # Decoding changes the body in place. `applied` must stay as it is for another attempt.
        body = _copy_tree(result)
        _enforce_field_validation_on_duplicates(call, options, duplicates)
        decoded = DecodedBody(body)
        _fit_patched(
            resource, decoded, live={}, copy_undecoded=partial(_decode, msgspec.json.encode(body))
        )
        enforce_field_validation(
            resource, decoded, validation=options.field_validation, warnings=call.warnings
        )
        # After `apply`, because kube-apiserver reports conflicts before a wrong name.
        fit_names_to_path(call, body)
        if stored is None or live is None:
            _refuse_creation_with_uid(call, body)
            # The version of an object that is gone; a new object must not have one.
            body["metadata"].pop("resourceVersion", None)
            return await create_object(api, call, body=body, options=options, is_tracked=True)
        try:
            return await update_object(
                api,
                call,
                stored=stored,
                live=resource.decode_object(stored),
                body=body,
                options=options,
                is_tracked=True,
            )
        except StatusError as error:
            has_other_write = api.get_table(resource).get(call.key) is not stored
            # A conflict without another write, such as a webhook's, would only recur.
            if error.code != 409 or not has_other_write or attempt == _MAX_ATTEMPTS - 1:
                raise
    # Never reached, because the last attempt returns or raises; the type checker needs it.
    raise resource.build_conflict_error(call.info.name)


def _refuse_creation_with_uid(call: AuthorizedCall, body: Mapping[str, Any]) -> None:
    """Refuse an apply that would create its object although the configuration has a uid.

    Raises:
        StatusError: 409.
    """
    uid = body["metadata"].get("uid")
    if uid:
        raise call.resource.build_conflict_error(
            call.info.name,
            f"uid mismatch: the provided object specified uid {uid}, and no existing object was"
            " found",
        )


def _enforce_field_validation_on_duplicates(
    call: AuthorizedCall, options: WriteOptions, duplicates: list[str]
) -> None:
    """Treat duplicate keys of an applied configuration as fieldValidation says.

    Raises:
        StatusError: 400 under Strict.
    """
    if not duplicates or options.field_validation == "Ignore":
        return
    if options.field_validation == "Strict":
        raise build_bad_request(f"strict decoding error: {', '.join(duplicates)}")
    call.warnings += duplicates


def _copy_tree(value: Any) -> Any:
    """Return a copy of a JSON value, in which no two parts are the same Python object.

    copy.deepcopy would keep two uses of one object as one object.
    """
    if isinstance(value, dict):
        return {name: _copy_tree(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_copy_tree(item) for item in value]
    return value


def _read_applied(call: AuthorizedCall) -> tuple[dict[str, Any], list[str]]:
    """Return the configuration in the body of an apply, and complaints about duplicate keys.

    The body is YAML, which includes JSON.
    """
    try:
        content, duplicates = read_yaml(call.data)
    except MalformedYAML as error:
        message = f"error decoding YAML: error converting YAML to JSON: {error}"
        raise build_bad_request(message) from None
    content = {} if content is None else content
    if not isinstance(content, dict):
        raise build_bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot "
            f"unmarshal {name_json_type(content)} into Go value of type map[string]interface {{}}"
        )
    return content, duplicates
