"""Authorization by Roles and ClusterRoles and their bindings."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from envtest.access.tokens import ADMIN_GROUP
from envtest.server.call import User
from envtest.server.failures import StatusError, forbidden
from envtest.server.request import RequestInfo
from envtest.storage import Store

_GROUP = "rbac.authorization.k8s.io"
_PLACES = tuple(
    f"{_GROUP}/{plural}"
    for plural in ("clusterrolebindings", "clusterroles", "rolebindings", "roles")
)


@dataclass(frozen=True, slots=True)
class Attributes:
    """One thing that somebody wants to do."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    # Set for what is no resource.
    path: str | None = None


Rule = dict[str, Any]


class Authorizer:
    """Decides by what is stored; the index is rebuilt when one of the four kinds changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: tuple[int, ...] = ()
        self._roles: dict[str, list[Rule]] = {}
        self._bindings: dict[str, list[Rule]] = {}

    def allowed(self, user: User, wanted: Attributes) -> bool:
        """Tell whether a user may do something."""
        if ADMIN_GROUP in user.groups:
            return True
        return any(_permits(rule, wanted) for rule in self.rules(user, wanted.namespace))

    def rules(self, user: User, namespace: str) -> Iterator[Rule]:
        """Yield the rules that hold for a user in a namespace and everywhere."""
        self._refresh()
        for home in ("", namespace) if namespace else ("",):
            for binding in self._bindings.get(home, ()):
                if any(_is_subject(subject, user, home) for subject in binding["subjects"]):
                    yield from self._roles.get(binding["role"], ())

    def _refresh(self) -> None:
        tables = [self._store.table(place) for place in _PLACES]
        seen = tuple(table.changes for table in tables)
        if seen == self._seen:
            return
        self._seen = seen
        self._roles, self._bindings = {}, {}
        for table in tables:
            is_role = table.place.endswith("roles")
            for key in table.scan():
                stored = table.get(key)
                if stored is None:
                    continue
                body = msgspec.json.decode(stored.body)
                if is_role:
                    self._roles[key] = body.get("rules") or []
                else:
                    self._bind(body)

    def _bind(self, body: dict[str, Any]) -> None:
        home = body["metadata"].get("namespace", "")
        reference = body["roleRef"]
        local = reference["kind"] == "Role"
        role = f"{home}/{reference['name']}" if local else reference["name"]
        entry = {"role": role, "subjects": body.get("subjects") or ()}
        self._bindings.setdefault(home, []).append(entry)


def _is_subject(subject: dict[str, Any], user: User, home: str) -> bool:
    match subject.get("kind"):
        case "User":
            return bool(user.name == subject["name"])
        case "Group":
            return subject["name"] in user.groups
        case "ServiceAccount":
            namespace = subject.get("namespace") or home
            return user.name == f"system:serviceaccount:{namespace}:{subject['name']}"
        case _:
            return False


def _permits(rule: Rule, wanted: Attributes) -> bool:
    if not _among(rule.get("verbs"), wanted.verb):
        return False
    if wanted.path is not None:
        return any(_path_fits(one, wanted.path) for one in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames")
    return (
        _among(rule.get("apiGroups"), wanted.group)
        and _resource_fits(rule.get("resources") or (), wanted)
        and (not names or wanted.name in names)
    )


def _among(values: Iterable[str] | None, wanted: str) -> bool:
    return any(value in {"*", wanted} for value in values or ())


def _resource_fits(resources: Iterable[str], wanted: Attributes) -> bool:
    full = f"{wanted.resource}/{wanted.subresource}" if wanted.subresource else wanted.resource
    any_of = {"*", full}
    if wanted.subresource:
        any_of.add(f"*/{wanted.subresource}")
    return any(one in any_of for one in resources)


def _path_fits(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else pattern == path


def attributes(info: RequestInfo) -> Attributes:
    """Return what a request wants to do."""
    if not info.is_resource:
        return Attributes(info.verb, path=info.path)
    return Attributes(
        info.verb, info.group, info.resource, info.subresource, info.namespace, info.name
    )


def refusal(user: User, info: RequestInfo) -> StatusError:
    """Return the 403 for a request, in the real server's words."""
    if not info.is_resource:
        return StatusError(
            403,
            f'forbidden: User "{user.name}" cannot {info.verb} path "{info.path}"',
            "Forbidden",
            details={},
        )
    where = f'in the namespace "{info.namespace}"' if info.namespace else "at the cluster scope"
    why = (
        f'User "{user.name}" cannot {info.verb} resource "{info.described}" '
        f'in API group "{info.group}" {where}'
    )
    return forbidden(info.resource, info.group, info.name, why)
