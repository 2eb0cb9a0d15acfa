"""The rules of custom resources: a structural schema, and metadata as ObjectMeta has it."""

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from envtest.patching import FieldModel
from envtest.schema import CompiledSchema
from envtest.schema.errors import FieldError
from envtest.schema.names import subdomain_errors
from envtest.schema.objectmeta import coerce
from envtest.schema.tables import table_cells, table_columns
from envtest.server import clock, objectmeta
from envtest.server.customproblems import as_told_of_status, scale_problems, type_problems
from envtest.server.objectmeta import Body
from envtest.server.rules import Cells, Column, Rules, keep_only

# The finalizers of Kubernetes itself, which need no domain.
_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class CustomRules(Rules):
    """One version of a CRD."""

    unconditional_update = False
    custom = True
    counts_generations = True

    def __init__(self, definition: Mapping[str, Any], version: Mapping[str, Any]) -> None:
        # The `spec` of the CRD.
        self.definition = definition
        self._kind = definition["names"]["kind"]
        self._api_version = f"{definition['group']}/{version['name']}"
        self._namespaced = definition["scope"] == "Namespaced"
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or _OPEN
        self.compiled = CompiledSchema.compile(schema)
        subresources = version.get("subresources") or {}
        self.has_status = "status" in subresources
        self.scale: Mapping[str, Any] | None = subresources.get("scale")
        self._model = FieldModel.from_schema(schema, status_subresource=self.has_status)
        self._fields = frozenset(
            item["jsonPath"].removeprefix(".") for item in version.get("selectableFields") or ()
        )
        self._columns = table_columns(version)

    @override
    def decode(self, body: Body) -> list[str]:
        return self.decode_changed(body, {})

    @override
    def decode_changed(self, body: Body, old: Body) -> list[str]:
        if body.get("kind") != self._kind or body.get("apiVersion") != self._api_version:
            group = body.get("apiVersion", "").rpartition("/")[0]
            if body.get("kind") != self._kind or group != self.definition["group"]:
                return coerce(body["metadata"], "metadata")
            known = {"apiVersion", "kind", "metadata"}
            unknown = sorted(name for name in body if name not in known)
            return coerce(body["metadata"], "metadata") + unknown
        return self.compiled.prune(body, old)

    @override
    def default(self, body: Body) -> None:
        self.compiled.default(body)

    @override
    def default_changed(self, body: Body, old: Body) -> None:
        self.compiled.default(body, old)

    @override
    def default_applied(self, body: Body) -> None:
        self.compiled.default_applied(body)

    def fitted(self, body: Body) -> Body:
        """Return a stored body as this version has it."""
        self.compiled.prune(body)
        self.compiled.default(body)
        return body

    @override
    def model(self) -> FieldModel:
        return self._model

    @override
    def prepare_create(self, body: Body) -> None:
        body["metadata"]["generation"] = 1
        if self.has_status:
            body.pop("status", None)

    @override
    def prepare_update(self, body: Body, old: Body) -> None:
        if self.has_status:
            body.pop("status", None)
            if "status" in old:
                body["status"] = old["status"]

    @override
    def prepare_subresource(self, name: str, body: Body, old: Body) -> None:
        if name == "status":
            keep_only(body, old, "status")

    @override
    def is_new_generation(self, body: Body, old: Body) -> bool:
        apart = {"metadata", "status"} if self.has_status else {"metadata"}
        return any(
            body.get(name) != old.get(name)
            for name in body.keys() | old.keys()
            if name not in apart
        )

    @override
    def check(self, body: Body) -> list[FieldError]:
        if wrong := type_problems(body, self._kind, self._api_version):
            return wrong
        found = objectmeta.check(
            body["metadata"], namespaced=self._namespaced, name_rule=subdomain_errors
        )
        scale = self._scale_problems(body, "") if self.scale else ()
        return self.compiled.validate(body, first=found, also=scale)

    @override
    def check_update(self, body: Body, old: Body, subresource: str) -> list[FieldError]:
        return self.judge_update(body, old, subresource, [])

    @override
    def judge_update(
        self, body: Body, old: Body, subresource: str, warnings: list[str]
    ) -> list[FieldError]:
        if wrong := type_problems(body, self._kind, self._api_version):
            return wrong
        first = objectmeta.check_change(body["metadata"], old["metadata"])
        scale = self._scale_problems(body, subresource) if self.scale else ()
        found = self.compiled.validate(body, old, first=first, also=scale, warnings=warnings)
        return as_told_of_status(found) if found and subresource == "status" else found

    def _scale_problems(self, body: Body, subresource: str) -> list[FieldError]:
        assert self.scale is not None
        return scale_problems(body, self.scale, status_only=subresource == "status")

    @override
    def warnings(self, body: Body, old: Body | None) -> list[str]:
        before = (old["metadata"].get("finalizers") or ()) if old else ()
        return [
            f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name '
            f"{'including a path (/) ' if '.' in name else ''}"
            "to avoid accidental conflicts with other finalizer writers"
            for name in body["metadata"].get("finalizers") or ()
            if "/" not in name and name not in _FINALIZERS and name not in before
        ]

    @override
    def selectable(self, field: str) -> bool:
        return field in self._fields or super().selectable(field)

    @override
    def columns(self) -> list[Column]:
        return [
            Column(one.name, one.type, one.description, one.format, one.priority)
            for one in self._columns
        ]

    @override
    def cells(self, body: Body) -> Cells:
        return table_cells(self._columns, body, clock.now())
