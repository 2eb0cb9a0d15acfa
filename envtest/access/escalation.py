"""Nobody hands out rights that they do not hold: what RBAC's registries check of a write."""

from typing import Any

from envtest.access.coverage import described, missing, quoted
from envtest.access.rbac import GROUP, Attributes, Authorizer, Rule
from envtest.access.tokens import ADMIN_GROUP
from envtest.server.call import Call
from envtest.server.failures import forbidden, not_found

Body = dict[str, Any]

_ROLES = frozenset({"roles", "clusterroles"})
_BINDINGS = frozenset({"rolebindings", "clusterrolebindings"})
# Whoever wants a role to grow by itself must hold everything.
_EVERYTHING: tuple[Rule, ...] = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
)


class EscalationGuard:
    """Refuses roles and bindings that grant more than their author holds."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def check(self, call: Call, new: Body, old: Body | None) -> None:
        """Judge one write; `old` is None for a new object.

        Raises:
            StatusError: 403 when rights are missing, 404 when a binding's role is.
        """
        if call.info.group != GROUP or ADMIN_GROUP in call.user.groups:
            return
        if old is not None and _only_collection(new, old):
            return
        if call.info.resource in _ROLES:
            self._check_role(call, new, old)
        elif call.info.resource in _BINDINGS:
            self._check_binding(call, new)

    def _check_role(self, call: Call, new: Body, old: Body | None) -> None:
        name = new["metadata"].get("name", "")
        # By the name in the path: a right for single roles is none to create these.
        if self._may(call, "escalate", call.info.resource, call.info.name):
            return
        parts = ("rules", "aggregationRule")
        if old is not None and all(
            (new.get(one) or None) == (old.get(one) or None) for one in parts
        ):
            return
        self._confirm(call, name, new.get("rules") or ())
        if new.get("aggregationRule") and missing(self._held(call), _EVERYTHING):
            why = "must have cluster-admin privileges to use an aggregationRule"
            raise forbidden(call.info.resource, GROUP, name, why)

    def _check_binding(self, call: Call, new: Body) -> None:
        reference, name = new.get("roleRef") or {}, new["metadata"].get("name", "")
        kind, role = reference.get("kind", ""), reference.get("name", "")
        plural = f"{kind.lower()}s"
        if plural not in _ROLES or self._may(call, "bind", plural, role):
            return
        rules = self._authorizer.rules_of(kind, role, call.info.namespace)
        if rules is None:
            raise not_found(plural, GROUP, role)
        self._confirm(call, name, rules)

    def _may(self, call: Call, verb: str, plural: str, name: str) -> bool:
        wanted = Attributes(verb, GROUP, plural, "", call.info.namespace, name)
        return self._authorizer.allowed(call.user, wanted)

    def _held(self, call: Call) -> list[Rule]:
        return list(self._authorizer.rules(call.user, call.info.namespace))

    def _confirm(self, call: Call, name: str, rules: Any) -> None:
        """Refuse rules that the caller does not hold."""
        lacking = missing(self._held(call), rules)
        if lacking:
            (user,) = quoted([call.user.name])
            groups = " ".join(quoted(call.user.groups))
            why = (
                f"user {user} (groups=[{groups}]) is attempting to grant RBAC permissions "
                f"not currently held:\n{described(lacking)}"
            )
            lost = self._authorizer.missing(call.user, call.info.namespace)
            if lost:
                why += f"; resolution errors: [{lost}]"
            raise forbidden(call.info.resource, GROUP, name, why)


def _only_collection(new: Body, old: Body) -> bool:
    """Tell whether an update touches nothing but what garbage collection works with."""
    return _without_collection(new) == _without_collection(old)


def _without_collection(body: Body) -> Body:
    left_out = {"finalizers", "managedFields", "ownerReferences", "resourceVersion"}
    meta = {name: value for name, value in body["metadata"].items() if name not in left_out}
    return {**body, "metadata": meta}
