"""DeleteOptions: from the body of a DELETE or, without one, from its query.

A body may come in the version of any group, as clients of old send it; what it says it is has to
be DeleteOptions all the same.
"""

from collections.abc import Mapping
from typing import Any

from envtest.kinds.typed import TypedError, decode, named
from envtest.schema import MalformedJSON, MalformedYAML, read_json, read_yaml
from envtest.schema.errors import FieldError, invalid, not_supported
from envtest.server.bodies import PROTOBUF, READ, YAML, envelope_fault
from envtest.server.call import Call
from envtest.server.failures import (
    StatusError,
    bad_request,
    invalid_object,
    unsupported_media_type,
)
from envtest.server.options import META_GROUP, dry_run_problems, flag, number
from envtest.wire.protobuf import ProtobufError, read_protobuf

_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_KIND = "DeleteOptions"
_POLICIES = ("Foreground", "Background", "Orphan")
# Kinds that are options, too, or not: those of meta.k8s.io/v1, and those of any version.
_META_KINDS = frozenset(
    {
        "CreateOptions",
        "GetOptions",
        "ListOptions",
        "PartialObjectMetadata",
        "PartialObjectMetadataList",
        "PatchOptions",
        "Table",
        "TableOptions",
        "UpdateOptions",
    }
)
_UNVERSIONED = frozenset({"APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"})
# What Go calls the types of fields that are texts in the schema.
_GO_TYPES = {
    "DeleteOptions.propagationPolicy of type string": "v1.DeletionPropagation",
    "Preconditions.preconditions.uid of type string": "types.UID",
}


def delete_options(call: Call) -> Mapping[str, Any]:
    """Read the options of a deletion; the request keeps them for admission.

    Raises:
        StatusError: 400, 415 or 422 when they make no sense.
    """
    options = _read(call) if call.data else _from_query(call)
    call.options = {
        name: value
        for name, value in options.items()
        if name not in {"kind", "apiVersion", "dryRun"}
    }
    call.dry_runs = options.get("dryRun") or []
    problems = _problems(options, call.dry_runs)
    if problems:
        raise invalid_object(_KIND, META_GROUP, "", problems)
    return {**options, "dryRun": call.dry_runs}


def _from_query(call: Call) -> dict[str, Any]:
    """Read DeleteOptions from query parameters.

    Raises:
        StatusError: 400 for a number that is none.
    """
    query, options = call.query, dict[str, Any]()
    if "propagationPolicy" in query:
        options["propagationPolicy"] = query["propagationPolicy"]
    if "gracePeriodSeconds" in query:
        options["gracePeriodSeconds"] = number(query, "gracePeriodSeconds")
    if "orphanDependents" in query:
        options["orphanDependents"] = flag(query, "orphanDependents")
    preconditions = {
        name: query[name] for name in ("uid", "resourceVersion") if query.get(name, "")
    }
    if preconditions:
        options["preconditions"] = preconditions
    return {**options, "dryRun": list(call.dry_runs)}


def _read(call: Call) -> dict[str, Any]:
    """Read DeleteOptions from the body.

    Raises:
        StatusError: 415 for another format, 400 for a text that is no such thing.
    """
    if call.content_type not in {"", *READ}:
        raise unsupported_media_type(READ)
    try:
        if call.content_type == PROTOBUF:
            return read_protobuf(call.data, _OPTIONS)
        value, _ = read_yaml(call.data) if call.content_type == YAML else read_json(call.data)
    except (MalformedYAML, ProtobufError) as error:
        raise bad_request(str(error)) from None
    except MalformedJSON as error:
        raise _unversioned(str(error)) from None
    value = {} if value is None else value
    fault = envelope_fault(value)
    if fault:
        raise _unversioned(f"json: cannot unmarshal {fault}")
    _check_kind(value)
    try:
        decode(value, named(_OPTIONS))
    except TypedError as error:
        raise bad_request(_in_go(str(error))) from None
    return value


def _unversioned(why: str) -> StatusError:
    return bad_request(f"couldn't get version/kind; json parse error: {why}")


def _in_go(message: str) -> str:
    for words, known in _GO_TYPES.items():
        message = message.replace(words, f"{words.removesuffix('string')}{known}")
    return message


def _check_kind(value: Mapping[str, Any]) -> None:
    """Refuse what says that it is something else.

    Raises:
        StatusError: 400.
    """
    version, kind = value.get("apiVersion") or "", value.get("kind") or _KIND
    if version.count("/") > 1:
        raise bad_request(f"unexpected GroupVersion string: {version}")
    version = version or f"{META_GROUP}/v1"
    if kind == _KIND:
        return
    if kind in _UNVERSIONED or (version == f"{META_GROUP}/v1" and kind in _META_KINDS):
        raise bad_request(f"converting (v1.{kind}) to (v1.{_KIND}): unknown conversion")
    raise bad_request(
        f'no kind "{kind}" is registered for version "{version}" '
        'in scheme "pkg/runtime/scheme.go:111"'
    )


def _problems(options: Mapping[str, Any], dry_runs: list[str]) -> list[FieldError]:
    policy = options.get("propagationPolicy")
    found: list[FieldError] = []
    if policy is not None and options.get("orphanDependents") is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        found.append(invalid("propagationPolicy", policy, text))
    if policy is not None and policy not in _POLICIES:
        found.append(not_supported("propagationPolicy", policy, (*_POLICIES, "nil")))
    return [*found, *dry_run_problems(dry_runs)]
