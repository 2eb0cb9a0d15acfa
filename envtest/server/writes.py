"""Create and update: from a body that fits its kind to an object in the store.

One write goes: namespace → defaults → ownership → mutating admission → what the server decides →
validation → validating admission → preconditions → store. From the preconditions on there is no
await, so nothing can come between a check and the write. What mutating admission adds has no
owner.
"""

import copy
from typing import Any

import msgspec

from controller.managedfields import same_except_times, track_update
from envtest.schema.errors import FieldError, invalid
from envtest.server import failures, objectmeta
from envtest.server.api import Api
from envtest.server.bodies import check_version, enforce_field_validation, fit, read_object
from envtest.server.call import AuthorizedCall, One
from envtest.server.failures import StatusError, bad_request, invalid_object
from envtest.server.options import WriteOptions, write_options
from envtest.server.resource import StoredResource
from envtest.storage import Stored
from envtest.wire.texts import number_fault

_encode = msgspec.json.Encoder(order="sorted").encode


async def create(api: Api, call: AuthorizedCall) -> One:
    """Answer a POST."""
    options = write_options("CreateOptions", call.query, dry_runs=call.dry_runs, agent=call.agent)
    decoded = read_object(call.data, call.content_type, call.resource)
    fit(call.resource, decoded)
    enforce_field_validation(
        call.resource, decoded, validation=options.field_validation, warnings=call.warnings
    )
    check_version(call.resource, decoded.body)
    return await create_object(api, call, body=decoded.body, options=options)


async def create_object(
    api: Api,
    call: AuthorizedCall,
    body: dict[str, Any],
    options: WriteOptions,
    *,
    tracked: bool = False,
) -> One:
    """Store a new object and answer with it.

    Args:
        api: the state.
        call: the request.
        body: the object, fitting its kind.
        options: of the request.
        tracked: whether managedFields are set already, as after an apply.
    """
    resource, meta = call.resource, body["metadata"]
    if resource.place in api.ending:
        name = meta.get("name", "")
        raise failures.creation_while_ending(resource.plural, resource.group, name)
    _set_namespace(call, meta)
    api.check_namespace(resource, meta.get("namespace", ""), meta.get("name", ""))
    objectmeta.drop_deletion(meta)
    if tracked:
        resource.rules.default_applied(body)
    else:
        resource.rules.default(body)
        _track(call, None, body=body, options=options, subresource="")
    body = await api.admission.mutate(call, "CREATE", new=body, old=None)
    meta = body["metadata"]
    _set_namespace(call, meta)
    resource.rules.prepare_create(body)
    objectmeta.fill_in(meta)
    resource.rules.complete_new(body)
    _refuse_invalid(resource, body, _creation_problems(resource, body))
    call.warnings += resource.rules.warnings(body, None)
    if call.info.verb != "create":
        api.creation_guard(call, meta["name"])
    await api.admission.validate(call, "CREATE", new=body, old=None)
    if _is_revision(meta.get("resourceVersion", "")) and not options.dry_run:
        raise failures.internal("resourceVersion should not be set on objects to be created")
    key = resource.key(meta.get("namespace", ""), meta["name"])
    _refuse_existing(api, resource, key=key, name=meta["name"])
    if options.dry_run:
        return One(201, resource, _encode(body))
    stored = api.store.write(resource.place, key, resource.stored_form(body))
    return One(201, resource, resource.json_of(stored))


def _set_namespace(call: AuthorizedCall, meta: dict[str, Any]) -> None:
    """Put the object where the request says, if it says nothing else.

    What a client says of the namespace of an object that is in none is passed over.
    """
    if not call.resource.namespaced:
        meta.pop("namespace", None)
        return
    if (meta.get("namespace") or call.info.namespace) != call.info.namespace:
        raise _other_namespace()
    meta["namespace"] = call.info.namespace


def _other_namespace() -> StatusError:
    return bad_request(
        "the namespace of the provided object does not match the namespace sent on the request"
    )


def _track(
    call: AuthorizedCall,
    live: dict[str, Any] | None,
    body: dict[str, Any],
    options: WriteOptions,
    subresource: str,
) -> None:
    """Update managedFields after a write."""
    resource = call.resource
    track_update(
        live,
        body,
        manager=options.manager,
        fields=resource.rules.model(),
        api_version=resource.api_version,
        subresource=subresource,
        now=objectmeta.timestamp(),
        versions=resource.versions,
    )


def _creation_problems(resource: StoredResource, body: dict[str, Any]) -> list[FieldError]:
    """Validate a new object: first by its kind's rules, then by those for all metadata."""
    problems = resource.rules.check(body)
    return problems or objectmeta.check(
        body["metadata"],
        namespaced=resource.namespaced,
        name_rule=objectmeta.path_segment_errors,
    )


def _refuse_invalid(
    resource: StoredResource, body: dict[str, Any], problems: list[FieldError]
) -> None:
    if problems:
        group = resource.rules.error_group
        if resource.rules.custom and body["apiVersion"] != resource.api_version:
            group = body["apiVersion"].rpartition("/")[0]
        name = body["metadata"].get("name", "")
        raise invalid_object(
            body["kind"], resource.group if group is None else group, name=name, problems=problems
        )


def _refuse_existing(api: Api, resource: StoredResource, key: str, name: str) -> None:
    existing = api.table(resource).get(key)
    if existing is not None:
        deleting = "deletionTimestamp" in resource.load(existing)["metadata"]
        raise failures.already_exists(resource.plural, resource.group, name, deleting=deleting)


async def update(api: Api, call: AuthorizedCall) -> One:
    """Answer a PUT on an object or one of its subresources."""
    resource, subresource = call.resource, call.info.subresource
    options = write_options("UpdateOptions", call.query, dry_runs=call.dry_runs, agent=call.agent)
    decoded = read_object(call.data, call.content_type, resource)
    fit(resource, decoded)
    enforce_field_validation(
        resource, decoded, validation=options.field_validation, warnings=call.warnings
    )
    check_version(resource, decoded.body)
    body = decoded.body
    check_names(call, body)
    stored = api.table(resource).get(call.key)
    if stored is None:
        if resource.rules.create_on_update and not subresource:
            body["metadata"].pop("resourceVersion", None)
            return await create_object(api, call, body=body, options=options)
        raise resource.not_found(call.info.name)
    live = resource.load(stored)
    uid = body["metadata"].get("uid")
    if uid and uid != live["metadata"]["uid"]:
        raise _wrong_uid(resource, call, expected=uid, actual=live["metadata"]["uid"])
    if body["metadata"].get("resourceVersion") or not resource.rules.unconditional_update:
        return await update_object(api, call, stored=stored, live=live, body=body, options=options)
    try:
        return await update_object(
            api, call, stored=stored, live=live, body=copy.deepcopy(body), options=options
        )
    except StatusError as error:
        if error.code != 409 or api.table(resource).get(call.key) is stored:
            raise
    # Another write came while admission decided; the client sent no resourceVersion.
    return await update(api, call)


def check_names(call: AuthorizedCall, body: dict[str, Any]) -> None:
    """Refuse an object whose name or namespace is not that of the path.

    Raises:
        StatusError: 400.
    """
    meta = body["metadata"]
    _set_namespace(call, meta)
    name = meta.get("name", "")
    if not name:
        raise bad_request(
            f"the name of the object ({call.info.name} based on URL) was undeterminable: "
            "name must be provided"
        )
    if name != call.info.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL "
            f"({call.info.name})"
        )


def _wrong_uid(
    resource: StoredResource, call: AuthorizedCall, expected: str, actual: str
) -> StatusError:
    return resource.conflict(
        call.info.name,
        f"StorageError: invalid object, Code: 4, Key: /registry/{resource.place}/{call.key}, "
        "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: "
        f"{expected}, UID in object meta: {actual}",
    )


async def update_object(  # noqa: PLR0913  # one write, seen from all sides
    api: Api,
    call: AuthorizedCall,
    stored: Stored,
    live: dict[str, Any],
    body: dict[str, Any],
    options: WriteOptions,
    *,
    tracked: bool = False,
) -> One:
    """Replace an object and answer with it.

    Args:
        api: the state.
        call: the request.
        stored: what is to be replaced.
        live: the same, decoded; it is not changed.
        body: the new object, fitting its kind.
        options: of the request.
        tracked: whether managedFields are set already, as after an apply.

    Raises:
        StatusError: 409 when the object has moved on, 422 when the new one breaks rules.
    """
    resource, subresource = call.resource, call.info.subresource
    if tracked:
        resource.rules.default_applied(body)
    else:
        resource.rules.default_changed(body, live)
        _track(call, live, body=body, options=options, subresource=subresource)
    body = await api.admission.mutate(call, "UPDATE", new=body, old=live)
    _check_revision(call, stored, body)
    _prepare(resource, subresource, body=body, live=live)
    _refuse_invalid(resource, body, _update_problems(call, body, live))
    call.warnings += resource.rules.warnings(body, live)
    await api.admission.validate(call, "UPDATE", new=body, old=live)
    if api.table(resource).get(call.key) is not stored:
        raise resource.conflict(call.info.name)
    return _commit(api, call, stored=stored, live=live, body=body, options=options)


def _is_revision(revision: str) -> bool:
    """Return whether a new object claims to be stored; 0 and what is no number do not count."""
    return bool(revision) and number_fault(revision) is None and int(revision) != 0


def _check_revision(call: AuthorizedCall, stored: Stored, body: dict[str, Any]) -> None:
    """Check the resourceVersion that the client sent; 0 stands for none."""
    resource, meta = call.resource, body["metadata"]
    revision = meta.get("resourceVersion", "")
    if revision == str(stored.revision):
        return
    if revision and (fault := number_fault(revision)):
        raise failures.internal(fault)
    if not int(revision or 0):
        if not resource.rules.unconditional_update:
            detail = "must be specified for an update"
            problem = invalid("metadata.resourceVersion", 0, detail)
            raise invalid_object(
                resource.plural, resource.group, name=call.info.name, problems=[problem]
            )
        meta["resourceVersion"] = str(stored.revision)
    elif int(revision) != stored.revision:
        raise resource.conflict(call.info.name)


def _prepare(
    resource: StoredResource, subresource: str, body: dict[str, Any], live: dict[str, Any]
) -> None:
    """Restore what this write cannot change, and raise the generation."""
    rules = resource.rules
    if subresource:
        rules.prepare_subresource(subresource, body, live)
    else:
        rules.prepare_update(body, live)
    meta, before = body["metadata"], live["metadata"]
    objectmeta.carry_over(meta, before)
    if rules.counts_generations and rules.is_new_generation(body, live):
        meta["generation"] = before.get("generation", 0) + 1


def _update_problems(
    call: AuthorizedCall, body: dict[str, Any], live: dict[str, Any]
) -> list[FieldError]:
    """Validate an update by all three sets of rules; an error in metadata is reported by each."""
    resource, subresource, meta = call.resource, call.info.subresource, body["metadata"]
    return [
        *objectmeta.check(
            meta,
            namespaced=resource.namespaced,
            name_rule=objectmeta.path_segment_errors,
            old=live["metadata"],
        ),
        *objectmeta.check_change(meta, live["metadata"]),
        *resource.rules.check_update_with_warnings(
            body, live, subresource=subresource, warnings=call.warnings
        ),
    ]


def _commit(
    api: Api,
    call: AuthorizedCall,
    stored: Stored,
    live: dict[str, Any],
    body: dict[str, Any],
    options: WriteOptions,
) -> One:
    """Write, or see that there is nothing to write; the last finalizer takes the object along."""
    resource = call.resource
    terminating = "deletionTimestamp" in live["metadata"]
    if terminating and resource.rules.is_finished(body):
        answer = _encode(body)
        if not options.dry_run:
            api.store.delete(resource.place, call.key)
        return One(200, resource, answer)
    if same_except_times(live, body):
        return One(200, resource, resource.json_of(stored))
    if options.dry_run:
        return One(200, resource, _encode(body))
    written = api.store.write(resource.place, call.key, resource.stored_form(body))
    return One(200, resource, resource.json_of(written))
