"""DELETE: preconditions, propagation, and objects that wait for their finalizers."""

from collections.abc import Mapping
from typing import Any

import msgspec

from envtest.kinds.typed import TypedError, decode, named
from envtest.patching import json_kind
from envtest.schema import MalformedJSON, strict_json
from envtest.schema.errors import FieldError, forbidden, not_supported
from envtest.server import failures, objectmeta
from envtest.server.api import Api
from envtest.server.bodies import PROTOBUF, READ, YAML
from envtest.server.call import Answer, Call, Many, One, Plain
from envtest.server.failures import StatusError, bad_request, invalid_object
from envtest.server.options import META_GROUP, dry_run_problems, flag, list_options, number
from envtest.server.reads import ready_to_select, select
from envtest.server.resource import Resource
from envtest.storage import Stored
from envtest.wire.protobuf import ProtobufError, read_protobuf
from envtest.wire.yamltext import YamlError, read_yaml

_encode = msgspec.json.Encoder(order="sorted").encode
_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_KIND = "DeleteOptions"
_POLICIES = ("Background", "Foreground", "Orphan")
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
_FINALIZERS = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}


async def delete(api: Api, call: Call) -> Answer:
    """Answer a DELETE on one object."""
    options = _options(call)
    stored = api.current(call)
    return await _delete(api, call, stored, call.key, options)


async def delete_collection(api: Api, call: Call) -> Answer:
    """Answer a DELETE on a collection with what was selected, as it was."""
    options = _options(call)
    chosen = list_options(call.query, watch=False)
    if chosen.fields:
        await ready_to_select(api, call.resource)
    selected = select(api, call, chosen)
    for stored in selected.items:
        if api.table(call.resource).get(stored.key) is not None:
            current = api.table(call.resource).get(stored.key) or stored
            await _delete_one(api, call, current, options)
    await call.resource.ready(selected.items)
    bodies = [call.resource.bare(stored) for stored in selected.items]
    return Many(call.resource, bodies, selected.revision)


async def _delete_one(api: Api, call: Call, stored: Stored, options: Mapping[str, Any]) -> None:
    """Remove one of many; that it is gone already is as good."""
    try:
        await _delete(api, call, stored, stored.key, options)
    except StatusError as error:
        if error.code != 404 or api.table(call.resource).get(stored.key) is not None:
            raise


def _options(call: Call) -> Mapping[str, Any]:
    """Read DeleteOptions from the body or, without one, from the query.

    Raises:
        StatusError: 400 or 422 when they make no sense.
    """
    options: dict[str, Any] = {}
    options = _read(call) if call.data.strip() else _from_query(call.query)
    call.options = {
        name: value
        for name, value in options.items()
        if name not in {"kind", "apiVersion", "dryRun"}
    }
    dry_runs = options.get("dryRun") or list(call.dry_runs)
    call.dry_runs = dry_runs
    problems = _problems(options) + dry_run_problems(dry_runs)
    if problems:
        raise invalid_object("DeleteOptions", META_GROUP, "", problems)
    return {**options, "dryRun": dry_runs}


def _from_query(query: Mapping[str, str]) -> dict[str, Any]:
    """Read DeleteOptions from query parameters.

    Raises:
        StatusError: 400 for a number that is none.
    """
    options: dict[str, Any] = {}
    if "propagationPolicy" in query:
        options["propagationPolicy"] = query["propagationPolicy"]
    if "gracePeriodSeconds" in query:
        options["gracePeriodSeconds"] = number(query, "gracePeriodSeconds")
    if "orphanDependents" in query:
        options["orphanDependents"] = flag(query, "orphanDependents")
    return options


def _read(call: Call) -> dict[str, Any]:
    """Read DeleteOptions from the body.

    Raises:
        StatusError: 415 for another format, 400 for a text that is no such thing.
    """
    if call.content_type not in {"", *READ}:
        raise failures.unsupported_media_type(READ)
    try:
        if call.content_type == PROTOBUF:
            return read_protobuf(call.data, _OPTIONS)
        value, _ = read_yaml(call.data) if call.content_type == YAML else strict_json(call.data)
    except (MalformedJSON, YamlError, ProtobufError) as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(value, dict):
        text = f"json: cannot unmarshal {json_kind(value)} into Go value of type v1.DeleteOptions"
        raise bad_request(f"couldn't get version/kind; json parse error: {text}")
    try:
        decode(value, named(_OPTIONS))
    except TypedError as error:
        raise bad_request(str(error)) from None
    if value.get("kind", _KIND) != _KIND:
        raise bad_request("decoded object cannot be converted to DeleteOptions")
    return value


def _problems(options: Mapping[str, Any]) -> list[FieldError]:
    policy = options.get("propagationPolicy")
    found: list[FieldError] = []
    if policy is not None and options.get("orphanDependents") is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        found.append(forbidden("propagationPolicy", text))
    if policy is not None and policy not in _POLICIES:
        among = ("Foreground", "Background", "Orphan", "nil")
        found.append(not_supported("propagationPolicy", policy, among))
    return found


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
        _check_preconditions(call, stored, body, options.get("preconditions") or {})
        await api.admission.validate(call, "DELETE", None, body)
        current = api.table(resource).get(key)
        if current is stored:
            left = remove(api, resource, stored, options)
            return await _told(resource, stored, left)
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
    _propagate(body, options)
    dry = bool(options.get("dryRun"))
    if not resource.rules.is_finished(body):
        return _terminate(api, resource, stored, body, dry=dry)
    if not dry:
        api.store.delete(resource.place, stored.key, resource.stored_form(body))
    return None


def _check_preconditions(
    call: Call, stored: Stored, body: dict[str, Any], given: Mapping[str, Any]
) -> None:
    """Hold the client to the uid and revision that it names."""
    resource, meta = call.resource, body["metadata"]
    uid, revision = given.get("uid"), given.get("resourceVersion")
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


def _conflict(call: Call, name: str, why: str) -> StatusError:
    return failures.conflict(call.resource.kind, call.resource.group, name, why)


def _propagate(body: dict[str, Any], options: Mapping[str, Any]) -> None:
    """Set or take the finalizers by which dependents are waited for or let go."""
    policy = options.get("propagationPolicy")
    if options.get("orphanDependents"):
        policy = "Orphan"
    if policy is None and options.get("orphanDependents") is None:
        return
    meta = body["metadata"]
    marks = set(_FINALIZERS.values())
    kept = [one for one in meta.get("finalizers") or () if one not in marks]
    wanted = _FINALIZERS.get(str(policy))
    if wanted:
        kept.append(wanted)
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
        meta["deletionGracePeriodSeconds"] = 0
        if meta.get("generation"):
            meta["generation"] += 1
        resource.rules.begin_deletion(body)
    if before == body:
        return stored
    if dry:
        return Stored(stored.key, stored.revision, _encode(resource.stored_form(body)))
    return api.store.write(resource.place, stored.key, resource.stored_form(body))
