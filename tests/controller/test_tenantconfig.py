"""Kubeconfigs that others wrote."""

import base64
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from controller.errors import ConfigurationError, NoAnswer
from controller.tenantconfig import TenantCredentials, create_tenant_transport, parse_kubeconfig
from tests.controller.certs import Pair, create_authority_and_pair, create_encrypted_key


def encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def build_kubeconfig(
    cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **top: Any
) -> bytes:
    """Return a kubeconfig with these additions; a value of None takes a field out."""
    authority, pair = create_authority_and_pair()
    base = {
        "server": "https://127.0.0.1:6443",
        "certificate-authority-data": encode_base64(authority),
    } | (cluster or {})
    user_entry: dict[str, Any] = {
        "client-certificate-data": encode_base64(pair.certificate),
        "client-key-data": encode_base64(pair.key),
    } | (user or {})
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {k: v for k, v in base.items() if v is not None}}],
        "users": [{"name": "u", "user": {k: v for k, v in user_entry.items() if v is not None}}],
    } | top
    return yaml.safe_dump(document).encode()


NO_CERT = {"client-certificate-data": None, "client-key-data": None}


def test_a_kubeconfig_as_kubeadm_writes_it_is_accepted() -> None:
    authority, pair = create_authority_and_pair()
    credentials = parse_kubeconfig(
        build_kubeconfig(cluster={"tls-server-name": "api.example.com"})
    )
    assert credentials == TenantCredentials(
        "https://127.0.0.1:6443",
        authority.decode(),
        certificate=pair.certificate.decode(),
        key=pair.key.decode(),
        server_name="api.example.com",
    )


def test_a_token_is_text_even_if_it_looks_like_a_number() -> None:
    document = build_kubeconfig(user=NO_CERT | {"token": "TOKEN"}).replace(b"TOKEN", b"0123")
    assert parse_kubeconfig(document).token == "0123"


@pytest.mark.parametrize("absent", [b"null", b"~", b""])
def test_a_field_without_value_is_absent(absent: bytes) -> None:
    document = build_kubeconfig(user={"token": "VALUE"}).replace(b"VALUE", absent)
    assert parse_kubeconfig(document).token == ""
    authority = build_kubeconfig({"certificate-authority-data": "VALUE"}).replace(b"VALUE", absent)
    assert parse_kubeconfig(authority).authority == ""


def test_a_single_context_needs_no_current_one() -> None:
    nameless = build_kubeconfig().replace(b"current-context: one", b"current-context: null")
    assert parse_kubeconfig(nameless).server


@pytest.mark.parametrize(
    ("cluster", "user", "field_name"),
    [
        ({}, {"exec": {"command": "/bin/sh"}}, "'exec': it names a program to run"),
        ({}, {"auth-provider": {"name": "gcp"}}, "'auth-provider': it names a plugin"),
        ({}, {"tokenFile": "/var/run/secrets/token"}, "'tokenFile': it names a file"),
        ({}, {"client-certificate": "/etc/passwd"}, "'client-certificate': it names a file"),
        ({}, {"client-key": "/etc/shadow"}, "'client-key': it names a file"),
        ({}, {"username": "root"}, "'username': passwords"),
        ({}, {"password": "hunter2"}, "'password': passwords"),
        ({}, {"as": "system:admin"}, "'as': it is not known here"),
        ({"certificate-authority": "/etc/ssl/x"}, {}, "'certificate-authority': it names a file"),
        ({"proxy-url": "http://proxy:3128"}, {}, "'proxy-url': proxies are not allowed"),
        ({"insecure-skip-tls-verify": True}, {}, "'insecure-skip-tls-verify': TLS without"),
        ({"server": "http://127.0.0.1:8080"}, {}, "plain HTTP, which is not allowed"),
        ({"server": "https://user:pw@host"}, {}, "is not an https:// URL"),
        ({"server": "https://host:99999"}, {}, "is not an https:// URL"),
        ({"server": "file:///etc/passwd"}, {}, "is not an https:// URL"),
        ({"server": None}, {}, "is not an https:// URL"),
        ({}, {"client-key-data": None}, "not both"),
        ({}, NO_CERT, "neither a token nor a client certificate"),
        ({}, NO_CERT | {"token": "a b"}, "token is not valid"),
        ({}, NO_CERT | {"token": "a\nX-Evil: 1"}, "token is not valid"),
        ({}, NO_CERT | {"token": {"a": "b"}}, "token is not valid"),
        ({}, {"client-key-data": "###"}, "client-key-data is not PEM"),
        ({"certificate-authority-data": encode_base64(b"hello")}, {}, "authority-data is not PEM"),
        ({"insecure-skip-tls-verify": "maybe"}, {}, "neither true nor false"),
        ({"tls-server-name": ["a"]}, {}, "tls-server-name is not a string"),
    ],
)
def test_other_fields_of_a_kubeconfig_are_refused_by_name(
    cluster: dict[str, Any], user: dict[str, Any], field_name: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_kubeconfig(build_kubeconfig(cluster, user))
    assert field_name in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message_part"),
    [
        (b"a: b\n c: d", "is not YAML (line 2)"),
        (b"\xff\xff\xff", "is not YAML"),
        (b"- a\n- b", "is not a YAML mapping"),
        (b"", "is not a YAML mapping"),
        (b"a: &x [1, 2]\nb: [*x, *x]\n", "aliases"),
        (b"a: " + b"[" * 100 + b"]" * 100, "nested too deeply"),
        (b"a: " + b"[" * 100_000, "nested too deeply"),
        (b"[" + b"1," * 20_000 + b"]", "too many entries"),
        (b"a: " + b"x" * 300_000, "larger than"),
        (b"kind: Config", "no list of contexts"),
        (build_kubeconfig(users=[]), "no user 'u'"),
        (build_kubeconfig(clusters="x"), "no list of clusters"),
        (build_kubeconfig(clusters=[{"name": "c"}]), "more than one cluster 'c', or an empty one"),
        (
            build_kubeconfig().replace(b"current-context: one", b"current-context: two"),
            "no context 'two'",
        ),
        (build_kubeconfig(contexts=["one"]), "no context 'one'"),
    ],
)
def test_bytes_that_are_no_kubeconfig_are_refused_with_the_reason(
    data: bytes, message_part: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_kubeconfig(data)
    assert message_part in str(caught.value)


@pytest.mark.slow
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_random_bytes_raise_a_configuration_error(data: bytes) -> None:
    with pytest.raises(ConfigurationError):
        parse_kubeconfig(data)


def test_proxies_and_insecure_tls_are_accepted_if_allowed() -> None:
    cluster = {"proxy-url": "http://proxy:3128", "insecure-skip-tls-verify": True}
    credentials = parse_kubeconfig(
        build_kubeconfig(cluster), allow_proxy=True, allow_insecure=True
    )
    assert (credentials.proxy, credentials.insecure) == ("http://proxy:3128", True)
    with pytest.raises(ConfigurationError, match="only http:// and https:// proxies"):
        parse_kubeconfig(build_kubeconfig({"proxy-url": "socks5://proxy:1080"}), allow_proxy=True)


def test_the_text_of_credentials_shows_no_secrets() -> None:
    representation = repr(parse_kubeconfig(build_kubeconfig(user={"token": "s3cret"})))
    assert "s3cret" not in representation
    assert "PRIVATE KEY" not in representation


@pytest.mark.parametrize("key", [b"-----BEGIN PRIVATE KEY-----\nnone\n", create_encrypted_key()])
def test_a_key_that_does_not_work_is_refused_and_leaves_no_file(
    key: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    credentials = parse_kubeconfig(build_kubeconfig(user={"client-key-data": encode_base64(key)}))
    with pytest.raises(ConfigurationError, match="certificates or key"):
        create_tenant_transport(credentials, max_bytes=1000, timeout=1)
    assert list(tmp_path.iterdir()) == []


@asynccontextmanager
async def serve_tls(authority: bytes, pair: Pair, path: Path) -> AsyncIterator[TestServer]:
    """Run an HTTPS server that asks for a client certificate and says whose it got."""

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        subject = request.transport.get_extra_info("peercert")["subject"]
        return web.json_response({"who": subject[0][0][1]})

    (path / "server.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_verify_locations(cadata=authority.decode())
    context.load_cert_chain(path / "server.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=context)
    try:
        yield server
    finally:
        await server.close()


async def test_the_transport_authenticates_by_certificate_and_verifies_the_server(
    tmp_path: Path,
) -> None:
    authority, pair = create_authority_and_pair()
    async with serve_tls(authority, pair, tmp_path) as server:
        for name, good in (("api.example.com", True), ("", True), ("other.example.com", False)):
            cluster = {"server": f"https://127.0.0.1:{server.port}", "tls-server-name": name}
            transport = create_tenant_transport(
                parse_kubeconfig(build_kubeconfig(cluster)), max_bytes=1000, timeout=10
            )
            async with aclosing(transport):
                if good:
                    assert await transport.request("GET", "/") == b'{"who": "admin"}'
                else:
                    with pytest.raises(NoAnswer, match="certificate"):
                        await transport.request("GET", "/")


async def test_authorities_without_key_identifiers_and_usages_are_trusted(tmp_path: Path) -> None:
    authority, pair = create_authority_and_pair(complete=False)
    document = build_kubeconfig(
        {"certificate-authority-data": encode_base64(authority)},
        {
            "client-certificate-data": encode_base64(pair.certificate),
            "client-key-data": encode_base64(pair.key),
        },
    )
    async with serve_tls(authority, pair, tmp_path) as server:
        url = f"https://127.0.0.1:{server.port}".encode()
        credentials = parse_kubeconfig(document.replace(b"https://127.0.0.1:6443", url))
        transport = create_tenant_transport(credentials, max_bytes=1000, timeout=10)
        async with aclosing(transport):
            assert await transport.request("GET", "/") == b'{"who": "admin"}'
