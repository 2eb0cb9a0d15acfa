"""The rules of RBAC roles and bindings: defaults, and the validation of their group."""

from collections.abc import Iterator
from typing import Any

from typing_extensions import override

from envtest.builtins.rules import BuiltinRules
from envtest.schema.errors import (
    FieldError,
    build_invalid_error,
    build_not_supported_error,
    build_required_error,
)
from envtest.server.objectmeta import Body

_GROUP = "rbac.authorization.k8s.io"
_RBAC_SUBJECTS = frozenset({"Group", "User"})


class RoleRules(BuiltinRules):
    """Roles and ClusterRoles; `rules` is null if unset, because Go encodes it always."""

    @override
    def set_defaults(self, body: Body) -> None:
        body.setdefault("rules", None)

    @override
    def find_content_errors(self, body: Body, old: Body | None) -> list[FieldError]:
        return [
            problem
            for index, rule in enumerate(body.get("rules") or ())
            for problem in _validate_rule(
                rule, f"rules[{index}]", in_namespace=self.kind == "Role"
            )
        ]


def _validate_rule(rule: Body, path: str, *, in_namespace: bool) -> Iterator[FieldError]:
    """Yield the errors of one rule of a role."""
    if not rule.get("verbs"):
        yield build_required_error(f"{path}.verbs", "verbs must contain at least one value")
    paths = rule.get("nonResourceURLs")
    if paths:
        if in_namespace:
            detail = "namespaced rules cannot apply to non-resource URLs"
            yield build_invalid_error(f"{path}.nonResourceURLs", paths, detail)
        if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            yield build_invalid_error(f"{path}.nonResourceURLs", paths, detail)
        return
    if not rule.get("apiGroups"):
        detail = "resource rules must supply at least one api group"
        yield build_required_error(f"{path}.apiGroups", detail)
    if not rule.get("resources"):
        yield build_required_error(
            f"{path}.resources", "resource rules must supply at least one resource"
        )


class BindingRules(BuiltinRules):
    """RoleBindings and ClusterRoleBindings, whose roleRef is immutable."""

    @override
    def set_defaults(self, body: Body) -> None:
        """Set the group of the role and of users and groups, and missing fields of roleRef."""
        reference = body.setdefault("roleRef", {})
        reference["apiGroup"] = reference.get("apiGroup") or _GROUP
        for name in ("kind", "name"):
            reference.setdefault(name, "")
        for subject in body.get("subjects") or ():
            if subject.get("kind") in _RBAC_SUBJECTS:
                subject["apiGroup"] = subject.get("apiGroup") or _GROUP

    @override
    def find_content_errors(self, body: Body, old: Body | None) -> list[FieldError]:
        """Return the errors of roleRef, which is immutable, and of the subjects."""
        reference = body["roleRef"]
        problems = list(self._validate_reference(reference))
        for index, subject in enumerate(body.get("subjects") or ()):
            problems += self._validate_subject(subject, f"subjects[{index}]")
        if old is not None and old.get("roleRef") != reference:
            # The message prints a Go struct.
            names = {"apiGroup": "APIGroup", "kind": "Kind", "name": "Name"}
            role_ref = {title: reference[name] for name, title in names.items()}
            problems.append(build_invalid_error("roleRef", role_ref, "cannot change roleRef"))
        return problems

    def _validate_reference(self, reference: Body) -> Iterator[FieldError]:
        """Yield the errors of a binding's roleRef."""
        kinds = ("ClusterRole",) if self.kind == "ClusterRoleBinding" else ("Role", "ClusterRole")
        if reference["apiGroup"] != _GROUP:
            yield build_not_supported_error("roleRef.apiGroup", reference["apiGroup"], (_GROUP,))
        if reference["kind"] not in kinds:
            yield build_not_supported_error("roleRef.kind", reference["kind"], kinds)
        if not reference["name"]:
            yield build_required_error("roleRef.name")

    def _validate_subject(self, subject: dict[str, Any], path: str) -> Iterator[FieldError]:
        """Yield the errors of one subject of a binding."""
        kind, group = subject.get("kind", ""), subject.get("apiGroup", "")
        if not subject.get("name"):
            yield build_required_error(f"{path}.name")
        match kind:
            case "ServiceAccount":
                if group:
                    yield build_not_supported_error(f"{path}.apiGroup", group, ("",))
                if self.kind == "ClusterRoleBinding" and not subject.get("namespace"):
                    yield build_required_error(f"{path}.namespace")
            case "Group" | "User":
                if group != _GROUP:
                    yield build_not_supported_error(f"{path}.apiGroup", group, (_GROUP,))
            case _:
                subject_kinds = ("ServiceAccount", "User", "Group")
                yield build_not_supported_error(f"{path}.kind", kind, subject_kinds)
