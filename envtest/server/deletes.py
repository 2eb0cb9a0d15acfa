"""DELETE: preconditions, propagation, and objects that wait for their finalizers."""

from collections.abc import Mapping
from typing import Any

import msgspec

from envtest.server import failures, objectmeta
from envtest.server.api import Api
from envtest.server.call import Answer, Call, Many, One, Plain
from envtest.server.deleteoptions import delete_options
from envtest.server.failures import StatusError
from envtest.server.options import list_options
from envtest.server.reads import ready_to_select, select
from envtest.server.resource import Resource
from envtest.storage import Stored

_encode = msgspec.json.Encoder(order="sorted").encode
_IMMORTAL = {
    **{
        ("namespaces", name): "this namespace may not be deleted"
        for name in ("default", "kube-public", "kube-system")
    },
    **{
        ("scheduling.k8s.io/priorityclasses", name): (
            "this is a system priority class and cannot be deleted"
        )
        for name in ("system-cluster-critical", "system-node-critical")
    },
}
# Kinds of the first days, whose dependents stay unless somebody says otherwise.
_ORPHANING = frozenset({"batch/jobs", "replicationcontrollers"})
_NEVER_COLLECTED = frozenset({"events"})
_PODS_STAY = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background "
    "to remove them or set propagationPolicy=Orphan to suppress this warning"
)
_FINALIZERS = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}


async def delete(api: Api, call: Call) -> Answer:
    """Answer a DELETE on one object."""
    options = delete_options(call)
    _warn_of_orphans(call, options)
    stored = api.current(call)
    return await _delete(api, call, stored, call.key, options)


async def delete_collection(api: Api, call: Call) -> Answer:
    """Answer a DELETE on a collection with what was selected, as it was."""
    chosen = list_options(call.query, call.resource.rules, watch=False)
    options = delete_options(call)
    _warn_of_orphans(call, options)
    if chosen.fields:
        await ready_to_select(api, call.resource)
    selected = select(api, call, chosen)
    for stored in selected.items:
        if api.table(call.resource).get(stored.key) is not None:
            current = api.table(call.resource).get(stored.key) or stored
            await _delete_one(api, call, current, options)
    await call.resource.ready(selected.items)
    bodies = [call.resource.bare(stored) for stored in selected.items]
    # Without a limit all pages were gone through, and nothing remains.
    token, remaining = (selected.token, selected.remaining) if chosen.limit else ("", 0)
    return Many(call.resource, bodies, selected.revision, token, remaining)


def _warn_of_orphans(call: Call, options: Mapping[str, Any]) -> None:
    if call.resource.place == "batch/jobs" and _is_silent(options):
        call.warnings.append(_PODS_STAY)


async def _delete_one(api: Api, call: Call, stored: Stored, options: Mapping[str, Any]) -> None:
    """Remove one of many; that it is gone already is as good."""
    try:
        await _delete(api, call, stored, stored.key, options)
    except StatusError as error:
        if error.code != 404 or api.table(call.resource).get(stored.key) is not None:
            raise


async def _delete(
    api: Api, call: Call, stored: Stored, key: str, options: Mapping[str, Any]
) -> Answer:
    """Remove an object for a client, or mark it as terminating.

    Raises:
        StatusError: 404 when somebody else was faster; whoever may refuse it, refuses it.
    """
    resource = call.resource
    why = _IMMORTAL.get((resource.place, key))
    if why is not None:
        raise failures.forbidden(resource.plural, resource.group, key, why)
    while True:
        await resource.ready([stored])
        body = resource.load(stored)
        check_preconditions(call, stored, body, options.get("preconditions") or {})
        await api.admission.validate(call, "DELETE", None, body)
        current = api.table(resource).get(key)
        if current is stored:
            left = remove(api, resource, stored, options)
            answer = await _told(resource, stored, left)
            return _accepted(answer) if left and _asks_for_dependents(options) else answer
        if current is None:
            raise resource.not_found(body["metadata"]["name"])
        # It was changed while admission decided, which has not seen it like this.
        stored = current


async def _told(resource: Resource, stored: Stored, left: Stored | None) -> Answer:
    """Return the answer to a deletion: the object if it is still there, else that it is gone."""
    shown = left or (stored if resource.rules.returns_deleted else None)
    if shown is not None:
        await resource.ready([shown])
        return One(200, resource, resource.dressed(shown))
    meta = resource.raw(stored)["metadata"]
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


def _is_silent(options: Mapping[str, Any]) -> bool:
    """Tell whether a client says nothing of what becomes of dependents."""
    return options.get("propagationPolicy") is None and options.get("orphanDependents") is None


def _asks_for_dependents(options: Mapping[str, Any]) -> bool:
    """Tell whether the client said in the old way that dependents shall go, too."""
    return options.get("orphanDependents") is False


def _accepted(answer: Answer) -> Answer:
    """Return an answer that says that the deletion goes on."""
    return One(202, answer.resource, answer.body) if isinstance(answer, One) else answer


def remove(
    api: Api, resource: Resource, stored: Stored, options: Mapping[str, Any]
) -> Stored | None:
    """Remove an object, or mark it as terminating while it has finalizers.

    Only metadata matters for that, so the object stays in the version in which it is stored.

    Args:
        api: the state.
        resource: what the object is.
        stored: the current object.
        options: DeleteOptions; propagation and dryRun count here.

    Returns:
        The object as it is now, marked; None if it is gone.
    """
    body = resource.raw(stored)
    if not _marks(resource, body):
        _propagate(resource, body, options)
    dry = bool(options.get("dryRun"))
    if not resource.rules.is_finished(body):
        return _terminate(api, resource, stored, body, dry=dry)
    if not dry:
        api.store.delete(resource.place, stored.key)
    return None


def check_preconditions(
    call: Call, stored: Stored, body: dict[str, Any], given: Mapping[str, Any]
) -> None:
    """Hold the client to the uid and revision that it names.

    Raises:
        StatusError: 409.
    """
    resource, meta = call.resource, body["metadata"]
    uid, revision = given.get("uid"), given.get("resourceVersion")
    if _marks(resource, body):
        for name, wanted, found in (
            ("UID", uid, meta["uid"]),
            ("ResourceVersion", revision, str(stored.revision)),
        ):
            if wanted is not None and wanted != found:
                why = f"{name} in precondition: {wanted}, {name} in object meta: {found}"
                raise resource.conflict(meta["name"], f"Precondition failed: {why}")
        return
    if uid is not None and uid != meta["uid"]:
        raise _conflict(
            call,
            meta["name"],
            f"the UID in the precondition ({uid}) does not match the UID in record "
            f"({meta['uid']}). The object might have been deleted and then recreated",
        )
    if revision is not None and revision != str(stored.revision):
        raise failures.conflict(
            resource.kind,
            resource.group,
            meta["name"],
            f"the ResourceVersion in the precondition ({revision}) does not match the "
            f"ResourceVersion in record ({stored.revision}). The object might have been modified",
        )


def _marks(resource: Resource, body: Mapping[str, Any]) -> bool:
    """Tell whether the kind itself decides what its first deletion does to an object."""
    return resource.rules.marks_deletion and "deletionTimestamp" not in body["metadata"]


def _conflict(call: Call, name: str, why: str) -> StatusError:
    return failures.conflict(call.resource.kind, call.resource.group, name, why)


def _propagate(resource: Resource, body: dict[str, Any], options: Mapping[str, Any]) -> None:
    """Set or take the finalizers by which dependents are waited for or let go."""
    if resource.place in _NEVER_COLLECTED:
        return
    policy, meta = options.get("propagationPolicy"), body["metadata"]
    marks = set(_FINALIZERS.values())
    if options.get("orphanDependents"):
        policy = "Orphan"
    if _is_silent(options):
        if resource.place not in _ORPHANING or marks & set(meta.get("finalizers") or ()):
            return
        policy = "Orphan"
    kept = [one for one in meta.get("finalizers") or () if one not in marks]
    wanted = _FINALIZERS.get(str(policy))
    if wanted:
        kept.append(wanted)
    if set(kept) == set(meta.get("finalizers") or ()):
        return
    if kept:
        meta["finalizers"] = kept
    else:
        meta.pop("finalizers", None)


def _terminate(
    api: Api, resource: Resource, stored: Stored, body: dict[str, Any], *, dry: bool
) -> Stored:
    """Mark an object as terminating; a second time changes nothing."""
    meta = body["metadata"]
    before = resource.raw(stored)
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
