"""The page and its updates over HTTP: who may read them, and that nothing can be written."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import aiohttp
import pytest

from controller.clock import SystemClock
from controller.errors import ConfigurationError
from controller.pages import Bind
from reconcilers.ui import server
from reconcilers.ui.serving import serve_local_page
from tests.reconcilers.cli.commandline import make_pool
from tests.reconcilers.ui.cluster import Cluster

LOOPBACK = Bind("127.0.0.1", 0)


class PageClient:
    """A client of a served page, and the token of the page.

    Args:
        url: the URL of the page, whose fragment is the token.
        http: the session that sends the requests.
    """

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        parts = urlsplit(url)
        self.base, self.http = f"{parts.scheme}://{parts.netloc}", http
        self.token = parts.fragment.removeprefix("token=")

    async def read_status(self, method: str, path: str, token: str | None = None) -> int:
        """Return the status code of the answer to a request."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with self.http.request(method, self.base + path, headers=headers) as answer:
            return answer.status


@asynccontextmanager
async def serve_page() -> AsyncIterator[PageClient]:
    """Serve the page of a cluster with one pool, and yield a client of it."""
    clock = SystemClock()
    cluster = Cluster(clock)
    await cluster.create(make_pool("lab", "10.0.0.0/24"))
    async with (
        serve_local_page(cluster, clock, LOOPBACK) as url,
        aiohttp.ClientSession() as http,
    ):
        yield PageClient(url, http)


async def test_updates_are_sent_only_to_clients_with_the_token() -> None:
    async with serve_page() as client:
        assert await client.read_status("GET", "/ui/updates") == 401
        assert await client.read_status("GET", "/ui/updates", "guessed") == 401
        assert await client.read_status("GET", "/ui/updates", "größer") == 401
        headers = {"Authorization": f"Bearer {client.token}"}
        async with client.http.get(f"{client.base}/ui/updates", headers=headers) as answer:
            assert answer.status == 200
            assert answer.content_type == "text/event-stream"
            while not (line := await answer.content.readline()).startswith(b"data: "):
                assert line
            sent = json.loads(line.removeprefix(b"data: "))
        assert sent["order"] == ["butler-system/lab 10.0.0.0/24"]


async def test_the_page_contains_no_data_and_its_policy_forbids_foreign_scripts() -> None:
    async with serve_page() as client, client.http.get(f"{client.base}/") as answer:
        body = await answer.text()
        policy = answer.headers["Content-Security-Policy"]
        assert "butler-system" not in body
        assert client.token not in body
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "*" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [("gzip, br", "gzip"), ("gzip;q=0.5", "gzip"), ("gzip;q=0", None), ("identity", None)],
)
async def test_page_and_updates_are_compressed_for_clients_that_accept_it(
    accepted: str, encoding: str | None
) -> None:
    async with serve_page() as client:
        headers = {"Authorization": f"Bearer {client.token}", "Accept-Encoding": accepted}
        async with client.http.get(f"{client.base}/", headers=headers) as answer:
            assert answer.headers.get("Content-Encoding") == encoding
            assert "<!doctype html>" in await answer.text()
        async with client.http.get(f"{client.base}/ui/updates", headers=headers) as answer:
            assert answer.headers.get("Content-Encoding") == encoding
            assert await answer.content.readline() == b": hello\n", "it is not held back"
            while not (line := await answer.content.readline()).startswith(b"data: "):
                assert line
            assert json.loads(line.removeprefix(b"data: "))["whole"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_nothing_can_be_written(method: str) -> None:
    async with serve_page() as client:
        for path in ("/", "/ui/updates"):
            assert await client.read_status(method, path, client.token) == 405
        assert await client.read_status(method, "/apis", client.token) == 404


async def test_readers_beyond_the_limit_get_the_status_503(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "MOST_READERS", 0)
    async with serve_page() as client:
        assert await client.read_status("GET", "/ui/updates", client.token) == 503


async def test_a_stream_ends_so_that_access_is_reviewed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "STREAM_SECONDS", 0.0)
    async with serve_page() as client:
        headers = {"Authorization": f"Bearer {client.token}"}
        async with client.http.get(f"{client.base}/ui/updates", headers=headers) as answer:
            assert await answer.content.read() == b": hello\n\n"


@pytest.mark.parametrize("host", ["", "0.0.0.0", "192.0.2.1", "example.com"])
async def test_plain_http_is_served_on_loopback_addresses_only(host: str) -> None:
    clock = SystemClock()
    with pytest.raises(ConfigurationError, match="loopback"):
        async with serve_local_page(Cluster(clock), clock, Bind(host, 0)):
            raise AssertionError("it is served")
