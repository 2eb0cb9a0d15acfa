"""Tokens of service accounts: made by TokenRequest, known again by their signature."""

import base64
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)

from envtest.kubeconfig import write_private
from envtest.schema.errors import invalid
from envtest.server.api import Api
from envtest.server.bodies import read_as
from envtest.server.call import Call, Plain, User
from envtest.server.failures import invalid_object

_KIND = "io.k8s.api.authentication.v1.TokenRequest"
_SHORTEST, _USUAL = 600, 3600
_HALF = 32
_SIGNED = ec.ECDSA(hashes.SHA256())


class AccountTokens:
    """Makes and checks tokens of one server."""

    def __init__(self, api: Api, folder: Path | None) -> None:
        self._api = api
        self._key = _key(folder)
        # The server's address, known once it listens.
        self.issuer = ""

    def answer(self, call: Call) -> Plain:
        """Answer a TokenRequest for a service account.

        Raises:
            StatusError: there is no such account, or the request makes no sense.
        """
        account = call.resource.load(self._api.current(call))
        body = read_as(call.data, call.content_type, _KIND, "TokenRequest")
        spec = body.setdefault("spec", {})
        seconds = spec.setdefault("expirationSeconds", _USUAL)
        if not isinstance(seconds, int) or seconds < _SHORTEST:
            text = "may not specify a duration less than 10 minutes"
            problem = invalid("spec.expirationSeconds", seconds, text)
            raise invalid_object("TokenRequest", "authentication.k8s.io", "", [problem])
        spec["audiences"] = spec.get("audiences") or [self.issuer]
        ends = int(time.time()) + seconds
        token = self._sign(account["metadata"], spec["audiences"], ends)
        moment = datetime.fromtimestamp(ends, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return Plain(
            201,
            {
                "kind": "TokenRequest",
                "apiVersion": "authentication.k8s.io/v1",
                "metadata": {**(body.get("metadata") or {}), "name": call.info.name},
                "spec": spec,
                "status": {"token": token, "expirationTimestamp": moment},
            },
        )

    def _sign(self, meta: dict[str, Any], audiences: list[str], ends: int) -> str:
        namespace, name = meta["namespace"], meta["name"]
        now = int(time.time())
        claims = {
            "aud": audiences,
            "exp": ends,
            "iat": now,
            "nbf": now,
            "iss": self.issuer,
            "sub": f"system:serviceaccount:{namespace}:{name}",
            "kubernetes.io": {
                "namespace": namespace,
                "serviceaccount": {"name": name, "uid": meta["uid"]},
            },
        }
        parts = [_coded(json.dumps(one).encode()) for one in ({"alg": "ES256"}, claims)]
        signed = ".".join(parts)
        r, s = decode_dss_signature(self._key.sign(signed.encode(), _SIGNED))
        return f"{signed}.{_coded(r.to_bytes(_HALF, 'big') + s.to_bytes(_HALF, 'big'))}"

    def user(self, token: str) -> User | None:
        """Return the account that a token stands for; None if it is none of ours or has ended."""
        signed, _, signature = token.rpartition(".")
        try:
            raw = _plain(signature)
            numbers = (int.from_bytes(raw[:_HALF], "big"), int.from_bytes(raw[_HALF:], "big"))
            public = self._key.public_key()
            public.verify(encode_dss_signature(*numbers), signed.encode(), _SIGNED)
            claims = json.loads(_plain(signed.partition(".")[2]))
        except (InvalidSignature, ValueError):
            return None
        if claims["exp"] < time.time() or self.issuer not in claims["aud"]:
            return None
        return self._living(claims["kubernetes.io"])

    def _living(self, claim: dict[str, Any]) -> User | None:
        """Return the account of a claim while it is the one that the token was made for."""
        namespace, account = claim["namespace"], claim["serviceaccount"]
        stored = self._api.store.table("serviceaccounts").get(f"{namespace}/{account['name']}")
        if stored is None:
            return None
        if msgspec.json.decode(stored.body)["metadata"]["uid"] != account["uid"]:
            return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        name = f"system:serviceaccount:{namespace}:{account['name']}"
        return User(name, groups, account["uid"])


def _key(folder: Path | None) -> ec.EllipticCurvePrivateKey:
    """Return the signing key of a data folder, made on first use; a new one without a folder."""
    path = folder / "service-accounts.key" if folder else None
    if path is not None and path.exists():
        found = serialization.load_pem_private_key(path.read_bytes(), password=None)
        assert isinstance(found, ec.EllipticCurvePrivateKey)
        return found
    key = ec.generate_private_key(ec.SECP256R1())
    if path is not None:
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        write_private(path, pem.decode())
    return key


def _coded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _plain(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
