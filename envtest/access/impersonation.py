"""Acting as another user: the Impersonate headers of `kubectl --as`, and who may use them.

Each part of the identity needs the verb `impersonate`: users, groups, serviceaccounts, uids and
userextras. The constrained impersonation of newer servers is not served.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol
from urllib.parse import unquote

from envtest.access.rbac import Authorizer, attributes, refusal
from envtest.access.tokens import ANONYMOUS, AUTHENTICATED
from envtest.server.call import User
from envtest.server.failures import bad_request
from envtest.server.request import RequestInfo

_EXTRA: Final = "impersonate-extra-"
_GROUP: Final = "authentication.k8s.io"
_ACCOUNT: Final = "system:serviceaccount:"


class Headers(Protocol):
    """The headers of a request; names may stand several times."""

    def getall(self, key: str, default: Sequence[str]) -> Sequence[str]:
        """Return all values of a name."""
        ...

    def keys(self) -> Iterable[str]:
        """Return the names."""
        ...


def choose_user(authorizer: Authorizer, user: User, headers: Headers) -> User:
    """Return the user that a request acts as: its own, unless its headers name another.

    Args:
        authorizer: decides whether the caller may impersonate.
        user: who asks.
        headers: of the request.

    Raises:
        StatusError: 403 for what the user may not, 400 for groups and the like without a user.
    """
    if "impersonate" not in " ".join(headers.keys()).lower():
        return user  # as nearly always
    target = _read_headers(headers)
    if target is None:
        return user
    for part in _list_requests(target):
        decision = authorizer.decide(user, attributes(part))
        if not decision.allowed:
            raise refusal(user, part, decision.reason)
    return User(target.name, _groups(target), uid=target.uid, extra=target.extra)


def _read_headers(headers: Headers) -> User | None:
    """Return the user that the headers name.

    Raises:
        StatusError: 400; they name groups or the like, and no user.
    """
    name = next(_values(headers, "Impersonate-User"), "")
    groups = tuple(_values(headers, "Impersonate-Group"))
    uid = next(_values(headers, "Impersonate-Uid"), "")
    extra = {
        unquote(key[len(_EXTRA) :].lower()): list(_values(headers, key))
        for key in headers.keys()  # noqa: SIM118  # no mapping: names repeat
        if key.lower().startswith(_EXTRA)
    }
    if name:
        return User(name, groups, uid=uid, extra=extra)
    if groups or extra or uid:
        raise bad_request("groups, a uid or extra are requested without impersonating a user name")
    return None


def _values(headers: Headers, name: str) -> Iterator[str]:
    """Yield the values of a header; bytes that are no text become marks, as in Go's JSON."""
    for value in headers.getall(name, ()):
        yield value.encode(errors="surrogateescape").decode(errors="replace")


def _list_requests(target: User) -> Iterator[RequestInfo]:
    """Yield the permissions that the caller needs, in the order in which they are checked."""
    namespace, _, account = target.name.removeprefix(_ACCOUNT).partition(":")
    if target.name.startswith(_ACCOUNT):
        yield _part("", "serviceaccounts", account, namespace=namespace)
    else:
        yield _part("", "users", target.name)
    if target.uid:
        yield _part(_GROUP, "uids", target.uid)
    for group in target.groups:
        yield _part("", "groups", group)
    for key, values in target.extra.items():
        for value in values:
            yield _part(_GROUP, "userextras", value, subresource=key)


def _part(
    group: str, resource: str, name: str, *, namespace: str = "", subresource: str = ""
) -> RequestInfo:
    verb = "impersonate"
    return RequestInfo(
        "",
        verb,
        is_resource=True,
        group=group,
        version="v1",
        namespace=namespace,
        resource=resource,
        subresource=subresource,
        name=name,
    )


def _groups(target: User) -> tuple[str, ...]:
    """Return the groups that were asked for, and those that every such user is in."""
    groups = target.groups
    if target.name.startswith(_ACCOUNT) and not groups:
        namespace = target.name.removeprefix(_ACCOUNT).partition(":")[0]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    unauthenticated = ANONYMOUS.groups[0]
    own = unauthenticated if target.name == ANONYMOUS.name else AUTHENTICATED
    return groups if own in groups or unauthenticated in groups else (*groups, own)
