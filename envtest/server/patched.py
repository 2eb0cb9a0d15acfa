"""A patched object on its way back into its kind, and how refusals of it quote it."""

from collections.abc import Callable
from typing import Any

from envtest.kinds.typed import TypedError
from envtest.schema import MalformedMetadata, MalformedObject
from envtest.schema.errors import invalid
from envtest.schema.gotext import json_text
from envtest.server.bodies import Decoded, judge_complaints, kind_fault
from envtest.server.call import Call
from envtest.server.failures import invalid_object
from envtest.server.options import WriteOptions
from envtest.server.resource import Resource
from envtest.server.structs import as_struct

# How often a patch without resourceVersion is tried again when somebody else writes in between.
TRIES = 5

_Quoted = Callable[[], dict[str, Any]]


def fit_patched(
    resource: Resource, decoded: Decoded, live: dict[str, Any], quoted: _Quoted
) -> None:
    """Decode the patched object as its kind; a misfit is the patch's fault.

    Args:
        resource: its kind.
        decoded: the object.
        live: the object before the patch; nothing if there was none.
        quoted: gives the object as it was before decoding, which is what refusals quote.
    """
    try:
        unknown = _decode_patched(resource, decoded.body, live)
    except (TypedError, MalformedObject, MalformedMetadata) as error:
        shown = _shown(resource, quoted())
        raise invalid_object("", "", "", [invalid("patch", shown, str(error))]) from None
    decoded.complaints += [f'unknown field "{path}"' for path in unknown]


def _decode_patched(resource: Resource, body: dict[str, Any], live: dict[str, Any]) -> list[str]:
    """Decode a patched object, in place; return the paths of unknown fields.

    Entries of managedFields that the patch left alone were decoded when they were stored; they are
    most of an object, so they are spared.

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


def judge_patched(call: Call, decoded: Decoded, options: WriteOptions, quoted: _Quoted) -> None:
    """Refuse, report or ignore what the patched object has no place for.

    Raises:
        StatusError: 422 under Strict; the patch is to blame, not the object.
    """
    if decoded.complaints and options.field_validation == "Strict":
        text = f"strict decoding error: {', '.join(decoded.complaints)}"
        shown = _shown(call.resource, quoted())
        raise invalid_object("", "", "", [invalid("patch", shown, text)])
    judge_complaints(call.resource, decoded, options.field_validation, call.warnings)


def _shown(resource: Resource, body: dict[str, Any]) -> str:
    """Return the patched object as the refusal of it quotes it."""
    if resource.rules.custom or not isinstance(body.get("metadata"), dict):
        return json_text(body)
    return shown_struct(body)


def shown_struct(body: dict[str, Any]) -> str:
    """Return an object as Go writes its struct, but for the order within spec and status."""
    if not isinstance(body.get("metadata"), dict):
        return json_text(body)
    meta = as_struct(body["metadata"])
    parts = [
        f"{json_text(name)}:{_unsorted(meta) if name == 'metadata' else json_text(body[name])}"
        for name in sorted(body)
    ]
    return "{" + ",".join(parts) + "}"


def _unsorted(value: Any) -> str:
    """Return JSON that keeps the order of metadata and its entries, but sorts below."""
    if isinstance(value, dict) and ("name" in value or "manager" in value):
        parts = [f"{json_text(name)}:{_unsorted(item)}" for name, item in value.items()]
        return "{" + ",".join(parts) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_unsorted(item) for item in value) + "]"
    return json_text(value)
