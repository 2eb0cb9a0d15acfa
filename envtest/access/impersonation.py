"""Impersonation: the Impersonate headers, as `kubectl --as` sends them, and their authorization.

For each part of the identity the caller needs the verb `impersonate` on a resource: users, groups,
serviceaccounts, uids or userextras. Constrained impersonation of newer servers is not supported.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol
from urllib.parse import unquote

from envtest.access.rbac import Authorizer, build_attributes, build_forbidden_error
from envtest.access.tokens import ANONYMOUS, AUTHENTICATED
from envtest.server.call import User
from envtest.server.failures import build_bad_request
from envtest.server.request import RequestInfo

_EXTRA: Final = "impersonate-extra-"
_GROUP: Final = "authentication.k8s.io"
_ACCOUNT: Final = "system:serviceaccount:"


class Headers(Protocol):
    """The headers of a request; a name may have several values."""

    def getall(self, key: str, default: Sequence[str]) -> Sequence[str]:
        """Return all values of a name."""
        ...

    def keys(self) -> Iterable[str]:
        """Return the names."""
        ...


def choose_user(authorizer: Authorizer, user: User, headers: Headers) -> User:
    """Return the user as whom a request acts: the impersonated user, or else the caller.

    Args:
        authorizer: decides whether the caller may impersonate.
        user: the caller.
        headers: the headers of the request.

    Raises:
        StatusError: 403 if the caller may not impersonate a part of the identity, 400 if the
            headers name groups, a uid or extras but no user.
    """
    # A fast test that ends nearly all requests here.
    if "impersonate" not in " ".join(headers.keys()).lower():
        return user
    target = _read_headers(headers)
    if target is None:
        return user
    for permission in _list_needed_permissions(target):
        decision = authorizer.decide(user, build_attributes(permission))
        if not decision.allowed:
            raise build_forbidden_error(user, permission, decision.reason)
    return User(target.name, _complete_groups(target), uid=target.uid, extra=target.extra)


def _read_headers(headers: Headers) -> User | None:
    """Return the user that the headers name, with only the named groups; None without a user.

    Raises:
        StatusError: 400 if they name groups, a uid or extras but no user.
    """
    name = next(_read_values(headers, "Impersonate-User"), "")
    groups = tuple(_read_values(headers, "Impersonate-Group"))
    uid = next(_read_values(headers, "Impersonate-Uid"), "")
    extra = {
        unquote(key[len(_EXTRA) :].lower()): list(_read_values(headers, key))
        for key in headers.keys()  # noqa: SIM118  # no mapping: names repeat
        if key.lower().startswith(_EXTRA)
    }
    if name:
        return User(name, groups, uid=uid, extra=extra)
    if groups or extra or uid:
        raise build_bad_request(
            "groups, a uid or extra are requested without impersonating a user name"
        )
    return None


def _read_values(headers: Headers, name: str) -> Iterator[str]:
    """Yield the values of a header; invalid UTF-8 becomes U+FFFD, as in Go's JSON."""
    for value in headers.getall(name, ()):
        yield value.encode(errors="surrogateescape").decode(errors="replace")


def _list_needed_permissions(target: User) -> Iterator[RequestInfo]:
    """Yield the permissions that the caller needs, in the order of the real server's checks."""
    namespace, _, account = target.name.removeprefix(_ACCOUNT).partition(":")
    if target.name.startswith(_ACCOUNT):
        yield _build_permission("", "serviceaccounts", account, namespace=namespace)
    else:
        yield _build_permission("", "users", target.name)
    if target.uid:
        yield _build_permission(_GROUP, "uids", target.uid)
    for group in target.groups:
        yield _build_permission("", "groups", group)
    for key, values in target.extra.items():
        for value in values:
            yield _build_permission(_GROUP, "userextras", value, subresource=key)


def _build_permission(
    group: str, resource: str, name: str, *, namespace: str = "", subresource: str = ""
) -> RequestInfo:
    """Return the permission to impersonate one part of an identity, as a request."""
    return RequestInfo(
        "",
        "impersonate",
        is_resource=True,
        group=group,
        version="v1",
        namespace=namespace,
        resource=resource,
        subresource=subresource,
        name=name,
    )


def _complete_groups(target: User) -> tuple[str, ...]:
    """Return the groups of an impersonated user.

    A service account without requested groups gets those of service accounts. Every user is in
    system:authenticated or, if anonymous or requested, in system:unauthenticated.
    """
    groups = target.groups
    if target.name.startswith(_ACCOUNT) and not groups:
        namespace = target.name.removeprefix(_ACCOUNT).partition(":")[0]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    unauthenticated = ANONYMOUS.groups[0]
    if AUTHENTICATED in groups and target.name != ANONYMOUS.name:
        return groups
    if unauthenticated in groups:
        return groups
    return (*groups, unauthenticated if target.name == ANONYMOUS.name else AUTHENTICATED)
