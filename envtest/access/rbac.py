"""Authorization by Roles and ClusterRoles and their bindings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from envtest.access.tokens import ADMIN_GROUP
from envtest.server.call import AuthorizedCall, User
from envtest.server.failures import StatusError, forbidden
from envtest.server.request import RequestInfo
from envtest.storage import Store, Stored

GROUP = "rbac.authorization.k8s.io"
_PLACES = tuple(
    f"{GROUP}/{plural}"
    for plural in ("clusterrolebindings", "clusterroles", "rolebindings", "roles")
)


class AccessAttributes(msgspec.Struct, frozen=True, gc=False):
    """One request, as rules see it."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    # Set for what is no resource.
    path: str | None = None


Rule = Mapping[str, Any]


class AccessDecision(msgspec.Struct, frozen=True, gc=False):
    """Whether something is allowed, and what is known about why."""

    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Binding:
    """A binding, as the real server words it in reasons."""

    title: str
    role_kind: str
    role_name: str
    home: str
    subjects: Sequence[Mapping[str, Any]]

    @property
    def role(self) -> str:
        """Return the key of the role."""
        return f"{self.home}/{self.role_name}" if self.role_kind == "Role" else self.role_name

    @property
    def lost(self) -> str:
        """The error text for a role that does not exist."""
        return f'{self.role_kind.lower()}.{GROUP} "{self.role_name}" not found'


class _Claim(NamedTuple):
    """A subject of a binding, and which one of which that is among those of its namespace."""

    place: tuple[int, int]
    binding: _Binding
    subject: Mapping[str, Any]


class Authorizer:
    """Decides by what is stored; the index is rebuilt when one of the four kinds changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: tuple[int, ...] = ()
        self._roles: dict[str, Sequence[Rule]] = {}
        # By namespace, nothing for everywhere, and by who a subject is.
        self._claims: dict[str, dict[str, list[_Claim]]] = {}
        # What was read of each object, so that one change does not mean to read all again.
        self._read: dict[tuple[str, str], tuple[Stored, Sequence[Rule] | _Binding]] = {}

    def is_allowed(self, user: User, access: AccessAttributes) -> bool:
        """Return whether a user may do something."""
        return self.decide(user, access).allowed

    def decide(self, user: User, access: AccessAttributes) -> AccessDecision:
        """Return whether a user may do something, and by which binding, or what is missing."""
        if ADMIN_GROUP in user.groups:
            return AccessDecision(allowed=True)
        missing = []
        for binding, subject in self._of(user, access.namespace):
            rules = self._roles.get(binding.role)
            if rules is None:
                missing.append(binding.lost)
            elif any(_permits(rule, access) for rule in rules):
                whom = _describe_subject(subject, binding.home)
                return AccessDecision(
                    allowed=True, reason=f"RBAC: allowed by {binding.title} to {whom}"
                )
        if not missing:
            return AccessDecision(allowed=False)
        return AccessDecision(allowed=False, reason=f"RBAC: {_together(missing)}")

    def rules(self, user: User, namespace: str) -> Iterator[Rule]:
        """Yield the rules that hold for a user in a namespace and everywhere."""
        for binding, _ in self._of(user, namespace):
            yield from self._roles.get(binding.role, ())

    def describe_missing_roles(self, user: User, namespace: str) -> str:
        """Describe the bound roles of a user that do not exist; empty if all exist."""
        lost_roles = [
            binding.lost
            for binding, _ in self._of(user, namespace)
            if binding.role not in self._roles
        ]
        return _together(lost_roles) if lost_roles else ""

    def _of(self, user: User, namespace: str) -> Iterator[tuple[_Binding, Mapping[str, Any]]]:
        """Yield the bindings that a user is a subject of, each with that subject.

        They are those of the whole cluster, and those of a namespace.
        """
        self._refresh()
        own = [f"User {user.name}", *(f"Group {group}" for group in user.groups)]
        for home in ("", namespace) if namespace else ("",):
            known = self._claims.get(home)
            if known is None:
                continue
            claims = [claim for name in own for claim in known.get(name, ())]
            claims.sort(key=itemgetter(0))
            last = -1
            for claim in claims:
                # The first subject of a binding that the user is speaks for it.
                if claim.place[0] != last:
                    last = claim.place[0]
                    yield claim.binding, claim.subject

    def _refresh(self) -> None:
        """Read roles and bindings again, if one has changed since the last read."""
        tables = [self._store.table(place) for place in _PLACES]
        seen = tuple(table.changes for table in tables)
        if seen == self._seen:
            return
        self._seen = seen
        self._roles, self._claims = {}, {}
        before, self._read = self._read, {}
        count = 0
        for table in tables:
            for key in table.scan():
                stored = table.get(key)
                if stored is None:
                    continue
                known = before.get((table.place, key))
                entry = (
                    known[1] if known and known[0] is stored else _understood(table.place, stored)
                )
                self._read[table.place, key] = (stored, entry)
                if isinstance(entry, _Binding):
                    self._claim(entry, count)
                    count += 1
                else:
                    self._roles[key] = entry

    def _claim(self, binding: _Binding, number: int) -> None:
        known = self._claims.setdefault(binding.home, {})
        for at, subject in enumerate(binding.subjects):
            identity = _identity(subject, binding.home)
            known.setdefault(identity, []).append(_Claim((number, at), binding, subject))


def _understood(place: str, stored: Stored) -> Sequence[Rule] | _Binding:
    """Return the rules of a stored role, or a stored binding."""
    body = msgspec.json.decode(stored.body)
    if place.endswith("roles"):
        return body.get("rules") or []
    home, name = body["metadata"].get("namespace", ""), body["metadata"]["name"]
    kind, role = body["roleRef"]["kind"], body["roleRef"]["name"]
    own = f'RoleBinding "{name}/{home}"' if home else f'ClusterRoleBinding "{name}"'
    title = f'{own} of {kind} "{role}"'
    return _Binding(title, kind, role_name=role, home=home, subjects=body.get("subjects") or ())


def _together(errors: Iterable[str]) -> str:
    """Return errors as Go's aggregate of them reads: each once, in brackets if they are many."""
    known = list(dict.fromkeys(errors))
    return known[0] if len(known) == 1 else f"[{', '.join(known)}]"


def _describe_subject(subject: Mapping[str, Any], home: str) -> str:
    name = subject["name"]
    if subject["kind"] == "ServiceAccount":
        name = f"{name}/{subject.get('namespace') or home}"
    return f'{subject["kind"]} "{name}"'


def _identity(subject: Mapping[str, Any], home: str) -> str:
    """Return the user or group of a subject; empty for a kind of subject that is neither."""
    match subject.get("kind"):
        case "User" | "Group" as kind:
            return f"{kind} {subject['name']}"
        case "ServiceAccount":
            namespace = subject.get("namespace") or home
            name = f"system:serviceaccount:{namespace}:{subject['name']}"
            return f"User {name}" if namespace else ""
        case _:
            return ""


def _permits(rule: Rule, access: AccessAttributes) -> bool:
    if not _among(rule.get("verbs"), access.verb):
        return False
    if access.path is not None:
        return any(
            _path_fits(pattern, access.path) for pattern in rule.get("nonResourceURLs") or ()
        )
    names = rule.get("resourceNames")
    return (
        _among(rule.get("apiGroups"), access.group)
        and _resource_fits(rule.get("resources") or (), access)
        and (not names or access.name in names)
    )


def _among(values: Iterable[str] | None, name: str) -> bool:
    return any(value in {"*", name} for value in values or ())


def _resource_fits(resources: Iterable[str], access: AccessAttributes) -> bool:
    full = f"{access.resource}/{access.subresource}" if access.subresource else access.resource
    any_of = {"*", full}
    if access.subresource:
        any_of.add(f"*/{access.subresource}")
    return any(resource in any_of for resource in resources)


def _path_fits(pattern: str, path: str) -> bool:
    return path.startswith(pattern.rstrip("*")) if pattern.endswith("*") else pattern == path


def attributes(info: RequestInfo) -> AccessAttributes:
    """Return the access that a request asks for."""
    if not info.is_resource:
        return AccessAttributes(info.verb, path=info.path)
    name = info.name or info.selected
    return AccessAttributes(
        info.verb,
        info.group,
        resource=info.resource,
        subresource=info.subresource,
        namespace=info.namespace,
        name=name,
    )


def refusal(user: User, info: RequestInfo, reason: str = "") -> StatusError:
    """Return the 403 for a request, in the real server's words.

    Args:
        user: who asked.
        info: for what.
        reason: what the authorizer found amiss.
    """
    known = f": {reason}" if reason else ""
    if not info.is_resource:
        return StatusError(
            403,
            f'forbidden: User "{user.name}" cannot {info.verb} path "{info.path}"{known}',
            "Forbidden",
            details={},
        )
    where = f'in the namespace "{info.namespace}"' if info.namespace else "at the cluster scope"
    why = (
        f'User "{user.name}" cannot {info.verb} resource "{info.described}" '
        f'in API group "{info.group}" {where}{known}'
    )
    return forbidden(info.resource, info.group, name=info.name or info.selected, why=why)


def check_creation(authorizer: Authorizer, call: AuthorizedCall, name: str) -> None:
    """Check the right to create when an apply or update creates its object.

    Args:
        authorizer: decides.
        call: the request.
        name: of the object: unlike in a POST it is known beforehand and counts.

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
        raise forbidden(info.resource, info.group, name=name, why=decision.reason)
