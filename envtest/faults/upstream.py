"""The way to the API server behind the proxy, as each of its users.

The proxy ends TLS, so a client certificate ends at the proxy. Its kubeconfigs therefore carry
tokens of the proxy's own, each standing for a user of the control plane; towards the server that
user's own certificate or token is used. Other tokens (of service accounts, say) are passed on.
"""

import base64
import ssl
from dataclasses import dataclass
from typing import Any

import yaml
from aiohttp import ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from multidict import CIMultiDict
from yarl import URL

from envtest.certs import KeyPair, client_tls
from envtest.plane import ControlPlane, new_token

_SKIPPED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


@dataclass(frozen=True, slots=True)
class _User:
    """How the server knows a user: by what `session` connects with, or by `token`."""

    session: ClientSession
    token: str


class Upstream:
    """Connections to the server behind the proxy.

    Args:
        plane: the server.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._tokens: dict[str, str] = {}
        self._users: dict[str, _User] = {}
        self._nobody = _session(_context(_parts(plane.kubeconfig())[0], None))

    def token(self, name: str) -> str:
        """Return the token that stands for a user of the control plane.

        Raises:
            PlaneError: there is no such user.
        """
        if name not in self._tokens:
            cluster, user = _parts(self._plane.kubeconfig(name))
            pair = _pair(user)
            session = _session(_context(cluster, pair)) if pair else self._nobody
            self._tokens[name] = new_token()
            self._users[self._tokens[name]] = _User(session, str(user.get("token") or ""))
        return self._tokens[name]

    async def send(
        self, method: str, raw_path: str, headers: CIMultiDict[str], body: bytes
    ) -> ClientResponse:
        """Send a request; return the answer with its body unread.

        Raises:
            aiohttp.ClientError, OSError: the server is not there, or hangs up.
        """
        session, sent = self._nobody, CIMultiDict(headers)
        kind, _, token = sent.get("Authorization", "").partition(" ")
        user = self._users.get(token) if kind.lower() == "bearer" else None
        if user is not None:
            session = user.session
            del sent["Authorization"]
            if user.token:
                sent["Authorization"] = f"Bearer {user.token}"
        url = URL(self._plane.url + raw_path, encoded=True)
        return await session.request(
            method, url, headers=sent, data=body or None, allow_redirects=False
        )

    async def close(self) -> None:
        """Close all connections."""
        for session in {self._nobody, *(user.session for user in self._users.values())}:
            await session.close()


def _parts(kubeconfig: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the cluster and the user of a kubeconfig that has one of each."""
    document = yaml.safe_load(kubeconfig)
    return document["clusters"][0]["cluster"], document["users"][0]["user"]


def _pair(user: dict[str, Any]) -> KeyPair | None:
    if "client-certificate-data" not in user:
        return None
    fields = ("client-certificate-data", "client-key-data")
    return KeyPair(*(base64.b64decode(user[field]) for field in fields))


def _context(cluster: dict[str, Any], pair: KeyPair | None) -> ssl.SSLContext:
    return client_tls(base64.b64decode(cluster["certificate-authority-data"]), pair)


def _session(context: ssl.SSLContext) -> ClientSession:
    return ClientSession(
        connector=TCPConnector(ssl=context, limit=0),
        timeout=ClientTimeout(),
        auto_decompress=False,
        cookie_jar=DummyCookieJar(),
        skip_auto_headers=_SKIPPED,
    )
