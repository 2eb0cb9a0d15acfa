"""Messages of connection errors: short and without Python objects, as they are logged often."""

import ssl
from pathlib import Path

import anyio
import pytest
from aiohttp import web
from anyio.abc import SocketAttribute, SocketStream

from controller.endpoint import Endpoint, create_tls_context
from controller.errors import MalformedAnswer, NoAnswer
from controller.httpserver import serve_app
from controller.httptransport import HttpTransport
from controller.pages import Bind
from tests.controller.certs import create_authority_and_pair


async def read_connection_error(url: str) -> str:
    """Return the message of the error of a request to a server that cannot be connected to."""
    transport = HttpTransport(Endpoint(url, tls=create_tls_context()))
    try:
        with pytest.raises(NoAnswer) as caught:
            await transport.request("GET", "/x")
    finally:
        await transport.aclose()
    return str(caught.value)


async def test_the_error_of_a_refused_connection_shows_no_python_objects() -> None:
    message = await read_connection_error("https://127.0.0.1:1")
    assert message.startswith("GET https://127.0.0.1:1/x: cannot connect to 127.0.0.1:1: Connect")
    assert "object at" not in message


async def test_the_error_of_an_unknown_authority_has_the_reason(
    tmp_path: Path,
) -> None:
    _, pair = create_authority_and_pair()
    file = tmp_path / "server.pem"
    file.write_bytes(pair.certificate + pair.key)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(file)
    async with serve_app(web.Application(), Bind("127.0.0.1", 0), "test", tls=tls) as port:
        message = await read_connection_error(f"https://127.0.0.1:{port}")
    assert "certificate verify failed" in message
    assert "object at" not in message


async def test_the_error_of_plain_http_to_an_https_server_says_to_write_https() -> None:
    async def answer(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(  # as Go's net/http does
                b"HTTP/1.0 400 Bad Request\r\n\r\n"
                b"Client sent an HTTP request to an HTTPS server.\n"
            )

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(SocketAttribute.local_port)
        transport = HttpTransport(Endpoint(f"http://127.0.0.1:{port}"))
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, answer)
            with pytest.raises(MalformedAnswer) as caught:
                await transport.request("GET", "/x")
            await transport.aclose()
            group.cancel_scope.cancel()
    assert str(caught.value) == (
        f"GET http://127.0.0.1:{port}/x: the server speaks HTTPS: write https:// in its URL"
    )
