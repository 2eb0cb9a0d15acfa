"""The transport, against a small HTTP server."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from controller.endpoint import Credentials, Endpoint, StaticToken
from controller.errors import (
    ApiError,
    Conflict,
    ControllerError,
    Expired,
    Forbidden,
    MalformedAnswer,
    NoAnswer,
    NotFound,
    ServerFailure,
    TooManyRequests,
    Unauthorized,
)
from controller.httptransport import MOST_CONNECTIONS, HttpTransport, parse_warnings

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serve_answer(
    answer: Answer, credentials: Credentials | None = None, **limits: float
) -> AsyncIterator[HttpTransport]:
    """Run a server that gives `answer` to everything."""
    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server:
        endpoint = Endpoint(str(server.make_url("")).rstrip("/"), credentials or StaticToken("t"))
        transport = HttpTransport(endpoint, **limits)  # type: ignore[arg-type]  # by name
        try:
            yield transport
        finally:
            await transport.aclose()


def create_fixed_handler(status: int, body: bytes | str, kind: str, **headers: str) -> Answer:
    """Return a handler for one fixed answer."""
    data = body.encode() if isinstance(body, str) else body
    named_headers = {name.replace("_", "-"): value for name, value in headers.items()}

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=data, content_type=kind, headers=named_headers)

    return answer


def build_status(code: int, reason: str) -> str:
    return f'{{"kind":"Status","code":{code},"reason":"{reason}","message":"as sent"}}'


async def test_a_request_has_its_path_query_and_headers() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.raw_path == "/apis/x/namespaces/a%2Fb/y?labelSelector=a+in+%28b%2Cc%29"
        assert request.headers["Authorization"] == "Bearer t"
        assert request.headers["Content-Type"] == "application/merge-patch+json"
        assert request.headers["Accept"] == "application/json"
        return web.Response(body=await request.read())

    async with serve_answer(answer) as transport:
        data = await transport.request(
            "PATCH",
            "/apis/x/namespaces/a%2Fb/y",
            query={"labelSelector": "a in (b,c)"},
            body=b"{}",
            content_type="application/merge-patch+json",
        )
    assert data == b"{}"


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (410, "Expired", Expired),
        (500, "InternalError", ServerFailure),
        (302, "Moved", ApiError),
    ],
)
async def test_a_failure_status_raises_the_error_of_its_code(
    code: int, reason: str, error: type[ApiError]
) -> None:
    async with serve_answer(
        create_fixed_handler(code, build_status(code, reason), "application/json")
    ) as transport:
        with pytest.raises(error, match="as sent") as caught:
            await transport.request("GET", "/x")
    assert (caught.value.status, caught.value.reason) == (code, reason)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry_After": "7"}, 7.0),
        (
            {
                "Date": "Sat, 21 Nov 2026 06:00:00 GMT",
                "Retry_After": "Sat, 21 Nov 2026 06:01:30 GMT",
            },
            90.0,
        ),
        ({"Retry_After": "-7"}, 0.0),
        ({"Retry_After": "86400"}, 1000.0),
        ({"Retry_After": "soon"}, None),
        ({"Retry_After": "nan"}, None),
        ({}, None),
    ],
)
async def test_the_retry_after_header_is_parsed(
    headers: dict[str, str], seconds: float | None
) -> None:
    async with serve_answer(
        create_fixed_handler(429, "slow down", "text/plain", **headers)
    ) as transport:
        with pytest.raises(TooManyRequests) as caught:
            await transport.request("GET", "/x")
    assert caught.value.retry_after == seconds


@pytest.mark.parametrize(
    "answer",
    [
        create_fixed_handler(502, "<html>Bad Gateway</html>", "text/html"),
        create_fixed_handler(404, "<html>not here</html>", "text/html"),
        create_fixed_handler(403, '{"error": "denied"}', "application/json"),
        create_fixed_handler(500, b"\xff\xfe", "application/octet-stream"),
        create_fixed_handler(
            404, '{"kind":"Status","details":"text","code":404}', "application/json"
        ),
    ],
    ids=["gateway", "page", "other json", "noise", "no real status"],
)
async def test_a_response_that_is_not_from_kubernetes_is_malformed(answer: Answer) -> None:
    async with serve_answer(answer) as transport:
        with pytest.raises(MalformedAnswer):
            await transport.request("GET", "/x")
        with pytest.raises(MalformedAnswer):
            async with transport.stream("/x"):
                pass


async def test_a_plain_text_404_is_not_found_with_an_empty_reason() -> None:
    async with serve_answer(
        create_fixed_handler(404, "404 page not found\n", "text/plain")
    ) as transport:
        with pytest.raises(NotFound) as caught:
            await transport.request("GET", "/x")
    assert caught.value.reason == ""


async def test_a_response_larger_than_allowed_is_not_read_to_its_end() -> None:
    cut = anyio.Event()

    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 65536)
        finally:
            cut.set()

    async with serve_answer(flood, max_bytes=100_000) as transport:
        with pytest.raises(MalformedAnswer, match="larger than 100000 bytes"):
            await transport.request("GET", "/x")
        with anyio.fail_after(5):
            await cut.wait()


async def test_a_server_that_does_not_answer_in_time_gives_no_answer() -> None:
    async def hang(request: web.Request) -> web.StreamResponse:
        await anyio.sleep(60)
        raise AssertionError

    async with serve_answer(hang, max_seconds=0.05) as transport:
        with pytest.raises(NoAnswer):
            await transport.request("GET", "/x")
        with pytest.raises(NoAnswer):
            await transport.request("GET", "/x", timeout=None)


async def test_a_refused_connection_gives_no_answer_with_its_cause() -> None:
    transport = HttpTransport(Endpoint("http://127.0.0.1:1"))
    with pytest.raises(NoAnswer) as caught:
        await transport.request("GET", "/x")
    with pytest.raises(NoAnswer):
        async with transport.stream("/x"):
            pass
    assert isinstance(caught.value.__cause__, OSError)
    await transport.aclose()


async def test_a_response_that_is_not_http_is_malformed() -> None:
    async def noise(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"220 mail.example.com ESMTP\r\n")

    async with anyio.create_task_group() as group:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        group.start_soon(listener.serve, noise)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        transport = HttpTransport(Endpoint(f"http://127.0.0.1:{port}"))
        with pytest.raises(ControllerError) as caught:
            await transport.request("POST", "/x")
        await transport.aclose()
        group.cancel_scope.cancel()
    await listener.aclose()
    assert isinstance(caught.value, MalformedAnswer)


async def test_a_watch_returns_chunks_as_they_arrive_and_closes_its_connection() -> None:
    closed = anyio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            await response.write(b"one\n")
            await anyio.sleep(60)
        finally:
            closed.set()
        return response

    async with serve_answer(answer) as transport:
        async with transport.stream("/x") as chunks:
            assert await anext(chunks) == b"one\n"
            assert not closed.is_set()
        with anyio.fail_after(5):
            await closed.wait()


async def test_a_watch_that_breaks_in_the_middle_gives_no_answer() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with serve_answer(answer) as transport, transport.stream("/x") as chunks:
        assert await anext(chunks) == b"one\n"
        with pytest.raises(NoAnswer):
            await anext(chunks)


async def test_a_watch_ends_when_the_server_ends_it() -> None:
    async with (
        serve_answer(create_fixed_handler(200, b"one\n", "application/json")) as transport,
        transport.stream("/x") as chunks,
    ):
        assert b"".join([chunk async for chunk in chunks]) == b"one\n"


async def test_more_than_a_hundred_watches_leave_room_for_requests() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.Response(body=b"{}")
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await anyio.sleep(60)
        return response

    async with serve_answer(answer) as transport, anyio.create_task_group() as group:
        opened = 0
        all_open = anyio.Event()

        async def watch() -> None:
            nonlocal opened
            async with transport.stream("/x", query={"watch": "1"}) as chunks:
                await anext(chunks)
                opened += 1
                if opened == 120:
                    all_open.set()
                await anyio.sleep(60)

        for _ in range(120):
            group.start_soon(watch)
        with anyio.fail_after(20):
            await all_open.wait()
            assert await transport.request("GET", "/x") == b"{}"
        group.cancel_scope.cancel()


async def test_a_lease_is_renewed_though_all_other_connections_are_in_use() -> None:
    arrived = 0
    all_arrived = anyio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal arrived
        if "leases" in request.path:
            return web.Response(body=b"renewed")
        arrived += 1
        if arrived == MOST_CONNECTIONS:
            all_arrived.set()
        await anyio.sleep(60)
        return web.Response(body=b"{}")

    async with serve_answer(answer) as transport, anyio.create_task_group() as group:
        for _ in range(2 * MOST_CONNECTIONS):
            group.start_soon(transport.request, "PATCH", "/api/v1/busy")
        path = "/apis/coordination.k8s.io/v1/namespaces/n/leases/ours"
        with anyio.fail_after(20):
            await all_arrived.wait()
            assert await transport.request("PUT", path, body=b"{}") == b"renewed"
        group.cancel_scope.cancel()


class Renewed(Credentials):
    """A token that is another one after it was renewed."""

    def __init__(self) -> None:
        self.token = "old"

    @override
    async def get_authorization(self) -> str:
        return f"Bearer {self.token}"

    @override
    async def renew(self) -> bool:
        changed, self.token = self.token == "old", "new"
        return changed

    @override
    async def aclose(self) -> None:
        pass


async def test_a_refused_token_is_renewed_once_and_the_request_sent_again() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"] == "Bearer new":
            return web.Response(body=b"{}")
        return web.json_response(
            {"kind": "Status", "code": 401, "reason": "Unauthorized"}, status=401
        )

    async with serve_answer(answer, Renewed()) as transport:
        assert await transport.request("POST", "/x", body=b"{}") == b"{}"
    async with serve_answer(answer, Renewed()) as transport, transport.stream("/x") as chunks:
        assert await anext(chunks) == b"{}"
    async with serve_answer(answer, StaticToken("old")) as transport:
        with pytest.raises(Unauthorized):
            await transport.request("GET", "/x")


async def test_a_redirect_is_not_followed_with_our_token() -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        raise web.HTTPFound("/elsewhere")

    async with serve_answer(answer) as transport:
        with pytest.raises(ControllerError):
            await transport.request("GET", "/x")
    assert asked == ["/x"]


async def test_warnings_in_response_headers_are_reported() -> None:
    warnings = list[str]()
    async with serve_answer(
        create_fixed_handler(200, "{}", "application/json", Warning='299 - "use v1"')
    ) as transport:
        await transport.request("GET", "/")
        transport.on_warning = warnings.append
        await transport.request("GET", "/")
    assert warnings == ["use v1"]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([], []),
        (['299 - "use v1"'], ["use v1"]),
        (['299 kube-apiserver "use v1"'], ["use v1"]),
        (['299 - "one"', '299 - "two"', '299 - "one"'], ["one", "two"]),
        (['299 - "one", 299 - "two"'], ["one", "two"]),
        (['110 - "Response is Stale"'], []),
        (["nonsense"], []),
        (['299 - "never closed'], []),
    ],
)
def test_each_warning_is_returned_once(values: list[str], texts: list[str]) -> None:
    assert parse_warnings(values) == texts


@given(st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126)), unique=True))
def test_escaped_warnings_are_unescaped(texts: list[str]) -> None:
    escaped = [warning.replace("\\", "\\\\").replace('"', '\\"') for warning in texts]
    assert parse_warnings([f'299 - "{warning}"' for warning in escaped]) == texts
