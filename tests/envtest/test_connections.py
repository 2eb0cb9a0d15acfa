"""Clients that hang up, say nothing, or are slow to speak and to listen."""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import httpx
import pytest
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream

from envtest import EmbeddedServer, serve
from envtest.front.connections import Deadlines

MAPS = "/api/v1/namespaces/default/configmaps"
WATCH = f"{MAPS}?watch=1&resourceVersion=0"


def create_tls_context(server: EmbeddedServer) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=server.authority.pair.certificate.decode())


def build_request_head(server: EmbeddedServer, method: str, path: str, *headers: str) -> bytes:
    """Return the head of a request of the administrator, without its last empty line."""
    token = f"Authorization: Bearer {server.get_or_create_token('admin')}"
    lines = (f"{method} {path} HTTP/1.1", "Host: localhost", token, *headers)
    return "".join(f"{line}\r\n" for line in lines).encode()


@asynccontextmanager
async def open_connection(server: EmbeddedServer, *, window: int = 0) -> AsyncIterator[ByteStream]:
    """Yield a connection; `window` is about how many unread bytes it takes, 0 for the default."""
    port = int(server.url.rpartition(":")[2])
    sock = socket.socket()
    sock.setblocking(False)
    if window:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    raw = await anyio.abc.SocketStream.from_socket(sock)
    stream = await TLSStream.wrap(
        raw,
        hostname="127.0.0.1",
        ssl_context=create_tls_context(server),
        standard_compatible=False,
    )
    try:
        yield stream
    finally:
        await anyio.aclose_forcefully(stream)


async def read_to_end(stream: ByteStream) -> bytes:
    """Return the bytes that come until the server closes the connection."""
    data = b""
    with anyio.fail_after(20):
        while True:
            try:
                data += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return data


async def read_head(stream: ByteStream) -> bytes:
    """Return the head of an answer, and what came with it."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    return data


@asynccontextmanager
async def open_client(server: EmbeddedServer) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {server.get_or_create_token('admin')}"}
    async with httpx.AsyncClient(
        base_url=server.url, verify=create_tls_context(server), headers=headers, timeout=30
    ) as http:
        yield http


async def test_a_watch_without_events_ends_with_its_client() -> None:
    async with serve() as server:
        with anyio.fail_after(20):
            async with open_connection(server) as stream:
                await stream.send(build_request_head(server, "GET", WATCH) + b"\r\n")
                await read_head(stream)
                await server.watchers.wait_for_count(1)
            await server.watchers.wait_for_count(0)


async def test_watches_that_end_leave_nothing_behind() -> None:
    async with serve() as server:
        async with open_connection(server) as stream:
            await stream.send(build_request_head(server, "GET", WATCH) + b"\r\n")
            await server.watchers.wait_for_count(1)
        await server.watchers.wait_for_count(0)
        before = len(asyncio.all_tasks())
        async with AsyncExitStack() as stack:
            for _ in range(30):
                stream = await stack.enter_async_context(open_connection(server))
                await stream.send(build_request_head(server, "GET", WATCH) + b"\r\n")
            with anyio.fail_after(20):
                await server.watchers.wait_for_count(30)
        with anyio.fail_after(20):
            await server.watchers.wait_for_count(0)
            while len(asyncio.all_tasks()) > before:
                await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("said", [b"", b"GET /api/v1/names", b"GET / HTTP/1.1\r\nHost: a\r\n"])
async def test_request_headers_that_do_not_arrive_time_out(said: bytes) -> None:
    async with serve(deadlines=Deadlines(head=0.05)) as server, open_connection(server) as stream:
        await stream.send(said)
        assert await read_to_end(stream) == b""


async def test_a_body_that_does_not_come_is_answered_with_a_timeout() -> None:
    async with serve(deadlines=Deadlines(body=0.05)) as server, open_connection(server) as stream:
        await stream.send(
            build_request_head(server, "POST", MAPS, "Content-Length: 100") + b"\r\n{"
        )
        answer, _, body = (await read_to_end(stream)).partition(b"\r\n\r\n")
        async with open_client(server) as http:
            listed = (await http.get(MAPS)).json()["items"]

    assert answer.startswith(b"HTTP/1.1 504 ")
    status = json.loads(body)
    assert (status["reason"], status["code"]) == ("Timeout", 504)
    assert {item["metadata"]["name"] for item in listed} <= {"kube-root-ca.crt"}


async def test_a_client_that_hangs_up_in_its_request_is_no_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serve() as server:
        for ending in ("aclose", "abort"):
            async with open_connection(server) as stream:
                await stream.send(
                    build_request_head(server, "POST", MAPS, "Content-Length: 100") + b"\r\n{"
                )
                if ending == "aclose":
                    await stream.aclose()
        async with open_client(server) as http:
            assert (await http.get("/readyz")).status_code == 200
    assert caplog.text == ""


async def test_a_body_may_come_in_pieces() -> None:
    body = b'{"metadata":{"name":"a"}}'
    async with serve() as server, open_connection(server) as stream:
        length = f"Content-Length: {len(body)}"
        await stream.send(build_request_head(server, "POST", MAPS, length) + b"\r\n" + body[:5])
        await stream.send(body[5:])
        assert (await read_head(stream)).startswith(b"HTTP/1.1 201 ")


async def test_a_client_that_waits_to_be_asked_for_its_body_is_asked() -> None:
    body = b'{"metadata":{"name":"a"}}'
    async with serve() as server, open_connection(server) as stream:
        headers = (f"Content-Length: {len(body)}", "Expect: 100-continue")
        await stream.send(build_request_head(server, "POST", MAPS, *headers) + b"\r\n")
        assert await read_head(stream) == b"HTTP/1.1 100 Continue\r\n\r\n"
        await stream.send(body)
        assert (await read_head(stream)).startswith(b"HTTP/1.1 201 ")


async def test_idle_connections_are_closed() -> None:
    async with serve(deadlines=Deadlines(idle=0.5)) as server, AsyncExitStack() as stack:
        idle = []
        for _ in range(30):
            stream = await stack.enter_async_context(open_connection(server))
            await stream.send(build_request_head(server, "GET", MAPS) + b"\r\n")
            idle.append(stream)
        for stream in idle:
            assert (await read_to_end(stream)).startswith(b"HTTP/1.1 200 ")


async def test_a_watch_without_events_is_not_idle() -> None:
    async with AsyncExitStack() as servers:
        server = await servers.enter_async_context(serve(deadlines=Deadlines(idle=0.5, head=0.5)))
        async with (
            open_connection(server) as stream,
            open_connection(server) as other,
            open_client(server) as h,
        ):
            await stream.send(build_request_head(server, "GET", WATCH) + b"\r\n")
            await read_head(stream)
            # By the time the other one is closed, this one would have been.
            await read_to_end(other)
            assert len(server.watchers) == 1
            await h.post(MAPS, json={"metadata": {"name": "late"}})
            with anyio.fail_after(20):
                data = b""
                while b'"name":"late"' not in data:
                    data += await stream.receive()


async def test_a_watcher_that_does_not_read_is_cut_off_and_slows_no_other() -> None:
    async with (
        serve(deadlines=Deadlines(write=0.3)) as server,
        open_client(server) as http,
        open_connection(server, window=4096) as deaf,
        open_connection(server) as other,
    ):
        for stream in (deaf, other):
            await stream.send(build_request_head(server, "GET", WATCH) + b"\r\n")
        with anyio.fail_after(60):
            await server.watchers.wait_for_count(2)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(write_heavy_changes, http)
                await read_events(other, 12)
            await server.watchers.wait_for_count(1)


async def write_heavy_changes(http: httpx.AsyncClient) -> None:
    """Write more bytes than all buffers between server and client hold."""
    for number in range(12):
        body = {"metadata": {"name": f"heavy-{number}"}, "data": {"x": "x" * 900_000}}
        assert (await http.post(MAPS, json=body)).status_code == 201


async def read_events(stream: ByteStream, count: int) -> None:
    """Read a watch until so many of the heavy objects came."""
    seen, tail = 0, b""
    while seen < count:
        data = tail + await stream.receive()
        seen += data.count(b'"name":"heavy-')
        tail = data[-len(b'"name":"heavy-') + 1 :]


async def test_requests_that_follow_each_other_may_be_large_together() -> None:
    long = f"X-Long: {'y' * 700_000}"
    async with serve() as server, open_connection(server) as stream:
        for _ in range(3):
            await stream.send(build_request_head(server, "GET", "/healthz", long) + b"\r\n")
            with anyio.fail_after(10):
                answer = await stream.receive()
            assert answer.startswith(b"HTTP/1.1 200 OK")


async def test_bytes_that_are_neither_tls_nor_http_get_no_answer() -> None:
    async with serve() as server:
        port = int(server.url.rpartition(":")[2])
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"\0\1nonsense\r\n\r\n")

            assert await read_to_end(stream) == b""
