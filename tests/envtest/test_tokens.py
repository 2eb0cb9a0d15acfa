"""By what a request is known: bearer tokens, certificates, and what is told of them."""

import base64
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.x509 import load_pem_x509_certificate

from envtest import EmbeddedServer, User, serve
from envtest.access.tokens import Certificate
from envtest.certs import client_tls
from envtest.server.failures import StatusError

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
NODES = "/api/v1/nodes"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
SPACE = (
    '299 - "the provided Authorization header contains extra space before the bearer token, '
    'and is ignored"'
)


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedServer]:
    """A server that knows joe, and somebody who says of himself that he is known."""
    tokens = {"t": User("joe"), "k": User("known", ("system:authenticated", "a"))}
    async with serve(tokens=tokens) as started:
        yield started


def client(server: EmbeddedServer, authorization: str = "") -> httpx.AsyncClient:
    """Return a client; the administrator's unless it is said what to send."""
    said = authorization or f"Bearer {server.credentials('admin')}"
    trust = client_tls(server.authority.pair.certificate, None)
    return httpx.AsyncClient(base_url=server.url, verify=trust, headers={"Authorization": said})


async def get(server: EmbeddedServer, authorization: str) -> httpx.Response:
    async with client(server, authorization) as http:
        return await http.get(NODES)


@pytest.mark.parametrize(
    ("authorization", "name", "warning"),
    [
        ("Bearer t", "joe", None),
        ("bearer t", "joe", None),
        ("Bearer t and more", "joe", None),
        ("Bearer", "system:anonymous", None),
        ("Bearer  t", "system:anonymous", SPACE),
        ("Basic t", "system:anonymous", None),
    ],
)
async def test_the_second_word_of_the_header_is_the_token(
    server: EmbeddedServer, authorization: str, name: str, warning: str | None
) -> None:
    answer = await get(server, authorization)

    assert answer.status_code == 403
    assert answer.json()["message"] == (
        f'nodes is forbidden: User "{name}" cannot list resource "nodes" in API group "" '
        "at the cluster scope"
    )
    assert answer.headers.get("Warning") == warning


async def test_an_unknown_token_is_refused_without_a_challenge(server: EmbeddedServer) -> None:
    answer = await get(server, "Bearer x")

    assert answer.status_code == 401
    assert "WWW-Authenticate" not in answer.headers
    assert answer.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }


async def test_who_is_known_as_authenticated_is_not_told_twice(server: EmbeddedServer) -> None:
    async with client(server, "Bearer k") as http:
        found = (await http.post(WHO, json={})).json()["status"]["userInfo"]

    assert found["groups"] == ["system:authenticated", "a"]


async def test_a_certificate_is_told_by_its_fingerprint(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    pair = server.authority.client("eve", ("devs", "ops"))
    async with certified(server, pair.write(tmp_path, "eve")) as http:
        found = (await http.post(WHO, json={})).json()["status"]["userInfo"]

    printed = load_pem_x509_certificate(pair.certificate).fingerprint(hashes.SHA256()).hex()
    assert found == {
        "username": "eve",
        "groups": ["devs", "ops", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": [f"X509SHA256={printed}"]},
    }


def shown(**subject: str | list[str]) -> Certificate:
    """Return a certificate with a subject."""
    parts = [
        ((key, one),)
        for key, values in subject.items()
        for one in ([values] if isinstance(values, str) else values)
    ]
    return Certificate({"subject": parts}, b"")


def test_a_certificate_without_a_name_is_nobodys() -> None:
    assert shown(organizationName="system:masters").user() is None


def test_a_certificate_may_tell_the_uid() -> None:
    uid = "1.3.6.1.4.1.57683.2"
    user = shown(commonName="eve", **{uid: "7"}).user()

    assert user is not None
    assert user.uid == "7"
    for wrong in ("", ["7", "8"]):
        with pytest.raises(StatusError) as refused:
            shown(commonName="eve", **{uid: wrong}).user()
        assert refused.value.code == 401


def certified(server: EmbeddedServer, pair: tuple[Path, Path]) -> httpx.AsyncClient:
    """Return a client that shows a certificate."""
    trust = ssl.create_default_context(cadata=server.authority.pair.certificate.decode())
    trust.load_cert_chain(*pair)
    return httpx.AsyncClient(base_url=server.url, verify=trust)


async def token(http: httpx.AsyncClient, **spec: Any) -> str:
    await http.post(ACCOUNTS, json={"metadata": {"name": "bob"}})
    answer = await http.post(f"{ACCOUNTS}/bob/token", json={"spec": spec})
    return str(answer.json()["status"]["token"])


async def test_a_token_ends_by_the_servers_clock(server: EmbeddedServer) -> None:
    found = []
    async with client(server) as http:
        made = await token(http, expirationSeconds=600)
        for skew in (0, 400, 700, -60):
            server.clock.skew = timedelta(seconds=skew)
            review = (await http.post(TOKENS, json={"spec": {"token": made}})).json()["status"]
            answer = await http.get(NODES, headers={"Authorization": f"Bearer {made}"})
            found.append((answer.status_code, review.get("error")))

    assert found == [
        (403, None),
        (403, None),
        (401, "[invalid bearer token, service account token has expired]"),
        (401, "[invalid bearer token, service account token is not valid yet]"),
    ]


async def test_a_token_without_its_account_opens_nothing(server: EmbeddedServer) -> None:
    async with client(server) as http:
        bob = {"Authorization": f"Bearer {await token(http)}"}
        before = await http.get(NODES, headers=bob)
        await http.delete(f"{ACCOUNTS}/bob")
        gone = await http.get(NODES, headers=bob)
        await http.post(ACCOUNTS, json={"metadata": {"name": "bob"}})
        another = await http.get(NODES, headers=bob)

    assert (before.status_code, gone.status_code, another.status_code) == (403, 401, 401)


async def test_a_token_counts_a_moment_while_its_account_goes(server: EmbeddedServer) -> None:
    codes = []
    async with client(server) as http:
        bob = {"Authorization": f"Bearer {await token(http)}"}
        held = {"metadata": {"finalizers": ["lab.example.com/held"]}}
        merge = {"Content-Type": "application/merge-patch+json"}
        await http.patch(f"{ACCOUNTS}/bob", json=held, headers=merge)
        await http.delete(f"{ACCOUNTS}/bob")
        for skew in (0, 300):
            server.clock.skew = timedelta(seconds=skew)
            codes.append((await http.get(NODES, headers=bob)).status_code)

    assert codes == [403, 401]


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            {"spec": {"expirationSeconds": 0}},
            422,
            (
                'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: '
                "Invalid value: 0: may not specify a duration less than 10 minutes"
            ),
        ),
        (
            {"metadata": {"name": "eve"}},
            422,
            (
                'TokenRequest.authentication.k8s.io "bob" is invalid: metadata.name: Invalid '
                'value: "eve": must match the service account name if specified'
            ),
        ),
        (
            {"metadata": {"namespace": "other"}},
            400,
            (
                "the namespace of the provided object does not match the namespace sent on the "
                "request"
            ),
        ),
    ],
)
async def test_a_token_request_about_somebody_else_is_refused(
    server: EmbeddedServer, body: Any, code: int, message: str
) -> None:
    async with client(server) as http:
        await token(http)
        answer = await http.post(f"{ACCOUNTS}/bob/token", json=body)

    assert (answer.status_code, answer.json()["message"]) == (code, message)


async def test_others_can_check_tokens(server: EmbeddedServer) -> None:
    async with client(server) as http:
        made = await token(http)
        found = (await http.get("/.well-known/openid-configuration")).json()
        keys = await http.get("/openid/v1/jwks")
        bob = {"Authorization": f"Bearer {made}"}
        own = await http.get("/openid/v1/jwks/", headers=bob)
        joe = await http.get("/openid/v1/jwks", headers={"Authorization": "Bearer t"})

    (key,) = keys.json()["keys"]
    head, claims, signature = (plain(part) for part in made.split("."))
    x, y = (int.from_bytes(plain(key[one]), "big") for one in ("x", "y"))
    numbers = (int.from_bytes(one, "big") for one in (signature[:32], signature[32:]))
    ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key().verify(
        encode_dss_signature(*numbers),
        made.rpartition(".")[0].encode(),
        ec.ECDSA(hashes.SHA256()),
    )
    assert msgspec.json.decode(head) == {"alg": "ES256", "kid": key["kid"]}
    assert msgspec.json.decode(claims)["iss"] == found["issuer"] == server.url
    assert found["jwks_uri"] == f"{server.url}/openid/v1/jwks"
    assert keys.headers["Content-Type"] == "application/jwk-set+json"
    assert (own.status_code, joe.status_code) == (200, 403)


def plain(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


async def test_no_token_where_there_is_no_namespace(server: EmbeddedServer) -> None:
    async with client(server) as http:
        answer = await http.post("/api/v1/namespaces/none/serviceaccounts/bob/token", json={})

    assert answer.status_code == 404
    assert answer.json()["message"] == 'namespaces "none" not found'


async def test_a_refusal_is_made_for_whoever_reads_it(server: EmbeddedServer) -> None:
    async with client(server, "Bearer t") as http:
        plain_answer = await http.get(NODES)
        person = await http.get(NODES, headers={"User-Agent": "curl/8.0"})

    assert plain_answer.json() == person.json()
    assert "\n" not in plain_answer.text.rstrip()
    assert person.text.startswith('{\n  "kind": "Status",\n  "apiVersion": "v1",\n')
    assert person.headers["X-Content-Type-Options"] == "nosniff"
