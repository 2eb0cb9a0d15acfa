"""Authentication of requests: bearer tokens and certificates, and reviews of them."""

import base64
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.x509 import load_pem_x509_certificate

from envtest import EmbeddedServer, User, serve
from envtest.access import accounts
from envtest.access.tokens import Certificate
from envtest.certs import create_client_tls

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
NODES = "/api/v1/nodes"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedServer]:
    """A server with user joe, and user known, whose groups name system:authenticated."""
    tokens = {"t": User("joe"), "k": User("known", ("system:authenticated", "a"))}
    async with serve(tokens=tokens) as started:
        yield started


def create_client(server: EmbeddedServer, authorization: str = "") -> httpx.AsyncClient:
    """Return a client with an Authorization header; by default the administrator's."""
    header = authorization or f"Bearer {server.get_or_create_token('admin')}"
    trust = create_client_tls(server.authority.pair.certificate, None)
    return httpx.AsyncClient(base_url=server.url, verify=trust, headers={"Authorization": header})


async def get(server: EmbeddedServer, authorization: str) -> httpx.Response:
    async with create_client(server, authorization) as http:
        return await http.get(NODES)


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


async def test_the_group_of_authenticated_users_is_not_added_twice(server: EmbeddedServer) -> None:
    async with create_client(server, "Bearer k") as http:
        shown_user = (await http.post(WHO, json={})).json()["status"]["userInfo"]

    assert shown_user["groups"] == ["system:authenticated", "a"]


async def test_a_certificate_is_identified_by_its_fingerprint(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    pair = server.authority.issue_client_certificate("eve", ("devs", "ops"))
    async with connect_with_certificate(server, pair.write(tmp_path, "eve")) as http:
        shown_user = (await http.post(WHO, json={})).json()["status"]["userInfo"]

    printed = load_pem_x509_certificate(pair.certificate).fingerprint(hashes.SHA256()).hex()
    assert shown_user == {
        "username": "eve",
        "groups": ["devs", "ops", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": [f"X509SHA256={printed}"]},
    }


def make_certificate(**subject: str | list[str]) -> Certificate:
    """Return a certificate with a subject."""
    parts = [
        ((key, value_of_claim),)
        for key, values in subject.items()
        for value_of_claim in ([values] if isinstance(values, str) else values)
    ]
    return Certificate({"subject": parts}, b"")


def test_a_certificate_without_a_name_has_no_user() -> None:
    assert make_certificate(organizationName="system:masters").find_user() is None


def connect_with_certificate(server: EmbeddedServer, pair: tuple[Path, Path]) -> httpx.AsyncClient:
    """Return a client that shows a certificate."""
    trust = ssl.create_default_context(cadata=server.authority.pair.certificate.decode())
    trust.load_cert_chain(*pair)
    return httpx.AsyncClient(base_url=server.url, verify=trust)


async def create_token(http: httpx.AsyncClient, **spec: Any) -> str:
    await http.post(ACCOUNTS, json={"metadata": {"name": "bob"}})
    answer = await http.post(f"{ACCOUNTS}/bob/token", json={"spec": spec})
    return str(answer.json()["status"]["token"])


async def test_a_token_counts_for_as_long_as_was_asked(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses = []
    async with create_client(server) as http:
        issued_token = await create_token(http, expirationSeconds=600)
        for later in (0, 400, 700, -60):
            clock = SimpleNamespace(time=lambda later=later: time.time() + later)
            monkeypatch.setattr(accounts, "time", clock)
            review = (await http.post(TOKENS, json={"spec": {"token": issued_token}})).json()[
                "status"
            ]
            answer = await http.get(NODES, headers={"Authorization": f"Bearer {issued_token}"})
            statuses.append((answer.status_code, review.get("error")))

    assert statuses == [
        (403, None),
        (403, None),
        (401, "[invalid bearer token, service account token has expired]"),
        (401, "[invalid bearer token, service account token is not valid yet]"),
    ]


async def test_a_token_without_its_account_is_refused(server: EmbeddedServer) -> None:
    async with create_client(server) as http:
        bob = {"Authorization": f"Bearer {await create_token(http)}"}
        before = await http.get(NODES, headers=bob)
        await http.delete(f"{ACCOUNTS}/bob")
        gone = await http.get(NODES, headers=bob)
        await http.post(ACCOUNTS, json={"metadata": {"name": "bob"}})
        another = await http.get(NODES, headers=bob)

    assert (before.status_code, gone.status_code, another.status_code) == (403, 401, 401)


def decode_base64(content: str) -> bytes:
    return base64.urlsafe_b64decode(content + "=" * (-len(content) % 4))


async def test_no_token_where_there_is_no_namespace(server: EmbeddedServer) -> None:
    async with create_client(server) as http:
        answer = await http.post("/api/v1/namespaces/none/serviceaccounts/bob/token", json={})

    assert answer.status_code == 404
    assert answer.json()["message"] == 'namespaces "none" not found'


async def test_a_refusal_is_formatted_for_its_reader(server: EmbeddedServer) -> None:
    async with create_client(server, "Bearer t") as http:
        plain_answer = await http.get(NODES)
        person = await http.get(NODES, headers={"User-Agent": "curl/8.0"})

    assert plain_answer.json() == person.json()
    assert "\n" not in plain_answer.text.rstrip()
    assert person.text.startswith('{\n  "kind": "Status",\n  "apiVersion": "v1",\n')
    assert person.headers["X-Content-Type-Options"] == "nosniff"
