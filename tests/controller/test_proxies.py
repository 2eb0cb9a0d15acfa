"""Proxies: the proxy that the environment names for a server, and errors of proxies."""

from pathlib import Path

import anyio
import pytest
from aiohttp import web
from anyio.abc import SocketAttribute, SocketStream

from controller.config import connect
from controller.endpoint import Endpoint
from controller.errors import ConfigurationError, NoAnswer
from controller.httpserver import serve_app
from controller.httptransport import HttpTransport
from controller.pages import Bind
from controller.proxies import check_proxy, find_environment_proxy
from tests.controller.kubeconfigs import write_kubeconfig


@pytest.mark.parametrize(
    ("server", "exceptions", "uses_proxy"),
    [
        ("https://api.example.com", "", True),
        ("https://api.example.com", "example.com", False),
        ("https://api.example.com", ".example.com,other", False),
        ("https://api.example.com", "*.example.com", False),
        ("https://example.com", ".example.com", True),
        ("https://example.com", "*.example.com", True),
        ("https://example.com", "*example.com", True),
        ("https://api.example.com", "Example.COM", False),
        ("https://API.Example.com", "api.example.com", False),
        ("https://api.example.org", "example.com", True),
        ("https://notexample.com", "example.com", True),
        ("https://api.example.com:6443", "example.com:6443", False),
        ("https://api.example.com:6443", "example.com:443", True),
        ("https://api.example.com", "example.com:443", False),
        ("https://api.example.com:6443", " , example.com:6443 ,", False),
        ("https://api.example.com", ":443", True),
        ("https://bücher.example", "bücher.example", False),
        ("https://bücher.example", "xn--bcher-kva.example", False),
        ("https://10.96.0.1:443", "10.96.0.0/16", False),
        ("https://10.97.0.1:443", "10.96.0.0/16", True),
        ("https://10.96.0.1:443", "10.96.0.1", False),
        ("https://10.96.0.1:443", "10.96.0.1:443", False),
        ("https://10.96.0.1", "10.96.0.1:443", False),
        ("https://10.96.0.1:6443", "10.96.0.1:443", True),
        ("https://10.96.0.11:443", "10.96.0.1", True),
        ("https://[::ffff:10.96.0.1]:443", "10.96.0.0/16", False),
        ("https://[fd00::1]:443", "fd00::/8", False),
        ("https://[fd00::1]:443", "fd00::1", False),
        ("https://[fd00::1]:443", "[fd00::1]:443", False),
        ("https://[fd00::1]:443", "[fd00::1]:6443", True),
        ("https://api.example.com", "*", False),
        ("https://api.example.com", "other,*", False),
        ("https://localhost:6443", "", False),
        ("https://127.0.0.1:6443", "", False),
        ("https://127.8.9.10:6443", "other", False),
        ("https://[::1]:6443", "", False),
        ("https://10.0.0.1:6443", "not/a/network", True),
        ("https://10.0.0.1:6443", "0.0.1", True),
    ],
)
def test_the_proxy_of_the_environment_is_used_except_for_hosts_in_no_proxy(
    server: str, exceptions: str, uses_proxy: bool
) -> None:
    environ = {"HTTPS_PROXY": "proxy:3128", "NO_PROXY": exceptions}
    expected = "http://proxy:3128" if uses_proxy else ""
    assert find_environment_proxy(server, environ) == expected
    assert find_environment_proxy(server, {}) == ""


@pytest.mark.parametrize(
    ("server", "environ", "proxy"),
    [
        ("https://a.example", {"https_proxy": "http://p:1"}, "http://p:1"),
        (
            "https://a.example",
            {"https_proxy": "http://p:1", "HTTPS_PROXY": "http://q:2"},
            "http://q:2",
        ),
        ("https://a.example", {"HTTP_PROXY": "http://p:1"}, ""),
        ("http://a.example", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ("http://a.example", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("http://a.example:80", {"HTTP_PROXY": "p:1", "no_proxy": "a.example:80"}, ""),
    ],
)
def test_the_scheme_of_the_server_selects_the_variable(
    server: str, environ: dict[str, str], proxy: str
) -> None:
    assert find_environment_proxy(server, environ) == proxy


def test_a_proxy_of_an_unsupported_scheme_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the flag names the proxy 'socks5://x'"):
        check_proxy("socks5://x", "the flag")


def test_the_refusal_of_a_proxy_does_not_show_its_password() -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_proxy("socks5://user:secret@x", "the flag")
    assert "'socks5://x'" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_a_server_on_loopback_is_reached_past_the_proxy_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(request: web.Request) -> web.Response:
        del request
        return web.json_response({"gitVersion": "v1.36.3"})

    application = web.Application()
    application.router.add_get("/version", answer)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with serve_app(application, Bind("127.0.0.1", 0), "test") as port:
        path = write_kubeconfig(tmp_path / "k", f"http://127.0.0.1:{port}", {"token": "t"})
        transport = await connect(path)
        try:
            assert b"v1.36.3" in await transport.request("GET", "/version")
        finally:
            await transport.aclose()


async def read_proxy_error(proxy: str) -> str:
    """Return the message of a request that fails because of its proxy."""
    transport = HttpTransport(Endpoint("https://api.example:6443", proxy=proxy))
    try:
        with pytest.raises(NoAnswer) as caught:
            await transport.request("GET", "/x")
    finally:
        await transport.aclose()
    return str(caught.value)


async def test_the_error_of_a_proxy_that_cannot_be_reached_names_the_proxy() -> None:
    message = await read_proxy_error("http://user:secret@127.0.0.1:1")
    assert message.startswith(
        "GET https://api.example:6443/x: cannot connect to the proxy http://127.0.0.1:1: Connect"
    )
    assert "secret" not in message


async def test_the_error_of_a_proxy_that_refuses_names_the_proxy_and_the_server() -> None:
    async def refuse(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(SocketAttribute.local_port)
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, refuse)
            message = await read_proxy_error(f"http://user:secret@127.0.0.1:{port}")
            group.cancel_scope.cancel()
    assert message == (
        f"GET https://api.example:6443/x: no connection through the proxy http://127.0.0.1:{port}:"
        " it answers 407 Proxy Authentication Required"
    )
