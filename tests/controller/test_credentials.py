"""Credentials: tokens and certificates that are read again when they change."""

import ssl
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import web

from controller.config import connect
from controller.credentials import TOKEN_SECONDS, LoadedCredentials
from controller.errors import ConfigurationError, Unauthorized
from controller.httptransport import HttpTransport
from tests.controller.certs import create_authority_and_pair
from tests.controller.kubeconfigs import write_kubeconfig

pytestmark = pytest.mark.usefixtures("no_cluster")


async def test_a_token_is_read_again_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    class LoadedConfiguration:
        """A Configuration of kubernetes_asyncio whose token changes when it is refreshed."""

        host = "http://127.0.0.1"
        api_key = {"BearerToken": "Bearer one"}  # noqa: RUF012 - as the loader has it

        @staticmethod
        def refresh_api_key_hook(configuration: "LoadedConfiguration") -> None:
            configuration.api_key["BearerToken"] = "Bearer two\n"

    async def load() -> LoadedConfiguration:
        raise AssertionError("no request was refused")

    now = 1000.0
    monkeypatch.setattr(anyio, "current_time", lambda: now)
    credentials = LoadedCredentials(LoadedConfiguration(), load)
    now += TOKEN_SECONDS - 1
    assert await credentials.get_authorization() == "Bearer one"
    now += 2
    assert await credentials.get_authorization() == "Bearer two"


@pytest.mark.parametrize("token", ["good\nX-Other: 1", "go\0od", "good\r\n\r\n{}"])
async def test_a_token_with_control_characters_is_refused_and_not_shown(
    tmp_path: Path, token: str
) -> None:
    path = write_kubeconfig(tmp_path / "k", "http://127.0.0.1:1", {"token": token})
    transport = await connect(path)
    try:
        with pytest.raises(ConfigurationError) as caught:
            await transport.request("GET", "/version")
    finally:
        await transport.aclose()
    assert str(caught.value) == (
        "the token for http://127.0.0.1:1 has a line break or another control character in it:"
        " write it in one line"
    )


class SecretVolume:
    """A folder as kubelet mounts a Secret: its files link into a folder that is swapped whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.version = 0
        folder.mkdir()

    def swap(self, **files: bytes) -> None:
        """Replace all files at once."""
        self.version += 1
        new = self.folder / f"..{self.version}"
        new.mkdir()
        for name, data in files.items():
            (new / name).write_bytes(data)
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(Path("..data") / name)
        (self.folder / "..next").symlink_to(new.name)
        (self.folder / "..next").rename(self.folder / "..data")


async def test_replaced_tokens_and_certificates_are_used_within_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (create_authority_and_pair(complete=complete) for complete in (True, False))
    credentials: list[tuple[str, int]] = []
    release_slow_request, slow_request_arrived = anyio.Event(), anyio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        certificate = request.transport.get_extra_info("ssl_object").getpeercert()
        credentials.append((request.headers["Authorization"], certificate["serialNumber"]))
        if request.path == "/slow":
            slow_request_arrived.set()
            await release_slow_request.wait()
        return web.json_response({})

    def build_files(authority_and_pair: tuple[bytes, Any], token: bytes) -> dict[str, bytes]:
        authority, pair = authority_and_pair
        return {"ca": authority, "crt": pair.certificate, "key": pair.key, "token": token}

    volume = SecretVolume(tmp_path / "volume")
    volume.swap(**build_files(old, b"one"))
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()

    async def serve_with(authority_and_pair: tuple[bytes, Any], port: int = 0) -> web.TCPSite:
        tls = ssl.create_default_context(
            ssl.Purpose.CLIENT_AUTH, cadata=authority_and_pair[0].decode()
        )
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        pair = tmp_path / "serving.pem"
        pair.write_bytes(authority_and_pair[1].certificate + authority_and_pair[1].key)
        tls.load_cert_chain(pair)
        site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls)
        await site.start()
        return site

    now = 1000.0
    monkeypatch.setattr(anyio, "current_time", lambda: now)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(runner.cleanup)
        site = await serve_with(old)
        port = runner.addresses[0][1]
        user = {"client-certificate": "crt", "client-key": "key", "tokenFile": "token"}
        path = write_kubeconfig(
            volume.folder / "config",
            f"https://127.0.0.1:{port}",
            user,
            **{"certificate-authority": "ca"},
        )
        transport = await connect(path)
        stack.push_async_callback(transport.aclose)
        async with anyio.create_task_group() as group:
            group.start_soon(transport.request, "GET", "/slow")
            await slow_request_arrived.wait()
            await transport.request("GET", "/before")
            volume.swap(**build_files(new, b"two"))
            await site.stop()  # accepts no connections any more; open ones stay open
            await serve_with(new, port)
            now += TOKEN_SECONDS - 1
            await transport.request("GET", "/before")  # over a connection of before the swap
            now += 2
            await transport.request("GET", "/after")
            release_slow_request.set()
        volume.swap(ca=b"", crt=b"half", key=b"", token=b"three")
        now += TOKEN_SECONDS + 1
        await transport.request("GET", "/half")
        volume.swap(**build_files(new, b"four"))
        now += TOKEN_SECONDS + 1
        await transport.request("GET", "/whole")
    tokens = [token for token, _ in credentials]
    assert tokens == [f"Bearer {token}" for token in ("one", "one", "one", "two", "two", "four")]
    serials = [serial for _, serial in credentials]
    assert len(set(serials[:3])) == len(set(serials[3:])) == 1
    assert serials[0] != serials[-1]


async def test_a_refused_token_is_loaded_again_and_the_request_succeeds(
    tmp_path: Path, server: str, tokens_seen: list[str]
) -> None:
    (tmp_path / "token").write_text("stale\n")
    path = write_kubeconfig(tmp_path / "k", server, {"tokenFile": "token"})
    transport = await connect(path)
    (tmp_path / "token").write_text("newer\n")
    assert await transport.request("GET", "/version") == b"{}"
    await transport.aclose()
    assert tokens_seen == ["Bearer stale", "Bearer newer"]


@pytest.mark.parametrize(
    ("renewal", "expected_request_count"),
    [("by the plugin", 2), ("in a file", 2), ("not at all", 1)],
)
async def test_a_refused_request_is_sent_again_if_the_client_certificate_was_renewed(
    tmp_path: Path, server: str, tokens_seen: list[str], renewal: str, expected_request_count: int
) -> None:
    script, certificate = tmp_path / "plugin", tmp_path / "crt"
    script.write_text(
        f'#!/bin/sh\necho \'{{"apiVersion": "client.authentication.k8s.io/v1",'
        f' "kind": "ExecCredential", "status": {{"clientCertificateData": "\'$(cat {certificate})'
        '\'", "clientKeyData": "key"}}\'\n'
    )
    script.chmod(0o755)
    certificate.write_text("old")
    (tmp_path / "key").write_text("key")
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script)}
    files = {"client-certificate": "crt", "client-key": "key"}
    user = {"exec": plugin} if renewal == "by the plugin" else files
    transport = await connect(write_kubeconfig(tmp_path / "k", server, user))
    if renewal != "not at all":
        certificate.write_text("newer")
    with pytest.raises(Unauthorized):
        await transport.request("GET", "/version")
    await transport.aclose()
    assert len(tokens_seen) == expected_request_count


async def test_a_token_that_is_replaced_while_it_is_loaded_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("one")

    class LoadedConfiguration:
        """A Configuration of kubernetes_asyncio with the token that the file has now."""

        host = "http://127.0.0.1"
        cert_file = ""
        refresh_api_key_hook = None

        def __init__(self) -> None:
            self.api_key = {"BearerToken": f"Bearer {file.read_text()}"}

    async def load() -> LoadedConfiguration:
        loaded = LoadedConfiguration()
        file.write_text("three")
        return loaded

    now = 1000.0
    monkeypatch.setattr(anyio, "current_time", lambda: now)
    credentials = LoadedCredentials(LoadedConfiguration(), load, [file])
    await credentials.renew()
    assert await credentials.get_authorization() == "Bearer one"
    now += TOKEN_SECONDS + 1
    assert await credentials.get_authorization() == "Bearer three"


async def test_a_plugin_whose_token_stays_refused_is_not_run_at_every_request(
    tmp_path: Path, server: str
) -> None:
    runs = tmp_path / "runs"
    script = tmp_path / "plugin"
    script.write_text(
        f'#!/bin/sh\necho x >> {runs}\necho \'{{"apiVersion": "client.authentication.k8s.io/v1",'
        ' "kind": "ExecCredential", "status": {"token": "bad"}}\'\n'
    )
    script.chmod(0o755)
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script)}
    transport = await connect(write_kubeconfig(tmp_path / "k", server, {"exec": plugin}))
    for _ in range(3):
        with pytest.raises(Unauthorized):
            await transport.request("GET", "/version")
    await transport.aclose()
    assert runs.read_text().split() == ["x", "x"]


async def test_a_renewed_token_with_a_line_break_is_skipped_until_a_valid_token_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(anyio, "current_time", lambda: now)
    path = write_kubeconfig(tmp_path / "k", "http://127.0.0.1:1", {"token": "one"})
    transport = await connect(path)
    assert isinstance(transport, HttpTransport)
    credentials = transport._endpoint.credentials
    try:
        for token, expected in (("two\nlines", "one"), ("three", "three")):
            write_kubeconfig(path, "http://127.0.0.1:1", {"token": token})
            now += TOKEN_SECONDS + 1
            assert await credentials.get_authorization() == f"Bearer {expected}"
    finally:
        await transport.aclose()


async def test_a_valid_token_replaces_a_first_token_with_a_line_break(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(anyio, "current_time", lambda: now)
    file = tmp_path / "token"
    file.write_text("two\nlines")
    path = write_kubeconfig(tmp_path / "k", "http://127.0.0.1:1", {"tokenFile": str(file)})
    transport = await connect(path)
    assert isinstance(transport, HttpTransport)
    credentials = transport._endpoint.credentials
    try:
        with pytest.raises(ConfigurationError, match="has a line break"):
            await credentials.get_authorization()
        file.write_text("three")
        now += TOKEN_SECONDS + 1
        assert await credentials.get_authorization() == "Bearer three"
    finally:
        await transport.aclose()
