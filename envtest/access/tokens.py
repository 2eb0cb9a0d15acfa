"""Authentication: bearer tokens and client certificates."""

import csv
import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from envtest.server.call import User
from envtest.server.failures import build_unauthorized

ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
AUTHENTICATED = "system:authenticated"
ADMIN_GROUP = "system:masters"
# The extra field of a user that names the credential it authenticated with.
CREDENTIAL = "authentication.kubernetes.io/credential-id"


class TokenFileError(Exception):
    """A token file that cannot be read; the message names the line and what to write there."""


class TokenRefused(Exception):
    """A token of this server that is not valid; the message says why."""


@dataclass(frozen=True, slots=True)
class Known:
    """The user of a token, and the wanted audiences that it is valid for."""

    user: User
    audiences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client's certificate.

    Args:
        described: the verified certificate as `ssl` describes it.
        encoded: the same as DER.
    """

    described: Mapping[str, Any]
    encoded: bytes

    def user(self) -> User | None:
        """Return whom it is for: common name, organizations, and what it is known by."""
        names: dict[str, list[str]] = {}
        for group in self.described.get("subject", ()):
            for key, value in group:
                names.setdefault(key, []).append(value)
        name = names.get("commonName", [""])[0]
        if not name:
            return None
        known_by = [f"X509SHA256={hashlib.sha256(self.encoded).hexdigest()}"]
        groups = tuple(names.get("organizationName", ()))
        return User(name, groups, uid="", extra={CREDENTIAL: known_by})


def parse_token_file(content: str, source: str = "token file") -> dict[str, User]:
    """Read kube-apiserver's --token-auth-file format: token,user,uid[,"group1,group2"].

    Args:
        content: of the file.
        source: its name in error messages.

    Raises:
        TokenFileError: a line has too few columns or an empty token, or a token is listed twice.
    """
    users: dict[str, User] = {}
    reader = csv.reader(io.StringIO(content), skipinitialspace=True)
    for row in reader:
        if not row or row[0].startswith("#"):
            continue
        where = f"{source}, line {reader.line_num}"
        if len(row) < 3:
            raise TokenFileError(f'{where}: {len(row)} columns; write token,user,uid,"groups"')
        if not row[0]:
            raise TokenFileError(f"{where}: the token is empty; put one before the first comma")
        if row[0] in users:
            raise TokenFileError(
                f"{where}: the token of {row[1]} is listed twice; remove one line"
            )
        groups = tuple(row[3].split(",")) if len(row) > 3 else ()
        users[row[0]] = User(row[1], groups, row[2])
    return users


def token_line(token: str, user: User) -> str:
    """Return the line of a token file for a user."""
    groups = ',"{}"'.format(",".join(user.groups)) if user.groups else ""
    return f"{token},{user.name},{user.uid or user.name}{groups}\n"


class Authenticator:
    """Finds the user of a request."""

    def __init__(self, tokens: Mapping[str, User]) -> None:
        self._tokens = {token: _add_authenticated_group(user) for token, user in tokens.items()}
        # The same by whole headers, in their usual spelling.
        self._bearers = {f"Bearer {token}": user for token, user in self._tokens.items()}
        # The names of this server, before which its own tokens count.
        self.audiences: list[str] = []
        # Authenticates tokens that are not in the file, such as those of service accounts.
        self.others: list[Callable[[str, Sequence[str]], Known | None]] = []

    def add(self, token: str, user: User) -> None:
        """Accept another token."""
        self._tokens[token] = self._bearers[f"Bearer {token}"] = _add_authenticated_group(user)

    def of_token(self, token: str, audiences: Sequence[str] = ()) -> Known | None:
        """Return the user of a token; None for an unknown one.

        Args:
            audiences: before whom it must count, one of these; this server if there are none.

        Raises:
            TokenRefused: it is known, and does not count.
        """
        targets = audiences or self.audiences
        written = self._tokens.get(token)
        if written is not None:
            here = tuple(audience for audience in targets if audience in self.audiences)
            return Known(written, here) if here or not targets else None
        answers = (other(token, targets) for other in self.others)
        known = next((answer for answer in answers if answer), None)
        return (
            None if known is None else Known(_add_authenticated_group(known.user), known.audiences)
        )

    def of_request(self, authorization: str, certificate: Certificate | None) -> User:
        """Return the user who sends a request.

        Args:
            authorization: the Authorization header, or nothing.
            certificate: what the client has shown and TLS has verified.

        Raises:
            StatusError: 401 for an unknown token.
        """
        user = None if certificate is None else certificate.user()
        if user is not None:
            return _add_authenticated_group(user)
        usual = self._bearers.get(authorization)
        if usual is not None:
            return usual
        scheme, _, token = authorization.strip().partition(" ")
        if scheme.lower() != "bearer" or not token:
            return ANONYMOUS
        try:
            known = self.of_token(token)
        except TokenRefused:
            known = None
        if known is None:
            raise build_unauthorized()
        return known.user


def _add_authenticated_group(user: User) -> User:
    """Return a user with the group system:authenticated."""
    if user.name == ANONYMOUS.name or {AUTHENTICATED, *ANONYMOUS.groups} & set(user.groups):
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))
