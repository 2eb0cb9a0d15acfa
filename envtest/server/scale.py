"""The scale subresource: the number of replicas of an object, whatever its kind calls it."""

from dataclasses import replace
from typing import Any

from envtest.patching import (
    SCALE_VERSION,
    PatchError,
    apply,
    from_scale,
    scale_model,
    to_scale,
    track_update,
)
from envtest.schema import read_json
from envtest.schema.errors import invalid
from envtest.server.api import Api
from envtest.server.applying import judge_duplicates, read_applied
from envtest.server.bodies import media_type
from envtest.server.call import Call, Scaled
from envtest.server.custom import CustomRules
from envtest.server.failures import (
    StatusError,
    internal,
    invalid_object,
    refused_patch,
)
from envtest.server.objectmeta import timestamp
from envtest.server.options import WriteOptions, write_options
from envtest.server.patches import APPLY_PATCH
from envtest.server.resource import Resource
from envtest.server.scalebodies import wanted_scale
from envtest.server.scalerows import ScaleRows
from envtest.server.writes import check_names, update_object

_PATHS = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": "",
}


class _OfScales:
    """Shows admission the scales of the objects that are written; mutation is over by then."""

    def __init__(self, api: Api, resource: Resource) -> None:
        self._admission = api.admission
        self._resource = resource

    async def mutate(
        self,
        call: Call,  # noqa: ARG002
        operation: str,  # noqa: ARG002
        new: dict[str, Any],
        old: dict[str, Any] | None,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Return the object unchanged."""
        return new

    async def validate(
        self, call: Call, operation: str, new: dict[str, Any] | None, old: dict[str, Any] | None
    ) -> None:
        """Ask who validates about the scales."""
        scales = [None if body is None else _scale(self._resource, body) for body in (new, old)]
        await self._admission.validate(call, operation, *scales)


async def answer_scale(api: Api, call: Call) -> Scaled:
    """Answer a GET, PUT or PATCH of an object's scale."""
    resource = call.resource
    stored = api.current(call)
    await resource.ready([stored])
    body = resource.load(stored)
    if call.info.verb == "get":
        _require_replicas(resource, body)
        return _answer(resource, body)
    kind = "PatchOptions" if call.info.verb == "patch" else "UpdateOptions"
    applied = kind == "PatchOptions" and media_type(call.content_type) == APPLY_PATCH
    options = write_options(kind, call.query, call.dry_runs, call.agent, apply=applied)
    path = _paths(resource)["specReplicasPath"]
    meta, fields = body["metadata"], _replicas_paths(resource)
    present = _scale(resource, body)
    _own(present, to_scale(meta.get("managedFields") or [], fields))
    if applied:
        wanted = _shaped(_applied(call, present, options))
        check_names(call, wanted)
    else:
        wanted = _shaped(wanted_scale(call, present, options))
        check_names(call, wanted)
        _track(present, wanted, options.manager)
    wanted = await api.admission.mutate(call, "UPDATE", wanted, present)
    replicas = _replicas(call, wanted)
    owned = wanted["metadata"].get("managedFields") or []
    parent = meta.get("managedFields") or []
    meta["managedFields"] = from_scale(parent, owned, resource.api_version, fields)
    if not meta["managedFields"]:
        del meta["managedFields"]
    _set(body, path, replicas)
    body["metadata"]["resourceVersion"] = wanted["metadata"].get("resourceVersion") or str(
        stored.revision
    )
    await resource.ready([stored])
    live = resource.load(stored)
    of_scales = replace(api, admission=_OfScales(api, resource))
    written = await update_object(of_scales, call, stored, live, body, options, tracked=True)
    loaded, _ = read_json(written.body)
    return _answer(resource, loaded)


def _require_replicas(resource: Resource, body: dict[str, Any]) -> None:
    """Refuse to show the scale of a custom resource that does not say how many it wants.

    Raises:
        StatusError: 500, as the real server has it.
    """
    path = _paths(resource)["specReplicasPath"]
    if resource.rules.custom and _at(body, path) is None:
        text = f'the spec replicas field "{path}" does not exist'
        raise StatusError(
            500,
            f"Internal error occurred: {text}",
            "InternalError",
            details={"causes": [{"message": text}]},
        )


def _answer(resource: Resource, body: dict[str, Any]) -> Scaled:
    rows = ScaleRows(custom=resource.rules.custom)
    return Scaled(200, rows, _scale(resource, body))


def _shaped(content: dict[str, Any]) -> dict[str, Any]:
    """Return a client's scale as Go's struct holds it."""
    meta, spec, status = (content.get(part) or {} for part in ("metadata", "spec", "status"))
    return {
        "kind": "Scale",
        "apiVersion": SCALE_VERSION,
        "metadata": dict(meta),
        "spec": {"replicas": spec.get("replicas", 0)},
        "status": {"replicas": 0, **status},
    }


def _replicas(call: Call, scale: dict[str, Any]) -> int:
    """Return how many replicas are wanted; custom resources judge the number themselves.

    Raises:
        StatusError: 422; that is no number of replicas.
    """
    replicas: int = (scale.get("spec") or {}).get("replicas", 0)
    if replicas < 0 and not call.resource.rules.custom:
        text = "must be greater than or equal to 0"
        problem = invalid("spec.replicas", replicas, text)
        raise invalid_object("Scale", "autoscaling", call.info.name, [problem])
    return replicas


def _applied(call: Call, present: dict[str, Any], options: WriteOptions) -> dict[str, Any]:
    """Return the scale after somebody applied one.

    Raises:
        StatusError: it is none, or the number belongs to somebody else; or it would change the
            number of a custom resource, which the real server cannot convert back.
    """
    content, duplicates = read_applied(call)
    judge_duplicates(call, options, duplicates)
    custom = call.resource.rules.custom
    if custom and not present["metadata"].get("managedFields"):
        raise _inconvertible("create manager for existing fields: failed to convert live", "/")
    try:
        wanted = apply(
            present,
            content,
            manager=options.manager,
            force=options.force,
            fields=scale_model(),
            subresource="scale",
            now=timestamp(),
            kind=(SCALE_VERSION, "Scale"),
        )
    except PatchError as error:
        raise refused_patch(error) from error
    if custom and wanted.get("spec") != present["spec"]:
        meta = content.get("metadata") or {}
        raise _inconvertible("convert new", f"{meta.get('namespace', '')}/{meta.get('name', '')}")
    return wanted


def _inconvertible(what: str, name: str) -> StatusError:
    """Say what the real server says where it takes a scale for the custom resource itself."""
    return internal(
        f"failed to {what} object ({name}; {SCALE_VERSION}, Kind=Scale) to proper version: "
        f"request to convert CR to an invalid group/version: {SCALE_VERSION}"
    )


def _own(scale: dict[str, Any], owned: list[dict[str, Any]]) -> None:
    if owned:
        scale["metadata"]["managedFields"] = owned


def _track(before: dict[str, Any], after: dict[str, Any], manager: str) -> None:
    """Note who set the number; it is owned through the scale, wherever the object keeps it."""
    track_update(
        before,
        after,
        manager=manager,
        fields=scale_model(),
        api_version=SCALE_VERSION,
        subresource="scale",
        now=timestamp(),
    )


def _paths(resource: Resource) -> dict[str, str]:
    if isinstance(resource.rules, CustomRules) and resource.rules.scale is not None:
        return {**_PATHS, **resource.rules.scale}
    return {**_PATHS, "labelSelectorPath": ".spec.selector"}


def _replicas_paths(resource: Resource) -> dict[str, str]:
    """Return where each version of a resource has its number of replicas."""
    if not isinstance(resource.rules, CustomRules):
        return {resource.api_version: _PATHS["specReplicasPath"]}
    definition = resource.rules.definition
    scales = {
        f"{definition['group']}/{version['name']}": (version.get("subresources") or {}).get(
            "scale"
        )
        for version in definition["versions"]
    }
    return {name: scale["specReplicasPath"] for name, scale in scales.items() if scale}


def _scale(resource: Resource, body: dict[str, Any]) -> dict[str, Any]:
    """Return an object's Scale."""
    paths, meta = _paths(resource), body["metadata"]
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: dict[str, Any] = {"replicas": _at(body, paths["statusReplicasPath"]) or 0}
    selector = _selector(_at(body, paths["labelSelectorPath"]))
    replicas = _at(body, paths["specReplicasPath"]) or 0
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in shown if name in meta},
        "spec": {"replicas": replicas} if replicas else {},
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
