"""Tokens of service accounts: made by TokenRequest, known again by their signature."""

import base64
import hashlib
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

from envtest.access.bounds import bound_claims, check_bound
from envtest.access.tokenrequests import VERSION, read_token_request
from envtest.access.tokens import CREDENTIAL, Known, TokenRefused
from envtest.schema.gotext import quote
from envtest.server import clock
from envtest.server.api import Api
from envtest.server.call import Call, Plain, User
from envtest.server.objectmeta import timestamp

_EXTRA = CREDENTIAL.removesuffix("credential-id")
_KEYS = "/openid/v1/jwks"
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
        self._key_id = _coded(hashlib.sha256(public).digest())
        # The server's address, known once it listens.
        self.issuer = ""
        # What tokens say whose signature was found right: that stays so.
        self._signed: dict[str, dict[str, Any]] = {}

    def answer(self, call: Call) -> Plain:
        """Answer a TokenRequest for a service account.

        Raises:
            StatusError: there is no such account, or the request makes no sense.
        """
        self._api.check_namespace(call.resource, call.info.namespace, call.info.name)
        account = call.resource.load(self._api.current(call))
        meta, spec = read_token_request(call, account["metadata"])
        seconds = spec["expirationSeconds"]
        audiences = spec.get("audiences") or [self.issuer]
        bound = spec.get("boundObjectRef")
        claims = bound_claims(self._api, account["metadata"], bound) if bound else {}
        ends = int(clock.seconds()) + seconds
        token = self._sign(account["metadata"], audiences, ends, claims)
        meta["creationTimestamp"] = timestamp()
        return Plain(
            201,
            {
                "kind": "TokenRequest",
                "apiVersion": VERSION,
                "metadata": meta,
                "spec": {
                    "audiences": audiences,
                    "expirationSeconds": seconds,
                    "boundObjectRef": bound,
                },
                "status": {"token": token, "expirationTimestamp": _moment(ends)},
            },
        )

    def document(self, method: str, path: str) -> tuple[bytes, str] | None:
        """Return how others check tokens, as OpenID Connect has it: body and content type.

        Args:
            method: of the request.
            path: of the request.
        """
        match path.removesuffix("/") if method in {"GET", "HEAD"} else "":
            case "/.well-known/openid-configuration":
                body = {
                    "issuer": self.issuer,
                    "jwks_uri": f"{self.issuer}{_KEYS}",
                    "response_types_supported": ["id_token"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": ["ES256"],
                }
                return _encode(body), "application/json"
            case "/openid/v1/jwks":
                return _encode({"keys": [self._published()]}), "application/jwk-set+json"
            case _:
                return None

    def _published(self) -> dict[str, str]:
        """Return the public key as a JSON Web Key."""
        numbers = self._key.public_key().public_numbers()
        x, y = (_coded(one.to_bytes(_HALF, "big")) for one in (numbers.x, numbers.y))
        known = {"use": "sig", "kty": "EC", "kid": self._key_id, "crv": "P-256", "alg": "ES256"}
        return {**known, "x": x, "y": y}

    def _sign(
        self, meta: dict[str, Any], audiences: list[str], ends: int, bound: dict[str, Any]
    ) -> str:
        namespace, name = meta["namespace"], meta["name"]
        now = int(clock.seconds())
        claims = {
            "aud": audiences,
            "exp": ends,
            "iat": now,
            "iss": self.issuer,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": {
                "namespace": namespace,
                **bound,
                "serviceaccount": {"name": name, "uid": meta["uid"]},
            },
            "nbf": now,
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        head = {"alg": "ES256", "kid": self._key_id}
        signed = ".".join(_coded(_encode(one)) for one in (head, claims))
        r, s = decode_dss_signature(self._key.sign(signed.encode(), _SIGNED))
        return f"{signed}.{_coded(r.to_bytes(_HALF, 'big') + s.to_bytes(_HALF, 'big'))}"

    def known(self, token: str, audiences: Sequence[str]) -> Known | None:
        """Return whom a token stands for; None if it is none of ours.

        Raises:
            TokenRefused: it is one of ours and does not count, or not any more.
        """
        claims = self._claims(token)
        if claims is None:
            return None
        _check_time(claims)
        meant = [one for one in claims["aud"] if one in audiences]
        if not meant:
            given, wanted = (" ".join(map(quote, those)) for those in (claims["aud"], audiences))
            raise TokenRefused(
                f"token audiences [{given}] is invalid for the target audiences [{wanted}]"
            )
        check_bound(self._api, claims["kubernetes.io"])
        return Known(self._user(claims), tuple(meant))

    def _claims(self, token: str) -> dict[str, Any] | None:
        """Return what a token of this server says; None if it is no such token."""
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

    def _user(self, claims: dict[str, Any]) -> User:
        private = claims["kubernetes.io"]
        namespace, account = private["namespace"], private["serviceaccount"]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        extra = {CREDENTIAL: [f"JTI={claims['jti']}"]}
        for kind in ("pod", "node"):
            if kind in private:
                extra[f"{_EXTRA}{kind}-name"] = [private[kind]["name"]]
                extra[f"{_EXTRA}{kind}-uid"] = [private[kind]["uid"]]
        name = f"system:serviceaccount:{namespace}:{account['name']}"
        return User(name, groups, account["uid"], extra)


def _check_time(claims: dict[str, Any]) -> None:
    """Refuse a token whose time is not now.

    Raises:
        TokenRefused: it is over, or has not come.
    """
    now = clock.seconds()
    if now < claims["nbf"]:
        raise TokenRefused("service account token is not valid yet")
    if now > claims["exp"]:
        raise TokenRefused("service account token has expired")
    if now < claims["iat"]:
        raise TokenRefused("service account token is issued in the future")


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _coded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _plain(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
