"""A store for objects of one custom kind, written through the functions under test alone.

Around them it does the little of an API server that ownership depends on: it drops unknown fields
and empty metadata, sets defaults, and writes the status only through its subresource.
"""

import copy
from typing import Any

from controller.managedfields import (
    FieldModel,
    PatchError,
    apply,
    are_equal_except_times,
    track_update,
)
from envtest.patching import apply_json_patch, apply_merge_patch

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_META = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def fit(schema: dict[str, Any], value: Any) -> Any:
    """Return a value without unknown fields and with defaults, as a structural schema has it."""
    if isinstance(value, list):
        return [fit(schema["items"], item) for item in value] if "items" in schema else value
    if not isinstance(value, dict):
        return value
    known = dict(schema.get("properties", {}))
    if schema.get("x-kubernetes-embedded-resource"):
        known |= {"apiVersion": {}, "kind": {}, "metadata": _META}
    other = schema.get("additionalProperties")
    free = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    out: dict[str, Any] = {}
    for name, inner in value.items():
        below = known.get(name, other if isinstance(other, dict) else None)
        if below is not None:
            if inner is not None or below.get("nullable"):
                out[name] = fit(below, inner)
        elif free or other is True:
            out[name] = inner
    if schema.get("x-kubernetes-embedded-resource") and isinstance(out.get("metadata"), dict):
        out["metadata"] = {k: v for k, v in out["metadata"].items() if v not in ({}, [], "", None)}
    for name, below in known.items():
        if name not in out and "default" in below:
            out[name] = fit(below, copy.deepcopy(below["default"]))
    return out


class Shelf:
    """The stored objects of one kind by name, and the writes to them."""

    def __init__(self, schema: dict[str, Any], api_version: str, kind: str) -> None:
        self._schema = {**schema, "x-kubernetes-embedded-resource": True}
        self._type = (api_version, kind)
        self.model = FieldModel.from_schema(schema)
        self.objects: dict[str, dict[str, Any]] = {}
        self._serial = 0
        self.now = "2026-01-01T00:00:00Z"

    def create(self, body: dict[str, Any], manager: str) -> dict[str, Any]:
        """Store a new object."""
        new = fit(self._schema, copy.deepcopy(body))
        track_update(
            None,
            new,
            manager=manager,
            fields=self.model,
            api_version=self._type[0],
            now=self.now,
        )
        return self._store(None, new, "")

    def replace(
        self, name: str, body: dict[str, Any], manager: str, subresource: str = ""
    ) -> dict[str, Any]:
        """Store another state of an object."""
        return self._track(
            self.objects[name], copy.deepcopy(body), manager=manager, subresource=subresource
        )

    def patch(
        self, name: str, kind: str, patch: Any, manager: str, subresource: str = ""
    ) -> dict[str, Any]:
        """Apply a JSON or merge patch."""
        live = self.objects[name]
        patched = (
            apply_json_patch(live, patch) if kind == JSON_PATCH else apply_merge_patch(live, patch)
        )
        return self._track(live, patched, manager=manager, subresource=subresource)

    def apply(
        self,
        name: str,
        body: dict[str, Any],
        manager: str,
        *,
        force: bool = False,
        subresource: str = "",
    ) -> dict[str, Any]:
        """Apply on the server's side."""
        live = self.objects.get(name)
        new = apply(
            live,
            copy.deepcopy(body),
            manager=manager,
            force=force,
            fields=self.model,
            subresource=subresource,
            now=self.now,
            kind=self._type,
        )
        given_name = new["metadata"].get("name")
        if given_name != name:
            message = (
                f"the name of the object ({given_name}) does not match the name on the URL"
                f" ({name})"
            )
            raise PatchError(400, "BadRequest", message)
        return self._store(live, fit(self._schema, new), subresource)

    def _track(
        self, live: dict[str, Any], new: dict[str, Any], manager: str, subresource: str
    ) -> dict[str, Any]:
        new = fit(self._schema, new)
        track_update(
            live,
            new,
            manager=manager,
            fields=self.model,
            api_version=self._type[0],
            subresource=subresource,
            now=self.now,
        )
        return self._store(live, new, subresource)

    def _store(
        self, live: dict[str, Any] | None, new: dict[str, Any], subresource: str
    ) -> dict[str, Any]:
        before = live or {}
        if subresource == "status":
            managed = new["metadata"].get("managedFields")
            meta = {k: v for k, v in before["metadata"].items() if k != "managedFields"}
            status = {"status": new["status"]} if "status" in new else {}
            rest = {k: v for k, v in before.items() if k != "status"}
            new = {**rest, **status, "metadata": meta}
            if managed is not None:
                meta["managedFields"] = managed
        else:
            new.pop("status", None)
            if "status" in before:
                new["status"] = before["status"]
        new["apiVersion"], new["kind"] = self._type
        meta = new["metadata"]
        if live is None:
            meta |= {"uid": "u", "creationTimestamp": self.now, "resourceVersion": "0"}
        elif are_equal_except_times(live, new):
            return live
        self._serial += 1
        meta["resourceVersion"] = str(self._serial)
        self.objects[meta["name"]] = new
        return new
