"""DELETE: preconditions, propagation, and objects that wait for their finalizers."""

from collections.abc import Mapping
from typing import Any

import msgspec

from envtest.schema.errors import not_supported
from envtest.server import failures, objectmeta
from envtest.server.api import Api
from envtest.server.bodies import read_as
from envtest.server.call import Answer, AuthorizedCall, Many, One, Plain
from envtest.server.failures import StatusError, bad_request, invalid_object
from envtest.server.options import META_GROUP, dry_run_problems, list_options
from envtest.server.reads import select
from envtest.server.resource import StoredResource
from envtest.storage import Stored

_encode = msgspec.json.Encoder(order="sorted").encode
_IMMORTAL = {
    ("namespaces", name): "this namespace may not be deleted"
    for name in ("default", "kube-public", "kube-system")
}
_NEVER_COLLECTED = frozenset({"events"})
_FINALIZERS = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}
_POLICIES = (*_FINALIZERS, "Background")
_KIND = "DeleteOptions"
_OPTIONS = f"io.k8s.apimachinery.pkg.apis.meta.v1.{_KIND}"


async def delete(api: Api, call: AuthorizedCall) -> Answer:
    """Answer a DELETE on one object."""
    options = _delete_options(call)
    stored = api.current(call)
    return await _delete(api, call, stored=stored, key=call.key, options=options)


async def delete_collection(api: Api, call: AuthorizedCall) -> Answer:
    """Answer a DELETE on a collection with what was selected, as it was."""
    chosen = list_options(call.query, call.resource.rules, watch=False)
    options = _delete_options(call)
    selected = select(api, call, chosen)
    for stored in selected.items:
        if api.table(call.resource).get(stored.key) is not None:
            current = api.table(call.resource).get(stored.key) or stored
            await _delete_one(api, call, stored=current, options=options)
    bodies = [call.resource.body_of(stored) for stored in selected.items]
    # Without a limit all pages were gone through, and nothing remains.
    token, remaining = (selected.token, selected.remaining) if chosen.limit else ("", 0)
    return Many(
        call.resource, bodies, revision=selected.revision, token=token, remaining=remaining
    )


def _delete_options(call: AuthorizedCall) -> Mapping[str, Any]:
    """Read the options of a deletion, from its body or else its query.

    The request keeps them for admission.

    Raises:
        StatusError: 400, 415 or 422 when they make no sense.
    """
    options: dict[str, Any] = {}
    if call.data:
        options = read_as(call.data, call.content_type, name=_OPTIONS, kind=_KIND)
    elif "propagationPolicy" in call.query:
        options = {"propagationPolicy": call.query["propagationPolicy"]}
    if options.get("kind", _KIND) != _KIND:
        raise bad_request(f"{options['kind']} cannot be handled as a {_KIND}")
    call.dry_runs = options.pop("dryRun", None) or list(call.dry_runs)
    call.options = {
        name: value for name, value in options.items() if name not in {"kind", "apiVersion"}
    }
    policy = options.get("propagationPolicy")
    problems = dry_run_problems(call.dry_runs)
    if policy is not None and policy not in _POLICIES:
        problems.append(not_supported("propagationPolicy", policy, _POLICIES))
    if problems:
        raise invalid_object(_KIND, META_GROUP, name="", problems=problems)
    return {**options, "dryRun": call.dry_runs}


async def _delete_one(
    api: Api, call: AuthorizedCall, stored: Stored, options: Mapping[str, Any]
) -> None:
    """Remove one object of a collection; one that is gone already is no error."""
    try:
        await _delete(api, call, stored=stored, key=stored.key, options=options)
    except StatusError as error:
        if error.code != 404 or api.table(call.resource).get(stored.key) is not None:
            raise


async def _delete(
    api: Api, call: AuthorizedCall, stored: Stored, key: str, options: Mapping[str, Any]
) -> Answer:
    """Remove an object for a client, or mark it as terminating.

    Raises:
        StatusError: 404 when another request deleted it first; else the refusal of admission.
    """
    resource = call.resource
    why = _IMMORTAL.get((resource.place, key))
    if why is not None:
        raise failures.forbidden(resource.plural, resource.group, name=key, why=why)
    while True:
        body = resource.load(stored)
        _check_preconditions(
            call, stored, body=body, preconditions=options.get("preconditions") or {}
        )
        await api.admission.validate(call, "DELETE", new=None, old=body)
        current = api.table(resource).get(key)
        if current is stored:
            return _answer(resource, stored, remove(api, resource, stored=stored, options=options))
        if current is None:
            raise resource.not_found(body["metadata"]["name"])
        # It was changed while admission decided, which has not seen it like this.
        stored = current


def _answer(resource: StoredResource, stored: Stored, remaining: Stored | None) -> Answer:
    """Return the answer to a deletion: the object if it is still there, else that it is gone."""
    result = remaining or (stored if resource.rules.returns_deleted else None)
    if result is not None:
        return One(200, resource, resource.json_of(result))
    meta = resource.load(stored)["metadata"]
    details = {"name": meta["name"], "group": resource.group, "kind": resource.plural}
    present = {name: value for name, value in details.items() if value}
    return Plain(
        200,
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {**present, "uid": meta["uid"]},
        },
    )


def remove(
    api: Api, resource: StoredResource, stored: Stored, options: Mapping[str, Any]
) -> Stored | None:
    """Remove an object, or mark it as terminating while it has finalizers.

    Args:
        api: the state.
        resource: what the object is.
        stored: the current object.
        options: DeleteOptions; propagation and dryRun count here.

    Returns:
        The object as it is now, marked; None if it is gone.
    """
    body = resource.load(stored)
    if not _is_marked_by_kind(resource, body):
        _propagate(resource, body, options)
    dry = bool(options.get("dryRun"))
    if not resource.rules.is_finished(body):
        return _terminate(api, resource, stored=stored, body=body, dry=dry)
    if not dry:
        api.store.delete(resource.place, stored.key)
    return None


def _check_preconditions(
    call: AuthorizedCall, stored: Stored, body: dict[str, Any], preconditions: Mapping[str, Any]
) -> None:
    """Check the uid and the resourceVersion of the preconditions in DeleteOptions.

    As on kube-apiserver, kinds with a deletion of their own refuse the first one in other words.

    Raises:
        StatusError: 409, one of them does not match the stored object.
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
                raise resource.conflict(meta["name"], f"Precondition failed: {why}")
        return
    if uid is not None and uid != meta["uid"]:
        raise failures.conflict(
            resource.kind,
            resource.group,
            name=meta["name"],
            why=f"the UID in the precondition ({uid}) does not match the UID in record "
            f"({meta['uid']}). The object might have been deleted and then recreated",
        )
    if revision is not None and revision != str(stored.revision):
        raise failures.conflict(
            resource.kind,
            resource.group,
            name=meta["name"],
            why=f"the ResourceVersion in the precondition ({revision}) does not match the "
            f"ResourceVersion in record ({stored.revision}). The object might have been modified",
        )


def _is_marked_by_kind(resource: StoredResource, body: Mapping[str, Any]) -> bool:
    """Return whether this is the first deletion of an object whose kind marks it by itself."""
    return resource.rules.marks_deletion and "deletionTimestamp" not in body["metadata"]


def _propagate(resource: StoredResource, body: dict[str, Any], options: Mapping[str, Any]) -> None:
    """Set the finalizer by which the garbage collector waits for dependents or orphans them."""
    policy, meta = options.get("propagationPolicy"), body["metadata"]
    if resource.place in _NEVER_COLLECTED or policy is None:
        return
    marks = set(_FINALIZERS.values())
    kept = [name for name in meta.get("finalizers") or () if name not in marks]
    finalizer = _FINALIZERS.get(str(policy))
    if finalizer:
        kept.append(finalizer)
    if set(kept) == set(meta.get("finalizers") or ()):
        return
    if kept:
        meta["finalizers"] = kept
    else:
        meta.pop("finalizers", None)


def _terminate(
    api: Api, resource: StoredResource, stored: Stored, body: dict[str, Any], *, dry: bool
) -> Stored:
    """Mark an object as terminating; a second time changes nothing."""
    meta = body["metadata"]
    before = resource.load(stored)
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = objectmeta.timestamp()
        if not resource.rules.marks_deletion:
            meta["deletionGracePeriodSeconds"] = 0
            if meta.get("generation"):
                meta["generation"] += 1
        resource.rules.begin_deletion(body)
    if before == body:
        return stored
    if dry:
        return Stored(stored.key, stored.revision, _encode(resource.stored_form(body)))
    return api.store.write(resource.place, stored.key, resource.stored_form(body))
