"""In which ways somebody may act as somebody else, and which rights each of them needs.

The old way needs the verb `impersonate` on each part of the identity, and then allows whatever the
other may do. The constrained ways need `impersonate:<way>` on each part instead, and
`impersonate-on:<way>:<verb>` on what is done. Texts and order are those of kube-apiserver 1.36
(k8s.io/apiserver/pkg/endpoints/filters/impersonation).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from envtest.access.rbac import Authorizer, attributes, refusal
from envtest.access.tokens import ADMIN_GROUP, ANONYMOUS, AUTHENTICATED
from envtest.schema.errors import FieldError, aggregate_message, invalid
from envtest.schema.gotext import quote
from envtest.schema.names import label_errors, subdomain_errors
from envtest.server.call import User
from envtest.server.request import RequestInfo

_UNAUTHENTICATED: Final = ANONYMOUS.groups[0]
_GROUP: Final = "authentication.k8s.io"
_ACCOUNT: Final = "system:serviceaccount:"
_NODE: Final = "system:node:"
_NODE_NAME: Final = "authentication.kubernetes.io/node-name"
# From so many on, the right to all of them is asked for first.
_MANY: Final = 4
_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"


@dataclass(frozen=True, slots=True)
class Mode:
    """One way.

    Attributes:
        name: in its verbs; nothing for the old way.
        applies: tells by who asks, and for whom, whether it is a way at all.
    """

    name: str
    applies: Callable[[User, User], bool]

    def check(
        self, authorizer: Authorizer, user: User, wanted: User, request: RequestInfo
    ) -> User:
        """Return whom a user is taken for.

        Args:
            authorizer: knows the rights.
            user: who asks.
            wanted: whom it wants to be, as its headers say.
            request: what it wants to do.

        Raises:
            StatusError: 403; a right is missing.
        """
        if self.name:
            verb = f"impersonate-on:{self.name}:{request.verb}"
            _confirm(authorizer, user, msgspec.structs.replace(request, verb=verb))
        for part in self._parts(authorizer, user, wanted):
            _confirm(authorizer, user, part)
        return User(wanted.name, self._groups(wanted), wanted.uid, wanted.extra)

    def _parts(self, authorizer: Authorizer, user: User, wanted: User) -> Iterator[RequestInfo]:
        """Yield what must be allowed, in the order in which it is asked."""
        yield self._named(wanted.name)
        if wanted.uid:
            yield self._part("uids", wanted.uid, group=_GROUP)
        own = _GROUP if self.name else ""
        groups = [self._part("groups", name, group=own) for name in wanted.groups]
        extra = [
            self._part("userextras", value, group=_GROUP, subresource=key)
            for key, values in wanted.extra.items()
            for value in values
        ]
        if self.name:
            self._refuse_groups(user, wanted.groups)
        if not (self.name and _all_of(authorizer, user, groups, len(groups))):
            yield from groups
        if self.name:
            self._refuse_extra(user, wanted)
        if not (
            self.name and _all_of(authorizer, user, extra, max(len(extra), len(wanted.extra)))
        ):
            yield from extra

    def _named(self, name: str) -> RequestInfo:
        """Return what is asked for a name: a node, a service account or any user."""
        group = _GROUP if self.name else ""
        if self.name == "associated-node":
            # What is granted for one node holds for all that have an account of their own.
            return self._part("nodes", "*", group=group)
        if self.name and node_name(name):
            return self._part("nodes", node_name(name), group=group)
        namespace, account = account_name(name)
        if account:
            return self._part("serviceaccounts", account, group=group, namespace=namespace)
        return self._part("users", name, group=group)

    def _part(
        self, resource: str, name: str, *, group: str, namespace: str = "", subresource: str = ""
    ) -> RequestInfo:
        verb = f"impersonate:{self.name}" if self.name else "impersonate"
        return RequestInfo("", verb, True, group, "v1", namespace, resource, subresource, name)

    def _groups(self, wanted: User) -> tuple[str, ...]:
        """Return the groups of who is impersonated: those asked for, and those that are sure."""
        groups = wanted.groups
        namespace, account = account_name(wanted.name)
        if self.name and node_name(wanted.name):
            groups = ("system:nodes",)
        elif account and not groups:
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        if wanted.name == ANONYMOUS.name:
            sure = _UNAUTHENTICATED
        elif _UNAUTHENTICATED in groups:
            return groups
        else:
            sure = AUTHENTICATED
        return groups if sure in groups else (*groups, sure)

    def _refuse_groups(self, user: User, groups: Sequence[str]) -> None:
        """Refuse groups that no right is enough for.

        Raises:
            StatusError: 403.
        """
        if "" in groups:
            part = self._part("groups", "", group=_GROUP)
            raise refusal(user, part, "impersonating the empty string group is not allowed")
        if ADMIN_GROUP in groups:
            part = self._part("groups", ADMIN_GROUP, group=_GROUP)
            why = f"impersonating the {ADMIN_GROUP} group is not allowed"
            raise refusal(user, part, why)

    def _refuse_extra(self, user: User, wanted: User) -> None:
        """Refuse further facts that make no sense.

        Raises:
            StatusError: 403.
        """
        part = self._part("userextras", "", group=_GROUP)
        for key, values in wanted.extra.items():
            problems = _key_problems(key)
            if not key:
                why = "impersonating the empty string key in extra is not allowed"
            elif problems:
                text = aggregate_message(problems)
                why = f"impersonating an invalid key in extra is not allowed: {text}"
            elif key != key.lower():
                why = f"impersonating a non-lowercase key in extra is not allowed: {quote(key)}"
            elif "" in values:
                why = "impersonating the empty string value in extra is not allowed"
            else:
                continue
            raise refusal(user, part, why)


def _confirm(authorizer: Authorizer, user: User, wanted: RequestInfo) -> None:
    decision = authorizer.decide(user, attributes(wanted))
    if not decision.allowed:
        raise refusal(user, wanted, decision.reason)


def _all_of(authorizer: Authorizer, user: User, parts: Sequence[RequestInfo], count: int) -> bool:
    """Tell whether the right to everything of a sort spares asking for each of many."""
    if count < _MANY or not parts:
        return False
    subresource = "*" if parts[0].subresource else ""
    every = msgspec.structs.replace(parts[0], name="*", subresource=subresource)
    return authorizer.allowed(user, attributes(every))


def _key_problems(key: str) -> list[FieldError]:
    """Return what keeps a key from being a path behind a domain."""
    domain, _, path = key.partition("/")
    if not domain or not path:
        text = 'must be a domain-prefixed path (such as "acme.io/foo")'
        return [invalid("extra.key", key, text)]
    found = [invalid("extra.key", domain, text) for text in subdomain_errors(domain)]
    if not re.fullmatch(_PATH, path):
        text = f"Invalid path (regex used for validation is '{_PATH}')"
        found.append(invalid("extra.key", path, text))
    return found


def account_name(name: str) -> tuple[str, str]:
    """Return namespace and name of a service account by its user name; nothing for others."""
    namespace, _, account = name.removeprefix(_ACCOUNT).partition(":")
    if not name.startswith(_ACCOUNT) or label_errors(namespace) or subdomain_errors(account):
        return "", ""
    return namespace, account


def node_name(name: str) -> str:
    """Return the name of a node by its user name; nothing for others."""
    node = name.removeprefix(_NODE)
    return node if name.startswith(_NODE) and not subdomain_errors(node) else ""


def _is_bare(wanted: User) -> bool:
    return not (wanted.uid or wanted.groups or wanted.extra)


def _is_own_node(user: User, wanted: User) -> bool:
    node = node_name(wanted.name)
    own = list(user.extra.get(_NODE_NAME, ())) == [node]
    return _is_bare(wanted) and bool(node) and own and bool(account_name(user.name)[1])


MODES: Final = (
    Mode("associated-node", _is_own_node),
    Mode("arbitrary-node", lambda _, wanted: _is_bare(wanted) and bool(node_name(wanted.name))),
    Mode(
        "serviceaccount", lambda _, wanted: _is_bare(wanted) and bool(account_name(wanted.name)[1])
    ),
    Mode(
        "user-info",
        lambda _, wanted: not node_name(wanted.name) and not account_name(wanted.name)[1],
    ),
    Mode("", lambda _, __: True),
)
