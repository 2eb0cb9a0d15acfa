"""Tokens of service accounts: made by TokenRequest, known again by their signature.

A token counts as long as its account lives. Tokens that are bound to a Secret, a Pod or a Node are
not made: nothing runs here that would need one.
"""

import base64
import hashlib
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)

from controller.managedfields.gotext import quote
from envtest.access.tokens import CREDENTIAL, Known, TokenRefused
from envtest.schema.errors import invalid
from envtest.server.api import Api
from envtest.server.bodies import read_subresource_body
from envtest.server.call import AuthorizedCall, Plain, User
from envtest.server.failures import bad_request, invalid_object
from envtest.server.objectmeta import timestamp
from envtest.server.options import read_write_options

_GROUP = "authentication.k8s.io"
_VERSION = f"{_GROUP}/v1"
_KIND = "io.k8s.api.authentication.v1.TokenRequest"
# Seconds that a token may count.
_SHORTEST, _USUAL, _LONGEST = 600, 3600, 1 << 32
_HALF = 32
_REMEMBERED = 1024
_SIGNED = ec.ECDSA(hashes.SHA256())
_encode = msgspec.json.Encoder().encode


class AccountTokens:
    """Makes and checks tokens of one server."""

    def __init__(self, api: Api, key: ec.EllipticCurvePrivateKey) -> None:
        self._api = api
        self._key = key
        public = self._key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self._key_id = _encode_base64url(hashlib.sha256(public).digest())
        # The server's address, known once it listens.
        self.issuer = ""
        # What tokens say whose signature was found right: that stays so.
        self._signed: dict[str, dict[str, Any]] = {}

    def answer(self, call: AuthorizedCall) -> Plain:
        """Answer a TokenRequest for a service account.

        Raises:
            StatusError: there is no such account, or the request makes no sense.
        """
        self._api.check_namespace(call.resource, call.info.namespace, call.info.name)
        account = call.resource.load(self._api.get_stored(call))
        read_write_options("CreateOptions", call.query, dry_runs=call.dry_runs, agent=call.agent)
        body = read_subresource_body(call.data, call.content_type, name=_KIND, kind="TokenRequest")
        spec = body.get("spec") or {}
        seconds = spec.get("expirationSeconds") or _USUAL
        if not _SHORTEST <= seconds <= _LONGEST:
            detail = f"must be between {_SHORTEST} and {_LONGEST} seconds"
            problem = invalid("spec.expirationSeconds", seconds, detail)
            raise invalid_object("TokenRequest", _GROUP, name="", problems=[problem])
        if spec.get("boundObjectRef"):
            raise bad_request("tokens that are bound to an object are not served")
        audiences = spec.get("audiences") or [self.issuer]
        ends = int(time.time()) + seconds
        meta = account["metadata"]
        names = {"name": meta["name"], "namespace": meta["namespace"]}
        return Plain(
            201,
            {
                "kind": "TokenRequest",
                "apiVersion": _VERSION,
                "metadata": {**names, "creationTimestamp": timestamp()},
                "spec": {
                    "audiences": audiences,
                    "expirationSeconds": seconds,
                    "boundObjectRef": None,
                },
                "status": {
                    "token": self._sign(meta, audiences, ends),
                    "expirationTimestamp": _rfc3339(ends),
                },
            },
        )

    def _sign(self, meta: dict[str, Any], audiences: list[str], ends: int) -> str:
        namespace, name = meta["namespace"], meta["name"]
        now = int(time.time())
        claims = {
            "aud": audiences,
            "exp": ends,
            "iat": now,
            "iss": self.issuer,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": {
                "namespace": namespace,
                "serviceaccount": {"name": name, "uid": meta["uid"]},
            },
            "nbf": now,
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        head = {"alg": "ES256", "kid": self._key_id}
        signed = ".".join(_encode_base64url(_encode(part)) for part in (head, claims))
        r, s = decode_dss_signature(self._key.sign(signed.encode(), _SIGNED))
        return f"{signed}.{_encode_base64url(r.to_bytes(_HALF, 'big') + s.to_bytes(_HALF, 'big'))}"

    def find_user(self, token: str, audiences: Sequence[str]) -> Known | None:
        """Return the user of a token; None if this server did not sign it.

        Raises:
            TokenRefused: it is one of ours and does not count, or not any more.
        """
        claims = self._claims(token)
        if claims is None:
            return None
        _check_time(claims)
        meant = [audience for audience in claims["aud"] if audience in audiences]
        if not meant:
            token_audiences, target_audiences = (
                " ".join(map(quote, names)) for names in (claims["aud"], audiences)
            )
            raise TokenRefused(
                f"token audiences [{token_audiences}] is invalid "
                f"for the target audiences [{target_audiences}]"
            )
        self._check_account(claims["kubernetes.io"])
        return Known(_user(claims), tuple(meant))

    def _check_account(self, claims: dict[str, Any]) -> None:
        """Check that the service account of a token still exists unchanged.

        Raises:
            TokenRefused: it is gone, or another one has its name.
        """
        namespace, account = claims["namespace"], claims["serviceaccount"]
        stored = self._api.store.table("serviceaccounts").get(f"{namespace}/{account['name']}")
        if stored is None:
            raise TokenRefused(f'serviceaccounts "{account["name"]}" not found')
        uid = msgspec.json.decode(stored.body)["metadata"]["uid"]
        if uid != account["uid"]:
            raise TokenRefused(
                f"service account UID ({uid}) does not match claim ({account['uid']})"
            )

    def _claims(self, token: str) -> dict[str, Any] | None:
        """Return the claims of a token of this server; None if it is no such token."""
        known = self._signed.get(token)
        if known is not None:
            return known
        signed, _, signature = token.rpartition(".")
        try:
            raw = _plain(signature)
            numbers = (int.from_bytes(raw[:_HALF], "big"), int.from_bytes(raw[_HALF:], "big"))
            public = self._key.public_key()
            public.verify(encode_dss_signature(*numbers), signed.encode(), _SIGNED)
            claims: dict[str, Any] = msgspec.json.decode(_plain(signed.partition(".")[2]))
        except (InvalidSignature, ValueError):
            return None
        if claims["iss"] != self.issuer:
            return None
        if len(self._signed) >= _REMEMBERED:
            del self._signed[next(iter(self._signed))]
        self._signed[token] = claims
        return claims


def _user(claims: dict[str, Any]) -> User:
    """Return the user of a token."""
    private = claims["kubernetes.io"]
    namespace, account = private["namespace"], private["serviceaccount"]
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    name = f"system:serviceaccount:{namespace}:{account['name']}"
    return User(name, groups, uid=account["uid"], extra={CREDENTIAL: [f"JTI={claims['jti']}"]})


def _check_time(claims: dict[str, Any]) -> None:
    """Refuse a token whose time is not now.

    Raises:
        TokenRefused: it has expired, or does not count yet.
    """
    now = time.time()
    if now < claims["nbf"]:
        raise TokenRefused("service account token is not valid yet")
    if now > claims["exp"]:
        raise TokenRefused("service account token has expired")


def _rfc3339(seconds: int) -> str:
    """Return a time, in seconds since the epoch, as RFC 3339 text in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _encode_base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _plain(encoded: str) -> bytes:
    return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
