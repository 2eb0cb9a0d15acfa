"""Authentication: bearer tokens and client certificates."""

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from envtest.server.call import User
from envtest.server.failures import unauthorized

ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
AUTHENTICATED = "system:authenticated"
ADMIN_GROUP = "system:masters"


class TokenFileError(Exception):
    """A token file that cannot be read; the message names the line and what to write there."""


def parse_token_file(text: str, source: str = "token file") -> dict[str, User]:
    """Read kube-apiserver's --token-auth-file format: token,user,uid[,"group1,group2"].

    Args:
        text: the content.
        source: what to call it in refusals.

    Raises:
        TokenFileError: a line has too few columns or an empty token, or a token stands twice.
    """
    found: dict[str, User] = {}
    reader = csv.reader(io.StringIO(text), skipinitialspace=True)
    for row in reader:
        if not row or row[0].startswith("#"):
            continue
        where = f"{source}, line {reader.line_num}"
        if len(row) < 3:
            raise TokenFileError(f'{where}: {len(row)} columns; write token,user,uid,"groups"')
        if not row[0]:
            raise TokenFileError(f"{where}: the token is empty; put one before the first comma")
        if row[0] in found:
            raise TokenFileError(f"{where}: the token of {row[1]} stands twice; remove one line")
        groups = tuple(row[3].split(",")) if len(row) > 3 else ()
        found[row[0]] = User(row[1], groups, row[2])
    return found


def token_line(token: str, user: User) -> str:
    """Return the line of a token file that lets a user in."""
    groups = ',"{}"'.format(",".join(user.groups)) if user.groups else ""
    return f"{token},{user.name},{user.uid or user.name}{groups}\n"


class Authenticator:
    """Finds out who asks."""

    def __init__(self, tokens: Mapping[str, User]) -> None:
        self._tokens = dict(tokens)
        # Who knows tokens that are not written down, such as those of service accounts.
        self.others: list[Callable[[str], User | None]] = []

    def add(self, token: str, user: User) -> None:
        """Let another token in."""
        self._tokens[token] = user

    def of_token(self, token: str) -> User | None:
        """Return the user that a token stands for."""
        user = self._tokens.get(token) or next(
            (user for known in self.others if (user := known(token))), None
        )
        return None if user is None else replace(user, groups=(*user.groups, AUTHENTICATED))

    def of_request(self, authorization: str, certificate: Mapping[str, Any] | None) -> User:
        """Return who sends a request.

        Args:
            authorization: the Authorization header, or nothing.
            certificate: the client's verified certificate as `ssl` describes it.

        Raises:
            StatusError: 401 for a token that nobody has.
        """
        if certificate:
            return _of_certificate(certificate)
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        user = self.of_token(token.strip())
        if user is None:
            raise unauthorized()
        return user


def _of_certificate(certificate: Mapping[str, Any]) -> User:
    """Return common name and organizations as user and groups."""
    names: dict[str, list[str]] = {}
    for group in certificate.get("subject", ()):
        for key, value in group:
            names.setdefault(key, []).append(value)
    groups = (*names.get("organizationName", ()), AUTHENTICATED)
    return User(names.get("commonName", [""])[0], groups)
