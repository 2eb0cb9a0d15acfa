"""The scale subresource: the number of replicas of an object, whatever its kind calls it."""

from typing import Any

from envtest.patching import (
    SCALE_VERSION,
    from_scale,
    json_patch,
    merge_patch,
    scale_model,
    to_scale,
    track_update,
)
from envtest.schema import MalformedJSON, strict_json
from envtest.schema.errors import invalid
from envtest.server.api import Api
from envtest.server.bodies import media_type
from envtest.server.call import Call, Plain
from envtest.server.custom import CustomRules
from envtest.server.failures import bad_request, invalid_object, unsupported_media_type
from envtest.server.objectmeta import timestamp
from envtest.server.options import write_options
from envtest.server.resource import Resource
from envtest.server.writes import update_object

_PATHS = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": "",
}
_JSON_PATCH = "application/json-patch+json"
_PATCHES = (
    _JSON_PATCH,
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)


async def answer_scale(api: Api, call: Call) -> Plain:
    """Answer a GET, PUT or PATCH of an object's scale."""
    resource = call.resource
    stored = api.current(call)
    body = resource.load(stored)
    if call.info.verb == "get":
        return Plain(200, _scale(resource, body))
    kind = "PatchOptions" if call.info.verb == "patch" else "UpdateOptions"
    options = write_options(kind, call.query, call.dry_runs, call.agent)
    wanted = _wanted(call, _scale(resource, body))
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        text = "must be greater than or equal to 0"
        problem = invalid("spec.replicas", replicas, text)
        raise invalid_object("Scale", "autoscaling", call.info.name, [problem])
    path = _paths(resource)["specReplicasPath"]
    _track(resource, body, replicas, options.manager, path)
    _set(body, path, replicas)
    given = (wanted.get("metadata") or {}).get("resourceVersion")
    body["metadata"]["resourceVersion"] = given or str(stored.revision)
    live = resource.load(stored)
    written = await update_object(api, call, stored, live, body, options, tracked=True)
    loaded, _ = strict_json(written.body)
    return Plain(200, _scale(resource, loaded))


def _track(
    resource: Resource, body: dict[str, Any], replicas: int, manager: str, path: str
) -> None:
    """Note who set the number; it is owned through the scale, wherever the object keeps it."""
    meta, paths = body["metadata"], {resource.api_version: path}
    parent = meta.get("managedFields") or []
    before = _scale(resource, body)
    before["metadata"]["managedFields"] = to_scale(parent, paths)
    after = {
        **before,
        "metadata": {**before["metadata"]},
        "spec": {"replicas": replicas},
    }
    track_update(
        before,
        after,
        manager=manager,
        fields=scale_model(),
        api_version=SCALE_VERSION,
        subresource="scale",
        now=timestamp(),
    )
    owned = after["metadata"].get("managedFields") or []
    meta["managedFields"] = from_scale(parent, owned, resource.api_version, paths)


def _wanted(call: Call, present: dict[str, Any]) -> dict[str, Any]:
    """Return the scale that the client wants."""
    kind = media_type(call.content_type)
    try:
        content, _ = strict_json(call.data)
    except MalformedJSON as error:
        raise bad_request(str(error)) from None
    if call.info.verb == "patch":
        if kind not in _PATCHES:
            raise unsupported_media_type(_PATCHES)
        patch = json_patch if kind == _JSON_PATCH else merge_patch
        content = patch(present, content)
    if not isinstance(content, dict):
        raise bad_request("the scale is no object")
    return content


def _paths(resource: Resource) -> dict[str, str]:
    if isinstance(resource.rules, CustomRules) and resource.rules.scale is not None:
        return {**_PATHS, **resource.rules.scale}
    return {**_PATHS, "labelSelectorPath": ".spec.selector"}


def _scale(resource: Resource, body: dict[str, Any]) -> dict[str, Any]:
    """Return an object's Scale."""
    paths, meta = _paths(resource), body["metadata"]
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: dict[str, Any] = {"replicas": _at(body, paths["statusReplicasPath"]) or 0}
    selector = _selector(_at(body, paths["labelSelectorPath"]))
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in shown if name in meta},
        "spec": {"replicas": _at(body, paths["specReplicasPath"]) or 0},
        "status": status,
    }


def _selector(value: Any) -> str:
    """Return a selector as text: of a custom resource it is one, of a built-in kind an object."""
    if isinstance(value, str):
        return value
    labels = value.get("matchLabels", value) if isinstance(value, dict) else {}
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))


def _at(body: Any, path: str) -> Any:
    for part in path.strip(".").split("."):
        body = body.get(part) if isinstance(body, dict) else None
    return body


def _set(body: dict[str, Any], path: str, value: int) -> None:
    *parents, last = path.strip(".").split(".")
    for part in parents:
        body = body.setdefault(part, {})
    body[last] = value
