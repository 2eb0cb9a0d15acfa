"""Acting as somebody else: the Impersonate headers, and who may use them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol
from urllib.parse import unquote

from envtest.access.impersonationmodes import MODES, Mode
from envtest.access.rbac import Authorizer
from envtest.schema.gotext import quote
from envtest.server.call import User
from envtest.server.failures import StatusError, bad_request
from envtest.server.request import RequestInfo

_EXTRA = "impersonate-extra-"
# Of how many users the way that they took last is known.
_REMEMBERED = 10_000


class Headers(Protocol):
    """The headers of a request; names may stand several times."""

    def getall(self, key: str, default: Sequence[str]) -> Sequence[str]:
        """Return all values of a name."""
        ...

    def keys(self) -> Iterable[str]:
        """Return the names."""
        ...


class Impersonator:
    """Finds out whom requests are to be taken for."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        # User -> the way in which it acted as somebody else last. It is tried first, and if none
        # of them is open to the user, the first that was tried is what the refusal speaks of.
        self._last: dict[str, Mode] = {}

    def taken_for(self, user: User, headers: Headers, request: RequestInfo) -> User:
        """Return whom the user wants to be taken for, if it may; itself if it wants nothing.

        Args:
            user: who asks.
            headers: of the request.
            request: what it is about.

        Raises:
            StatusError: 403 for what it may not, 400 for groups and the like without a user.
        """
        if "impersonate" not in " ".join(headers.keys()).lower():
            return user  # as nearly always
        wanted = _wanted(headers)
        return user if wanted is None else self._become(user, wanted, request)

    def _become(self, user: User, wanted: User, request: RequestInfo) -> User:
        last = self._last.get(user.name)
        refusals: list[StatusError] = []
        for mode in sorted(MODES, key=lambda one: one is not last):
            if not mode.applies(user, wanted):
                continue
            try:
                found = mode.check(self._authorizer, user, wanted, request)
            except StatusError as refusal:
                refusals.append(refusal)
                continue
            self._remember(user.name, mode)
            return found
        raise refusals[0]

    def _remember(self, name: str, mode: Mode) -> None:
        if name not in self._last and len(self._last) >= _REMEMBERED:
            del self._last[next(iter(self._last))]
        self._last[name] = mode


def _wanted(headers: Headers) -> User | None:
    """Return whom the headers name, if they name anybody.

    Raises:
        StatusError: 400; they say something of nobody.
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
        return User(name, groups, uid, extra)
    if not (groups or extra or uid):
        return None
    nobody = (
        f'&user.DefaultInfo{{Name:"", UID:{quote(uid)}, Groups:{_listed(groups)}, '
        f"Extra:{_mapped(extra)}}}"
    )
    raise bad_request(f"requested {nobody} without impersonating a user name")


def _values(headers: Headers, name: str) -> Iterator[str]:
    """Yield the values of a header; bytes that are no text become marks, as in Go's JSON."""
    for value in headers.getall(name, ()):
        yield value.encode(errors="surrogateescape").decode(errors="replace")


def _listed(values: Sequence[str]) -> str:
    """Return texts as Go's %#v writes them."""
    return f"[]string{{{', '.join(map(quote, values))}}}" if values else "[]string(nil)"


def _mapped(values: Mapping[str, Sequence[str]]) -> str:
    if not values:
        return "map[string][]string(nil)"
    shown = ", ".join(f"{quote(key)}:{_listed(values[key])}" for key in sorted(values))
    return f"map[string][]string{{{shown}}}"
