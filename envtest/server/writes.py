"""Create and update objects.

The steps of a write: namespace → defaults → managedFields → mutating admission → fields that the
server sets → validation → validating admission → preconditions → store. After the preconditions
nothing awaits, so no other write comes between the check and the store. Fields that mutating
admission adds have no manager.
"""

from typing import Any

import msgspec

from controller.managedfields import are_equal_except_times, track_update
from envtest.schema.errors import FieldError, build_invalid_error
from envtest.server import failures, objectmeta
from envtest.server.api import Api
from envtest.server.bodies import (
    check_version,
    enforce_field_validation,
    fit_to_resource,
    read_object,
)
from envtest.server.call import AuthorizedCall, ObjectAnswer
from envtest.server.failures import StatusError, build_bad_request, build_invalid_object
from envtest.server.options import WriteOptions, read_write_options
from envtest.server.resource import StoredResource
from envtest.storage import StoredObject
from envtest.wire.texts import find_number_fault

_encode = msgspec.json.Encoder(order="sorted").encode


async def answer_create(api: Api, call: AuthorizedCall) -> ObjectAnswer:
    """Answer a POST: create an object."""
    options = read_write_options(
        "CreateOptions", call.query, dry_runs=call.dry_runs, agent=call.agent
    )
    decoded = read_object(call.data, call.content_type, call.resource)
    fit_to_resource(call.resource, decoded)
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
    is_tracked: bool = False,
) -> ObjectAnswer:
    """Store a new object and answer with it.

    Args:
        api: the state.
        call: the request.
        body: the object, decoded as its kind.
        options: the options of the request.
        is_tracked: whether managedFields are set already, as after an apply.

    Raises:
        StatusError: the first step that refuses the object; see the module for their order.
    """
    resource, meta = call.resource, body["metadata"]
    # The CRD of this kind is terminating: it waits until no objects remain.
    if resource.table_name in api.terminating_tables:
        name = meta.get("name", "")
        raise failures.build_terminating_definition_error(resource.plural, resource.group, name)
    _set_namespace(call, meta)
    api.check_namespace(resource, meta.get("namespace", ""), meta.get("name", ""))
    objectmeta.drop_deletion_fields(meta)
    if is_tracked:
        resource.rules.set_defaults_on_apply(body)
    else:
        resource.rules.set_defaults(body)
        _track_managers(call, live=None, body=body, options=options, subresource="")
    body = await api.admission.mutate(call, "CREATE", new=body, old=None)
    meta = body["metadata"]
    # Once more, as a webhook may have changed the namespace.
    _set_namespace(call, meta)
    resource.rules.prepare_create(body)
    objectmeta.set_creation_fields(meta)
    resource.rules.set_fields_after_naming(body)
    _refuse_invalid(resource, body, _validate_new(resource, body))
    call.warnings += resource.rules.list_warnings(body, old=None)
    # An update or patch that creates its object needs the permission to create as well.
    if call.info.verb != "create":
        api.check_creation_allowed(call, meta["name"])
    await api.admission.validate(call, "CREATE", new=body, old=None)
    # kube-apiserver refuses this in its storage, which a dry run does not reach.
    if _is_stored_revision(meta.get("resourceVersion", "")) and not options.dry_run:
        raise failures.build_unclassified_error(
            "resourceVersion should not be set on objects to be created"
        )
    key = resource.build_key(meta.get("namespace", ""), meta["name"])
    _refuse_existing(api, resource, key=key, name=meta["name"])
    if options.dry_run:
        return ObjectAnswer(201, resource, _encode(body))
    stored = api.store.write(resource.table_name, key, resource.to_stored_form(body))
    return ObjectAnswer(201, resource, resource.encode_object(stored))


def _set_namespace(call: AuthorizedCall, meta: dict[str, Any]) -> None:
    """Set the namespace of an object from the request; refuse an object with another namespace.

    The namespace of an object that is not namespaced is dropped.
    """
    if not call.resource.namespaced:
        meta.pop("namespace", None)
        return
    if (meta.get("namespace") or call.info.namespace) != call.info.namespace:
        raise build_bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    meta["namespace"] = call.info.namespace


def _track_managers(
    call: AuthorizedCall,
    live: dict[str, Any] | None,
    body: dict[str, Any],
    options: WriteOptions,
    subresource: str,
) -> None:
    """Set the managedFields of `body` for a write that replaces `live`; None for a new object."""
    resource = call.resource
    track_update(
        live,
        body,
        manager=options.manager,
        fields=resource.rules.get_field_model(),
        api_version=resource.api_version,
        subresource=subresource,
        now=objectmeta.format_current_time(),
        versions=resource.versions,
    )


def _validate_new(resource: StoredResource, body: dict[str, Any]) -> list[FieldError]:
    """Return the errors of a new object by the rules of its kind, or else of its metadata."""
    problems = resource.rules.find_errors(body)
    # Metadata is validated once more in general, as rest.BeforeCreate does. Here any name will
    # do that is a segment of a path, because the rules of the kind know its names better.
    return problems or objectmeta.find_metadata_errors(
        body["metadata"],
        namespaced=resource.namespaced,
        name_rule=objectmeta.find_path_segment_errors,
    )


def _refuse_invalid(
    resource: StoredResource, body: dict[str, Any], problems: list[FieldError]
) -> None:
    """Refuse an object that has problems, by its kind and group.

    Raises:
        StatusError: 422.
    """
    if problems:
        group = resource.rules.error_group
        # A webhook may have changed the apiVersion; the refusal names the group that it has now.
        if resource.rules.is_custom and body["apiVersion"] != resource.api_version:
            group = body["apiVersion"].rpartition("/")[0]
        name = body["metadata"].get("name", "")
        raise build_invalid_object(
            body["kind"], resource.group if group is None else group, name=name, problems=problems
        )


def _refuse_existing(api: Api, resource: StoredResource, key: str, name: str) -> None:
    """Refuse to create an object that exists.

    Raises:
        StatusError: 409.
    """
    existing = api.get_table(resource).get(key)
    if existing is not None:
        deleting = "deletionTimestamp" in resource.decode_object(existing)["metadata"]
        raise failures.build_already_exists(
            resource.plural, resource.group, name, deleting=deleting
        )


async def answer_update(api: Api, call: AuthorizedCall) -> ObjectAnswer:
    """Answer a PUT on an object or one of its subresources.

    After a concurrent write, an update without a resourceVersion is tried again on the new state.
    """
    resource, subresource = call.resource, call.info.subresource
    options = read_write_options(
        "UpdateOptions", call.query, dry_runs=call.dry_runs, agent=call.agent
    )
    decoded = read_object(call.data, call.content_type, resource)
    fit_to_resource(resource, decoded)
    enforce_field_validation(
        resource, decoded, validation=options.field_validation, warnings=call.warnings
    )
    check_version(resource, decoded.body)
    body = decoded.body
    fit_names_to_path(call, body)
    stored = api.get_table(resource).get(call.key)
    if stored is None:
        if resource.rules.creates_on_update and not subresource:
            # The version of an object that is gone; a new object must not have one.
            body["metadata"].pop("resourceVersion", None)
            return await create_object(api, call, body=body, options=options)
        raise resource.build_not_found_error(call.info.name)
    live = resource.decode_object(stored)
    uid = body["metadata"].get("uid")
    if uid and uid != live["metadata"]["uid"]:
        raise _build_uid_error(resource, call, expected=uid, actual=live["metadata"]["uid"])
    # The client, or the kind, wants a conflict after a concurrent write.
    if body["metadata"].get("resourceVersion") or not resource.rules.allows_unconditional_update:
        return await update_object(api, call, stored=stored, live=live, body=body, options=options)
    try:
        return await update_object(api, call, stored=stored, live=live, body=body, options=options)
    except StatusError as error:
        # A conflict without another write, such as a webhook's, is the answer.
        if error.code != 409 or api.get_table(resource).get(call.key) is stored:
            raise
    # Another write came while admission decided, so the update begins again with its data.
    return await answer_update(api, call)


def fit_names_to_path(call: AuthorizedCall, body: dict[str, Any]) -> None:
    """Set a missing namespace; refuse an object whose name or namespace differs from the path.

    Raises:
        StatusError: 400.
    """
    meta = body["metadata"]
    _set_namespace(call, meta)
    name = meta.get("name", "")
    if not name:
        raise build_bad_request(
            f"the name of the object ({call.info.name} based on URL) was undeterminable: "
            "name must be provided"
        )
    if name != call.info.name:
        raise build_bad_request(
            f"the name of the object ({name}) does not match the name on the URL "
            f"({call.info.name})"
        )


def _build_uid_error(
    resource: StoredResource, call: AuthorizedCall, expected: str, actual: str
) -> StatusError:
    """Return 409 for an update with the uid of another object."""
    return resource.build_conflict_error(
        call.info.name,
        f"StorageError: invalid object, Code: 4, Key: /registry/{resource.table_name}/{call.key}, "
        "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: "
        f"{expected}, UID in object meta: {actual}",
    )


async def update_object(  # noqa: PLR0913  # all parts of one write
    api: Api,
    call: AuthorizedCall,
    stored: StoredObject,
    live: dict[str, Any],
    body: dict[str, Any],
    options: WriteOptions,
    *,
    is_tracked: bool = False,
) -> ObjectAnswer:
    """Replace an object and answer with it.

    Args:
        api: the state.
        call: the request.
        stored: the object to be replaced.
        live: the same object, decoded; it is not changed.
        body: the new object, decoded as its kind.
        options: the options of the request.
        is_tracked: whether managedFields are set already, as after an apply.

    Raises:
        StatusError: 409 after a concurrent write, 422 when the new object is invalid,
            or the refusal of admission.
    """
    resource, subresource = call.resource, call.info.subresource
    if is_tracked:
        resource.rules.set_defaults_on_apply(body)
    else:
        resource.rules.set_defaults_on_update(body, live)
        _track_managers(call, live, body=body, options=options, subresource=subresource)
    body = await api.admission.mutate(call, "UPDATE", new=body, old=live)
    _check_or_set_revision(call, stored, body)
    _restore_unchangeable(resource, subresource, body=body, live=live)
    _refuse_invalid(resource, body, _validate_update(call, body, live))
    call.warnings += resource.rules.list_warnings(body, old=live)
    await api.admission.validate(call, "UPDATE", new=body, old=live)
    # Another write came while admission decided: each write stores another object.
    if api.get_table(resource).get(call.key) is not stored:
        raise resource.build_conflict_error(call.info.name)
    return _store_update(api, call, stored=stored, live=live, body=body, options=options)


def _is_stored_revision(revision: str) -> bool:
    """Return whether a resourceVersion is a number above 0, which only stored objects have."""
    return bool(revision) and find_number_fault(revision) is None and int(revision) != 0


def _check_or_set_revision(
    call: AuthorizedCall, stored: StoredObject, body: dict[str, Any]
) -> None:
    """Refuse an update with another resourceVersion than the stored one; set a missing one.

    The versions 0 and empty count as missing.

    Raises:
        StatusError: 409 for another version, 422 if it is missing and the kind demands one, 500 if
            it is no number.
    """
    resource, meta = call.resource, body["metadata"]
    revision = meta.get("resourceVersion", "")
    if revision == str(stored.revision):
        return
    if revision and (fault := find_number_fault(revision)):
        raise failures.build_unclassified_error(fault)
    if not int(revision or 0):
        if not resource.rules.allows_unconditional_update:
            detail = "must be specified for an update"
            problem = build_invalid_error("metadata.resourceVersion", 0, detail)
            raise build_invalid_object(
                resource.plural, resource.group, name=call.info.name, problems=[problem]
            )
        meta["resourceVersion"] = str(stored.revision)
    elif int(revision) != stored.revision:
        raise resource.build_conflict_error(call.info.name)


def _restore_unchangeable(
    resource: StoredResource, subresource: str, body: dict[str, Any], live: dict[str, Any]
) -> None:
    """Restore the fields that this write cannot change; count a new generation if needed."""
    rules = resource.rules
    if subresource:
        rules.prepare_subresource(subresource, body, live)
    else:
        rules.prepare_update(body, live)
    meta, live_meta = body["metadata"], live["metadata"]
    objectmeta.restore_server_fields(meta, live_meta)
    if rules.counts_generations and rules.needs_new_generation(body, live):
        meta["generation"] = live_meta.get("generation", 0) + 1


def _validate_update(
    call: AuthorizedCall, body: dict[str, Any], live: dict[str, Any]
) -> list[FieldError]:
    """Return the errors of an update: of its metadata, of changes of metadata, and of its kind.

    As in kube-apiserver, an error may be reported by several of these.
    """
    resource, subresource, meta = call.resource, call.info.subresource, body["metadata"]
    return [
        *objectmeta.find_metadata_errors(
            meta,
            namespaced=resource.namespaced,
            name_rule=objectmeta.find_path_segment_errors,
            old=live["metadata"],
        ),
        *objectmeta.find_change_errors(meta, live["metadata"]),
        *resource.rules.find_update_errors_with_warnings(
            body, live, subresource=subresource, warnings=call.warnings
        ),
    ]


def _store_update(
    api: Api,
    call: AuthorizedCall,
    stored: StoredObject,
    live: dict[str, Any],
    body: dict[str, Any],
    options: WriteOptions,
) -> ObjectAnswer:
    """Store an updated object and answer with it.

    Two updates store nothing: the removal of the last finalizer of a terminating object, which
    deletes the object, and an update that changes nothing.
    """
    resource = call.resource
    is_terminating = "deletionTimestamp" in live["metadata"]
    if is_terminating and resource.rules.can_be_removed(body):
        answer = _encode(body)
        if not options.dry_run:
            api.store.delete(resource.table_name, call.key)
        return ObjectAnswer(200, resource, answer)
    # The times in managedFields are new in each write; they alone are no change.
    if are_equal_except_times(live, body):
        return ObjectAnswer(200, resource, resource.encode_object(stored))
    if options.dry_run:
        return ObjectAnswer(200, resource, _encode(body))
    written = api.store.write(resource.table_name, call.key, resource.to_stored_form(body))
    return ObjectAnswer(200, resource, resource.encode_object(written))
