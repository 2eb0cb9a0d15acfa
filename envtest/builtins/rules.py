"""The rules that built-in kinds have in common: types of Go structs, status and generations."""

from typing import Any

from typing_extensions import override

from controller.managedfields import FieldModel
from envtest.builtins.columns import list_builtin_columns
from envtest.kinds.catalogue import build_schema_name
from envtest.kinds.typed import TypedNode, decode_object, load_node
from envtest.patching.builtinmodels import load_builtin_model
from envtest.schema.errors import FieldError, build_invalid_error
from envtest.schema.names import find_label_errors, find_subdomain_errors
from envtest.server import objectmeta
from envtest.server.objectmeta import Body, NameRule, find_path_segment_errors
from envtest.server.rules import BuiltInColumn, Cells, Rules, restore_other_fields

# Kinds whose registry strategy counts generations.
_KINDS_WITH_GENERATION = frozenset(
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
# Kinds whose strategy has AllowUnconditionalUpdate false, and those with AllowCreateOnUpdate true.
_KINDS_REQUIRING_REVISION = frozenset(
    {
        "CustomResourceDefinition",
        "Lease",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    }
)
_KINDS_CREATED_BY_PUT = frozenset(
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
_KINDS_RETURNED_ON_DELETE = frozenset(
    {"Service", "Pod", "PersistentVolume", "PersistentVolumeClaim", "ServiceAccount", "Node"}
)
_RBAC_KINDS = frozenset({"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"})
_KINDS_NAMED_BY_LABEL_RULE = frozenset({"Namespace", "Service"})
_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
# Kinds whose update is validated like a new object as well.
_KINDS_FULLY_REVALIDATED = _RBAC_KINDS | {"ConfigMap", "Secret", "Service", "ServiceAccount"}
# Kind -> fields that field selectors may use besides metadata.name and metadata.namespace.
_SELECTABLE_FIELDS: dict[str, frozenset[str]] = {
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
# Kinds with a default of `spec.replicas`, which kubectl reads without testing whether it is set.
_KINDS_WITH_REPLICAS = frozenset({"Deployment", "ReplicaSet", "StatefulSet"})


class BuiltinRules(Rules):
    """The rules of a built-in kind; the class itself fits kinds without special validation."""

    def __init__(self, group: str, version: str, kind: str, *, has_status: bool) -> None:
        self.group, self.version, self.kind = group, version, kind
        self.has_status = has_status
        self.allows_unconditional_update = kind not in _KINDS_REQUIRING_REVISION
        self.creates_on_update = kind in _KINDS_CREATED_BY_PUT
        self.returns_deleted = kind in _KINDS_RETURNED_ON_DELETE
        self.counts_generations = kind in _KINDS_WITH_GENERATION
        self._node: TypedNode | None = None
        self._namespaced = True
        self.name_rule: NameRule = find_subdomain_errors
        if kind in _RBAC_KINDS:
            self.name_rule = find_path_segment_errors
        elif kind in _KINDS_NAMED_BY_LABEL_RULE:
            self.name_rule = find_label_errors

    def set_scope(self, *, namespaced: bool) -> None:
        """Set whether the kind is namespaced."""
        self._namespaced = namespaced

    @override
    def decode(self, body: Body) -> list[str]:
        if self._node is None:
            self._node = load_node(build_schema_name(self.group, self.version, self.kind))
        return decode_object(body, self._node)

    @override
    def set_defaults(self, body: Body) -> None:
        """Set the default of `spec.replicas`, which kubectl reads without testing for it."""
        if self.kind in _KINDS_WITH_REPLICAS:
            body.setdefault("spec", {}).setdefault("replicas", 1)

    @override
    def get_field_model(self) -> FieldModel:
        return load_builtin_model(self.group, self.version, self.kind)

    @override
    def prepare_create(self, body: Body) -> None:
        """Set generation and status of a new object, in place of those that the client sent."""
        if self.counts_generations:
            body["metadata"]["generation"] = 1
        else:
            body["metadata"].pop("generation", None)
        if self.has_status:
            body.pop("status", None)
            body.update(self.build_first_status())

    def build_first_status(self) -> dict[str, Any]:
        """Return `{"status": ...}` with the first status of a new object; empty for none."""
        return {}

    @override
    def prepare_update(self, body: Body, old: Body) -> None:
        """Keep the status, which only its subresource may change."""
        if self.has_status:
            body.pop("status", None)
            if "status" in old:
                body["status"] = old["status"]

    @override
    def prepare_subresource(self, name: str, body: Body, old: Body) -> None:
        if name == "status":
            restore_all_but_status(body, old)

    @override
    def find_errors(self, body: Body) -> list[FieldError]:
        """Return the errors of a new object: of its metadata, finalizers and content."""
        problems = objectmeta.find_metadata_errors(
            body["metadata"], namespaced=self._namespaced, name_rule=self.name_rule
        )
        problems += self._validate_finalizers(body)
        return problems + self.find_content_errors(body, None)

    @override
    def find_update_errors(self, body: Body, old: Body, subresource: str) -> list[FieldError]:
        """Return the errors of an update: of metadata, finalizers and content.

        For kinds in `_VALIDATED_WHOLE`, all metadata is validated like that of a new object, too.
        """
        problems: list[FieldError] = []
        # Updates of events are validated like creations, as in the real server.
        if self.kind != "Event":
            problems += objectmeta.find_change_errors(body["metadata"], old["metadata"])
            problems += self._validate_finalizers(body)
        if self.kind in _KINDS_FULLY_REVALIDATED and not subresource:
            problems += objectmeta.find_metadata_errors(
                body["metadata"], namespaced=self._namespaced, name_rule=self.name_rule
            )
            problems += self._validate_finalizers(body)
        return problems + self.find_content_errors(body, old)

    def _validate_finalizers(self, body: Body) -> list[FieldError]:
        """Return an error for each finalizer without a domain, except for those of Kubernetes.

        CRDs are validated by other code in the real server, which does not demand this.
        """
        if self.group == "apiextensions.k8s.io":
            return []
        detail = "name is neither a standard finalizer name nor is it fully qualified"
        return [
            build_invalid_error(f"metadata.finalizers[{index}]", name, detail)
            for index, name in enumerate(body["metadata"].get("finalizers") or ())
            if "/" not in name and name not in _FINALIZERS
        ]

    def find_content_errors(self, body: Body, old: Body | None) -> list[FieldError]:  # noqa: ARG002  # a hook
        """Return the errors outside of metadata: none, unless a subclass overrides this.

        Args:
            old: the stored object; None for a new object.
        """
        return []

    @override
    def is_selectable(self, field: str) -> bool:
        return field in _SELECTABLE_FIELDS.get(self.kind, ()) or super().is_selectable(field)

    @override
    def describe_unselectable(self, field: str) -> str:
        """Return the message; the real server has another one for kinds with own fields."""
        if self.kind in _SELECTABLE_FIELDS:
            return f"field label not supported: {field}"
        return (
            f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
        )

    @override
    def list_columns(self) -> list[BuiltInColumn]:
        return [column for column, _ in list_builtin_columns(self.kind)]

    @override
    def build_cells(self, body: Body) -> Cells:
        return [cell(body) for _, cell in list_builtin_columns(self.kind)]


def restore_all_but_status(body: Body, old: Body) -> None:
    """Restore the old object in `body`, in place; keep the new status, labels and annotations.

    Unlike for custom resources, a write to the status may change labels and annotations, too.
    """
    meta = body.get("metadata") or {}
    new_metadata = {name: meta[name] for name in ("labels", "annotations") if name in meta}
    restore_other_fields(body, old, "status")
    for name in ("labels", "annotations"):
        body["metadata"].pop(name, None)
    body["metadata"].update(new_metadata)
