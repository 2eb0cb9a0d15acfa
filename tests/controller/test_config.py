"""Finding the cluster to control."""

import base64
import os
import ssl
import stat
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from controller import config
from controller.config import connect, pod_configuration
from controller.credentials import LoadedCredentials
from controller.endpoint import checked_proxy, proxy_from_environment
from controller.errors import ConfigurationError, Unauthorized
from tests.controller.world_certs import authority_and_pair


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide whatever cluster the machine knows."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def tokens_seen() -> list[str]:
    """What the server was shown."""
    return []


@pytest.fixture
async def server(tokens_seen: list[str]) -> Any:
    """A server that accepts the tokens `good` and `newer`."""

    async def answer(request: web.Request) -> web.StreamResponse:
        token = request.headers.get("Authorization", "")
        tokens_seen.append(token)
        if token in {"Bearer good", "Bearer newer"}:
            return web.json_response({})
        body = {"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "no"}
        return web.json_response(body, status=401)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as running:
        yield f"http://127.0.0.1:{running.port}"


def kubeconfig(path: Path, server: str, user: dict[str, Any], **cluster: Any) -> Path:
    """Write a kubeconfig with the contexts `one` (this user) and `two` (a user with `as`)."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [{"name": "c", "cluster": {"server": server} | cluster}],
        "users": [
            {"name": "u", "user": user},
            {"name": "i", "user": {"token": "good", "as": "system:admin"}},
        ],
        "contexts": [
            {"name": "one", "context": {"cluster": "c", "user": "u"}},
            {"name": "two", "context": {"cluster": "c", "user": "i"}},
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


async def reached(*arguments: Any) -> bytes:
    """Connect and ask for something."""
    transport = await connect(*arguments)
    try:
        return await transport.request("GET", "/version")
    finally:
        await transport.aclose()


async def test_a_given_kubeconfig_is_used(tmp_path: Path, server: str) -> None:
    assert await reached(kubeconfig(tmp_path / "k", server, {"token": "good"})) == b"{}"


async def test_the_environment_names_one_and_home_has_one(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig(tmp_path / "home" / ".kube" / "config", server, {"token": "good"})
    assert await reached() == b"{}"
    named = kubeconfig(tmp_path / "named", server, {"token": "bad"})
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}{os.pathsep}{named}")
    with pytest.raises(Unauthorized):
        await reached()


async def test_a_pod_uses_its_service_account_and_reads_its_token_again(
    tmp_path: Path, tokens_seen: list[str], server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, _ = authority_and_pair()
    token, ca = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("good\n")
    ca.write_bytes(authority)
    monkeypatch.setattr(config, "TOKEN_FILE", token)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    transport = await connect()
    await transport.aclose()
    endpoint = vars(transport)["_endpoint"]
    assert endpoint.server == "https://[fd00::1]:443"
    assert await endpoint.credentials.authorization() == "Bearer good"
    token.write_text("newer\n")
    assert await endpoint.credentials.authorization() == "Bearer good"
    assert await endpoint.credentials.renew()
    assert await endpoint.credentials.authorization() == "Bearer newer"


def test_a_pod_does_without_the_loader_of_kubeconfigs_and_its_models(tmp_path: Path) -> None:
    authority, _ = authority_and_pair()
    (tmp_path / "token").write_text("good\n")
    (tmp_path / "ca.crt").write_bytes(authority)
    script = (
        "import sys, anyio\n"
        "from pathlib import Path\n"
        "from controller import config\n"
        f"config.TOKEN_FILE = Path({str(tmp_path / 'token')!r})\n"
        "transport = anyio.run(config.connect)\n"
        "print(transport.server, 'kubernetes_asyncio' in sys.modules)\n"
    )
    service = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    printed = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **service},
    ).stdout
    assert printed.split() == ["https://10.96.0.1:443", "False"]


@pytest.mark.parametrize(
    ("token", "authority", "port", "words"),
    [
        ("good", "ca", "", "no KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT"),
        (" \n", "ca", "443", "token is empty"),
        ("good", "", "443", "ca.crt is empty"),
        ("good", None, "443", "ca.crt: No such file or directory"),
    ],
)
def test_a_service_account_that_is_not_complete_is_refused(
    tmp_path: Path, token: str, authority: str | None, port: str, words: str
) -> None:
    (tmp_path / "token").write_text(token)
    if authority is not None:
        (tmp_path / "ca.crt").write_text(authority)
    service = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": port}
    with pytest.raises(ConfigurationError, match=words):
        pod_configuration(tmp_path / "token", service)


async def test_a_token_is_read_again_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loaded:
        host = "http://127.0.0.1"
        api_key = {"BearerToken": "Bearer one"}  # noqa: RUF012 - as the loader has it

        @staticmethod
        def refresh_api_key_hook(configuration: "Loaded") -> None:
            configuration.api_key["BearerToken"] = "Bearer two\n"

    async def load() -> Loaded:
        raise AssertionError("nobody was refused")

    now = 1000.0
    monkeypatch.setattr(anyio, "current_time", lambda: now)
    credentials = LoadedCredentials(Loaded(), load)
    now += 59
    assert await credentials.authorization() == "Bearer one"
    now += 2
    assert await credentials.authorization() == "Bearer two"


class Volume:
    """A folder as kubelet mounts a Secret: files are symlinks into one that is swapped."""

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


async def test_replaced_files_are_used_within_a_minute_and_no_request_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (authority_and_pair(complete=complete) for complete in (True, False))
    shown: list[tuple[str, int]] = []
    slow, going_on = anyio.Event(), anyio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        certificate = request.transport.get_extra_info("ssl_object").getpeercert()
        shown.append((request.headers["Authorization"], certificate["serialNumber"]))
        if request.path == "/slow":
            going_on.set()
            await slow.wait()
        return web.json_response({})

    def files(which: tuple[bytes, Any], token: bytes) -> dict[str, bytes]:
        authority, pair = which
        return {"ca": authority, "crt": pair.certificate, "key": pair.key, "token": token}

    volume = Volume(tmp_path / "volume")
    volume.swap(**files(old, b"one"))
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()

    async def serve_with(which: tuple[bytes, Any], port: int = 0) -> web.TCPSite:
        serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=which[0].decode())
        serving.verify_mode = ssl.CERT_REQUIRED
        serving.verify_flags &= ~ssl.VERIFY_X509_STRICT
        pair = tmp_path / "serving.pem"
        pair.write_bytes(which[1].certificate + which[1].key)
        serving.load_cert_chain(pair)
        site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=serving)
        await site.start()
        return site

    now = 1000.0
    monkeypatch.setattr(anyio, "current_time", lambda: now)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(runner.cleanup)
        site = await serve_with(old)
        port = runner.addresses[0][1]
        user = {"client-certificate": "crt", "client-key": "key", "tokenFile": "token"}
        path = kubeconfig(
            volume.folder / "config",
            f"https://127.0.0.1:{port}",
            user,
            **{"certificate-authority": "ca"},
        )
        transport = await connect(path)
        stack.push_async_callback(transport.aclose)
        async with anyio.create_task_group() as group:
            group.start_soon(transport.request, "GET", "/slow")
            await going_on.wait()
            await transport.request("GET", "/before")
            volume.swap(**files(new, b"two"))
            await site.stop()  # listens no more; the connections that it took stay
            await serve_with(new, port)
            now += 59
            await transport.request("GET", "/before")  # over a connection from before
            now += 2
            await transport.request("GET", "/after")
            slow.set()
        volume.swap(ca=b"", crt=b"half", key=b"", token=b"three")
        now += 61
        await transport.request("GET", "/half")
        volume.swap(**files(new, b"four"))
        now += 61
        await transport.request("GET", "/whole")
    tokens = [token for token, _ in shown]
    assert tokens == [f"Bearer {one}" for one in ("one", "one", "one", "two", "two", "four")]
    serials = [serial for _, serial in shown]
    assert len(set(serials[:3])) == len(set(serials[3:])) == 1
    assert serials[0] != serials[-1]


async def test_a_refused_token_is_loaded_anew_and_the_request_succeeds(
    tmp_path: Path, server: str, tokens_seen: list[str]
) -> None:
    (tmp_path / "token").write_text("stale\n")
    path = kubeconfig(tmp_path / "k", server, {"tokenFile": "token"})
    transport = await connect(path)
    (tmp_path / "token").write_text("newer\n")
    assert await transport.request("GET", "/version") == b"{}"
    await transport.aclose()
    assert tokens_seen == ["Bearer stale", "Bearer newer"]


async def test_a_token_that_stays_refused_is_not_looked_for_at_every_request(
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
    transport = await connect(kubeconfig(tmp_path / "k", server, {"exec": plugin}))
    for _ in range(3):
        with pytest.raises(Unauthorized):
            await transport.request("GET", "/version")
    await transport.aclose()
    assert runs.read_text().split() == ["x", "x"]


async def test_keys_of_a_kubeconfig_are_written_where_only_we_can_read(tmp_path: Path) -> None:
    authority, pair = authority_and_pair()
    user = {
        "client-certificate-data": base64.b64encode(pair.certificate).decode(),
        "client-key-data": base64.b64encode(pair.key).decode(),
    }
    ca = {"certificate-authority-data": base64.b64encode(authority).decode()}
    path = kubeconfig(tmp_path / "k", "https://127.0.0.1:6443", user, **ca)
    transport = await connect(path)
    await transport.aclose()
    directory = anyio.Path(vars(config)["_private_directory"]())
    assert stat.S_IMODE((await directory.stat()).st_mode) == 0o700


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "is no YAML: "),
        ("kind: Pod", "has no contexts"),
        ("- a", "has no contexts"),
    ],
)
async def test_a_file_that_is_no_kubeconfig_is_refused_by_name(
    text: str, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "odd"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        await connect(path)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


async def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="there is no cluster to talk to"):
        await connect()
    with pytest.raises(ConfigurationError, match="--kubeconfig names"):
        await connect(tmp_path / "missing")
    path = kubeconfig(tmp_path / "k", "https://127.0.0.1", {"token": "t"})
    with pytest.raises(ConfigurationError, match="name three in"):
        await connect(path, "three")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    with pytest.raises(ConfigurationError, match="KUBECONFIG names"):
        await connect()


async def test_impersonation_is_refused_and_not_forgotten(tmp_path: Path, server: str) -> None:
    path = kubeconfig(tmp_path / "k", server, {"token": "good"})
    with pytest.raises(ConfigurationError, match="user i impersonates another"):
        await connect(path, "two")


async def test_certificates_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("no certificate")
    user = {"token": "t"}
    cluster = {"certificate-authority": str(tmp_path / "ca")}
    path = kubeconfig(tmp_path / "k", "https://127.0.0.1", user, **cluster)
    with pytest.raises(ConfigurationError, match=r"certificates for https://127\.0\.0\.1"):
        await connect(path)


@pytest.mark.parametrize(
    ("server", "exceptions", "proxied"),
    [
        ("https://api.example.com", "", True),
        ("https://api.example.com", "example.com", False),
        ("https://api.example.com", ".example.com,other", False),
        ("https://api.example.org", "example.com", True),
        ("https://notexample.com", "example.com", True),
        ("https://10.96.0.1:443", "10.96.0.0/16", False),
        ("https://10.97.0.1:443", "10.96.0.0/16", True),
        ("https://10.96.0.1:443", "10.96.0.1", False),
        ("https://[fd00::1]:443", "fd00::/8", False),
        ("https://api.example.com", "*", False),
        ("https://localhost:6443", "", False),
    ],
)
def test_the_environment_s_proxy_is_used_except_where_it_says_so(
    server: str, exceptions: str, proxied: bool
) -> None:
    environ = {"HTTPS_PROXY": "proxy:3128", "NO_PROXY": exceptions}
    expected = "http://proxy:3128" if proxied else ""
    assert proxy_from_environment(server, environ) == expected
    assert proxy_from_environment(server, {}) == ""


def test_a_proxy_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the flag names the proxy 'socks5://x'"):
        checked_proxy("socks5://x", "the flag")
