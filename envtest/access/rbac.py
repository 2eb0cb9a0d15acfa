"""Authorization by Roles and ClusterRoles and their bindings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from envtest.access.tokens import ADMIN_GROUP
from envtest.server.call import AuthorizedCall, User
from envtest.server.failures import StatusError, build_forbidden
from envtest.server.request import RequestInfo
from envtest.storage import Store, StoredObject

GROUP = "rbac.authorization.k8s.io"
_RBAC_TABLES = tuple(
    f"{GROUP}/{plural}"
    for plural in ("clusterrolebindings", "clusterroles", "rolebindings", "roles")
)


class AccessAttributes(msgspec.Struct, frozen=True, gc=False):
    """The attributes of one request that RBAC rules match."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    # The path of a request that is not for a resource; None for one that is.
    path: str | None = None


Rule = Mapping[str, Any]


class AccessDecision(msgspec.Struct, frozen=True, gc=False):
    """Whether a request is allowed, and the reason as the real server words it; may be empty."""

    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Binding:
    """A RoleBinding or ClusterRoleBinding.

    Attributes:
        title: its description, which reasons quote.
        role_kind: the kind of its role.
        role_name: the name of its role.
        scope: its namespace; empty for the whole cluster.
        subjects: its subjects.
    """

    title: str
    role_kind: str
    role_name: str
    scope: str
    subjects: Sequence[Mapping[str, Any]]

    @property
    def role_key(self) -> str:
        """The key of the role in its table."""
        return f"{self.scope}/{self.role_name}" if self.role_kind == "Role" else self.role_name

    @property
    def missing_role_error(self) -> str:
        """The error text for a role that does not exist."""
        return f'{self.role_kind.lower()}.{GROUP} "{self.role_name}" not found'


class _SubjectEntry(NamedTuple):
    """A subject of a binding.

    Attributes:
        order: the number of the binding, and the index of the subject in it.
        binding: the binding.
        subject: the subject.
    """

    order: tuple[int, int]
    binding: _Binding
    subject: Mapping[str, Any]


class Authorizer:
    """Decides by the stored roles and bindings, which it keeps in an index.

    The index is rebuilt at the first decision after one of the four kinds changed.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # The number of changes of each table at the time of the index.
        self._indexed_changes: tuple[int, ...] = ()
        self._roles: dict[str, Sequence[Rule]] = {}
        # Scope of the binding (see `_Binding`) -> user or group -> subjects.
        self._subjects: dict[str, dict[str, list[_SubjectEntry]]] = {}
        # Each object with its decoded form, so that after a change only changed ones are decoded.
        self._decoded: dict[tuple[str, str], tuple[StoredObject, Sequence[Rule] | _Binding]] = {}

    def is_allowed(self, user: User, access: AccessAttributes) -> bool:
        """Return whether a user may make a request."""
        return self.decide(user, access).allowed

    def decide(self, user: User, access: AccessAttributes) -> AccessDecision:
        """Decide whether a user may make a request.

        The reason names the binding that allows it, or bound roles that do not exist.
        """
        # As in the real server, RBAC does not decide about administrators (system:masters).
        if ADMIN_GROUP in user.groups:
            return AccessDecision(allowed=True)
        missing = []
        for binding, subject in self._find_bindings(user, access.namespace):
            rules = self._roles.get(binding.role_key)
            if rules is None:
                missing.append(binding.missing_role_error)
            elif any(_allows(rule, access) for rule in rules):
                whom = _describe_subject(subject, binding.scope)
                return AccessDecision(
                    allowed=True, reason=f"RBAC: allowed by {binding.title} to {whom}"
                )
        if not missing:
            return AccessDecision(allowed=False)
        return AccessDecision(allowed=False, reason=f"RBAC: {_join_errors(missing)}")

    def iterate_rules(self, user: User, namespace: str) -> Iterator[Rule]:
        """Yield the rules that hold for a user in a namespace and everywhere."""
        for binding, _ in self._find_bindings(user, namespace):
            yield from self._roles.get(binding.role_key, ())

    def describe_missing_roles(self, user: User, namespace: str) -> str:
        """Describe the bound roles of a user that do not exist; empty if all exist."""
        errors = [
            binding.missing_role_error
            for binding, _ in self._find_bindings(user, namespace)
            if binding.role_key not in self._roles
        ]
        return _join_errors(errors) if errors else ""

    def _find_bindings(
        self, user: User, namespace: str
    ) -> Iterator[tuple[_Binding, Mapping[str, Any]]]:
        """Yield the bindings of a user, each with the first subject that is the user or a group.

        Bindings of the whole cluster come first, then those of the namespace.
        """
        self._refresh()
        identities = [f"User {user.name}", *(f"Group {group}" for group in user.groups)]
        for scope in ("", namespace) if namespace else ("",):
            # Empty for a namespace without bindings.
            subjects_by_identity = self._subjects.get(scope, {})
            entries = [
                entry
                for identity in identities
                for entry in subjects_by_identity.get(identity, ())
            ]
            entries.sort(key=itemgetter(0))
            last_binding = -1
            for entry in entries:
                # Of several matching subjects of one binding, only the first is yielded.
                if entry.order[0] != last_binding:
                    last_binding = entry.order[0]
                    yield entry.binding, entry.subject

    def _refresh(self) -> None:
        """Rebuild the index if a role or binding has changed since it was built."""
        tables = [self._store.get_table(table_name) for table_name in _RBAC_TABLES]
        current_changes = tuple(table.changes for table in tables)
        if current_changes == self._indexed_changes:
            return
        self._indexed_changes = current_changes
        self._roles, self._subjects = {}, {}
        former, self._decoded = self._decoded, {}
        binding_count = 0
        for table in tables:
            for key in table.iterate_keys():
                stored = table.get(key)
                if stored is None:
                    continue
                cached = former.get((table.name, key))
                # An object that is stored unchanged need not be decoded again.
                entry = (
                    cached[1]
                    if cached and cached[0] is stored
                    else _decode_entry(table.name, stored)
                )
                self._decoded[table.name, key] = (stored, entry)
                if isinstance(entry, _Binding):
                    self._index_binding(entry, binding_count)
                    binding_count += 1
                else:
                    self._roles[key] = entry

    def _index_binding(self, binding: _Binding, number: int) -> None:
        """Add the subjects of a binding to the index; `number` is its position in the index."""
        subjects_by_identity = self._subjects.setdefault(binding.scope, {})
        for index, subject in enumerate(binding.subjects):
            identity = _identify_subject(subject, binding.scope)
            entry = _SubjectEntry((number, index), binding, subject)
            subjects_by_identity.setdefault(identity, []).append(entry)


def _decode_entry(table_name: str, stored: StoredObject) -> Sequence[Rule] | _Binding:
    """Return the rules of a stored role, or a stored binding, by the table it comes from."""
    body = msgspec.json.decode(stored.body)
    if table_name.endswith("roles"):
        return body.get("rules") or []
    scope, name = body["metadata"].get("namespace", ""), body["metadata"]["name"]
    kind, role = body["roleRef"]["kind"], body["roleRef"]["name"]
    binding = f'RoleBinding "{name}/{scope}"' if scope else f'ClusterRoleBinding "{name}"'
    title = f'{binding} of {kind} "{role}"'
    return _Binding(title, kind, role_name=role, scope=scope, subjects=body.get("subjects") or ())


def _join_errors(errors: Iterable[str]) -> str:
    """Join errors as Go's aggregate does: each once, in brackets if there are several."""
    unique = list(dict.fromkeys(errors))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def _describe_subject(subject: Mapping[str, Any], scope: str) -> str:
    """Return a subject as reasons quote it; an account without namespace is in the binding's."""
    name = subject["name"]
    if subject["kind"] == "ServiceAccount":
        name = f"{name}/{subject.get('namespace') or scope}"
    return f'{subject["kind"]} "{name}"'


def _identify_subject(subject: Mapping[str, Any], scope: str) -> str:
    """Return a subject as `User NAME` or `Group NAME`; empty for subjects of other kinds.

    A service account is the user system:serviceaccount:NAMESPACE:NAME. The result is empty for an
    account without a namespace, as in a cluster role binding that names none.
    """
    match subject.get("kind"):
        case "User" | "Group" as kind:
            return f"{kind} {subject['name']}"
        case "ServiceAccount":
            namespace = subject.get("namespace") or scope
            name = f"system:serviceaccount:{namespace}:{subject['name']}"
            return f"User {name}" if namespace else ""
        case _:
            return ""


def _allows(rule: Rule, access: AccessAttributes) -> bool:
    """Return whether a rule of a role allows a request."""
    if not _contains_name_or_wildcard(rule.get("verbs"), access.verb):
        return False
    if access.path is not None:
        return any(
            _covers_path(pattern, access.path) for pattern in rule.get("nonResourceURLs") or ()
        )
    # A rule without names allows objects of all names.
    names = rule.get("resourceNames")
    return (
        _contains_name_or_wildcard(rule.get("apiGroups"), access.group)
        and _covers_resource(rule.get("resources") or (), access)
        and (not names or access.name in names)
    )


def _contains_name_or_wildcard(values: Iterable[str] | None, name: str) -> bool:
    """Return whether a list of a rule contains a name or `*`."""
    return any(value in {"*", name} for value in values or ())


def _covers_resource(resources: Iterable[str], access: AccessAttributes) -> bool:
    """Return whether the resources of a rule include the resource or subresource of a request."""
    covering_resources = {"*", access.resource}
    if access.subresource:
        # A rule for the resource alone does not include its subresources.
        subresource = access.subresource
        covering_resources = {"*", f"{access.resource}/{subresource}", f"*/{subresource}"}
    return any(resource in covering_resources for resource in resources)


def _covers_path(pattern: str, path: str) -> bool:
    """Return whether a path matches a pattern of nonResourceURLs, which may end with `*`."""
    return path.startswith(pattern.rstrip("*")) if pattern.endswith("*") else pattern == path


def build_attributes(info: RequestInfo) -> AccessAttributes:
    """Return the attributes of a request that RBAC rules match."""
    if not info.is_resource:
        return AccessAttributes(info.verb, path=info.path)
    name = info.name or info.selected_name
    return AccessAttributes(
        info.verb,
        info.group,
        resource=info.resource,
        subresource=info.subresource,
        namespace=info.namespace,
        name=name,
    )


def build_forbidden_error(user: User, info: RequestInfo, reason: str = "") -> StatusError:
    """Return the 403 for a request, in the real server's words.

    Args:
        user: the user who is refused.
        reason: the reason of the authorizer; may be empty.
    """
    suffix = f": {reason}" if reason else ""
    if not info.is_resource:
        return StatusError(
            403,
            f'forbidden: User "{user.name}" cannot {info.verb} path "{info.path}"{suffix}',
            "Forbidden",
            details={},
        )
    where = f'in the namespace "{info.namespace}"' if info.namespace else "at the cluster scope"
    why = (
        f'User "{user.name}" cannot {info.verb} resource "{info.resource_path}" '
        f'in API group "{info.group}" {where}{suffix}'
    )
    return build_forbidden(
        info.resource, info.group, name=info.name or info.selected_name, why=why
    )


def refuse_forbidden_creation(authorizer: Authorizer, call: AuthorizedCall, name: str) -> None:
    """Refuse an apply or update that would create its object, if the user may not create it.

    Args:
        authorizer: decides.
        call: the request.
        name: the name of the object. Unlike in a POST it is known, so resourceNames apply.

    Raises:
        StatusError: 403.
    """
    info = call.info
    access = AccessAttributes(
        "create",
        info.group,
        resource=info.resource,
        subresource=info.subresource,
        namespace=info.namespace,
        name=name,
    )
    decision = authorizer.decide(call.user, access)
    if not decision.allowed:
        raise build_forbidden(info.resource, info.group, name=name, why=decision.reason)
