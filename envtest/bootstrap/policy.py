"""The default roles and bindings of RBAC as objects, made of the tables beside this."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from envtest.bootstrap.components import AGGREGATED, BOUND, CERTIFICATES, COMPONENTS, PART_OF
from envtest.bootstrap.controllers import CONTROLLERS
from envtest.bootstrap.namespaced import BINDINGS, ROLES
from envtest.bootstrap.shorthand import rules

GROUP: Final = "rbac.authorization.k8s.io"
AUTOUPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
_LABELS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATIONS: Final = {AUTOUPDATE: "true"}
_AGGREGATE: Final = f"{GROUP}/aggregate-to-"
_CONTROLLER: Final = "system:controller:"

Body = dict[str, Any]


def policy() -> Iterator[tuple[str, Body]]:
    """Yield every default role and binding with its plural.

    Aggregated roles come without rules: these are found among the others.
    """
    for body in _cluster_roles():
        yield "clusterroles", body
    for body in _cluster_role_bindings():
        yield "clusterrolebindings", body
    for (namespace, name), lines in ROLES.items():
        yield "roles", {"metadata": _meta(name, namespace), "rules": rules(lines)}
    for (namespace, name), (role, subjects) in BINDINGS.items():
        meta = _meta(name, namespace)
        yield "rolebindings", _binding(meta, "Role", role, subjects)


def _cluster_roles() -> Iterator[Body]:
    for name, lines in COMPONENTS.items():
        yield {"metadata": _meta(name), "rules": rules(lines)}
    for name, line in CERTIFICATES.items():
        meta = _meta(f"system:certificates.k8s.io:{name}")
        yield {"metadata": meta, "rules": rules([("certificates.k8s.io", *line)])}
    for name in AGGREGATED:
        chosen = [{"matchLabels": {f"{_AGGREGATE}{name}": "true"}}]
        yield {
            "metadata": _meta(name),
            "aggregationRule": {"clusterRoleSelectors": chosen},
            "rules": None,
        }
    for name, lines in CONTROLLERS.items():
        yield {"metadata": _meta(f"{_CONTROLLER}{name}"), "rules": rules(lines)}


def _cluster_role_bindings() -> Iterator[Body]:
    for name, subjects in BOUND.items():
        yield _binding(_meta(name), "ClusterRole", name, subjects)
    for controller in CONTROLLERS:
        name = f"{_CONTROLLER}{controller}"
        yield _binding(_meta(name), "ClusterRole", name, (f"account {controller}",))


def _binding(meta: Body, kind: str, role: str, subjects: Iterable[str]) -> Body:
    reference = {"apiGroup": GROUP, "kind": kind, "name": role}
    body: Body = {"metadata": meta, "roleRef": reference}
    if subjects:
        body["subjects"] = [_subject(*one.split(" ")) for one in subjects]
    return body


def _meta(name: str, namespace: str = "") -> Body:
    labels = dict(_LABELS)
    if name in PART_OF:
        labels[f"{_AGGREGATE}{PART_OF[name]}"] = "true"
    meta: Body = {"name": name, "labels": labels, "annotations": dict(_ANNOTATIONS)}
    return {**meta, "namespace": namespace} if namespace else meta


def _subject(kind: str, name: str) -> Body:
    if kind == "account":
        return {"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}
    return {"kind": kind.capitalize(), "apiGroup": GROUP, "name": name}
