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
    """A token file that cannot be parsed; the message names the line and how to correct it."""


class TokenRefused(Exception):
    """A token of this server that is not valid; the message says why."""


@dataclass(frozen=True, slots=True)
class TokenIdentity:
    """The user of a token, and the requested audiences for which the token is valid."""

    user: User
    audiences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate that TLS has verified.

    Args:
        fields: the fields of the certificate, as `SSLSocket.getpeercert` returns them.
        encoded: the certificate in DER.
    """

    fields: Mapping[str, Any]
    encoded: bytes

    def find_user(self) -> User | None:
        """Return the user of the certificate; None if it has no common name.

        The common name is the user's name, and organizations are the user's groups.
        """
        names: dict[str, list[str]] = {}
        for group in self.fields.get("subject", ()):
            for key, value in group:
                names.setdefault(key, []).append(value)
        name = names.get("commonName", [""])[0]
        if not name:
            return None
        credential = [f"X509SHA256={hashlib.sha256(self.encoded).hexdigest()}"]
        groups = tuple(names.get("organizationName", ()))
        return User(name, groups, uid="", extra={CREDENTIAL: credential})


def parse_token_file(content: str, source: str = "token file") -> dict[str, User]:
    """Parse a file for kube-apiserver's --token-auth-file: token,user,uid[,"group1,group2"].

    Args:
        content: the content of the file.
        source: the name of the file in error messages.

    Returns:
        The users by their tokens.

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


def format_token_line(token: str, user: User) -> str:
    """Return the line of a token file for a user; a user without uid gets the name as uid."""
    groups = ',"{}"'.format(",".join(user.groups)) if user.groups else ""
    return f"{token},{user.name},{user.uid or user.name}{groups}\n"


class Authenticator:
    """Finds the user of a request."""

    def __init__(self, tokens: Mapping[str, User]) -> None:
        self._tokens = {token: _add_authenticated_group(user) for token, user in tokens.items()}
        # The same users by the whole Authorization header in its usual spelling.
        self._bearers = {f"Bearer {token}": user for token, user in self._tokens.items()}
        # The names of this server as an audience of tokens.
        self.audiences: list[str] = []
        # Authenticates tokens that are not in the file, such as those of service accounts.
        self.other_authenticators: list[Callable[[str, Sequence[str]], TokenIdentity | None]] = []

    def add_token(self, token: str, user: User) -> None:
        """Accept another token."""
        self._tokens[token] = self._bearers[f"Bearer {token}"] = _add_authenticated_group(user)

    def find_token_user(self, token: str, audiences: Sequence[str] = ()) -> TokenIdentity | None:
        """Return the user of a token; None for an unknown token.

        Args:
            audiences: the token must be valid for one of these; if empty, for this server.

        Raises:
            TokenRefused: this server issued the token, but it is not valid.
        """
        targets = audiences or self.audiences
        file_user = self._tokens.get(token)
        # Tokens of the file are valid for this server, and for no other audience.
        if file_user is not None:
            accepted_audiences = tuple(
                audience for audience in targets if audience in self.audiences
            )
            if targets and not accepted_audiences:
                return None
            return TokenIdentity(file_user, accepted_audiences)
        answers = (authenticate(token, targets) for authenticate in self.other_authenticators)
        identity = next((answer for answer in answers if answer), None)
        if identity is None:
            return None
        return TokenIdentity(_add_authenticated_group(identity.user), identity.audiences)

    def find_request_user(self, authorization: str, certificate: Certificate | None) -> User:
        """Return the user who sends a request.

        A certificate takes precedence over a token. Without both, the user is anonymous.

        Args:
            authorization: the Authorization header; may be empty.
            certificate: the client certificate; None if the client has none.

        Raises:
            StatusError: 401 for a token that is unknown or not valid.
        """
        user = None if certificate is None else certificate.find_user()
        if user is not None:
            return _add_authenticated_group(user)
        cached_user = self._bearers.get(authorization)
        if cached_user is not None:
            return cached_user
        scheme, _, token = authorization.strip().partition(" ")
        # As in kube-apiserver, an Authorization header of another kind is ignored.
        if scheme.lower() != "bearer" or not token:
            return ANONYMOUS
        try:
            identity = self.find_token_user(token)
        except TokenRefused:
            # The client gets a plain 401. A TokenReview reports the reason.
            identity = None
        if identity is None:
            raise build_unauthorized()
        return identity.user


def _add_authenticated_group(user: User) -> User:
    """Return a user with the group system:authenticated, unless it has it or is anonymous."""
    if user.name == ANONYMOUS.name or {AUTHENTICATED, *ANONYMOUS.groups} & set(user.groups):
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))
