"""Acting as somebody else: the Impersonate headers, and the right to each of them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol
from urllib.parse import unquote

from envtest.access.rbac import Authorizer, attributes, refusal
from envtest.access.tokens import ANONYMOUS, AUTHENTICATED
from envtest.server.call import User
from envtest.server.failures import StatusError
from envtest.server.request import RequestInfo

_UNAUTHENTICATED = "system:unauthenticated"
_GROUP = "authentication.k8s.io"
_EXTRA = "impersonate-extra-"
_ACCOUNT = "system:serviceaccount:"


class Headers(Protocol):
    """The headers of a request; names may stand several times."""

    def getall(self, key: str, default: Sequence[str]) -> Sequence[str]:
        """Return all values of a name."""
        ...

    def keys(self) -> Iterable[str]:
        """Return the names."""
        ...


def impersonated(authorizer: Authorizer, user: User, headers: Headers) -> User:
    """Return whom the user wants to be taken for, if it may; the user itself if it wants nothing.

    Raises:
        StatusError: 403 for what it may not, 500 for groups and the like without a user, which
            is what the real server answers.
    """
    if "impersonate" not in " ".join(headers.keys()).lower():
        return user  # as nearly always
    name = next(iter(headers.getall("Impersonate-User", ())), "")
    groups = list(headers.getall("Impersonate-Group", ()))
    uid = next(iter(headers.getall("Impersonate-Uid", ())), "")
    extra = {
        unquote(key[len(_EXTRA) :].lower()): list(headers.getall(key, ()))
        for key in headers.keys()  # noqa: SIM118  # no mapping: names repeat
        if key.lower().startswith(_EXTRA)
    }
    if not name:
        if groups or extra or uid:
            raise _nobody(groups, extra, uid)
        return user
    for wanted in _wanted(name, groups, uid, extra):
        decision = authorizer.decide(user, attributes(wanted))
        if not decision.allowed:
            raise refusal(user, wanted, decision.reason)
    namespace, account = _account(name)
    if not groups and account:
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    if name == ANONYMOUS.name:
        if _UNAUTHENTICATED not in groups:
            groups.append(_UNAUTHENTICATED)
    elif not {AUTHENTICATED, _UNAUTHENTICATED} & set(groups):
        groups.append(AUTHENTICATED)
    return User(name, tuple(groups), uid, extra)


def _wanted(
    name: str, groups: Sequence[str], uid: str, extra: dict[str, list[str]]
) -> Iterator[RequestInfo]:
    """Yield what must be allowed, in the order in which it is asked."""
    namespace, account = _account(name)
    if account:
        yield _request("", "serviceaccounts", account, namespace=namespace)
    else:
        yield _request("", "users", name)
    for group in groups:
        yield _request("", "groups", group)
    for key, values in extra.items():
        for value in values:
            yield _request(_GROUP, "userextras", value, subresource=key)
    if uid:
        yield _request(_GROUP, "uids", uid)


def _request(
    group: str, resource: str, name: str, *, namespace: str = "", subresource: str = ""
) -> RequestInfo:
    return RequestInfo(
        "", "impersonate", True, group, "v1", namespace, resource, subresource, name
    )


def _account(name: str) -> tuple[str, str]:
    """Return namespace and name of a service account by its user name; nothing for others."""
    namespace, colon, account = name.removeprefix(_ACCOUNT).partition(":")
    if not name.startswith(_ACCOUNT) or not colon or not namespace or not account:
        return "", ""
    return ("", "") if ":" in account else (namespace, account)


def _nobody(groups: Sequence[str], extra: dict[str, list[str]], uid: str) -> StatusError:
    parts = [f"{{Group  {group}    }}" for group in groups]
    version = f"{_GROUP}/v1"
    for key, values in extra.items():
        parts += [f"{{UserExtra  {value}  {version}  {key}}}" for value in values]
    if uid:
        parts.append(f"{{UID  {uid}  {version}  }}")
    told = " ".join(parts)
    return StatusError(500, f"requested [{told}] without impersonating a user", "InternalError")
