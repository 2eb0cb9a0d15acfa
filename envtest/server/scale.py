"""The scale subresource: the number of replicas of an object, whatever its kind calls it.

Served as far as `kubectl scale` uses it: read, replaced and merge-patched. The writer of a scale
owns the field of the object that holds the number.
"""

from typing import Any

from controller.managedfields import PatchError
from envtest.kinds.typed import TypedError, decode, load_node
from envtest.patching import merge_patch
from envtest.schema import MalformedJSON, read_json
from envtest.schema.errors import invalid
from envtest.server.api import Api
from envtest.server.bodies import read_as
from envtest.server.call import AuthorizedCall, Plain
from envtest.server.custom import CustomRules
from envtest.server.failures import (
    bad_request,
    invalid_object,
    method_not_allowed,
    unsupported_media_type,
)
from envtest.server.options import write_options
from envtest.server.patches import MERGE_PATCH
from envtest.server.resource import StoredResource
from envtest.server.writes import check_names, update_object

_SCHEMA = "io.k8s.api.autoscaling.v1.Scale"
_VERSION = "autoscaling/v1"
_PATHS = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".spec.selector",
}


async def answer_scale(api: Api, call: AuthorizedCall) -> Plain:
    """Answer a GET, PUT or PATCH of an object's scale.

    Raises:
        StatusError: there is no such object, or the scale makes no sense.
    """
    resource, stored = call.resource, api.current(call)
    live = resource.load(stored)
    present = _scale(resource, live)
    if call.info.verb == "get":
        return Plain(200, present)
    scale = _read_scale(call, present)
    meta = scale.get("metadata") or {}
    check_names(call, {**scale, "metadata": meta})
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if replicas < 0:
        detail = "must be greater than or equal to 0"
        problem = invalid("spec.replicas", replicas, detail)
        raise invalid_object("Scale", "autoscaling", name=call.info.name, problems=[problem])
    kind = "PatchOptions" if call.info.verb == "patch" else "UpdateOptions"
    options = write_options(kind, call.query, dry_runs=call.dry_runs, agent=call.agent)
    body = resource.load(stored)
    _set(body, _paths(resource)["specReplicasPath"], replicas)
    body["metadata"]["resourceVersion"] = meta.get("resourceVersion") or str(stored.revision)
    written = await update_object(api, call, stored=stored, live=live, body=body, options=options)
    return Plain(200, _scale(resource, read_json(written.body)[0]))


def _read_scale(call: AuthorizedCall, present: dict[str, Any]) -> dict[str, Any]:
    """Return the scale that a client sends, or that its patch makes of the present one.

    Raises:
        StatusError: it cannot be read.
    """
    if call.info.verb == "update":
        return read_as(call.data, call.content_type, name=_SCHEMA, kind="Scale")
    if call.info.verb != "patch":
        raise method_not_allowed()
    if call.content_type != MERGE_PATCH:
        raise unsupported_media_type((MERGE_PATCH,))
    try:
        patched = merge_patch(present, read_json(call.data)[0])
    except (MalformedJSON, PatchError) as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if not isinstance(patched, dict):
        raise bad_request("the scale is no object")
    try:
        decode(patched, load_node(_SCHEMA))
    except TypedError as error:
        raise bad_request(f"the scale does not fit: {error}") from None
    return patched


def _paths(resource: StoredResource) -> dict[str, str]:
    """Return where objects of a resource have their number of replicas and its like."""
    if isinstance(resource.rules, CustomRules) and resource.rules.scale is not None:
        return {**_PATHS, "labelSelectorPath": "", **resource.rules.scale}
    return _PATHS


def _scale(resource: StoredResource, body: dict[str, Any]) -> dict[str, Any]:
    """Return an object's Scale."""
    paths, meta = _paths(resource), body["metadata"]
    fields = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: dict[str, Any] = {"replicas": _at(body, paths["statusReplicasPath"]) or 0}
    selector = _at(body, paths["labelSelectorPath"])
    if isinstance(selector, dict):
        labels = selector.get("matchLabels") or {}
        selector = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
    if selector:
        status["selector"] = selector
    replicas = _at(body, paths["specReplicasPath"]) or 0
    return {
        "kind": "Scale",
        "apiVersion": _VERSION,
        "metadata": {name: meta[name] for name in fields if name in meta},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _at(body: Any, path: str) -> Any:
    for part in path.strip(".").split("."):
        body = body.get(part) if isinstance(body, dict) else None
    return body


def _set(body: dict[str, Any], path: str, value: int) -> None:
    *parents, last = path.strip(".").split(".")
    for part in parents:
        body = body.setdefault(part, {})
    body[last] = value
