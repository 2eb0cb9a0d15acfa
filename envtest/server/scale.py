"""The scale subresource: the number of replicas of an object, in the same form for all kinds.

It supports what `kubectl scale` uses: GET, PUT and merge patches. The writer of a scale becomes
the manager of the object's own field, such as `spec.replicas`.
"""

from typing import Any

from controller.managedfields import PatchError
from envtest.kinds.typed import TypedError, decode_object, load_node
from envtest.patching import apply_merge_patch
from envtest.schema import MalformedJSON, read_json
from envtest.schema.errors import build_invalid_error
from envtest.server.api import Api
from envtest.server.bodies import read_subresource_body
from envtest.server.call import AuthorizedCall, JsonAnswer
from envtest.server.custom import CustomRules
from envtest.server.failures import (
    build_bad_request,
    build_invalid_object,
    build_method_not_allowed,
    build_unsupported_media_type,
)
from envtest.server.options import read_write_options
from envtest.server.patches import MERGE_PATCH
from envtest.server.resource import StoredResource
from envtest.server.writes import fit_names_to_path, update_object

_SCHEMA = "io.k8s.api.autoscaling.v1.Scale"
_VERSION = "autoscaling/v1"
_PATHS = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".spec.selector",
}


async def answer_scale(api: Api, call: AuthorizedCall) -> JsonAnswer:
    """Answer a GET, PUT or PATCH of an object's scale.

    Raises:
        StatusError: there is no such object, or the scale is invalid.
    """
    resource, stored = call.resource, api.get_stored(call)
    live = resource.decode_object(stored)
    present = _build_scale(resource, live)
    if call.info.verb == "get":
        return JsonAnswer(200, present)
    scale = _read_scale(call, present)
    meta = scale.get("metadata") or {}
    fit_names_to_path(call, {**scale, "metadata": meta})
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if replicas < 0:
        detail = "must be greater than or equal to 0"
        problem = build_invalid_error("spec.replicas", replicas, detail)
        raise build_invalid_object("Scale", "autoscaling", name=call.info.name, problems=[problem])
    kind = "PatchOptions" if call.info.verb == "patch" else "UpdateOptions"
    options = read_write_options(kind, call.query, dry_runs=call.dry_runs, agent=call.agent)
    # A second copy, because `live` must not change.
    body = resource.decode_object(stored)
    _set_value_at(body, _find_paths(resource)["specReplicasPath"], replicas)
    # A scale without resourceVersion applies to the state that was just read.
    body["metadata"]["resourceVersion"] = meta.get("resourceVersion") or str(stored.revision)
    written = await update_object(api, call, stored=stored, live=live, body=body, options=options)
    written_body, _ = read_json(written.body)
    return JsonAnswer(200, _build_scale(resource, written_body))


def _read_scale(call: AuthorizedCall, present: dict[str, Any]) -> dict[str, Any]:
    """Return the scale that a client sends; for a patch, the present scale with the patch.

    Raises:
        StatusError: the body cannot be read, or the verb is not supported.
    """
    if call.info.verb == "update":
        return read_subresource_body(call.data, call.content_type, name=_SCHEMA, kind="Scale")
    if call.info.verb != "patch":
        raise build_method_not_allowed()
    if call.content_type != MERGE_PATCH:
        raise build_unsupported_media_type((MERGE_PATCH,))
    try:
        scale_patch, _ = read_json(call.data)
        patched = apply_merge_patch(present, scale_patch)
    except (MalformedJSON, PatchError) as error:
        raise build_bad_request(f"error decoding patch: {error}") from None
    if not isinstance(patched, dict):
        raise build_bad_request("the scale is no object")
    try:
        decode_object(patched, load_node(_SCHEMA))
    except TypedError as error:
        raise build_bad_request(f"the scale does not fit: {error}") from None
    return patched


def _find_paths(resource: StoredResource) -> dict[str, str]:
    """Return the paths of the replicas and the selector in objects of a resource.

    A CRD names its own paths, and labelSelectorPath is optional. Built-in kinds share one set.
    """
    if isinstance(resource.rules, CustomRules) and resource.rules.scale is not None:
        return {**_PATHS, "labelSelectorPath": "", **resource.rules.scale}
    return _PATHS


def _build_scale(resource: StoredResource, body: dict[str, Any]) -> dict[str, Any]:
    """Return an object's Scale; as Go does, it leaves out a number of 0 and an empty selector."""
    paths, meta = _find_paths(resource), body["metadata"]
    fields = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: dict[str, Any] = {"replicas": _get_value_at(body, paths["statusReplicasPath"]) or 0}
    selector = _get_value_at(body, paths["labelSelectorPath"])
    # Built-in kinds have a LabelSelector; in custom resources the selector is a string.
    if isinstance(selector, dict):
        labels = selector.get("matchLabels") or {}
        selector = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
    if selector:
        status["selector"] = selector
    replicas = _get_value_at(body, paths["specReplicasPath"]) or 0
    return {
        "kind": "Scale",
        "apiVersion": _VERSION,
        "metadata": {name: meta[name] for name in fields if name in meta},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _get_value_at(body: Any, path: str) -> Any:
    """Return the value at a path such as `.spec.replicas`; None if it or the path is absent."""
    for part in path.strip(".").split("."):
        body = body.get(part) if isinstance(body, dict) else None
    return body


def _set_value_at(body: dict[str, Any], path: str, value: int) -> None:
    """Set the value at a path such as `.spec.replicas`; add absent parents."""
    *parents, field_name = path.strip(".").split(".")
    for parent in parents:
        body = body.setdefault(parent, {})
    body[field_name] = value
