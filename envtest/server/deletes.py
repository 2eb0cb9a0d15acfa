"""DELETE: preconditions, propagation, and objects that wait for their finalizers."""

from collections.abc import Mapping
from typing import Any

import msgspec

from envtest.schema.errors import build_not_supported_error
from envtest.server import failures, objectmeta
from envtest.server.api import Api
from envtest.server.bodies import read_subresource_body
from envtest.server.call import Answer, AuthorizedCall, JsonAnswer, ListAnswer, ObjectAnswer
from envtest.server.failures import StatusError, build_bad_request, build_invalid_object
from envtest.server.options import META_GROUP, read_list_options, validate_dry_run
from envtest.server.reads import select_objects
from envtest.server.resource import StoredResource
from envtest.storage import StoredObject

_encode = msgspec.json.Encoder(order="sorted").encode
# (table name, key) -> why kube-apiserver refuses to delete this object.
_UNDELETABLE = {
    ("namespaces", name): "this namespace may not be deleted"
    for name in ("default", "kube-public", "kube-system")
}
# Tables of objects that the garbage collector ignores.
_NEVER_COLLECTED = frozenset({"events"})
# propagationPolicy -> the finalizer that the garbage collector removes when it is done.
_FINALIZERS = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}
_POLICIES = (*_FINALIZERS, "Background")
_KIND = "DeleteOptions"
_OPTIONS = f"io.k8s.apimachinery.pkg.apis.meta.v1.{_KIND}"


async def answer_delete(api: Api, call: AuthorizedCall) -> Answer:
    """Answer a DELETE on one object."""
    options = _read_delete_options(call)
    stored = api.get_stored(call)
    return await _delete(api, call, stored=stored, key=call.key, options=options)


async def answer_delete_collection(api: Api, call: AuthorizedCall) -> Answer:
    """Answer a DELETE on a collection with the selected objects as they were before."""
    selection_options = read_list_options(call.query, call.resource.rules, watch=False)
    options = _read_delete_options(call)
    selection = select_objects(api, call, selection_options)
    for stored in selection.items:
        # While admission decided about the objects before it, this one may have changed or gone.
        current = api.get_table(call.resource).get(stored.key)
        if current is not None:
            await _delete_item(api, call, stored=current, options=options)
    return ListAnswer(
        call.resource,
        [call.resource.encode_body(stored) for stored in selection.items],
        revision=selection.revision,
        token=selection.token,
        remaining=selection.remaining,
    )


def _read_delete_options(call: AuthorizedCall) -> Mapping[str, Any]:
    """Return the options of a deletion, from its body or else its query.

    They are also set on the request: `call.options` for admission, and `call.dry_runs`.

    Raises:
        StatusError: 400, 415 or 422 when the options are invalid.
    """
    options: dict[str, Any] = {}
    if call.data:
        options = read_subresource_body(call.data, call.content_type, name=_OPTIONS, kind=_KIND)
    elif "propagationPolicy" in call.query:
        options = {"propagationPolicy": call.query["propagationPolicy"]}
    if options.get("kind", _KIND) != _KIND:
        raise build_bad_request(f"{options['kind']} cannot be handled as a {_KIND}")
    call.dry_runs = options.pop("dryRun", None) or list(call.dry_runs)
    call.options = {
        name: value for name, value in options.items() if name not in {"kind", "apiVersion"}
    }
    policy = options.get("propagationPolicy")
    problems = validate_dry_run(call.dry_runs)
    if policy is not None and policy not in _POLICIES:
        problems.append(build_not_supported_error("propagationPolicy", policy, _POLICIES))
    if problems:
        raise build_invalid_object(_KIND, META_GROUP, name="", problems=problems)
    return {**options, "dryRun": call.dry_runs}


async def _delete_item(
    api: Api, call: AuthorizedCall, stored: StoredObject, options: Mapping[str, Any]
) -> None:
    """Delete one object of a collection; an object that another request deleted is no error."""
    try:
        await _delete(api, call, stored=stored, key=stored.key, options=options)
    except StatusError as error:
        # A webhook may also answer 404; then the object is still there, and the refusal counts.
        if error.code != 404 or api.get_table(call.resource).get(stored.key) is not None:
            raise


async def _delete(
    api: Api, call: AuthorizedCall, stored: StoredObject, key: str, options: Mapping[str, Any]
) -> Answer:
    """Remove an object for a client, or mark it as terminating, once admission allows it.

    Raises:
        StatusError: 403 for an object that may never be deleted, 409 for a precondition that does
            not hold, 404 when another request deleted the object first, or the refusal of
            admission.
    """
    resource = call.resource
    why = _UNDELETABLE.get((resource.table_name, key))
    if why is not None:
        raise failures.build_forbidden(resource.plural, resource.group, name=key, why=why)
    while True:
        body = resource.decode_object(stored)
        _check_preconditions(
            call, stored, body=body, preconditions=options.get("preconditions") or {}
        )
        await api.admission.validate(call, "DELETE", new=None, old=body)
        # Every write stores a new `StoredObject`, so the same one means no other write.
        current = api.get_table(resource).get(key)
        if current is stored:
            remaining = remove_or_terminate(api, resource, stored=stored, options=options)
            return _build_answer(resource, stored, remaining)
        if current is None:
            raise resource.build_not_found_error(body["metadata"]["name"])
        # The object changed while admission decided. Admission has to see the new state as well.
        stored = current


def _build_answer(
    resource: StoredResource, stored: StoredObject, remaining: StoredObject | None
) -> Answer:
    """Return the answer to a deletion.

    It is the object marked as terminating. If the object is gone, it is the deleted object for
    kinds that return it (`Rules.returns_deleted`), and a Status of success for all others.

    Args:
        resource: the kind of the object.
        stored: the object before the deletion.
        remaining: the object marked as terminating; None if it is gone.
    """
    result = remaining or (stored if resource.rules.returns_deleted else None)
    if result is not None:
        return ObjectAnswer(200, resource, resource.encode_object(result))
    meta = resource.decode_object(stored)["metadata"]
    details = {"name": meta["name"], "group": resource.group, "kind": resource.plural}
    present = {name: value for name, value in details.items() if value}
    return JsonAnswer(
        200,
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {**present, "uid": meta["uid"]},
        },
    )


def remove_or_terminate(
    api: Api, resource: StoredResource, stored: StoredObject, options: Mapping[str, Any]
) -> StoredObject | None:
    """Remove an object, or mark it as terminating while it has finalizers.

    Args:
        api: the state.
        resource: the kind of the object.
        stored: the current object.
        options: DeleteOptions, of which propagationPolicy and dryRun are used.

    Returns:
        The object marked as terminating; None if it is gone, or would be without the dry run.
    """
    body = resource.decode_object(stored)
    # Kinds that mark the deletion themselves have no propagation at their first deletion.
    if not _is_marked_by_kind(resource, body):
        _set_propagation_finalizer(resource, body, options)
    is_dry_run = bool(options.get("dryRun"))
    if not resource.rules.can_be_removed(body):
        return _terminate(api, resource, stored=stored, body=body, is_dry_run=is_dry_run)
    if not is_dry_run:
        api.store.delete(resource.table_name, stored.key)
    return None


def _check_preconditions(
    call: AuthorizedCall,
    stored: StoredObject,
    body: dict[str, Any],
    preconditions: Mapping[str, Any],
) -> None:
    """Check the uid and the resourceVersion of the preconditions in DeleteOptions.

    As in kube-apiserver, kinds that mark the deletion themselves word the refusal of the first
    deletion differently.

    Raises:
        StatusError: 409 if one of them does not match the stored object.
    """
    resource, meta = call.resource, body["metadata"]
    uid, revision = preconditions.get("uid"), preconditions.get("resourceVersion")
    if _is_marked_by_kind(resource, body):
        for name, expected, actual in (
            ("UID", uid, meta["uid"]),
            ("ResourceVersion", revision, str(stored.revision)),
        ):
            if expected is not None and expected != actual:
                why = f"{name} in precondition: {expected}, {name} in object meta: {actual}"
                raise resource.build_conflict_error(meta["name"], f"Precondition failed: {why}")
        return
    if uid is not None and uid != meta["uid"]:
        raise failures.build_conflict(
            resource.kind,
            resource.group,
            name=meta["name"],
            why=f"the UID in the precondition ({uid}) does not match the UID in record "
            f"({meta['uid']}). The object might have been deleted and then recreated",
        )
    if revision is not None and revision != str(stored.revision):
        raise failures.build_conflict(
            resource.kind,
            resource.group,
            name=meta["name"],
            why=f"the ResourceVersion in the precondition ({revision}) does not match the "
            f"ResourceVersion in record ({stored.revision}). The object might have been modified",
        )


def _is_marked_by_kind(resource: StoredResource, body: Mapping[str, Any]) -> bool:
    """Return whether this is the first deletion of an object whose kind marks deletions itself."""
    return resource.rules.marks_deletion and "deletionTimestamp" not in body["metadata"]


def _set_propagation_finalizer(
    resource: StoredResource, body: dict[str, Any], options: Mapping[str, Any]
) -> None:
    """Give an object the finalizer of its propagationPolicy, and no other policy's finalizer.

    While the object has that finalizer, the garbage collector deletes or orphans its dependents.
    """
    policy, meta = options.get("propagationPolicy"), body["metadata"]
    # Without a policy, the finalizers that the object has decide about its dependents.
    if resource.table_name in _NEVER_COLLECTED or policy is None:
        return
    policy_finalizers = set(_FINALIZERS.values())
    finalizers = [name for name in meta.get("finalizers") or () if name not in policy_finalizers]
    finalizer = _FINALIZERS.get(str(policy))
    if finalizer:
        finalizers.append(finalizer)
    if set(finalizers) == set(meta.get("finalizers") or ()):
        # Their order stays, so that a repeated deletion writes nothing.
        return
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)


def _terminate(
    api: Api,
    resource: StoredResource,
    stored: StoredObject,
    body: dict[str, Any],
    *,
    is_dry_run: bool,
) -> StoredObject:
    """Mark an object as terminating; return the marked object.

    Args:
        api: the state.
        resource: the kind of the object.
        stored: the current object.
        body: the same object, decoded; its finalizers may already be changed.
        is_dry_run: whether to store nothing.
    """
    meta = body["metadata"]
    unchanged = resource.decode_object(stored)
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = objectmeta.format_current_time()
        # As rest.BeforeDelete does, which kinds that mark the deletion themselves do not call.
        if not resource.rules.marks_deletion:
            meta["deletionGracePeriodSeconds"] = 0
            if meta.get("generation"):
                meta["generation"] += 1
        resource.rules.begin_deletion(body)
    if unchanged == body:
        # A repeated deletion: no write, no event.
        return stored
    if is_dry_run:
        return StoredObject(stored.key, stored.revision, _encode(resource.to_stored_form(body)))
    return api.store.write(resource.table_name, stored.key, resource.to_stored_form(body))
