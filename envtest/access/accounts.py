"""Tokens of service accounts: issued for a TokenRequest, and verified by their signature.

A token is valid while its service account exists. Tokens that are bound to a Secret, a Pod or a
Node are not supported, because nothing runs here that needs one.
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
from envtest.access.tokens import CREDENTIAL, TokenIdentity, TokenRefused
from envtest.schema.errors import build_invalid_error
from envtest.server.api import Api
from envtest.server.bodies import read_subresource_body
from envtest.server.call import AuthorizedCall, JsonAnswer, User
from envtest.server.failures import build_bad_request, build_invalid_object
from envtest.server.objectmeta import format_current_time
from envtest.server.options import read_write_options

_GROUP = "authentication.k8s.io"
_VERSION = f"{_GROUP}/v1"
_KIND = "io.k8s.api.authentication.v1.TokenRequest"
# Seconds that a token may be valid: at least, by default, at most.
_SHORTEST_SECONDS, _DEFAULT_SECONDS, _LONGEST_SECONDS = 600, 3600, 1 << 32
# The length of each of the two numbers of a signature (RFC 7518, 3.4).
_NUMBER_BYTES = 32
_MOST_VERIFIED = 1024
_ALGORITHM = ec.ECDSA(hashes.SHA256())
_encode = msgspec.json.Encoder().encode


class AccountTokens:
    """Issues and verifies the tokens of one server."""

    def __init__(self, api: Api, key: ec.EllipticCurvePrivateKey) -> None:
        self._api = api
        self._key = key
        public = self._key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self._key_id = _encode_base64url(hashlib.sha256(public).digest())
        # The server's URL, set once it listens.
        self.issuer = ""
        # Token -> its claims, for tokens whose signature was verified; a signature stays valid.
        self._verified_claims: dict[str, dict[str, Any]] = {}

    def answer_token_request(self, call: AuthorizedCall) -> JsonAnswer:
        """Answer a TokenRequest for a service account.

        Raises:
            StatusError: there is no such account or namespace, the request is invalid, or the
                token is to be bound to an object.
        """
        self._api.check_namespace(call.resource, call.info.namespace, call.info.name)
        account = call.resource.decode_object(self._api.get_stored(call))
        # Called for its errors: nothing is stored, so the options have no effect.
        read_write_options("CreateOptions", call.query, dry_runs=call.dry_runs, agent=call.agent)
        body = read_subresource_body(call.data, call.content_type, name=_KIND, kind="TokenRequest")
        spec = body.get("spec") or {}
        seconds = spec.get("expirationSeconds") or _DEFAULT_SECONDS
        if not _SHORTEST_SECONDS <= seconds <= _LONGEST_SECONDS:
            detail = f"must be between {_SHORTEST_SECONDS} and {_LONGEST_SECONDS} seconds"
            problem = build_invalid_error("spec.expirationSeconds", seconds, detail)
            raise build_invalid_object("TokenRequest", _GROUP, name="", problems=[problem])
        if spec.get("boundObjectRef"):
            raise build_bad_request("tokens that are bound to an object are not served")
        audiences = spec.get("audiences") or [self.issuer]
        expires = int(time.time()) + seconds
        meta = account["metadata"]
        names = {"name": meta["name"], "namespace": meta["namespace"]}
        return JsonAnswer(
            201,
            {
                "kind": "TokenRequest",
                "apiVersion": _VERSION,
                "metadata": {**names, "creationTimestamp": format_current_time()},
                "spec": {
                    "audiences": audiences,
                    "expirationSeconds": seconds,
                    "boundObjectRef": None,
                },
                "status": {
                    "token": self._create_token(meta, audiences, expires),
                    "expirationTimestamp": _format_rfc3339(expires),
                },
            },
        )

    def _create_token(self, meta: dict[str, Any], audiences: list[str], expires: int) -> str:
        """Return a signed token (JWT) for the service account with this metadata.

        Args:
            meta: the metadata of the account.
            audiences: the audiences for which the token is valid.
            expires: the end of its validity, in seconds since the epoch.
        """
        namespace, name = meta["namespace"], meta["name"]
        now = int(time.time())
        claims = {
            "aud": audiences,
            "exp": expires,
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
        header = {"alg": "ES256", "kid": self._key_id}
        signed = ".".join(_encode_base64url(_encode(part)) for part in (header, claims))
        # A JWT has the two numbers of the signature side by side (RFC 7518, 3.4).
        r, s = decode_dss_signature(self._key.sign(signed.encode(), _ALGORITHM))
        signature = r.to_bytes(_NUMBER_BYTES, "big") + s.to_bytes(_NUMBER_BYTES, "big")
        return f"{signed}.{_encode_base64url(signature)}"

    def find_user(self, token: str, audiences: Sequence[str]) -> TokenIdentity | None:
        """Return the user of a token; None if this server did not sign it.

        Args:
            audiences: the token must be valid for one of these.

        Raises:
            TokenRefused: this server signed it, but it is not valid: it has expired, is for other
                audiences, or its account is gone.
        """
        claims = self._read_claims(token)
        if claims is None:
            return None
        _refuse_outside_validity(claims)
        accepted_audiences = [audience for audience in claims["aud"] if audience in audiences]
        if not accepted_audiences:
            token_audiences, target_audiences = (
                " ".join(map(quote, names)) for names in (claims["aud"], audiences)
            )
            raise TokenRefused(
                f"token audiences [{token_audiences}] is invalid "
                f"for the target audiences [{target_audiences}]"
            )
        self._refuse_changed_account(claims["kubernetes.io"])
        return TokenIdentity(_build_user(claims), tuple(accepted_audiences))

    def _refuse_changed_account(self, claims: dict[str, Any]) -> None:
        """Refuse a token whose service account was deleted, or recreated with another uid.

        Raises:
            TokenRefused: the account of that uid is gone.
        """
        namespace, account = claims["namespace"], claims["serviceaccount"]
        stored = self._api.store.get_table("serviceaccounts").get(f"{namespace}/{account['name']}")
        if stored is None:
            raise TokenRefused(f'serviceaccounts "{account["name"]}" not found')
        uid = msgspec.json.decode(stored.body)["metadata"]["uid"]
        if uid != account["uid"]:
            raise TokenRefused(
                f"service account UID ({uid}) does not match claim ({account['uid']})"
            )

    def _read_claims(self, token: str) -> dict[str, Any] | None:
        """Return the claims of a token that this server signed; None for any other token."""
        cached_claims = self._verified_claims.get(token)
        if cached_claims is not None:
            return cached_claims
        signed, _, signature = token.rpartition(".")
        try:
            raw = _decode_base64url(signature)
            # A JWT has the two numbers of the signature side by side (RFC 7518, 3.4).
            r = int.from_bytes(raw[:_NUMBER_BYTES], "big")
            s = int.from_bytes(raw[_NUMBER_BYTES:], "big")
            public = self._key.public_key()
            public.verify(encode_dss_signature(r, s), signed.encode(), _ALGORITHM)
            claims: dict[str, Any] = msgspec.json.decode(
                _decode_base64url(signed.partition(".")[2])
            )
        except (InvalidSignature, ValueError):
            return None
        # As in kube-apiserver, the token of another issuer is no token of this server.
        if claims["iss"] != self.issuer:
            return None
        if len(self._verified_claims) >= _MOST_VERIFIED:
            # The first key is the token that was added first.
            del self._verified_claims[next(iter(self._verified_claims))]
        self._verified_claims[token] = claims
        return claims


def _build_user(claims: dict[str, Any]) -> User:
    """Return the user that a token's claims describe."""
    private = claims["kubernetes.io"]
    namespace, account = private["namespace"], private["serviceaccount"]
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    name = f"system:serviceaccount:{namespace}:{account['name']}"
    return User(name, groups, uid=account["uid"], extra={CREDENTIAL: [f"JTI={claims['jti']}"]})


def _refuse_outside_validity(claims: dict[str, Any]) -> None:
    """Refuse a token that has expired or is not valid yet.

    Raises:
        TokenRefused: now is not within its validity.
    """
    now = time.time()
    if now < claims["nbf"]:
        raise TokenRefused("service account token is not valid yet")
    if now > claims["exp"]:
        raise TokenRefused("service account token has expired")


def _format_rfc3339(seconds: int) -> str:
    """Return a time, in seconds since the epoch, as RFC 3339 text in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _encode_base64url(data: bytes) -> str:
    """Return data as base64url without padding, as JWTs have it (RFC 7515)."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode_base64url(encoded: str) -> bytes:
    """Return the data of base64url without padding."""
    return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
