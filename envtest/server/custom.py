"""Custom resources: the rules of one version of a CRD, and the resources that a CRD defines."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
from typing_extensions import override

from controller.managedfields import FieldModel, Versions
from envtest.schema import CompiledSchema
from envtest.schema.errors import NO_FIELD, FieldError, build_invalid_error
from envtest.schema.names import find_subdomain_errors
from envtest.schema.objectmeta import coerce_metadata
from envtest.schema.tables import build_table_cells, build_table_columns
from envtest.server import objectmeta
from envtest.server.api import Api
from envtest.server.objectmeta import Body
from envtest.server.resource import MAIN_VERBS, StoredResource, rank_version
from envtest.server.rules import BuiltInColumn, Cells, Rules, restore_other_fields
from envtest.storage import StoredObject

# The finalizers of Kubernetes itself, which need no domain.
_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
# The schema of a version without one: every field is allowed.
_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class CustomRules(Rules):
    """The rules of custom resources in one version of their CRD."""

    allows_unconditional_update = False
    is_custom = True
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
        self._selectable_fields = frozenset(
            item["jsonPath"].removeprefix(".") for item in version.get("selectableFields") or ()
        )
        self._columns = build_table_columns(version)

    @override
    def decode(self, body: Body) -> list[str]:
        return self.decode_update(body, {})

    @override
    def decode_update(self, body: Body, old: Body) -> list[str]:
        """Prune a body in place, and return the paths of unknown fields.

        Parts that are the same Python object in `old` are skipped.
        """
        if body.get("kind") == self._kind and body.get("apiVersion") == self._api_version:
            return self.compiled.prune(body, old)
        # The body is refused later, for its kind or version. Before that, unknown fields are
        # reported as by kube-apiserver's unstructuredSchemaCoercer. It does not prune other kinds
        # and groups. In another version of this kind it reports all fields as unknown.
        group = body.get("apiVersion", "").rpartition("/")[0]
        if body.get("kind") != self._kind or group != self.definition["group"]:
            return coerce_metadata(body["metadata"], "metadata")
        type_fields = {"apiVersion", "kind", "metadata"}
        unknown = sorted(name for name in body if name not in type_fields)
        return coerce_metadata(body["metadata"], "metadata") + unknown

    @override
    def set_defaults(self, body: Body) -> None:
        self.compiled.set_defaults(body)

    @override
    def set_defaults_on_update(self, body: Body, old: Body) -> None:
        """Set defaults; skip parts that are the same Python object in `old`."""
        self.compiled.set_defaults(body, old)

    @override
    def set_defaults_on_apply(self, body: Body) -> None:
        self.compiled.set_defaults_on_apply(body)

    def fit_to_schema(self, body: Body) -> Body:
        """Prune and default a body by the schema of this version, in place; return it."""
        self.compiled.prune(body)
        self.compiled.set_defaults(body)
        return body

    @override
    def get_field_model(self) -> FieldModel:
        return self._model

    @override
    def prepare_create(self, body: Body) -> None:
        """Set the first generation, and drop a status that the client must not set."""
        body["metadata"]["generation"] = 1
        # With a status subresource, only writes of that subresource set the status.
        if self.has_status:
            body.pop("status", None)

    @override
    def prepare_update(self, body: Body, old: Body) -> None:
        """Restore the old status, if only the status subresource may change it."""
        # With a status subresource, only writes of that subresource change the status.
        if self.has_status:
            body.pop("status", None)
            if "status" in old:
                body["status"] = old["status"]

    @override
    def prepare_subresource(self, name: str, body: Body, old: Body) -> None:
        if name == "status":
            restore_other_fields(body, old, "status")

    @override
    def needs_new_generation(self, body: Body, old: Body) -> bool:
        """Return whether an update changes a field that counts for the generation."""
        # Without a status subresource, `status` is a field like any other.
        uncounted = {"metadata", "status"} if self.has_status else {"metadata"}
        return any(
            body.get(name) != old.get(name)
            for name in body.keys() | old.keys()
            if name not in uncounted
        )

    @override
    def find_errors(self, body: Body) -> list[FieldError]:
        """Return the errors of apiVersion and kind of a new object; without any, all others."""
        # An object of another kind or version is not validated by this schema.
        if type_problems := _validate_type(body, self._kind, self._api_version):
            return type_problems
        problems = objectmeta.find_metadata_errors(
            body["metadata"], namespaced=self._namespaced, name_rule=find_subdomain_errors
        )
        return self.compiled.validate(body, first=problems)

    @override
    def find_update_errors(self, body: Body, old: Body, subresource: str) -> list[FieldError]:
        return self.find_update_errors_with_warnings(
            body, old, subresource=subresource, warnings=[]
        )

    @override
    def find_update_errors_with_warnings(
        self, body: Body, old: Body, subresource: str, warnings: list[str]
    ) -> list[FieldError]:
        """Return the errors of apiVersion and kind of an update; without any, all others.

        Errors in unchanged parts become warnings or are dropped.
        """
        # An object of another kind or version is not validated by this schema.
        if type_problems := _validate_type(body, self._kind, self._api_version):
            return type_problems
        first = objectmeta.find_change_errors(body["metadata"], old["metadata"])
        problems = self.compiled.validate(body, old, first=first, warnings=warnings)
        if subresource == "status":
            return [_reword_for_status(problem) for problem in problems]
        return problems

    @override
    def list_warnings(self, body: Body, old: Body | None) -> list[str]:
        """Return a warning for each new finalizer without a domain and a path."""
        old_finalizers = (old["metadata"].get("finalizers") or ()) if old else ()
        # A name with a dot has a domain already, so only the path is missing.
        return [
            f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name '
            f"{'including a path (/) ' if '.' in name else ''}"
            "to avoid accidental conflicts with other finalizer writers"
            for name in body["metadata"].get("finalizers") or ()
            if "/" not in name and name not in _FINALIZERS and name not in old_finalizers
        ]

    @override
    def is_selectable(self, field: str) -> bool:
        return field in self._selectable_fields or super().is_selectable(field)

    @override
    def list_columns(self) -> list[BuiltInColumn]:
        return [
            BuiltInColumn(
                column.name,
                column.type,
                description=column.description,
                format=column.format,
                priority=column.priority,
            )
            for column in self._columns
        ]

    @override
    def build_cells(self, body: Body) -> Cells:
        return build_table_cells(self._columns, body, datetime.now(UTC))


def _validate_type(body: Mapping[str, Any], kind: str, api_version: str) -> list[FieldError]:
    """Return the problems of a body's apiVersion and kind."""
    problems = []
    if body.get("kind") != kind:
        problems.append(build_invalid_error("kind", body.get("kind", ""), f"must be {kind}"))
    if body.get("apiVersion") != api_version:
        problems.append(
            build_invalid_error("apiVersion", body.get("apiVersion", ""), f"must be {api_version}")
        )
    return problems


def _reword_for_status(problem: FieldError) -> FieldError:
    """Return a problem in kube-apiserver's words for a write to the status subresource.

    kube-apiserver validates such a write by the schema of the status alone. So a path within a
    sentence begins below the status: `phase` instead of `status.phase`.
    """
    field, detail = problem.field, problem.detail
    # A wrong type is reported without a field. Here the status is the validated object, so the
    # field becomes `status`.
    if field == NO_FIELD and " value must be of type " in detail:
        return replace(problem, field="status", detail=detail.replace(" in status.", " in ", 1))
    # Only a sentence that repeats the path of the field has a path to shorten.
    if not field.startswith("status") or f"{field} " not in detail:
        return problem
    below = field[len("status") :].lstrip(".")
    return replace(problem, detail=detail.replace(field, below, 1))


_encode = msgspec.json.Encoder(order="sorted").encode
_SUB_VERBS = ["get", "patch", "update"]


class EstablishedCrd:
    """A CRD that is established, compiled.

    Attributes:
        spec: its `spec`, with the names that were accepted.
        storage: the name of the version that is stored.
        table_name: the table of its objects in the store.
    """

    def __init__(self, body: Body) -> None:
        accepted = body["status"].get("acceptedNames") or {}
        self.spec: Body = {**body["spec"], "names": {**body["spec"]["names"], **accepted}}
        group, names = self.spec["group"], self.spec["names"]
        self.table_name = f"{group}/{names['plural']}"
        self._rules = {v["name"]: CustomRules(self.spec, v) for v in self.spec["versions"]}
        self.storage = next(v["name"] for v in self.spec["versions"] if v["storage"])
        models = {
            f"{group}/{name}": rules.get_field_model() for name, rules in self._rules.items()
        }
        # Versions differ only in apiVersion, because conversion webhooks are not supported.
        self._versions = Versions(
            models.get, lambda body, version: {**body, "apiVersion": version}
        )

    def build_resources(self) -> Iterator[StoredResource]:
        """Yield the resource of each served version."""
        for version in self.spec["versions"]:
            if version["served"]:
                yield self._build_resource(version)

    def _build_resource(self, version: Body) -> StoredResource:
        """Return the resource of a version; all but the storage version convert objects."""
        names = self.spec["names"]
        rules, storage_rules = self._rules[version["name"]], self._rules[self.storage]
        is_storage_version = rules is storage_rules
        return StoredResource(
            group=self.spec["group"],
            version=version["name"],
            plural=names["plural"],
            kind=names["kind"],
            list_kind=names["listKind"],
            singular=names["singular"],
            namespaced=self.spec["scope"] == "Namespaced",
            rules=rules,
            verbs=MAIN_VERBS,
            subresources=self._describe_subresources(rules),
            short_names=tuple(names.get("shortNames", ())),
            categories=tuple(names.get("categories", ())),
            deprecation=_build_deprecation_warning(self.spec, version),
            table_name=self.table_name,
            to_version=None if is_storage_version else rules.fit_to_schema,
            to_storage=None if is_storage_version else storage_rules.fit_to_schema,
            versions=self._versions,
        )

    def _describe_subresources(self, rules: CustomRules) -> Body:
        """Return the discovery entries of the subresources of a version, by name."""
        namespaced = self.spec["scope"] == "Namespaced"
        shared = {"namespaced": namespaced, "singularName": "", "verbs": _SUB_VERBS}
        subresources = {}
        if rules.has_status:
            subresources["status"] = {**shared, "kind": self.spec["names"]["kind"]}
        if rules.scale is not None:
            scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
            subresources["scale"] = {**shared, **scale}
        return subresources

    def convert_stored(self, api: Api) -> None:
        """Convert stored objects to the present schema: add new defaults, drop unknown fields.

        The real server converts on every read, so watches see no event. Here objects are
        converted once, under their old revisions.

        Args:
            api: the state, which holds the objects.
        """
        table = api.store.get_table(self.table_name)
        for key in list(table.iterate_keys()):
            stored = table.get(key)
            if stored is not None:
                body = self._rules[self.storage].fit_to_schema(msgspec.json.decode(stored.body))
                table.put(StoredObject(key, stored.revision, _encode(body)))


def _build_deprecation_warning(spec: Body, version: Body) -> str:
    """Return the warning to clients of a version; empty if the version is not deprecated.

    It is the `deprecationWarning` of the version. By default it names the newest served version
    that is newer and not deprecated, if there is one.
    """
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning") is not None:
        return str(version["deprecationWarning"])
    group, kind = spec["group"], spec["names"]["kind"]
    rank = rank_version(version["name"])
    newer_versions = [
        candidate["name"]
        for candidate in spec["versions"]
        if candidate["served"]
        and not candidate.get("deprecated")
        and rank_version(candidate["name"]) < rank
    ]
    warning = f"{group}/{version['name']} {kind} is deprecated"
    if not newer_versions:
        return warning
    return f"{warning}; use {group}/{min(newer_versions, key=rank_version)} {kind}"
