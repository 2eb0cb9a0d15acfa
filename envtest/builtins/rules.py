"""Rules that all built-in kinds share: a Go struct's shape, a status of its own, generations."""

from typing import Any

from typing_extensions import override

from controller.managedfields import FieldModel
from envtest.builtins.columns import columns_of
from envtest.kinds.catalogue import schema_name
from envtest.kinds.typed import TypedNode, decode, load_node
from envtest.patching.builtinmodels import builtin_model
from envtest.schema.errors import FieldError, invalid
from envtest.schema.names import label_errors, subdomain_errors
from envtest.server import objectmeta
from envtest.server.objectmeta import Body, NameRule, path_segment_errors
from envtest.server.rules import BuiltInColumn, Cells, Rules, keep_only

# Kinds whose registry strategy counts generations.
_COUNTING = frozenset(
    {
        "CronJob",
        "CustomResourceDefinition",
        "DaemonSet",
        "Deployment",
        "EndpointSlice",
        "Ingress",
        "Job",
        "MutatingWebhookConfiguration",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "ReplicaSet",
        "StatefulSet",
        "ValidatingWebhookConfiguration",
    }
)
# AllowUnconditionalUpdate is false for these, AllowCreateOnUpdate true for those.
_CONDITIONAL = frozenset(
    {
        "CustomResourceDefinition",
        "Lease",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    }
)
_CREATED_BY_PUT = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "Endpoints",
        "Event",
        "Lease",
        "LimitRange",
        "Role",
        "RoleBinding",
        "Service",
    }
)
_RETURNED = frozenset(
    {"Service", "Pod", "PersistentVolume", "PersistentVolumeClaim", "ServiceAccount", "Node"}
)
_RBAC = frozenset({"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"})
_LABELS = frozenset({"Namespace", "Service"})
_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
# Kinds whose update is validated like a new object, too.
_JUDGED_WHOLE = _RBAC | {"ConfigMap", "Secret", "Service", "ServiceAccount"}
# What field selectors may name besides metadata.name and metadata.namespace.
_FIELDS: dict[str, frozenset[str]] = {
    "Event": frozenset(
        {
            *(
                f"involvedObject.{name}"
                for name in (
                    "kind",
                    "namespace",
                    "name",
                    "uid",
                    "apiVersion",
                    "resourceVersion",
                    "fieldPath",
                )
            ),
            "reason",
            "reportingComponent",
            "source",
            "type",
        }
    ),
    "Secret": frozenset({"type"}),
    "Namespace": frozenset({"name", "status.phase"}),
    "Service": frozenset({"spec.clusterIP", "spec.type"}),
    "Pod": frozenset({"spec.nodeName", "spec.serviceAccountName", "status.phase"}),
}
# What kubectl reads without asking whether it is there.
_REPLICATED = frozenset({"Deployment", "ReplicaSet", "StatefulSet"})


class BuiltinRules(Rules):
    """A built-in kind without rules of its own: stored as sent, once the types fit."""

    def __init__(self, group: str, version: str, kind: str, *, has_status: bool) -> None:
        self.group, self.version, self.kind = group, version, kind
        self.has_status = has_status
        self.unconditional_update = kind not in _CONDITIONAL
        self.create_on_update = kind in _CREATED_BY_PUT
        self.returns_deleted = kind in _RETURNED
        self.counts_generations = kind in _COUNTING
        self._node: TypedNode | None = None
        self._namespaced = True
        self.name_rule: NameRule = subdomain_errors
        if kind in _RBAC:
            self.name_rule = path_segment_errors
        elif kind in _LABELS:
            self.name_rule = label_errors

    def set_scope(self, *, namespaced: bool) -> None:
        """Set whether the objects live in namespaces."""
        self._namespaced = namespaced

    @override
    def decode(self, body: Body) -> list[str]:
        if self._node is None:
            self._node = load_node(schema_name(self.group, self.version, self.kind))
        return decode(body, self._node)

    @override
    def default(self, body: Body) -> None:
        if self.kind in _REPLICATED:
            body.setdefault("spec", {}).setdefault("replicas", 1)

    @override
    def model(self) -> FieldModel:
        return builtin_model(self.group, self.version, self.kind)

    @override
    def prepare_create(self, body: Body) -> None:
        if self.counts_generations:
            body["metadata"]["generation"] = 1
        else:
            body["metadata"].pop("generation", None)
        if self.has_status:
            body.pop("status", None)
            body.update(self.first_status())

    def first_status(self) -> dict[str, Any]:
        """Return the status of a new object, as an update of the object."""
        return {}

    @override
    def prepare_update(self, body: Body, old: Body) -> None:
        if self.has_status:
            body.pop("status", None)
            if "status" in old:
                body["status"] = old["status"]

    @override
    def prepare_subresource(self, name: str, body: Body, old: Body) -> None:
        if name == "status":
            status_metadata(body, old)

    @override
    def check(self, body: Body) -> list[FieldError]:
        problems = objectmeta.check(
            body["metadata"], namespaced=self._namespaced, name_rule=self.name_rule
        )
        problems += self._finalizer_problems(body)
        return problems + self.check_content(body, None)

    @override
    def check_update(self, body: Body, old: Body, subresource: str) -> list[FieldError]:
        problems: list[FieldError] = []
        if self.kind != "Event":
            problems += objectmeta.check_change(body["metadata"], old["metadata"])
            problems += self._finalizer_problems(body)
        if self.kind in _JUDGED_WHOLE and not subresource:
            problems += objectmeta.check(
                body["metadata"], namespaced=self._namespaced, name_rule=self.name_rule
            )
            problems += self._finalizer_problems(body)
        return problems + self.check_content(body, old)

    def _finalizer_problems(self, body: Body) -> list[FieldError]:
        """Validate finalizers like the core's kinds: those without a domain must be known."""
        if self.group == "apiextensions.k8s.io":
            return []
        detail = "name is neither a standard finalizer name nor is it fully qualified"
        return [
            invalid(f"metadata.finalizers[{at}]", name, detail)
            for at, name in enumerate(body["metadata"].get("finalizers") or ())
            if "/" not in name and name not in _FINALIZERS
        ]

    def check_content(self, body: Body, old: Body | None) -> list[FieldError]:  # noqa: ARG002  # a hook
        """Validate what is not metadata; kinds override it."""
        return []

    @override
    def is_selectable(self, field: str) -> bool:
        return field in _FIELDS.get(self.kind, ()) or super().is_selectable(field)

    @override
    def describe_unselectable(self, field: str) -> str:
        if self.kind in _FIELDS:
            return f"field label not supported: {field}"
        return (
            f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
        )

    @override
    def columns(self) -> list[BuiltInColumn]:
        return [column for column, _ in columns_of(self.kind)]

    @override
    def cells(self, body: Body) -> Cells:
        return [cell(body) for _, cell in columns_of(self.kind)]


def status_metadata(body: Body, old: Body) -> None:
    """Take status from the update, and labels and annotations, which built-in kinds allow."""
    meta = body.get("metadata") or {}
    kept = {name: meta[name] for name in ("labels", "annotations") if name in meta}
    keep_only(body, old, "status")
    for name in ("labels", "annotations"):
        body["metadata"].pop(name, None)
    body["metadata"].update(kept)
