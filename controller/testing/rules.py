"""How an API server changes or refuses an object that is written: functions without side effects.

Objects are decoded JSON. `tests/contract/fake_api/` checks the rules on a real server. The rules
of single kinds (schemas, defaults, webhooks) are not among them. Results share parts with their
arguments, and nothing is changed in place.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.errors import BadRequest, Conflict, Invalid
from controller.resource import Resource

Json = dict[str, Any]

_SERVER_FIELDS = (
    *("name", "namespace", "uid", "creationTimestamp", "generation"),
    *("deletionTimestamp", "deletionGracePeriodSeconds"),
)
"""Fields of metadata that a client does not set: they name the object, or the server sets them."""
_PROPAGATION = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


@dataclass(frozen=True, slots=True)
class FakeKind:
    """A kind as the fake API serves it.

    Args:
        resource: its place in the API.
        status: whether it has a status subresource.
        generation: whether its objects have a metadata.generation.
        fields: the paths that it can be selected by, besides name and namespace.
    """

    resource: Resource[Any]
    status: bool = True
    generation: bool = True
    fields: tuple[str, ...] = ()


def check_body(kind: FakeKind, body: Mapping[str, Any], namespace: str) -> None:
    """Refuse a body whose kind or namespace differs from those of the path.

    Raises:
        BadRequest: the kind or the namespace differs.
    """
    resource = kind.resource
    version_and_kind = (body.get("apiVersion"), body.get("kind"))
    if version_and_kind != (resource.api_version, resource.kind):
        expected = f"{resource.api_version} {resource.kind}"
        sent = " ".join(map(str, version_and_kind))
        raise _create_bad_request(f"the body is a {sent} where {expected} was expected")
    if (body["metadata"].get("namespace") or namespace) != namespace:
        raise _create_bad_request(
            "the namespace of the object does not match the namespace on the request"
        )


def check_uid(old: Mapping[str, Any], body: Mapping[str, Any]) -> None:
    """Refuse a replacement (PUT) whose body has another uid than the stored object.

    For a patch, the uid is an immutable field instead (see `update_object`).

    Args:
        old: the stored object.
        body: the body of the request.

    Raises:
        Conflict: the body has another uid.
    """
    sent_uid, metadata = body["metadata"].get("uid"), old["metadata"]
    if sent_uid and sent_uid != metadata["uid"]:
        raise create_conflict(metadata["name"], f"its uid is {metadata['uid']}, not {sent_uid}")


def create_object(kind: FakeKind, body: Json, metadata: Mapping[str, Any]) -> Json:
    """Return the object that a create stores, without a resourceVersion.

    A status is dropped if the kind has a status subresource.

    Args:
        kind: the object's kind.
        body: the body of the request.
        metadata: the metadata that the server sets: uid, creationTimestamp, name, namespace.

    Raises:
        BadRequest: the body has a resourceVersion.
    """
    if body["metadata"].get("resourceVersion"):
        raise _create_bad_request("resourceVersion should not be set on objects to be created")
    # An empty field is stored as an absent one.
    sent = {
        name: value
        for name, value in body["metadata"].items()
        if name not in _SERVER_FIELDS and value
    }
    generation = {"generation": 1} if kind.generation else {}
    stored = {**body, "metadata": {**sent, **metadata, **generation}}
    if kind.status:
        stored.pop("status", None)
    return stored


def update_object(kind: FakeKind, old: Json, body: Json, subresource: str) -> Json:
    """Return the object after a replacement or patch, without a new resourceVersion.

    A write of the status changes only the status, and no other write changes it.

    Args:
        kind: the object's kind.
        old: the stored object.
        body: the object that was sent, or the result of the patch.
        subresource: `status` or empty.

    Raises:
        BadRequest: it has another name.
        Conflict: it has another resourceVersion than the stored object.
        Invalid: it has another uid, or adds a finalizer to an object that is being deleted.
    """
    before = old["metadata"]
    meta = body.get("metadata") or {}
    if meta.get("name", before["name"]) != before["name"]:
        raise _create_bad_request("the name of the object does not match the name on the URL")
    _check_preconditions(before, meta, subresource)
    if subresource:
        return _replace_field(old, "status", body)
    server_fields = {
        name: before[name] for name in (*_SERVER_FIELDS, "resourceVersion") if name in before
    }
    # An empty field is stored as an absent one.
    client_fields = {
        name: value for name, value in meta.items() if name not in _SERVER_FIELDS and value
    }
    result = {**body, "metadata": {**client_fields, **server_fields}}
    if kind.status:
        result = _replace_field(result, "status", old)
    _check_finalizers(before, client_fields)
    if kind.generation and _get_content(kind, result) != _get_content(kind, old):
        result["metadata"]["generation"] = before.get("generation", 0) + 1
    return result


def replace_object(kind: FakeKind, old: Json, new: Json) -> Json:
    """Return `new`, with the next generation if its content differs from `old`.

    For a test that edits an object: nothing is checked, and the status may change, too.

    Args:
        kind: the object's kind.
        old: the stored object.
        new: the object to store.
    """
    if not kind.generation or _get_content(kind, new) == _get_content(kind, old):
        return new
    generation = old["metadata"].get("generation", 0) + 1
    return {**new, "metadata": {**new["metadata"], "generation": generation}}


def request_deletion(kind: FakeKind, old: Json, propagation: str, now: str) -> Json:
    """Return the object after a deletion was requested.

    If it has finalizers, it is marked as terminating. Otherwise it stays as it is, and the caller
    removes it.

    Args:
        kind: the object's kind.
        old: the stored object.
        propagation: the deletion's propagationPolicy; Foreground and Orphan add a finalizer. May
            be empty.
        now: the time of the deletion.
    """
    meta = dict(old["metadata"])
    finalizer = _PROPAGATION.get(propagation)
    finalizers = list(meta.get("finalizers") or ())
    if finalizer and finalizer not in finalizers:
        finalizers.append(finalizer)
    if finalizers:
        meta["finalizers"] = finalizers
        if "deletionTimestamp" not in meta:
            meta |= {"deletionTimestamp": now, "deletionGracePeriodSeconds": 0}
            if kind.generation:
                meta["generation"] = meta.get("generation", 0) + 1
    return {**old, "metadata": meta}


def is_gone(obj: Mapping[str, Any]) -> bool:
    """Return whether the server removes an object: it is terminating and has no finalizers."""
    meta = obj["metadata"]
    return "deletionTimestamp" in meta and not meta.get("finalizers")


def create_conflict(name: str, reason: str) -> Conflict:
    """Return the error of a write whose precondition does not hold."""
    message = f"Operation cannot be fulfilled on {name!r}: {reason}; the object has been modified"
    return Conflict(409, "Conflict", message)


def _replace_field(old: Json, field: str, body: Mapping[str, Any]) -> Json:
    """Return `old` with one field as in `body`; without the field if `body` does not have it."""
    result = {name: value for name, value in old.items() if name != field}
    if field in body:
        result[field] = body[field]
    return result


def _get_content(kind: FakeKind, obj: Mapping[str, Any]) -> Json:
    """Return the part of an object whose change raises its generation."""
    without = {"metadata", "status"} if kind.status else {"metadata"}
    return {name: value for name, value in obj.items() if name not in without}


def _check_preconditions(
    before: Mapping[str, Any], meta: Mapping[str, Any], subresource: str
) -> None:
    """Check that a write is meant for the stored object, by the resourceVersion and uid it names.

    Args:
        before: the metadata of the stored object.
        meta: the metadata that was sent; a resourceVersion or uid that it lacks is not checked.
        subresource: the written subresource; empty for the object itself. Writes of a subresource
            ignore the uid that is sent.

    Raises:
        Conflict: the write is for another resourceVersion.
        Invalid: it is for another uid.
    """
    version, uid = meta.get("resourceVersion"), meta.get("uid")
    if version and version != before["resourceVersion"]:
        raise create_conflict(
            before["name"], f"it is at {before['resourceVersion']}, not at {version}"
        )
    if uid and uid != before["uid"] and not subresource:
        raise Invalid(422, "Invalid", f"metadata.uid: Invalid value: {uid}: field is immutable")


def _check_finalizers(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to add finalizers to an object that is terminating.

    Args:
        before: the metadata of the stored object.
        now: the metadata to store.

    Raises:
        Invalid: a finalizer would be added.
    """
    added = set(now.get("finalizers") or ()) - set(before.get("finalizers") or ())
    if added and "deletionTimestamp" in before:
        raise Invalid(
            422,
            "Invalid",
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is"
            f" being deleted, found new finalizers {sorted(added)}",
        )


def _create_bad_request(message: str) -> BadRequest:
    """Return the error for a body that does not fit its request."""
    return BadRequest(400, "BadRequest", message)
